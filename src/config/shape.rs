//! Compares what is written with what may be written: unknown keys, missing keys, wrong types.

use std::time::Duration;

use super::declare::{Key, Keys, Requirement, ValueKind, all};
use super::document::{Node, TableEntry, TomlTable, Value, element_path};
use super::problems::{Collected, ConfigProblem};
use super::reference::homes;
use super::secrets;
use super::units::{duration, written};
use super::values::{WrongValue, describe, did_you_mean, fits, listed, near_label, nearest};

/// Checks a table against its keys, and everything below it.
pub(crate) fn check(table: &TomlTable, keys: &[&'static Key], path: &str, report: &Collected) {
    for (name, entry) in &table.entries {
        match keys.iter().find(|key| key.name == name) {
            Some(key) => value(key.kind, key, &entry.node, &join(path, name), report),
            None => unknown(name, entry, keys, path, report),
        }
    }
    for key in keys {
        if key.need == Requirement::Required && table.get(key.name).is_none() {
            let path = join(path, key.name);
            let help = format!("add {}: {}", key.sketch(), key.about);
            report.add(
                ConfigProblem::new(&path, format!("`{path}` is missing"), help).at(Some(table.at)),
            );
        }
    }
}

pub(crate) fn value(
    kind: ValueKind,
    key: &'static Key,
    node: &Node,
    path: &str,
    report: &Collected,
) {
    let problem = |what: String, help: String| {
        report.add(ConfigProblem::new(path, what, help).at(Some(node.at)));
    };
    match (kind, &node.value) {
        (ValueKind::Table(keys), Value::Table(table)) => check(table, &all(keys), path, report),
        (ValueKind::Shared(keys), Value::Table(table)) => check(table, &shared(keys), path, report),
        (ValueKind::Tables(keys), Value::List(nodes)) => {
            for (at, node) in nodes.iter().enumerate() {
                if let Some(table) = node.value.table() {
                    check(table, &all(keys), &element_path(path, table, at), report);
                } else {
                    let what = format!("`{path}` contains {}, not a table", node.value.kind());
                    let help = format!("write the header with two brackets: [[{path}]]");
                    report.add(ConfigProblem::new(path, what, help).at(Some(node.at)));
                }
            }
        }
        (ValueKind::Tables(_), Value::Table(_)) => problem(
            format!("`{path}` is a list of tables"),
            format!("write the header with two brackets: [[{path}]]"),
        ),
        (ValueKind::Kinds(kinds), Value::Table(named)) => {
            if let Some(kind) = named.get("kind").filter(|node| node.value.text().is_some()) {
                let help = format!("write the header as [{path}.NAME], with a name of your choice");
                let what = format!("`[{path}]` has no name");
                report.add(ConfigProblem::new(path, what, help).at(Some(kind.at)));
                return;
            }
            for (name, entry) in &named.entries {
                variant(key, kinds, &entry.node, &join(path, name), report);
            }
        }
        (ValueKind::Secrets, Value::List(nodes)) => {
            if nodes.is_empty() || nodes.len() > 2 {
                let what = format!("`{path}` contains {} secrets", nodes.len());
                problem(what, "write one, or two while the new one replaces the old".into());
            }
            for node in nodes {
                value(ValueKind::Secret, key, node, path, report);
            }
        }
        (ValueKind::Secret | ValueKind::Secrets, _) => secret(key.name, node, path, report),
        (ValueKind::Choices(choices), Value::List(nodes))
            if nodes.iter().all(|node| node.value.text().is_some()) =>
        {
            for node in nodes {
                value(ValueKind::Choice(choices), key, node, path, report);
            }
        }
        (kind, written) => match fits(kind, written) {
            Ok(()) => {}
            Err(WrongValue::Value(why)) => {
                problem(format!("`{path}` {why}"), way_out(kind, key.name, written));
            }
            Err(WrongValue::Type(wanted)) => problem(
                format!("`{path}` must be {wanted}, not {}", written.kind()),
                way_out(kind, key.name, written),
            ),
        },
    }
}

/// Returns the keys that `[defaults]` takes: those of a pool but its own.
pub(crate) fn shared(keys: Keys) -> Vec<&'static Key> {
    all(keys).into_iter().filter(|key| !key.own).collect()
}

fn variant(key: &Key, kinds: &[(&'static str, Keys)], node: &Node, path: &str, report: &Collected) {
    let Value::Table(table) = &node.value else {
        let what = format!("`{path}` must be a table, not {}", node.value.kind());
        let help = format!("write [{}.NAME]: {}", key.name, key.about);
        report.add(ConfigProblem::new(path, what, help).at(Some(node.at)));
        return;
    };
    let kind = table.get("kind");
    let text = kind.and_then(|node| node.value.text());
    if let Some((_, keys)) = kinds.iter().find(|(kind, _)| Some(*kind) == text) {
        return check(table, &all(keys), path, report);
    }
    let names: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
    let (what, at) = match (kind, text) {
        (None, _) => (format!("`{path}.kind` is missing"), table.at),
        (Some(node), None) => {
            (format!("`{path}.kind` must be text, not {}", node.value.kind()), node.at)
        }
        (Some(node), Some(kind)) => (format!("`{kind}` is not a kind of {}", key.name), node.at),
    };
    let guess = text.and_then(|kind| nearest(kind, names.iter().copied()));
    let help = match guess {
        Some(kind) if names.len() == 1 => format!("did you mean \"{kind}\"?"),
        Some(kind) => format!("did you mean \"{kind}\"? The kinds are {}", listed(&names)),
        None => format!("write kind = one of {}", listed(&names)),
    };
    report.add(ConfigProblem::new(format!("{path}.kind"), what, help).at(Some(at)));
}

fn unknown(name: &str, entry: &TableEntry, keys: &[&'static Key], path: &str, report: &Collected) {
    let full = join(path, name);
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let help = match (nearest(name, names.iter().copied()), homes(name).as_slice()) {
        (Some(key), _) => format!("did you mean `{key}`?"),
        (None, [home]) => format!("`{name}` belongs in [{home}]"),
        (None, _) if names.len() > 12 => {
            "remove it; `ostler check --example` shows every key of this table".into()
        }
        (None, _) => format!("this table takes {}", listed(&names)),
    };
    let what = format!("there is no key `{full}`");
    report.add(ConfigProblem::new(full, what, help).at(Some(entry.key_at)).label("unknown key"));
}

fn secret(key: &str, node: &Node, path: &str, report: &Collected) {
    if node.value.table().is_some_and(|table| secrets::reference(table).is_some()) {
        return;
    }
    let how = secrets::HOW;
    let (what, help) = if node.value.text().is_some() {
        (
            format!("`{path}` is written in the file; secrets are only named there"),
            format!(
                "move it to the environment or to a file of its own and write `{key} = {how}`; \
                 change it if others saw this file"
            ),
        )
    } else {
        (
            format!("`{path}` does not say where the secret is"),
            format!("write `{key} = {how}`, with one of the two"),
        )
    };
    report.add(ConfigProblem::new(path, what, help).at(Some(node.at)).private());
}

/// Says what to write instead.
fn way_out(kind: ValueKind, key: &str, value: &Value) -> String {
    match (kind, value) {
        (ValueKind::Choice(choices), Value::Text(text)) => did_you_mean(text, choices),
        (ValueKind::Duration { .. } | ValueKind::DurationOrOff, Value::Whole(number)) => {
            format!("say the unit: {key} = \"{number}s\"")
        }
        (ValueKind::Duration { least }, Value::Text(text)) if duration(text).is_some() => {
            format!("write at least \"{}\"", written(Duration::from_secs(least)))
        }
        (ValueKind::Whole { .. } | ValueKind::Number { .. } | ValueKind::Flag, Value::Text(_)) => {
            format!("write it without quotes: {key} = …")
        }
        (ValueKind::Texts | ValueKind::Choices(_), Value::Text(_)) => {
            format!("put it in brackets: {key} = [\"…\"]")
        }
        (ValueKind::Name, Value::Text(text)) => near_label(text)
            .map_or_else(|| describe(kind, key).1, |name| format!("write {key} = \"{name}\"")),
        (kind, _) => describe(kind, key).1,
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
