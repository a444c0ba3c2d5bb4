//! Compares what is written with what may be written: unknown keys, missing keys, wrong types.

use super::durations::{self, written};
use super::keys::{self, Key, Keys, Kind, Variant};
use super::names;
use super::nearest::{listed, nearest};
use super::problems::{Desk, Problem};
use super::secrets;
use super::tree::{Entry, Node, Table, Value};
use super::values::{Misfit, fits};

/// Checks a table against its keys, and everything below it.
pub(crate) fn check(table: &Table, keys: Keys, path: &str, desk: &Desk) {
    for (name, entry) in &table.entries {
        match keys::find(keys, name) {
            Some(key) => value(key, &entry.node, &join(path, name), desk),
            None => unknown(name, entry, keys, path, desk),
        }
    }
    for key in keys.iter().copied().flatten() {
        if key.required && table.get(key.name).is_none() {
            let path = join(path, key.name);
            desk.note(
                Problem::error(&path, format!("`{path}` is missing"))
                    .at(Some(table.at))
                    .help(format!("add `{} = …`: {}", key.name, key.about)),
            );
        }
    }
}

fn value(key: &'static Key, node: &Node, path: &str, desk: &Desk) {
    match (&key.kind, &node.value) {
        (Kind::Table(keys), Value::Table(table)) => check(table, keys, path, desk),
        (Kind::Tables(keys), Value::List(nodes)) => {
            for (at, node) in nodes.iter().enumerate() {
                element(key, keys, node, path, at, desk);
            }
        }
        (Kind::Kinds(variants), Value::Table(named)) => {
            if let Some(kind) = named.get("kind").filter(|node| node.value.text().is_some()) {
                let what = format!("`[{path}]` has no name");
                desk.note(Problem::error(path, what).at(Some(kind.at)).help(format!(
                    "write the header as [{path}.NAME], with a name of your choice"
                )));
                return;
            }
            for (name, entry) in &named.entries {
                variant(key, variants, &entry.node, &join(path, name), desk);
            }
        }
        (Kind::Tables(_), Value::Table(_)) => desk.note(
            Problem::error(path, format!("`{path}` is a list of tables"))
                .at(Some(node.at))
                .help(format!("write the header with two brackets: [[{path}]]")),
        ),
        (Kind::Secret | Kind::Secrets, _) => secret(&key.kind, node, path, desk),
        (kind, _) => {
            if let Err(misfit) = fits(kind, &node.value) {
                wrong(key, node, path, &misfit, desk);
            }
        }
    }
}

/// Checks one `[[table]]`; it is called by its name where it has one.
fn element(key: &Key, keys: Keys, node: &Node, path: &str, at: usize, desk: &Desk) {
    let Value::Table(table) = &node.value else {
        let what = format!("`{path}` is a list of tables, not of {}", node.value.kind());
        desk.note(
            Problem::error(path, what)
                .at(Some(node.at))
                .help(format!("write [[{path}]] headers: {}", key.about)),
        );
        return;
    };
    check(table, keys, &element_path(path, table, at), desk);
}

/// Returns how a `[[table]]` is called in messages: `pool.linux`, or `pool[0]` without a name.
pub(crate) fn element_path(path: &str, table: &Table, at: usize) -> String {
    match table.get("name").and_then(|node| node.value.text()) {
        Some(name) if !name.is_empty() => format!("{path}.{name}"),
        Some(_) | None => format!("{path}[{at}]"),
    }
}

fn variant(key: &Key, variants: &[Variant], node: &Node, path: &str, desk: &Desk) {
    let kinds: Vec<&str> = variants.iter().map(|variant| variant.kind).collect();
    let Value::Table(table) = &node.value else {
        let what = format!("`{path}` must be a table, not {}", node.value.kind());
        desk.note(
            Problem::error(path, what)
                .at(Some(node.at))
                .help(format!("write [{}.NAME]: {}", key.name, key.about)),
        );
        return;
    };
    let kind = table.get("kind");
    let written = kind.and_then(|node| node.value.text());
    if let Some(variant) = variants.iter().find(|variant| Some(variant.kind) == written) {
        return check(table, variant.keys, path, desk);
    }
    let (what, at) = match (kind, written) {
        (None, _) => (format!("`{path}.kind` is missing"), table.at),
        (Some(node), None) => {
            (format!("`{path}.kind` must be text, not {}", node.value.kind()), node.at)
        }
        (Some(node), Some(kind)) => (format!("`{kind}` is not a kind of {}", key.name), node.at),
    };
    let guess = written.and_then(|kind| nearest(kind, kinds.iter().copied()));
    let help = match guess {
        Some(kind) => format!("did you mean `{kind}`? There is {}", listed(&kinds)),
        None => format!("write kind = one of {}", listed(&kinds)),
    };
    desk.note(Problem::error(format!("{path}.kind"), what).at(Some(at)).help(help));
}

fn unknown(name: &str, entry: &Entry, keys: Keys, path: &str, desk: &Desk) {
    let full = join(path, name);
    let names: Vec<&str> = keys.iter().copied().flatten().map(|key| key.name).collect();
    let help = match (nearest(name, names.iter().copied()), home(name)) {
        (Some(key), _) => format!("did you mean `{key}`?"),
        (None, Some(home)) => format!("`{name}` belongs in [{home}]"),
        (None, None) if names.len() > 12 => {
            "remove it; config/example.toml shows every key of this table".into()
        }
        (None, None) => format!("this table takes {}", listed(&names)),
    };
    let what = format!("there is no key `{full}`");
    desk.note(Problem::error(full, what).at(Some(entry.key_at)).label("unknown key").help(help));
}

/// Returns the one other table that has a key of this name, if it is only one.
fn home(name: &str) -> Option<String> {
    let ending = format!(".{name}");
    let mut homes: Vec<String> = keys::paths()
        .iter()
        .filter_map(|path| path.strip_suffix(&ending))
        .map(|table| table.replace("forge.github", "forge.NAME").replace("pool", "[pool]"))
        .filter(|table| table != "defaults")
        .collect();
    homes.dedup();
    (homes.len() == 1).then(|| homes.remove(0))
}

fn secret(kind: &Kind, node: &Node, path: &str, desk: &Desk) {
    let key = path.rsplit('.').next().unwrap_or(path);
    if let (Kind::Secrets, Value::List(nodes)) = (kind, &node.value) {
        if nodes.is_empty() || nodes.len() > 2 {
            let what = format!("`{path}` holds {} secrets", nodes.len());
            desk.note(
                Problem::error(path, what)
                    .at(Some(node.at))
                    .help("write one, or two while the new one replaces the old"),
            );
        }
        for node in nodes {
            secret(&Kind::Secret, node, path, desk);
        }
        return;
    }
    if secrets::reference(node).is_some() {
        return;
    }
    let how = secrets::HOW;
    let (what, help) = match &node.value {
        Value::Text(_) => (
            format!("`{path}` is written in the file; secrets are only named there"),
            format!(
                "move it to the environment or to a file of its own and write `{key} = \
                        {how}`; change it if others saw this file"
            ),
        ),
        Value::Whole(_)
        | Value::Number(_)
        | Value::Flag(_)
        | Value::Date(_)
        | Value::List(_)
        | Value::Table(_) => (
            format!("`{path}` does not say where the secret is"),
            format!("write `{key} = {how}`, with one of the two"),
        ),
    };
    desk.note(Problem::error(path, what).at(Some(node.at)).private().help(help));
}

fn wrong(key: &Key, node: &Node, path: &str, misfit: &Misfit, desk: &Desk) {
    let what = match misfit {
        Misfit::Type(wanted) => format!("`{path}` must be {wanted}, not {}", node.value.kind()),
        Misfit::Value(why) => format!("`{path}` {why}"),
    };
    let help = match (&key.kind, &node.value) {
        (Kind::Choice(choices), Value::Text(text)) => {
            match nearest(text, choices.iter().copied()) {
                Some(choice) => format!("did you mean \"{choice}\"?"),
                None => format!("write one of {}", listed(choices)),
            }
        }
        (Kind::Duration { .. } | Kind::DurationOrOff, Value::Whole(number)) => {
            format!("say the unit: {} = \"{number}s\"", key.name)
        }
        (Kind::Duration { least }, Value::Text(text)) if durations::duration(text).is_some() => {
            format!("write at least \"{}\"", written(std::time::Duration::from_secs(*least)))
        }
        (Kind::Whole { .. } | Kind::Number { .. } | Kind::Flag, Value::Text(_)) => {
            format!("write it without quotes: {} = …", key.name)
        }
        (Kind::Name, Value::Text(text)) => names::nearly(text).map_or_else(
            || key.kind.example(key.name),
            |name| format!("write {} = \"{name}\"", key.name),
        ),
        (Kind::Texts, Value::Text(_)) => format!("put it in brackets: {} = [\"…\"]", key.name),
        _ => key.kind.example(key.name),
    };
    desk.note(Problem::error(path, what).at(Some(node.at)).help(help));
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
