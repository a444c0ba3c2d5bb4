//! The files, and the one document that their tables make together.
//!
//! Every key and value remembers its place, so that a problem found late is still shown where it is.
//! The tree owns its text, because tables of several files are joined into one.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problems::{Collected, ConfigProblem};

/// A configuration larger than this is a mistake: the wrong file was named.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Brackets and dots nest no deeper than this; no real file comes near.
const MAX_NESTING: usize = 64;

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
    Table(TomlTable),
}

/// Holds a table in the order of its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct TomlTable {
    /// The header, or the braces of an inline table.
    pub(crate) at: Mark,
    pub(crate) entries: BTreeMap<String, TableEntry>,
}

/// Holds one key with its value.
#[derive(Clone, Debug)]
pub(crate) struct TableEntry {
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

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn whole(&self) -> Option<i64> {
        if let Self::Whole(number) = self { Some(*number) } else { None }
    }

    /// Returns any number that a float holds exactly enough.
    pub(crate) fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self {
            return Some(*number);
        }
        i32::try_from(self.whole()?).ok().map(f64::from)
    }

    pub(crate) fn table(&self) -> Option<&TomlTable> {
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
            Self::Table(table) => {
                table.entries.iter().map(|(key, it)| (key.clone(), it.node.value.json())).collect()
            }
        }
    }
}

impl TomlTable {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries.get(key).map(|entry| &entry.node)
    }

    /// Returns the table under a key, if it is one.
    pub(crate) fn table(&self, key: &str) -> Option<&Self> {
        self.get(key)?.value.table()
    }

    /// Returns the values that are texts.
    pub(crate) fn texts(&self) -> BTreeMap<String, String> {
        let text = |(key, entry): (&String, &TableEntry)| {
            Some((key.clone(), entry.node.value.text()?.to_owned()))
        };
        self.entries.iter().filter_map(text).collect()
    }

    fn copy(file: usize, span: &Range<usize>, parsed: &DeTable<'_>) -> Self {
        let entries = parsed.iter().map(|(key, value)| {
            let entry =
                TableEntry { key_at: mark(file, &key.span()), node: copy_node(file, value) };
            (key.get_ref().to_string(), entry)
        });
        Self { at: mark(file, span), entries: entries.collect() }
    }
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
        DeValue::Table(table) => Value::Table(TomlTable::copy(file, &parsed.span(), table)),
    };
    Node { at: mark(file, &parsed.span()), value }
}

fn mark(file: usize, span: &Range<usize>) -> Mark {
    Mark { file, start: span.start, end: span.end }
}

/// Reads a value that is part of the program: a default or an example.
pub(crate) fn literal(toml: &str) -> Option<Node> {
    DeValue::parse(toml).ok().map(|parsed| copy_node(0, &parsed))
}

/// Returns how a `[[table]]` is called in messages: `pool.linux`, or `pool[0]` without a name.
pub(crate) fn element_path(path: &str, table: &TomlTable, at: usize) -> String {
    match table.get("name").and_then(|node| node.value.text()) {
        Some(name) if !name.is_empty() => format!("{path}.{name}"),
        Some(_) | None => format!("{path}[{at}]"),
    }
}

/// Holds the files in reading order.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles(Vec<SourceFile>);

#[derive(Debug)]
struct SourceFile {
    path: PathBuf,
    text: String,
    /// Where relative paths start: beside the file, or where it is meant to go.
    folder: PathBuf,
}

impl SourceFiles {
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns how a file is called in messages.
    pub(crate) fn name(&self, file: usize) -> String {
        self.0.get(file).map_or_else(String::new, |file| file.path.display().to_string())
    }

    pub(crate) fn text(&self, file: usize) -> &str {
        self.0.get(file).map_or("", |file| &file.text)
    }

    /// Returns where a path written in a file points: relative ones start beside the file.
    pub(crate) fn beside(&self, file: usize, written: &str) -> PathBuf {
        self.0.get(file).map_or(Path::new(""), |file| &file.folder).join(written)
    }

    /// Pretends that all files are in another folder.
    pub(crate) fn meant_for(mut self, folder: &Path) -> Self {
        for file in &mut self.0 {
            folder.clone_into(&mut file.folder);
        }
        self
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|file| file.path.as_path())
    }
}

/// Returns the folder that relative paths of a configuration start from.
pub(crate) fn root(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) }
}

/// Returns the files a `--config` path means: itself, or the `*.toml` of a directory, sorted.
pub(crate) fn list(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.extension().is_some_and(|ending| ending == "toml") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads every file of `path`; what cannot be read is reported and left out.
pub(crate) fn read(path: &Path, report: &Collected) -> SourceFiles {
    let mut files = SourceFiles::default();
    let refuse = |path: &Path, why: &dyn std::fmt::Display, help: &str| {
        report.add(ConfigProblem::new(
            "",
            format!("cannot read `{}`: {why}", path.display()),
            help,
        ));
    };
    let paths = match list(path) {
        Ok(paths) => paths,
        Err(error) => {
            refuse(path, &error, "name a file or a directory with --config PATH");
            return files;
        }
    };
    if paths.is_empty() {
        report.add(ConfigProblem::new(
            "",
            format!("the directory `{}` contains no `*.toml` file", path.display()),
            "name the right directory with --config, or put a file there",
        ));
    }
    for path in paths {
        match fs::read(&path) {
            Ok(bytes) => add(&mut files, path, bytes, report),
            Err(error) => refuse(&path, &error, "let the daemon's user read it, or remove it"),
        }
    }
    files
}

fn add(files: &mut SourceFiles, path: PathBuf, bytes: Vec<u8>, report: &Collected) {
    let refuse = |what: &str, help: &str| {
        report.add(ConfigProblem::new("", format!("`{}` {what}", path.display()), help));
    };
    if bytes.len() > MAX_FILE_BYTES {
        let what = format!("has {} bytes, too many for a configuration", bytes.len());
        return refuse(&what, "name the right file with --config");
    }
    if bytes.contains(&0) {
        return refuse("is not UTF-8 text", "save it as UTF-8, not as UTF-16 (`Unicode`)");
    }
    let file = files.0.len();
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let start = error.utf8_error().valid_up_to();
        let what = format!("`{}` is not UTF-8 text", path.display());
        let at = Mark { file, start, end: start + 1 };
        report.add(ConfigProblem::new("", what, "save it as UTF-8").at(Some(at)));
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    files.0.push(SourceFile { path, text, folder });
}

/// Parses every file; returns the tables of those that are TOML.
pub(crate) fn parse(files: &SourceFiles, report: &Collected) -> Vec<TomlTable> {
    (0..files.0.len()).filter_map(|file| parse_file(file, files.text(file), report)).collect()
}

/// Parses one file. Every mistake is reported; a file with one gives no table, because what a broken
/// line was meant to say would be guessed, and every guess is a false alarm further on.
fn parse_file(file: usize, text: &str, report: &Collected) -> Option<TomlTable> {
    // The parser recurses, and its stack has an end.
    if let Some(line) = text.lines().find(|line| nesting(line) > MAX_NESTING) {
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let what = format!("this line nests deeper than {MAX_NESTING} levels");
        let at = Mark { file, start, end: start + 1 };
        let help = "no key of Ostler is that deep; write it flat";
        report.add(ConfigProblem::new("", what, help).at(Some(at)));
        return None;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut line_before = None;
    for error in &errors {
        let span = error.span().unwrap_or_default();
        // The parser stumbles on after the first mistake of a line; only the first is the writer's.
        let line = text.get(..span.start).map_or(0, |before| before.matches('\n').count());
        if line_before.replace(line) == Some(line) {
            continue;
        }
        if report.is_full() {
            break;
        }
        let what = format!("this is not TOML: {}", error.message());
        let help = way_out(text, span.start, error.message());
        report.add(ConfigProblem::new("", what, help).at(Some(mark(file, &span))));
    }
    errors.is_empty().then(|| TomlTable::copy(file, &table.span(), table.get_ref()))
}

/// Counts an upper bound of how deep a line's keys and brackets go.
fn nesting(line: &str) -> usize {
    if line.trim_start().starts_with('#') {
        return 0;
    }
    let key = line.split(['=', '#']).next().unwrap_or_default();
    let dots = key.bytes().filter(|byte| *byte == b'.').count();
    let (mut deep, mut deepest) = (0_usize, 0);
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
    if value.starts_with(char::is_alphanumeric) && value.parse::<f64>().is_err() {
        return format!("put the value of `{key}` in quotes: {key} = \"…\"");
    }
    if value.starts_with('"') && value.matches('"').count() == 1 {
        return format!("close the text of `{key}` with a second \"");
    }
    if !line.contains('=') && line.contains(':') {
        return "TOML writes `key = value`, with an equals sign".into();
    }
    "see https://toml.io for how TOML is written; `ostler check --example` shows every key".into()
}

/// Joins the tables of several files. `[[pool]]` adds up, `[forge.X]` and `[provider.X]` add up by
/// name, and any other table may be in one file only.
pub(crate) fn merge(tables: Vec<TomlTable>, files: &SourceFiles, report: &Collected) -> TomlTable {
    let mut whole = TomlTable::default();
    for (key, entry) in tables.into_iter().flat_map(|table| table.entries) {
        match whole.entries.get_mut(&key) {
            None => {
                whole.entries.insert(key, entry);
            }
            Some(first) => join(&key, first, entry, files, report),
        }
    }
    whole
}

fn join(
    key: &str,
    first: &mut TableEntry,
    second: TableEntry,
    files: &SourceFiles,
    report: &Collected,
) {
    match (&mut first.node.value, second.node.value) {
        (Value::List(pools), Value::List(more)) if key == "pool" => pools.extend(more),
        (Value::Table(named), Value::Table(more)) if key == "forge" || key == "provider" => {
            for (name, entry) in more.entries {
                let path = format!("{key}.{name}");
                match named.entries.get(&name) {
                    None => {
                        named.entries.insert(name, entry);
                    }
                    Some(first) => twice(&path, first.node.at, entry.node.at, files, report),
                }
            }
        }
        _ => twice(key, first.node.at, second.node.at, files, report),
    }
}

fn twice(path: &str, first: Mark, second: Mark, files: &SourceFiles, report: &Collected) {
    let (one, two) = (files.name(first.file), files.name(second.file));
    let what = format!("`{path}` is in two files, `{one}` and `{two}`");
    let help = "keep it in one of them; only `[[pool]]` may be spread over files";
    report.add(
        ConfigProblem::new(path, what, help)
            .at(Some(second))
            .label("here again")
            .also(Some(first), "first here"),
    );
}
