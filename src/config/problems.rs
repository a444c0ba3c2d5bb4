//! What is wrong with the configuration: everything at once, each with its place and the way out.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::render;
use super::sources::Files;
use super::tree::Mark;

/// Nobody reads more than this: somebody named the wrong file.
const MOST: usize = 500;

/// Tells how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, but the operator should know.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The key in full, such as `pool.linux.max`; empty when it is about a whole file.
    pub key: String,
    pub what: String,
    pub help: String,
    pub(crate) at: Option<Mark>,
    pub(crate) label: String,
    pub(crate) also: Option<(Mark, String)>,
    /// Whether the marked text must not be shown.
    pub(crate) private: bool,
}

impl Problem {
    /// Makes an error about a key.
    pub(crate) fn error(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            key: key.into(),
            what: what.into(),
            help: String::new(),
            at: None,
            label: String::new(),
            also: None,
            private: false,
        }
    }

    /// Makes a warning about a key.
    pub(crate) fn warning(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(key, what) }
    }

    pub(crate) fn at(mut self, at: Option<Mark>) -> Self {
        self.at = at;
        self
    }

    /// Covers the marked text wherever it is shown.
    pub(crate) fn private(mut self) -> Self {
        self.private = true;
        self
    }

    /// Adds the words beside the caret.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a second place that belongs to the story.
    pub(crate) fn also(mut self, at: Option<Mark>, label: impl Into<String>) -> Self {
        self.also = at.map(|at| (at, label.into()));
        self
    }

    /// Adds the way out.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }
}

/// Collects problems while the configuration is read.
#[derive(Debug, Default)]
pub(crate) struct Desk(RefCell<Vec<Problem>>);

impl Desk {
    /// Takes a problem down; the same one twice (a default seen by two pools) counts once.
    pub(crate) fn note(&self, problem: Problem) {
        let mut noted = self.0.borrow_mut();
        if noted.len() < MOST && !noted.contains(&problem) {
            noted.push(problem);
        }
    }

    /// Returns whether no more problems are taken down.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().len() >= MOST
    }

    /// Returns whether anything noted forbids to go on.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.borrow().iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(crate) fn into_problems(self, files: Arc<Files>) -> Problems {
        let mut list = self.0.into_inner();
        if list.len() >= MOST {
            let what = format!("more than {MOST} problems; the others are not shown");
            list.push(Problem::warning("", what).help("mend these first, or name the right file"));
        }
        // Errors before warnings, then as a person reads: by file and line.
        list.sort_by_key(|problem| (problem.severity == Severity::Warning, problem.at));
        Problems { list, files }
    }
}

/// Holds all problems of a configuration and can show each in its file.
#[derive(Clone)]
pub struct Problems {
    list: Vec<Problem>,
    files: Arc<Files>,
}

/// Tells one problem to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as it was named on the command line.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    pub key: String,
    pub what: String,
    pub help: String,
}

impl Problems {
    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates the problems, errors first.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter()
    }

    /// Returns the same for programs.
    pub fn reports(&self) -> Vec<Report> {
        self.list.iter().map(|problem| render::report(problem, &self.files)).collect()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            f.write_str(&render::snippet(problem, &self.files))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The files stay out of it: they may hold what somebody wrote by mistake.
        f.debug_list().entries(&self.list).finish()
    }
}

impl std::error::Error for Problems {}
