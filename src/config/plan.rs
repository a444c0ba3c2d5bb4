//! What a reload would do: the difference of two configurations, in an operator's terms.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::declare::{Declared as _, Effect, Keys, all};
use super::{Config, Pool, forges, providers};

/// Ties a pool to the forge and the provider of machines it has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The pool; it may be gone from the configuration.
    pub pool: String,
    /// The forge its runners are registered at.
    pub forge: String,
    /// The provider that created its machines.
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
pub struct PlannedChange {
    pub kind: ChangeKind,
    /// To what: `pool linux`, `forge github`, `[http]`.
    pub what: String,
    /// Which keys differ, as `key: old -> new`.
    pub keys: Vec<String>,
    pub effect: String,
}

/// Says what happens to a part of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
    /// The reload would be refused because of it.
    Refused,
}

impl PlannedChange {
    fn new(kind: ChangeKind, what: String, keys: Vec<String>, effect: impl Into<String>) -> Self {
        Self { kind, what, keys, effect: effect.into() }
    }

    /// Returns whether the reload would be refused because of it.
    pub fn is_refused(&self) -> bool {
        self.kind == ChangeKind::Refused
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.kind {
            ChangeKind::Added => '+',
            ChangeKind::Removed => '-',
            ChangeKind::Changed => '~',
            ChangeKind::Refused => '!',
        };
        write!(f, "{sign} {}: {}", self.what, self.effect)?;
        for key in &self.keys {
            write!(f, "\n    {key}")?;
        }
        Ok(())
    }
}

/// Returns everything a reload from `old` to `new` would do; empty when nothing changes.
pub fn plan(old: &Config, new: &Config) -> Vec<PlannedChange> {
    let mut changes = pools(old, new);
    let (before, after) = (old.redacted(), new.redacted());
    changes.extend(adapters(&before, &after, &ties(old)));
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
            changes.push(PlannedChange::new(
                ChangeKind::Changed,
                format!("[{part}]"),
                keys,
                effect,
            ));
        }
    }
    changes
}

/// Returns why a reload from `old` to `new` would be refused while machines are left; `live` says
/// of which, beside those that the pools of `old` may have.
pub fn refusals(old: &Config, new: &Config, live: &[Tie]) -> Vec<PlannedChange> {
    let mut ties = ties(old);
    ties.extend_from_slice(live);
    let mut changes = adapters(&old.redacted(), &new.redacted(), &ties);
    changes.retain(PlannedChange::is_refused);
    changes
}

fn ties(config: &Config) -> Vec<Tie> {
    config.pools.iter().map(Tie::from).collect()
}

fn pools(old: &Config, new: &Config) -> Vec<PlannedChange> {
    let find =
        |config: &Config, name: &str| config.pools.iter().find(|pool| pool.name == name).cloned();
    let mut changes = Vec::new();
    for pool in &new.pools {
        let what = format!("pool {}", pool.name);
        if let Some(before) = find(old, &pool.name) {
            changes.extend(changed(what, &before, pool));
        } else {
            let effect =
                format!("new; keeps {} idle, at most {} machines", pool.min_idle, pool.max);
            changes.push(PlannedChange::new(ChangeKind::Added, what, Vec::new(), effect));
        }
    }
    for pool in old.pools.iter().filter(|pool| find(new, &pool.name).is_none()) {
        let effect = "drains: busy runners finish, idle ones leave, then it is gone";
        let what = format!("pool {}", pool.name);
        changes.push(PlannedChange::new(ChangeKind::Removed, what, Vec::new(), effect));
    }
    changes
}

fn changed(what: String, before: &Pool, after: &Pool) -> Option<PlannedChange> {
    let mut keys = differences(&before.page(), &after.page());
    let rolls = before.revision != after.revision;
    if !rolls && keys.is_empty() {
        return None;
    }
    if rolls && !any_has(&keys, Pool::KEYS, Effect::Shapes) {
        keys.push(format!("provider {}: what it starts differs, see below", after.provider));
    }
    let effect = if rolls {
        format!(
            "rolls from {} to {}: idle machines are replaced a few at a time, busy ones finish",
            before.revision, after.revision
        )
    } else {
        "takes effect at once; no machine is replaced".into()
    };
    Some(PlannedChange::new(ChangeKind::Changed, what, keys, effect))
}

/// Returns whether one of these differences is in a key of that effect, or below it.
fn any_has(differences: &[String], keys: Keys, effect: Effect) -> bool {
    let all = all(keys);
    let mut named = all.iter().filter(|key| key.effect == effect).map(|key| key.name);
    named.any(|name| {
        differences
            .iter()
            .any(|it| it.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '.'])))
    })
}

/// Compares the forges and the providers, which are shown under their names.
fn adapters(before: &Value, after: &Value, ties: &[Tie]) -> Vec<PlannedChange> {
    let mut changes = Vec::new();
    for (kind, part, kinds) in
        [("forge", "forges", forges::KINDS), ("provider", "providers", providers::KINDS)]
    {
        let empty = serde_json::Map::new();
        let old = before[part].as_object().unwrap_or(&empty);
        let new = after[part].as_object().unwrap_or(&empty);
        for (name, value) in new {
            let what = format!("{kind} {name}");
            let Some(earlier) = old.get(name) else {
                changes.push(PlannedChange::new(ChangeKind::Added, what, Vec::new(), "new"));
                continue;
            };
            let keys = differences(earlier, value);
            let users = users(kind, name, ties);
            let moves = kinds.iter().any(|(_, of)| any_has(&keys, of, Effect::Moves));
            if moves && !users.is_empty() {
                let effect = format!(
                    "refused while machines of pool {users} are left: it would be somewhere else, \
                     and they out of sight; give the new place a new name"
                );
                changes.push(PlannedChange::new(ChangeKind::Refused, what, keys, effect));
            } else if !keys.is_empty() {
                let effect = "takes effect with the next call";
                changes.push(PlannedChange::new(ChangeKind::Changed, what, keys, effect));
            }
        }
        for name in old.keys().filter(|name| !new.contains_key(*name)) {
            let users = users(kind, name, ties);
            let (change, effect) = if users.is_empty() {
                (ChangeKind::Removed, "gone; no pool used it".into())
            } else {
                let effect = format!(
                    "refused while machines of pool {users} are left: remove or move the pool \
                     first, reload, and remove the {kind} when it has drained"
                );
                (ChangeKind::Refused, effect)
            };
            changes.push(PlannedChange::new(change, format!("{kind} {name}"), Vec::new(), effect));
        }
    }
    changes
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
