//! Reads one table by its keys, after `shape` has reported what does not fit.
//!
//! A value that does not fit reads as absent: its problem is reported already, and the default lets
//! the search for further problems go on.

use super::declare::{Fallback, Key, Requirement, ValueKind};
use super::document::{Mark, Node, TomlTable, Value, element_path, literal};
use super::load::Cx;
use super::problems::ConfigProblem;
use super::values::Field;

/// Is a table, perhaps with another one beneath it that holds defaults.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) cx: &'a Cx<'a>,
    own: Option<&'a TomlTable>,
    under: Option<&'a TomlTable>,
    path: String,
}

impl<'a> Section<'a> {
    /// Opens a table that may be missing.
    pub(crate) fn new(cx: &'a Cx<'a>, own: Option<&'a TomlTable>, path: impl Into<String>) -> Self {
        Self { cx, own, under: None, path: path.into() }
    }

    /// Opens the table under a key of the whole document.
    pub(crate) fn of(cx: &'a Cx<'a>, whole: &'a TomlTable, key: &str) -> Self {
        Self::new(cx, whole.get(key).and_then(|node| node.value.table()), key)
    }

    /// Opens the tables of a list in the whole document.
    pub(crate) fn list(cx: &'a Cx<'a>, whole: &'a TomlTable, key: &str) -> Vec<Self> {
        let nodes = whole.get(key).map_or(&[][..], |node| node.value.list());
        Self::elements(cx, nodes, key)
    }

    fn elements(cx: &'a Cx<'a>, nodes: &'a [Node], path: &str) -> Vec<Self> {
        let tables = nodes.iter().filter_map(|node| node.value.table()).enumerate();
        let open = |(at, table)| Self::new(cx, Some(table), element_path(path, table, at));
        tables.map(open).collect()
    }

    /// Adds a table of defaults.
    pub(crate) fn over(mut self, defaults: Option<&'a TomlTable>) -> Self {
        self.under = defaults;
        self
    }

    /// Opens the table under a key of this one.
    pub(crate) fn inner(&self, key: &str) -> Option<Self> {
        let table = self.node(key)?.value.table()?;
        Some(Self::new(self.cx, Some(table), self.key(key)))
    }

    /// Opens the tables under a key of this one.
    pub(crate) fn inners(&self, key: &str) -> Vec<Self> {
        let nodes = self.node(key).map_or(&[][..], |node| node.value.list());
        Self::elements(self.cx, nodes, &self.key(key))
    }

    /// Reads a key as it is written, or as its default says; reports when a pool lacks it.
    pub(crate) fn field<T: Field>(&self, key: &'static Key) -> Option<T> {
        if let ValueKind::Flat(_) = key.kind {
            return T::flat(self);
        }
        if let Some(node) = self.node(key.name) {
            if let Some(check) = key.check {
                check(self, key, node);
            }
            if let Some(value) = T::read(self, key, node) {
                return Some(value);
            }
        } else if key.need == Requirement::PoolOrDefaults {
            self.error(
                key.name,
                format!("`{}` is missing", self.key(key.name)),
                format!("add {} to the pool, or to [defaults] for all pools", key.sketch()),
            );
        }
        let default = key.default_toml().and_then(|toml| {
            let mut node = literal(&toml)?;
            // What is derived from the folder follows it.
            if let Value::Text(text) = &mut node.value {
                *text = text.replace("STATE_DIR", self.cx.state_dir());
            }
            T::read(self, key, &node)
        });
        default.or_else(|| match key.fallback {
            Fallback::Described(_) => T::blank(),
            Fallback::None | Fallback::Toml(_) | Fallback::Core(_) => T::absent(self),
        })
    }

    /// Returns whether the table itself, not its defaults, has the key.
    pub(crate) fn wrote(&self, key: &str) -> bool {
        self.own.is_some_and(|table| table.get(key).is_some())
    }

    /// Returns the full name of a key, where its value comes from.
    pub(crate) fn key(&self, key: &str) -> String {
        let inherited =
            !self.wrote(key) && self.under.is_some_and(|table| table.get(key).is_some());
        if inherited { format!("defaults.{key}") } else { format!("{}.{key}", self.path) }
    }

    /// Returns the full name of the table.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns where a key's value is, or where it could be.
    pub(crate) fn at(&self, key: &str) -> Option<Mark> {
        self.node(key).map(|node| node.at).or(self.own.map(|table| table.at))
    }

    /// Returns the value of a key.
    pub(crate) fn node(&self, key: &str) -> Option<&'a Node> {
        let own = self.own.and_then(|table| table.get(key));
        own.or_else(|| self.under.and_then(|table| table.get(key)))
    }

    /// Returns the text of a key.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.node(key)?.value.text()
    }

    /// Reports an error about a key: what is wrong, and the way out.
    pub(crate) fn error(&self, key: &str, what: impl Into<String>, help: impl Into<String>) {
        self.report(self.problem(key, what, help));
    }

    /// Reports a warning about a key.
    pub(crate) fn warn(&self, key: &str, what: impl Into<String>, help: impl Into<String>) {
        self.report(self.problem(key, what, help).warning());
    }

    /// Begins an error about a key, at its place.
    pub(crate) fn problem(
        &self,
        key: &str,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> ConfigProblem {
        ConfigProblem::new(self.key(key), what, help).at(self.at(key))
    }

    pub(crate) fn report(&self, problem: ConfigProblem) {
        self.cx.report.add(problem);
    }
}
