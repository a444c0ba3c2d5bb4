//! What a reload would do: the difference of two configurations, in an operator's terms.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::{Config, Pool};

/// Keys of a pool that shape its machines.
const SHAPING: [&str; 15] = [
    "arch",
    "binding",
    "ca",
    "env",
    "extra_specs",
    "flavor",
    "forge",
    "image",
    "labels",
    "os",
    "pod",
    "provider",
    "proxy",
    "runner_group",
    "scope",
];

/// Keys that say where a forge or a provider is. What was made there would be out of sight.
const PLACE: [&str; 6] =
    ["api_url:", "kind:", "kubeconfig:", "context:", "namespace:", "work_dir:"];

/// Ties a pool to the forge and the provider of machines it has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The pool; it may be gone from the configuration.
    pub pool: String,
    /// The forge its runners are registered at.
    pub forge: String,
    /// The provider that made its machines.
    pub provider: String,
}

impl From<&Pool> for Tie {
    fn from(pool: &Pool) -> Self {
        let (forge, provider) = (pool.forge.clone(), pool.provider.clone());
        Self { pool: pool.name.clone(), forge, provider }
    }
}

/// Describes one effect of going from one configuration to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    pub kind: Kind,
    /// To what: `pool linux`, `forge github`, `[http]`.
    pub what: String,
    /// Which keys differ, as `key: old -> new`.
    pub keys: Vec<String>,
    pub effect: String,
}

/// Says what happens to a part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Added,
    Removed,
    Changed,
    /// The reload would be refused because of it.
    Refused,
}

impl Change {
    /// Returns whether the reload would be refused because of it.
    pub fn is_refused(&self) -> bool {
        self.kind == Kind::Refused
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            Kind::Added => '+',
            Kind::Removed => '-',
            Kind::Changed => '~',
            Kind::Refused => '!',
        };
        write!(f, "{sign} {}: {}", self.what, self.effect)?;
        for key in &self.keys {
            write!(f, "\n    {key}")?;
        }
        Ok(())
    }
}

/// Returns everything a reload from `old` to `new` would do; empty when nothing changes.
pub fn plan(old: &Config, new: &Config) -> Vec<Change> {
    let mut changes = Vec::new();
    pools(old, new, &mut changes);
    let (before, after) = (old.redacted(), new.redacted());
    adapters(&before, &after, &ties(old), &mut changes);
    for (part, effect) in [
        ("reaper", "takes effect at once"),
        ("requeue", "takes effect at once"),
        ("notify", "takes effect at once"),
        ("http", "tokens and the certificate take effect at once, addresses after a restart"),
        ("store", "takes effect after a restart"),
        ("daemon", "takes effect after a restart"),
    ] {
        let keys = differences(&before[part], &after[part]);
        if !keys.is_empty() {
            changes.push(Change {
                kind: Kind::Changed,
                what: format!("[{part}]"),
                keys,
                effect: effect.into(),
            });
        }
    }
    changes
}

/// Returns why a reload from `old` to `new` would be refused while machines are left; `live` says
/// of which, beside those that the pools of `old` may have.
pub fn refusals(old: &Config, new: &Config, live: &[Tie]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut ties = ties(old);
    ties.extend_from_slice(live);
    adapters(&old.redacted(), &new.redacted(), &ties, &mut changes);
    changes.retain(Change::is_refused);
    changes
}

fn ties(config: &Config) -> Vec<Tie> {
    config.pools.iter().map(Tie::from).collect()
}

fn adapters(before: &Value, after: &Value, ties: &[Tie], changes: &mut Vec<Change>) {
    for (kind, part) in [("forge", "forges"), ("provider", "providers")] {
        named(kind, &before[part], &after[part], ties, changes);
    }
}

fn pools(old: &Config, new: &Config, changes: &mut Vec<Change>) {
    let find =
        |config: &Config, name: &str| config.pools.iter().find(|pool| pool.name == name).cloned();
    for pool in &new.pools {
        let what = format!("pool {}", pool.name);
        match find(old, &pool.name) {
            None => {
                let effect =
                    format!("new; keeps {} idle, at most {} machines", pool.min_idle, pool.max);
                changes.push(Change { kind: Kind::Added, what, keys: Vec::new(), effect });
            }
            Some(before) => changes.extend(changed(what, &before, pool)),
        }
    }
    for pool in &old.pools {
        if find(new, &pool.name).is_none() {
            let effect = "drains: busy runners finish, idle ones leave, then it is gone".into();
            changes.push(Change {
                kind: Kind::Removed,
                what: format!("pool {}", pool.name),
                keys: Vec::new(),
                effect,
            });
        }
    }
}

fn changed(what: String, before: &Pool, after: &Pool) -> Option<Change> {
    let mut keys = differences(&before.redacted(), &after.redacted());
    keys.retain(|key| !key.starts_with("revision:"));
    let rolls = before.revision != after.revision;
    if !rolls && keys.is_empty() {
        return None;
    }
    if rolls && !keys.iter().any(|key| SHAPING.iter().any(|shaping| key.starts_with(shaping))) {
        keys.push(format!("provider {}: what it starts differs, see below", after.provider));
    }
    let effect = if rolls {
        let (old, new) = (&before.revision, &after.revision);
        format!(
            "rolls from {old} to {new}: idle machines are replaced a few at a time, \
                    busy ones finish"
        )
    } else {
        "takes effect at once; no machine is replaced".into()
    };
    Some(Change { kind: Kind::Changed, what, keys, effect })
}

fn named(kind: &str, before: &Value, after: &Value, ties: &[Tie], changes: &mut Vec<Change>) {
    let empty = serde_json::Map::new();
    let (before, after) =
        (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    for (name, value) in after {
        let what = format!("{kind} {name}");
        let Some(earlier) = before.get(name) else {
            changes.push(Change {
                kind: Kind::Added,
                what,
                keys: Vec::new(),
                effect: "new".into(),
            });
            continue;
        };
        let keys = differences(earlier, value);
        let users = users(kind, name, ties);
        let moves = keys.iter().any(|key| PLACE.iter().any(|place| key.starts_with(place)));
        if moves && !users.is_empty() {
            let effect = format!(
                "refused while machines of pool {users} are left: it would be somewhere \
                        else, and they out of sight; give the new place a new name"
            );
            changes.push(Change { kind: Kind::Refused, what, keys, effect });
        } else if !keys.is_empty() {
            let effect = "takes effect with the next call".into();
            changes.push(Change { kind: Kind::Changed, what, keys, effect });
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        let users = users(kind, name, ties);
        let what = format!("{kind} {name}");
        changes.push(if users.is_empty() {
            Change {
                kind: Kind::Removed,
                what,
                keys: Vec::new(),
                effect: "gone; no pool used it".into(),
            }
        } else {
            let effect = format!(
                "refused while machines of pool {users} are left: remove or move the pool \
                    first, reload, and remove the {kind} when it has drained"
            );
            Change { kind: Kind::Refused, what, keys: Vec::new(), effect }
        });
    }
}

/// Names the pools that use a forge or a provider.
fn users(kind: &str, name: &str, ties: &[Tie]) -> String {
    let uses = |tie: &&Tie| if kind == "forge" { tie.forge == name } else { tie.provider == name };
    let mut names: Vec<&str> = Vec::new();
    for tie in ties.iter().filter(uses) {
        if !names.contains(&tie.pool.as_str()) {
            names.push(&tie.pool);
        }
    }
    names.join(", ")
}

/// Lists the keys in which two values differ, down to the values themselves.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after {
        return;
    }
    if let (Value::Object(one), Value::Object(two)) = (before, after) {
        let keys: std::collections::BTreeSet<&String> = one.keys().chain(two.keys()).collect();
        for key in keys {
            let path = if path.is_empty() || path == "policy" {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            compare(
                &path,
                one.get(key).unwrap_or(&Value::Null),
                two.get(key).unwrap_or(&Value::Null),
                found,
            );
        }
        return;
    }
    let shown = |value: &Value| if value.is_null() { "none".into() } else { value.to_string() };
    found.push(format!("{path}: {} -> {}", shown(before), shown(after)));
}
