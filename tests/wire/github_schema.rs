//! As much of the schemas of `OpenAPI` 3.0 as GitHub's description uses.

use jiff::Timestamp;
use serde_json::Value;

use super::github_openapi::resolve;

/// Checks a value against a schema and notes every breach.
pub(super) fn check(
    spec: &Value,
    schema: &Value,
    value: &Value,
    at: &str,
    breaches: &mut Vec<String>,
) {
    let schema = resolve(spec, schema);
    let fits = |one: &Value| {
        let mut inner = Vec::new();
        check(spec, one, value, at, &mut inner);
        inner.is_empty()
    };
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    for one in schema["allOf"].as_array().into_iter().flatten() {
        check(spec, one, value, at, breaches);
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(any) = schema[key].as_array()
            && !any.iter().any(fits)
        {
            breaches.push(format!("{at}: fits none of {key}"));
        }
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        breaches.push(format!("{at}: {value} is not one of {allowed:?}"));
    }
    let right = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some(_) | None => true,
    };
    if !right {
        breaches.push(format!("{at}: {value} is not of type {}", schema["type"]));
        return;
    }
    check_object(spec, schema, value, at, breaches);
    check_array(spec, schema, value, at, breaches);
    if let (Some("date-time"), Some(text)) = (schema["format"].as_str(), value.as_str())
        && text.parse::<Timestamp>().is_err()
    {
        breaches.push(format!("{at}: `{text}` is not a date"));
    }
}

fn check_object(spec: &Value, schema: &Value, value: &Value, at: &str, breaches: &mut Vec<String>) {
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            breaches.push(format!("{at}: `{name}` is missing"));
        }
    }
    for (name, field) in fields {
        let property = &schema["properties"][name];
        if !property.is_null() {
            check(spec, property, field, &format!("{at}.{name}"), breaches);
        } else if schema["additionalProperties"] == false {
            breaches.push(format!("{at}: `{name}` is not described"));
        }
    }
}

fn check_array(spec: &Value, schema: &Value, value: &Value, at: &str, breaches: &mut Vec<String>) {
    let Some(items) = value.as_array() else { return };
    let bound = |key: &str| schema[key].as_u64();
    if bound("minItems").is_some_and(|least| (items.len() as u64) < least)
        || bound("maxItems").is_some_and(|most| items.len() as u64 > most)
    {
        breaches.push(format!("{at}: {} items are too few or too many", items.len()));
    }
    for item in items {
        check(spec, &schema["items"], item, &format!("{at}[]"), breaches);
    }
}

/// The checker must be able to fail, or it proves nothing.
#[test]
fn a_breach_of_every_kind_is_noted() {
    let spec = serde_json::json!({"components": {"schemas": {"it": {
        "type": "object", "required": ["id"], "additionalProperties": false,
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time", "nullable": true},
            "word": {"type": "string", "enum": ["a", "b"]},
            "list": {"type": "array", "minItems": 1, "items": {"type": "boolean"}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        },
    }}}});
    let schema = serde_json::json!({"$ref": "#/components/schemas/it"});
    let count = |value: Value| {
        let mut breaches = Vec::new();
        check(&spec, &schema, &value, "it", &mut breaches);
        breaches.len()
    };
    let good = serde_json::json!({"id": 1, "at": null, "word": "a", "list": [true], "either": 1});
    assert_eq!(count(good), 0);
    for bad in [
        serde_json::json!({}),
        serde_json::json!({"id": "1"}),
        serde_json::json!({"id": 1, "at": "yesterday"}),
        serde_json::json!({"id": 1, "word": "c"}),
        serde_json::json!({"id": 1, "list": []}),
        serde_json::json!({"id": 1, "list": [1]}),
        serde_json::json!({"id": 1, "either": "x"}),
        serde_json::json!({"id": 1, "more": 1}),
        serde_json::json!([]),
    ] {
        assert_eq!(count(bad.clone()), 1, "{bad}");
    }
}
