//! Turns text into a table, and the parser's complaints into something a person can act on.

use toml::de::DeTable;

use super::problems::{Desk, Problem};
use super::tree::{Mark, Table};

/// Brackets and dots nest no deeper than this; no real file comes near.
const DEEPEST: usize = 64;

/// Parses one file. Every mistake is noted; a file with one gives no table, because what a broken
/// line was meant to say would be guessed, and every guess is a false alarm further on.
pub(crate) fn parse(file: usize, text: &str, desk: &Desk) -> Option<Table> {
    if let Some(line) = text.lines().find(|line| nesting(line) > DEEPEST) {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let what = format!("this line nests deeper than {DEEPEST} levels");
        let at = Mark { file, start, end: start + 1 };
        desk.note(
            Problem::error("", what)
                .at(Some(at))
                .help("no key of Ostler is that deep; write it flat"),
        );
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut told = None;
    for error in &errors {
        let span = error.span().unwrap_or_default();
        // The parser stumbles on after the first mistake of a line; only the first is the writer's.
        let line = text.get(..span.start).map_or(0, |before| before.matches('\n').count());
        if told.replace(line) == Some(line) {
            continue;
        }
        if desk.is_full() {
            break;
        }
        let at = Mark { file, start: span.start, end: span.end };
        let what = format!("this is not TOML: {}", error.message());
        desk.note(Problem::error("", what).at(Some(at)).help(way_out(
            text,
            span.start,
            error.message(),
        )));
    }
    errors.is_empty().then(|| Table::copy(file, &table))
}

/// Counts an upper bound of how deep a line's keys and brackets go.
fn nesting(line: &str) -> usize {
    if line.trim_start().starts_with('#') {
        return 0;
    }
    let key = line.split(['=', '#']).next().unwrap_or_default();
    let dots = key.bytes().filter(|byte| *byte == b'.').count();
    let mut deep = 0_usize;
    let mut deepest = 0;
    for byte in line.bytes() {
        match byte {
            b'[' | b'{' => deep += 1,
            b']' | b'}' => deep = deep.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(deep);
    }
    dots.max(deepest)
}

/// Guesses from the line what the writer wanted.
fn way_out(text: &str, start: usize, message: &str) -> String {
    let before = text.get(..start).unwrap_or(text);
    let from = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[from..].lines().next().unwrap_or_default();
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim());
    if message.contains("duplicate key") {
        return "each key may be written once; keep one of them".into();
    }
    if line.contains(['“', '”', '„', '‘', '’']) {
        return format!("write straight quotes: {key} = \"…\"");
    }
    if line.contains('=') && value.is_empty() {
        return format!("write a value after `{key} =`, or remove the line");
    }
    let bare = value.starts_with(|c: char| c.is_alphanumeric());
    if bare && value.parse::<f64>().is_err() {
        return format!("put the value of `{key}` in quotes: {key} = \"…\"");
    }
    if value.starts_with('"') && value.matches('"').count() == 1 {
        return format!("close the text of `{key}` with a second \"");
    }
    if !line.contains('=') && line.contains(':') {
        return "TOML writes `key = value`, with an equals sign".into();
    }
    "see https://toml.io for how TOML is written; config/example.toml shows every key".into()
}
