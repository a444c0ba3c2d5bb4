//! Shows a problem in its source line, with a caret, and never a secret.

use std::fmt::Write;

use super::mask::masked;
use super::problems::{Problem, Report, Severity};
use super::sources::Files;
use super::tree::Mark;

/// Returns the problem as a person reads it, several lines long.
pub(crate) fn snippet(problem: &Problem, files: &Files) -> String {
    let mut text = String::new();
    let word = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let _ = writeln!(text, "{word}: {}", problem.what);
    let main = problem.at.map(|at| Place::of(at, files, problem.private));
    let also =
        problem.also.as_ref().map(|(at, label)| (Place::of(*at, files, false), label.as_str()));
    let last = main.iter().chain(also.iter().map(|(place, _)| place)).map(|place| place.line).max();
    let width = last.map_or(1, |line| line.to_string().len());
    if let Some(place) = &main {
        show(&mut text, place, "-->", ('^', &problem.label), width);
    }
    if let Some((place, label)) = &also {
        show(&mut text, place, ":::", ('-', label), width);
    }
    if !problem.help.is_empty() {
        let _ = writeln!(text, "{:width$} = help: {}", "", problem.help);
    }
    text
}

fn show(text: &mut String, place: &Place, arrow: &str, (caret, label): (char, &str), width: usize) {
    let Place { file, line, column, source, length } = place;
    let _ = writeln!(text, "{:width$}{arrow} {file}:{line}:{column}", "");
    if source.is_empty() {
        return;
    }
    let under: String = std::iter::repeat_n(caret, *length).collect();
    let _ = writeln!(text, "{:width$} |", "");
    let _ = writeln!(text, "{line:width$} | {source}");
    let pad = column - 1;
    let underline = format!("{:width$} | {:pad$}{under} {label}", "", "");
    let _ = writeln!(text, "{}", underline.trim_end());
}

/// Returns the problem as a program reads it.
pub(crate) fn report(problem: &Problem, files: &Files) -> Report {
    let place = problem.at.map(|at| Place::of(at, files, problem.private));
    Report {
        severity: problem.severity,
        file: place.as_ref().map(|place| place.file.clone()),
        line: place.as_ref().map(|place| place.line),
        column: place.as_ref().map(|place| place.column),
        key: problem.key.clone(),
        what: problem.what.clone(),
        help: problem.help.clone(),
    }
}

/// Is a mark in the terms of a person.
struct Place {
    file: String,
    line: usize,
    column: usize,
    source: String,
    length: usize,
}

impl Place {
    fn of(at: Mark, files: &Files, private: bool) -> Self {
        let file = files.name(at.file);
        let text = files.text(at.file);
        let start = boundary(text, at.start);
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = boundary(text, at.end).clamp(start, to);
        let raw = text[from..to].trim_end_matches('\r');
        let shown = match (private, raw.get(start - from..end.min(from + raw.len()) - from)) {
            // References stay: they name a place and hold no secret.
            (true, Some(marked)) if !marked.starts_with('{') => {
                let cover = |c| if matches!(c, '"' | '\'' | '[' | ']') { c } else { '*' };
                let covered: String = marked.chars().map(cover).collect();
                format!("{}{covered}{}", &raw[..start - from], &raw[start - from + marked.len()..])
            }
            (_, _) => raw.to_owned(),
        };
        // Control characters would move the caret, or worse, the terminal.
        let source: String =
            masked(&shown).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self {
            file,
            line: text[..start].matches('\n').count() + 1,
            column: text[from..start].chars().count() + 1,
            length: text[start..end].trim_end().chars().count().max(1),
            source: source.trim_end().to_owned(),
        }
    }
}

/// Returns the nearest place at or before `at` that does not cut a character.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
