//! Serializes values as they are written in the files.

use std::fmt::Display;
use std::time::Duration;

use ostler_actors::model::Policy;
use serde::Serializer;
use serde::ser::SerializeMap;

use super::durations;

/// Writes a duration: `"90s"`.
pub(crate) fn duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&durations::written(*duration))
}

/// Writes what has a text of its own.
pub(crate) fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Writes several of them.
pub(crate) fn texts<T: Display, S: Serializer>(values: &[T], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(values.iter().map(ToString::to_string))
}

/// Writes a policy under the names of its keys.
pub(crate) fn policy<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    for (key, value) in [
        ("boot_timeout", policy.boot_timeout),
        ("idle_confirm", policy.idle_confirm),
        ("linger", policy.linger),
        ("zombie_after", policy.zombie_after),
        ("stuck_after", policy.stuck_after),
        ("postmortem_timeout", policy.postmortem_timeout),
        ("create_settle", policy.create_settle),
        ("absence_confirm", policy.absence_confirm),
        ("scale_down_after", policy.scale_down_after),
    ] {
        map.serialize_entry(key, &durations::written(value))?;
    }
    let lifetime = policy.max_lifetime.map_or_else(|| "off".into(), durations::written);
    map.serialize_entry("max_lifetime", &lifetime)?;
    map.serialize_entry("start_permits", &policy.start_permits)?;
    map.serialize_entry("start_permits_per_host", &policy.start_permits_per_host)?;
    map.end()
}
