//! The JSON Schema of the whole, made from the tables of keys.

use serde_json::{Map, Value, json};

use super::keys::{Key, Keys, Kind, ROOT};

/// Returns the schema for editors and other programs.
pub fn schema() -> Value {
    let mut schema = table(ROOT);
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Ostler configuration".into();
    schema
}

fn table(keys: Keys) -> Value {
    let all = || keys.iter().copied().flatten();
    let properties: Map<String, Value> =
        all().map(|key| (key.name.to_owned(), property(key))).collect();
    let required: Vec<&str> = all().filter(|key| key.required).map(|key| key.name).collect();
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = of(&key.kind);
    schema["description"] = key.about.into();
    // A default in capitals stands for something that depends on other keys.
    if !key.default.is_empty()
        && !key.default.contains("STATE_DIR")
        && let Ok(default) = serde_json::from_str::<Value>(key.default)
    {
        schema["default"] = default;
    }
    schema
}

fn of(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Name => {
            json!({ "type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" })
        }
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Whole { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Number { least, most } => {
            json!({ "type": "number", "minimum": least, "maximum": most })
        }
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Duration { .. } => json!({ "type": "string", "pattern": DURATION }),
        Kind::DurationOrOff => {
            json!({ "anyOf": [{ "const": "off" }, { "type": "string", "pattern": DURATION }] })
        }
        Kind::Size => json!({ "type": "string", "pattern": "^[0-9]+ ?([KMGT]i|[KMG])?B$" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Secret => secret(),
        Kind::Secrets => {
            json!({ "anyOf": [secret(), { "type": "array", "items": secret(), "minItems": 1, "maxItems": 2 }] })
        }
        Kind::TextOrSecret => json!({ "anyOf": [{ "type": "string" }, secret()] }),
        Kind::Address => json!({ "type": "string", "pattern": "^.+:[0-9]+$" }),
        Kind::Url => json!({ "type": "string", "pattern": "^https?://[^@?#]+$" }),
        Kind::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Kind::Free => json!({ "type": "object" }),
        Kind::Table(keys) => table(keys),
        Kind::Tables(keys) => json!({ "type": "array", "items": table(keys) }),
        Kind::Kinds(variants) => {
            let each = variants.iter().map(|variant| {
                let mut schema = table(variant.keys);
                schema["properties"]["kind"] = json!({ "const": variant.kind });
                schema
            });
            json!({ "type": "object", "additionalProperties": { "oneOf": each.collect::<Vec<_>>() } })
        }
    }
}

const DURATION: &str = "^([0-9]+(ms|s|m|h|d) ?)+$";

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
