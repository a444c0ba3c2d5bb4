//! Reads one table by its keys, after `shape` has reported what does not fit.
//!
//! A value that does not fit reads as absent: its problem is noted already, and the default lets
//! the search for further problems go on.

use std::path::PathBuf;
use std::time::Duration;

use super::durations;
use super::load::Cx;
use super::problems::Problem;
use super::secrets::{self, Secret};
use super::tree::{Mark, Node, Table, Value};

/// Is a table, perhaps with another one beneath it that holds defaults.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    pub(crate) cx: &'a Cx<'a>,
    own: Option<&'a Table>,
    under: Option<&'a Table>,
    path: String,
}

impl<'a> Section<'a> {
    /// Opens a table that may be missing.
    pub(crate) fn new(cx: &'a Cx<'a>, own: Option<&'a Table>, path: impl Into<String>) -> Self {
        Self { cx, own, under: None, path: path.into() }
    }

    /// Opens the table under a key of the whole document.
    pub(crate) fn of(cx: &'a Cx<'a>, whole: &'a Table, key: &str) -> Self {
        Self::new(cx, whole.get(key).and_then(|node| node.value.table()), key)
    }

    /// Adds a table of defaults.
    pub(crate) fn over(mut self, defaults: Option<&'a Table>) -> Self {
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
        let tables = nodes.iter().filter_map(|node| node.value.table());
        let named =
            |(at, table)| Self::new(self.cx, Some(table), format!("{}[{at}]", self.key(key)));
        tables.enumerate().map(named).collect()
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

    /// Returns where a key's value is, or where it could be.
    pub(crate) fn at(&self, key: &str) -> Option<Mark> {
        self.node(key).map(|node| node.at).or(self.own.map(|table| table.at))
    }

    /// Returns the value of a key.
    pub(crate) fn node(&self, key: &str) -> Option<&'a Node> {
        let own = self.own.and_then(|table| table.get(key));
        own.or_else(|| self.under.and_then(|table| table.get(key)))
    }

    /// Begins an error about a key, at its place.
    pub(crate) fn error(&self, key: &str, what: impl Into<String>) -> Problem {
        Problem::error(self.key(key), what).at(self.at(key))
    }

    /// Begins a warning about a key, at its place.
    pub(crate) fn warning(&self, key: &str, what: impl Into<String>) -> Problem {
        Problem::warning(self.key(key), what).at(self.at(key))
    }

    pub(crate) fn note(&self, problem: Problem) {
        self.cx.desk.note(problem);
    }

    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.node(key)?.value.text()
    }

    /// Returns a text, or a default.
    pub(crate) fn text_or(&self, key: &str, default: &str) -> String {
        self.text(key).unwrap_or(default).to_owned()
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let nodes = self.node(key).map_or(&[][..], |node| node.value.list());
        nodes.iter().filter_map(|node| node.value.text()).map(str::to_owned).collect()
    }

    pub(crate) fn whole(&self, key: &str) -> Option<u32> {
        let Value::Whole(number) = self.node(key)?.value else { return None };
        u32::try_from(number).ok()
    }

    pub(crate) fn signed(&self, key: &str) -> Option<i32> {
        let Value::Whole(number) = self.node(key)?.value else { return None };
        i32::try_from(number).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        if let Value::Number(number) = self.node(key)?.value {
            return Some(number);
        }
        self.signed(key).map(f64::from)
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        if let Value::Flag(flag) = self.node(key)?.value { Some(flag) } else { None }
    }

    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        durations::duration(self.text(key)?)
    }

    pub(crate) fn size(&self, key: &str) -> Option<u64> {
        durations::size(self.text(key)?)
    }

    pub(crate) fn secret(&self, key: &str) -> Option<Secret> {
        secrets::fetch(self.cx, &self.key(key), self.node(key)?)
    }

    /// Returns one secret, or the several of a list.
    pub(crate) fn secrets(&self, key: &str) -> Vec<Secret> {
        let Some(node) = self.node(key) else { return Vec::new() };
        let nodes = if let Value::List(nodes) = &node.value {
            &nodes[..]
        } else {
            std::slice::from_ref(node)
        };
        nodes.iter().filter_map(|node| secrets::fetch(self.cx, &self.key(key), node)).collect()
    }

    /// Returns a path to something the operator brings; relative ones start beside the file.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        let node = self.node(key)?;
        Some(self.cx.files.beside(node.at.file, node.value.text()?))
    }

    /// Returns a table that is passed on unread.
    pub(crate) fn free(&self, key: &str) -> Option<serde_json::Value> {
        self.node(key).map(|node| node.value.json())
    }
}
