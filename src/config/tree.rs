//! The document as it was written: every key and value remembers its place, so that a problem
//! found late can still be shown where it is.
//!
//! The tree owns its text, because tables of several files are merged into one.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Points into one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Which file, in reading order.
    pub(crate) file: usize,
    pub(crate) start: usize,
    /// The byte after the last.
    pub(crate) end: usize,
}

/// Holds one value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: Mark,
    pub(crate) value: Value,
}

/// Holds what was written.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

/// Holds a table in the order of its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// The header, or the braces of an inline table.
    pub(crate) at: Mark,
    /// The keys with their values.
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// Holds one key with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key_at: Mark,
    pub(crate) node: Node,
}

impl Value {
    /// Returns what kind of thing was written, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Whole(_) => "a whole number",
            Self::Number(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// Returns the text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Returns the table, if it is one.
    pub(crate) fn table(&self) -> Option<&Table> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }

    /// Returns the elements; anything but a list has none.
    pub(crate) fn list(&self) -> &[Node] {
        if let Self::List(nodes) = self { nodes } else { &[] }
    }

    /// Returns the same as JSON, for what is passed on unread.
    pub(crate) fn json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) | Self::Date(text) => text.as_str().into(),
            Self::Whole(number) => (*number).into(),
            Self::Number(number) => (*number).into(),
            Self::Flag(flag) => (*flag).into(),
            Self::List(nodes) => nodes.iter().map(|node| node.value.json()).collect(),
            Self::Table(table) => table
                .entries
                .iter()
                .map(|(key, entry)| (key.clone(), entry.node.value.json()))
                .collect(),
        }
    }
}

impl Table {
    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries.get(key).map(|entry| &entry.node)
    }

    /// Copies a parsed table of one file.
    pub(crate) fn copy(file: usize, parsed: &Spanned<DeTable<'_>>) -> Self {
        copy_table(file, &parsed.span(), parsed.get_ref())
    }
}

fn copy_table(file: usize, span: &std::ops::Range<usize>, parsed: &DeTable<'_>) -> Table {
    let entries = parsed
        .iter()
        .map(|(key, value)| {
            let entry = Entry { key_at: mark(file, &key.span()), node: copy_node(file, value) };
            (key.get_ref().to_string(), entry)
        })
        .collect();
    Table { at: mark(file, span), entries }
}

fn copy_node(file: usize, parsed: &Spanned<DeValue<'_>>) -> Node {
    let value = match parsed.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        // A number beyond 64 bits is beyond every limit of ours too; the nearest one says so.
        DeValue::Integer(number) => {
            let negative = number.as_str().starts_with('-');
            let nearest = if negative { i64::MIN } else { i64::MAX };
            Value::Whole(i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(nearest))
        }
        DeValue::Float(number) => Value::Number(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(nodes) => {
            Value::List(nodes.iter().map(|node| copy_node(file, node)).collect())
        }
        DeValue::Table(table) => Value::Table(copy_table(file, &parsed.span(), table)),
    };
    Node { at: mark(file, &parsed.span()), value }
}

fn mark(file: usize, span: &std::ops::Range<usize>) -> Mark {
    Mark { file, start: span.start, end: span.end }
}
