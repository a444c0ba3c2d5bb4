//! What is wrong with the configuration: everything at once, each with its place and the way out.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use super::document::{Mark, SourceFiles};
use super::mask::masked;

/// More problems than this mean that the wrong file was named, and no one reads them.
const MAX_PROBLEMS: usize = 500;

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
pub struct ConfigProblem {
    pub severity: Severity,
    /// The key in full, such as `pool.linux.max`; empty when it is about a whole file.
    pub key: String,
    pub what: String,
    pub help: String,
    at: Option<Mark>,
    label: String,
    /// A second place that belongs to the problem, and what is said beside it.
    also: Option<(Mark, String)>,
    /// Whether the marked text must not be shown.
    private: bool,
}

impl ConfigProblem {
    /// Describes an error about a key: what is wrong, and the way out.
    pub(crate) fn new(
        key: impl Into<String>,
        what: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        // What is quoted from a file may hold escape sequences, and a terminal would obey them.
        let plain = |text: String| text.replace(char::is_control, "\u{fffd}");
        Self {
            severity: Severity::Error,
            key: plain(key.into()),
            what: plain(what.into()),
            help: plain(help.into()),
            at: None,
            label: String::new(),
            also: None,
            private: false,
        }
    }

    pub(crate) fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
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

    /// Adds what stands beside the caret.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a second place.
    pub(crate) fn also(mut self, at: Option<Mark>, label: impl Into<String>) -> Self {
        self.also = at.map(|at| (at, label.into()));
        self
    }
}

/// Collects problems while the configuration is read.
#[derive(Debug, Default)]
pub(crate) struct Collected(RefCell<Vec<ConfigProblem>>);

impl Collected {
    /// Adds a problem; the same one twice (a default seen by two pools) counts once.
    pub(crate) fn add(&self, problem: ConfigProblem) {
        let mut list = self.0.borrow_mut();
        if list.len() < MAX_PROBLEMS && !list.contains(&problem) {
            list.push(problem);
        }
    }

    /// Returns whether no more problems are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().len() >= MAX_PROBLEMS
    }

    /// Returns whether the configuration cannot be used.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.borrow().iter().any(|problem| problem.severity == Severity::Error)
    }

    pub(crate) fn into_problems(self, files: Arc<SourceFiles>) -> Problems {
        let full = self.is_full();
        let mut list = self.0.into_inner();
        if full {
            let what = format!("more than {MAX_PROBLEMS} problems; the others are not shown");
            let help = "solve these first, or name the right file";
            list.push(ConfigProblem::new("", what, help).warning());
        }
        // Errors before warnings, then as a person reads: by file and line.
        list.sort_by_key(|problem| (problem.severity == Severity::Warning, problem.at));
        Problems { list, files }
    }
}

/// Holds all problems of a configuration and can show each in its file.
#[derive(Clone)]
pub struct Problems {
    list: Vec<ConfigProblem>,
    files: Arc<SourceFiles>,
}

/// Tells one problem to a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
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
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates the problems, errors first.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.list.iter()
    }

    /// Returns the same for programs.
    pub fn reports(&self) -> Vec<ProblemReport> {
        let report = |problem: &ConfigProblem| {
            let place = problem.at.map(|at| Excerpt::of(at, &self.files, problem.private));
            ProblemReport {
                severity: problem.severity,
                file: place.as_ref().map(|place| place.file.clone()),
                line: place.as_ref().map(|place| place.line),
                column: place.as_ref().map(|place| place.column),
                key: problem.key.clone(),
                what: problem.what.clone(),
                help: problem.help.clone(),
            }
        };
        self.list.iter().map(report).collect()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.list.iter().enumerate() {
            let between = if at > 0 { "\n" } else { "" };
            writeln!(f, "{between}{}", snippet(problem, &self.files))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The files stay out of it: they may contain a secret that was written by mistake.
        f.debug_list().entries(&self.list).finish()
    }
}

impl std::error::Error for Problems {}

/// Returns the problem as a person reads it, several lines long.
fn snippet(problem: &ConfigProblem, files: &SourceFiles) -> String {
    let main = problem.at.map(|at| Excerpt::of(at, files, problem.private));
    let also = problem.also.as_ref().map(|(at, label)| (Excerpt::of(*at, files, false), label));
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = level
        .primary_title(problem.what.as_str())
        .elements(main.iter().map(|place| place.snippet(AnnotationKind::Primary, &problem.label)));
    if let Some((place, label)) = &also {
        group = group.element(place.snippet(AnnotationKind::Context, label));
    }
    if !problem.help.is_empty() {
        group = group.element(Level::HELP.message(problem.help.as_str()));
    }
    Renderer::plain().render(&[group])
}

/// Is a mark in the terms of a person.
struct Excerpt {
    file: String,
    line: usize,
    column: usize,
    /// The line, without any secret.
    source: String,
    /// How many characters are marked; at least one.
    length: usize,
}

impl Excerpt {
    fn of(at: Mark, files: &SourceFiles, private: bool) -> Self {
        let text = files.text(at.file);
        let start = text.floor_char_boundary(at.start);
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = text.floor_char_boundary(at.end).clamp(start, to);
        let (before, marked, after) = (&text[from..start], &text[start..end], &text[end..to]);
        // A reference stays: it names a place and contains no secret.
        let covered = if private && !marked.starts_with('{') {
            let cover = |c| if matches!(c, '"' | '\'' | '[' | ']') { c } else { '*' };
            marked.chars().map(cover).collect()
        } else {
            marked.to_owned()
        };
        // Control characters would move the caret, or worse, the terminal.
        let shown = masked(&format!("{before}{covered}{after}"));
        let source: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self {
            file: files.name(at.file),
            line: text[..start].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            source: source.trim_end().to_owned(),
            length: marked.trim_end().chars().count().max(1),
        }
    }

    /// Shows the line with the mark under it; both count characters, because a covered line has as
    /// many of them as the written one.
    fn snippet<'a>(
        &'a self,
        kind: AnnotationKind,
        label: &'a str,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let byte = |nth: usize| {
            self.source.char_indices().nth(nth).map_or(self.source.len(), |(byte, _)| byte)
        };
        let span = byte(self.column - 1)..byte(self.column - 1 + self.length);
        let mark = kind.span(span).label((!label.is_empty()).then_some(label));
        Snippet::source(self.source.as_str())
            .line_start(self.line)
            .path(self.file.as_str())
            .annotation(mark)
    }
}
