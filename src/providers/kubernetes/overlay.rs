//! Lays an operator's overlay over the pod we would make, as `kubectl patch` does: maps are
//! merged, lists of named things are merged by name, other lists are replaced, and `null` removes.

use serde_json::{Map, Value};

/// Lays `over` on `base`.
pub(super) fn lay(base: &mut Value, over: &Value) {
    lay_at(base, over, "");
}

fn lay_at(base: &mut Value, over: &Value, key: &str) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => lay_map(base, over),
        (Value::Array(base), Value::Array(over)) if merge_key(key).is_some() => {
            lay_list(base, over, merge_key(key).unwrap_or_default());
        }
        (base, over) => *base = without_nulls(over),
    }
}

fn lay_map(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        if value.is_null() {
            base.remove(key);
        } else if let Some(there) = base.get_mut(key) {
            lay_at(there, value, key);
        } else {
            base.insert(key.clone(), without_nulls(value));
        }
    }
}

fn lay_list(base: &mut Vec<Value>, over: &[Value], by: &str) {
    for item in over {
        let name = item.get(by);
        let same = |it: &&mut Value| name.is_some() && it.get(by) == name;
        match base.iter_mut().find(same) {
            Some(there) => lay_at(there, item, ""),
            None => base.push(without_nulls(item)),
        }
    }
}

/// Returns by what the items of a list are told apart, where they have names of their own.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets"
        | "resourceClaims" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ports" => Some("containerPort"),
        "hostAliases" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Returns the first key of the overlay that did not survive in the pod: it is unknown there.
pub(super) fn lost(over: &Value, made: &Value) -> Option<String> {
    lost_at(over, made, "pod", "")
}

fn lost_at(over: &Value, made: &Value, path: &str, key: &str) -> Option<String> {
    match (over, made) {
        (Value::Object(over), Value::Object(made)) => over.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match made.get(key) {
                // An empty map or list says nothing, and may be left out of the pod.
                None if says_nothing(value) => None,
                None => Some(path),
                Some(made) => lost_at(value, made, &path, key),
            }
        }),
        (Value::Array(over), Value::Array(made)) => {
            match merge_key(key) {
                Some(by) => over.iter().find_map(|item| {
                    let name = item.get(by)?;
                    let there = made.iter().find(|it| it.get(by) == Some(name))?;
                    lost_at(item, there, &format!("{path}[{}]", name.as_str().unwrap_or(by)), "")
                }),
                None => over.iter().zip(made).enumerate().find_map(|(at, (item, there))| {
                    lost_at(item, there, &format!("{path}[{at}]"), "")
                }),
            }
        }
        _ => None,
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(says_nothing),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laid(mut base: Value, over: &Value) -> Value {
        lay(&mut base, over);
        base
    }

    #[test]
    fn containers_are_merged_by_name_and_others_added() {
        let base = json!({"containers": [{"name": "runner", "image": "a", "env": [{"name": "A", "value": "1"}]}]});
        let over = json!({"containers": [
            {"name": "runner", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]},
            {"name": "dind", "image": "d", "tty": null},
        ]});
        assert_eq!(
            laid(base, &over),
            json!({"containers": [
                {"name": "runner", "image": "a", "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}]},
                {"name": "dind", "image": "d"},
            ]})
        );
    }

    #[test]
    fn plain_lists_are_replaced_and_null_removes() {
        let base = json!({"args": ["a", "b"], "seccomp": {"type": "RuntimeDefault"}, "x": 1});
        let over = json!({"args": ["c"], "seccomp": null});
        assert_eq!(laid(base, &over), json!({"args": ["c"], "x": 1}));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_path() {
        let over =
            json!({"spec": {"containers": [{"name": "runner", "imagePullPolicies": "Always"}]}});
        let made = json!({"spec": {"containers": [{"name": "runner", "image": "x"}]}});
        assert_eq!(
            lost(&over, &made).as_deref(),
            Some("pod.spec.containers[runner].imagePullPolicies")
        );
        assert_eq!(lost(&json!({"spec": {"tolerations": []}}), &json!({"spec": {}})), None);
    }
}
