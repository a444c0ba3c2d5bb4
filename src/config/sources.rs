//! Finds the files, reads them and joins their tables into one document.

use std::fs;
use std::path::{Path, PathBuf};

use super::problems::{Desk, Problem};
use super::syntax;
use super::tree::{Entry, Mark, Node, Table, Value};

/// A configuration larger than this is a mistake: somebody named the wrong file.
const LARGEST: usize = 4 << 20;

/// Holds the files in reading order.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<File>);

/// Returns the folder that relative paths of a configuration start from.
pub(crate) fn root(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) }
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    text: String,
    /// Where relative paths start: beside the file, or where it is meant to go.
    folder: PathBuf,
}

impl Files {
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns how a file is called in messages.
    pub(crate) fn name(&self, file: usize) -> String {
        self.0.get(file).map_or_else(String::new, |file| file.path.display().to_string())
    }

    /// Returns the text of a file.
    pub(crate) fn text(&self, file: usize) -> &str {
        self.0.get(file).map_or("", |file| &file.text)
    }

    /// Returns where a path written in a file points: relative ones start beside the file.
    pub(crate) fn beside(&self, file: usize, written: &str) -> PathBuf {
        let folder = self.0.get(file).map_or(Path::new(""), |file| &file.folder);
        folder.join(written)
    }

    /// Pretends that all files lie in another folder.
    pub(crate) fn meant_for(mut self, folder: &Path) -> Self {
        for file in &mut self.0 {
            folder.clone_into(&mut file.folder);
        }
        self
    }

    /// Returns the paths of all files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|file| file.path.as_path())
    }
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

/// Reads every file of `path`; what cannot be read is noted and left out.
pub(crate) fn read(path: &Path, desk: &Desk) -> Files {
    let mut files = Files::default();
    let paths = match list(path) {
        Ok(paths) => paths,
        Err(error) => {
            let what = format!("cannot read `{}`: {error}", path.display());
            desk.note(
                Problem::error("", what).help("name a file or a directory with --config PATH"),
            );
            return files;
        }
    };
    if paths.is_empty() {
        let what = format!("the directory `{}` holds no `*.toml` file", path.display());
        desk.note(
            Problem::error("", what)
                .help("name the right directory with --config, or put a file there"),
        );
    }
    for path in paths {
        match fs::read(&path) {
            Ok(bytes) => add(&mut files, path, bytes, desk),
            Err(error) => {
                let what = format!("cannot read `{}`: {error}", path.display());
                desk.note(
                    Problem::error("", what).help("let the daemon's user read it, or remove it"),
                );
            }
        }
    }
    files
}

fn add(files: &mut Files, path: PathBuf, bytes: Vec<u8>, desk: &Desk) {
    if bytes.len() > LARGEST {
        let what =
            format!("`{}` has {} bytes, too many for a configuration", path.display(), bytes.len());
        desk.note(Problem::error("", what).help("name the right file with --config"));
        return;
    }
    if bytes.contains(&0) {
        let what = format!("`{}` is no text in UTF-8", path.display());
        desk.note(Problem::error("", what).help("save it as UTF-8, not as UTF-16 (`Unicode`)"));
        return;
    }
    let file = files.0.len();
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let start = error.utf8_error().valid_up_to();
        let what = format!("`{}` is not UTF-8 text", path.display());
        let at = Mark { file, start, end: start + 1 };
        desk.note(Problem::error("", what).at(Some(at)).help("save it as UTF-8"));
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    files.0.push(File { path, text, folder });
}

/// Parses every file; returns the tables of those that are TOML.
pub(crate) fn parse(files: &Files, desk: &Desk) -> Vec<Table> {
    (0..files.0.len()).filter_map(|file| syntax::parse(file, files.text(file), desk)).collect()
}

/// Joins the tables of several files. `[[pool]]` adds up, `[forge.X]` and `[provider.X]` add up by
/// name, and any other table may be in one file only.
pub(crate) fn merge(tables: Vec<Table>, files: &Files, desk: &Desk) -> Table {
    let mut whole = Table::default();
    for table in tables {
        for (key, entry) in table.entries {
            match whole.entries.get_mut(&key) {
                None => {
                    whole.entries.insert(key, entry);
                }
                Some(first) => join(&key, first, entry, files, desk),
            }
        }
    }
    whole
}

fn join(key: &str, first: &mut Entry, second: Entry, files: &Files, desk: &Desk) {
    match (&mut first.node.value, second.node.value) {
        (Value::List(pools), Value::List(more)) if key == "pool" => pools.extend(more),
        (Value::Table(named), Value::Table(more)) if key == "forge" || key == "provider" => {
            for (name, entry) in more.entries {
                let path = format!("{key}.{name}");
                match named.entries.get(&name) {
                    None => {
                        named.entries.insert(name, entry);
                    }
                    Some(first) => twice(&path, &first.node, &entry.node, files, desk),
                }
            }
        }
        (_, value) => {
            let second = Node { at: second.node.at, value };
            twice(key, &first.node, &second, files, desk);
        }
    }
}

fn twice(path: &str, first: &Node, second: &Node, files: &Files, desk: &Desk) {
    let (one, two) = (files.name(first.at.file), files.name(second.at.file));
    let what = format!("`{path}` is in two files, `{one}` and `{two}`");
    desk.note(
        Problem::error(path, what)
            .at(Some(second.at))
            .label("here again")
            .also(Some(first.at), "first here")
            .help("keep it in one of them; only `[[pool]]` may be spread over files"),
    );
}
