//! What may be written, for programs and for people: the JSON Schema and `config/example.toml`.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::ROOT;
use super::declare::{Fallback, Key, Requirement, ValueKind, all};
use super::shape::{join, shared};
use super::values::listed;

const DURATION: &str = "^([0-9]+(ms|s|m|h|d) ?)+$";

/// Returns the JSON Schema of the whole, for editors and other programs.
pub fn schema() -> Value {
    let mut schema = table(&all(ROOT));
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Ostler configuration".into();
    schema
}

fn table(keys: &[&Key]) -> Value {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let required = keys.iter().filter(|key| key.need == Requirement::Required);
    let required: Vec<&str> = required.map(|key| key.name).collect();
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = of(key.kind);
    schema["description"] = key.about.into();
    // What depends on other keys is no default for an editor.
    if let Some(toml) = key.default_toml().filter(|toml| !toml.contains("STATE_DIR"))
        && let Some(node) = super::document::literal(&toml)
    {
        schema["default"] = node.value.json();
    }
    schema
}

fn of(kind: ValueKind) -> Value {
    match kind {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Path | ValueKind::OwnPath => json!({ "type": "string", "minLength": 1 }),
        ValueKind::Name => {
            json!({ "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" })
        }
        ValueKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        ValueKind::Choices(choices) => json!({ "type": "array", "items": { "enum": choices } }),
        ValueKind::Whole { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ValueKind::Number { least, most } => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Duration { .. } => json!({ "type": "string", "pattern": DURATION }),
        ValueKind::DurationOrOff => {
            json!({ "anyOf": [{ "const": "off" }, { "type": "string", "pattern": DURATION }] })
        }
        ValueKind::Size => json!({ "type": "string", "pattern": "^[0-9]+ ?([KMGT]i|[KMG])?B$" }),
        ValueKind::Choice(choices) => json!({ "enum": choices }),
        ValueKind::Secret => secret(),
        ValueKind::Secrets => {
            let two = json!({ "type": "array", "items": secret(), "minItems": 1, "maxItems": 2 });
            json!({ "anyOf": [secret(), two] })
        }
        ValueKind::TextOrSecret => json!({ "anyOf": [{ "type": "string" }, secret()] }),
        ValueKind::Address => json!({ "type": "string", "pattern": "^.+:[0-9]+$" }),
        ValueKind::Url | ValueKind::BaseUrl => {
            json!({ "type": "string", "pattern": "^https?://[^@?#]+$" })
        }
        ValueKind::TextMap => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        ValueKind::Free => json!({ "type": "object" }),
        ValueKind::Table(keys) | ValueKind::Flat(keys) => table(&all(keys)),
        ValueKind::Shared(keys) => table(&shared(keys)),
        ValueKind::Tables(keys) => json!({ "type": "array", "items": table(&all(keys)) }),
        ValueKind::Kinds(kinds) => {
            let each = kinds.iter().map(|(kind, keys)| {
                let mut schema = table(&all(keys));
                schema["properties"]["kind"] = json!({ "const": kind });
                schema
            });
            let each: Vec<Value> = each.collect();
            json!({ "type": "object", "additionalProperties": { "oneOf": each } })
        }
    }
}

fn secret() -> Value {
    let way = |name: &str| {
        json!({
            "type": "object",
            "properties": { name: { "type": "string", "minLength": 1 } },
            "required": [name],
            "additionalProperties": false,
        })
    };
    json!({ "oneOf": [way("env"), way("file")] })
}

/// Returns the tables that have a key of this name, as they are called in headers.
pub(crate) fn homes(name: &str) -> Vec<String> {
    fn search(keys: &[&Key], path: &str, name: &str, found: &mut Vec<String>) {
        for key in keys {
            if key.name == name && !path.is_empty() {
                found.push(path.to_owned());
            }
            let inner = join(path, key.name);
            if let ValueKind::Table(keys) = key.kind {
                search(&all(keys), &inner, name, found);
            } else if let ValueKind::Tables(keys) = key.kind {
                search(&all(keys), &format!("[{inner}]"), name, found);
            } else if let ValueKind::Kinds(kinds) = key.kind {
                for (kind, keys) in kinds {
                    // The one kind of forge needs no distinction.
                    let kind = if kinds.len() == 1 { "NAME" } else { kind };
                    search(&all(keys), &format!("{inner}.{kind}"), name, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    search(&all(ROOT), "", name, &mut found);
    found
}

/// Returns `config/example.toml`: every key with its text, its default and a value that works.
pub fn example() -> String {
    let mut text = String::from(HEAD);
    for key in all(ROOT) {
        section(&mut text, key, key.name, "");
    }
    text
}

const HEAD: &str = r#"# Every key, explained. `ostler check --example` prints this file.
#
# Durations are "90s", "5m", "1h30m", "30d". Secrets are only named, never written:
#   { env = "NAME" }     a variable of the daemon's environment
#   { file = "path" }    a file, relative to this one, readable for the daemon's user only
# What Ostler reads is relative to the file that names it; what Ostler writes is relative to the
# working directory. A key that is not known is an error. A line that begins with `#` and no space is
# an alternative to a line near it.
"#;

/// Keys of a pool that the example writes for all pools.
const IN_DEFAULTS: [&str; 3] = ["forge", "scope", "provider"];

/// Writes the tables that a key stands for; `off` is put before every line of an alternative.
fn section(text: &mut String, key: &Key, path: &str, off: &str) {
    let off = if key.need == Requirement::Alternative { "#" } else { off };
    let in_defaults = |inner: &&Key| IN_DEFAULTS.contains(&inner.name);
    let mut write = |header: String, keys: &[&Key], path: &str| {
        block(text, &header, key.about, keys, path, off);
    };
    if let ValueKind::Table(keys) = key.kind {
        write(format!("[{path}]"), &all(keys), path);
    } else if let ValueKind::Shared(keys) = key.kind {
        let keys: Vec<_> = all(keys).into_iter().filter(in_defaults).collect();
        write(format!("[{path}]"), &keys, path);
    } else if let ValueKind::Tables(keys) = key.kind {
        let keys = all(keys).into_iter().filter(|key| path != "pool" || !in_defaults(key));
        write(format!("[[{path}]]"), &keys.collect::<Vec<_>>(), path);
    } else if let ValueKind::Kinds(kinds) = key.kind {
        for (kind, keys) in kinds {
            let path = format!("{path}.{kind}");
            write(format!("[{path}]"), &all(keys), &path);
        }
    }
}

fn block(text: &mut String, header: &str, about: &str, keys: &[&Key], path: &str, off: &str) {
    text.push('\n');
    comment(text, about);
    let _ = writeln!(text, "{off}{header}");
    let tables = |key: &&&Key| {
        matches!(
            key.kind,
            ValueKind::Table(_) | ValueKind::Shared(_) | ValueKind::Tables(_) | ValueKind::Kinds(_)
        )
    };
    // TOML wants the keys of a table before its inner tables.
    for key in keys.iter().filter(|key| !tables(key)) {
        let default = match (key.fallback, key.default_toml()) {
            (Fallback::Described(""), _) | (Fallback::None, None) => String::new(),
            (Fallback::Described(words), _) => format!(" Default: {words}."),
            (_, toml) => format!(" Default: {}.", toml.unwrap_or_default()),
        };
        let mut choices = String::new();
        if let ValueKind::Choice(all) = key.kind
            && all.len() > 1
        {
            choices = format!(" One of {}.", listed(all));
        }
        comment(text, &format!("{}{choices}{default}", key.about));
        let own = key.default_toml().unwrap_or_default();
        let value = if key.example.is_empty() { &own } else { key.example };
        let off = if key.need == Requirement::Alternative { "#" } else { off };
        let _ = writeln!(text, "{off}{} = {value}", key.name);
    }
    for key in keys.iter().filter(tables) {
        section(text, key, &join(path, key.name), off);
    }
}

/// Writes a comment in lines of at most 100 characters.
fn comment(text: &mut String, words: &str) {
    let mut length = 0;
    for word in words.split_whitespace() {
        let width = word.chars().count();
        if length == 0 || length + 1 + width > 100 {
            text.push_str(if length == 0 { "# " } else { "\n# " });
            length = 2 + width;
        } else {
            text.push(' ');
            length += 1 + width;
        }
        text.push_str(word);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::declare::Keys;
    use super::super::document::literal;
    use super::super::problems::Collected;
    use super::super::shape::value;
    use super::*;

    fn check(keys: Keys, report: &Collected) {
        for key in all(keys) {
            for toml in key.default_toml().iter().map(String::as_str).chain([key.example]) {
                if let Some(node) = literal(toml) {
                    value(key.kind, key, &node, key.name, report);
                } else {
                    assert!(toml.is_empty(), "{}: {toml} is not TOML", key.name);
                }
            }
            if let ValueKind::Table(keys) | ValueKind::Tables(keys) = key.kind {
                check(keys, report);
            } else if let ValueKind::Kinds(kinds) = key.kind {
                for (_, keys) in kinds {
                    check(keys, report);
                }
            }
        }
    }

    #[test]
    fn every_default_and_every_example_fits_its_key() {
        let report = Collected::default();
        check(ROOT, &report);
        assert!(!report.has_errors(), "{report:?}");
    }
}
