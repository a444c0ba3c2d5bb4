//! What may be written: every key once, with its kind, its default and what it is for.
//!
//! The check for unknown keys and wrong types, the JSON Schema and the proof that
//! `config/example.toml` names everything all read these tables, so none of them can fall behind.
//! Each section keeps its own table beside the type it fills; `ROOT` joins them.

use super::{daemon, forges, http, notify, policy, pools, providers, schedule, store, sweeps};

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Says what it is for, in a sentence.
    pub(crate) about: &'static str,
    /// Is the default as it would be written; empty when there is none.
    pub(crate) default: &'static str,
    pub(crate) required: bool,
}

/// Lists the keys of a table, in groups that tables may share.
pub(crate) type Keys = &'static [&'static [Key]];

/// Says what a key takes.
#[derive(Debug)]
pub(crate) enum Kind {
    Text,
    Texts,
    /// A name that goes into host names and labels.
    Name,
    Whole {
        least: i64,
        most: i64,
    },
    Number {
        least: f64,
        most: f64,
    },
    Flag,
    /// `"90s"`, not below so many seconds.
    Duration {
        least: u64,
    },
    /// A duration, or `"off"`.
    DurationOrOff,
    /// `"4GiB"`.
    Size,
    Choice(&'static [&'static str]),
    /// `{ env = "NAME" }` or `{ file = "path" }`.
    Secret,
    /// One secret, or a list of two while one replaces the other.
    Secrets,
    /// Text, or a secret where the text would hold a password.
    TextOrSecret,
    Address,
    Url,
    Path,
    /// A table of texts.
    TextMap,
    /// A table that is passed on unread.
    Free,
    Table(Keys),
    Tables(Keys),
    /// Tables under names of the operator's choice; `kind` says which keys each may have.
    Kinds(&'static [Variant]),
}

/// Describes one value of `kind` and the keys that come with it.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) kind: &'static str,
    pub(crate) keys: Keys,
}

impl Key {
    /// Describes a key that may be left out.
    pub(crate) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, about, default: "", required: false }
    }

    /// Adds what holds when the key is left out.
    pub(crate) const fn or(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// Says that the key may not be left out.
    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// Finds a key by name.
pub(crate) fn find(keys: Keys, name: &str) -> Option<&'static Key> {
    keys.iter().copied().flatten().find(|key| key.name == name)
}

pub(crate) const ROOT: Keys = &[&[
    Key::new("daemon", Kind::Table(daemon::KEYS), "The daemon itself."),
    Key::new("store", Kind::Table(store::KEYS), "Where the records are kept."),
    Key::new("http", Kind::Table(http::KEYS), "The servers for people, webhooks and runners."),
    Key::new(
        "forge",
        Kind::Kinds(forges::KINDS),
        "Where jobs come from, by a name of your choice.",
    ),
    Key::new(
        "provider",
        Kind::Kinds(providers::KINDS),
        "What makes machines, by a name of your choice.",
    ),
    Key::new(
        "defaults",
        Kind::Table(&[pools::SHARED, policy::KEYS]),
        "Holds for every pool that does not say otherwise.",
    ),
    Key::new(
        "pool",
        Kind::Tables(POOL),
        "So many runners of one shape for one scope of one forge.",
    ),
    Key::new(
        "reaper",
        Kind::Table(sweeps::REAPER),
        "The sweep for machines that should not exist.",
    ),
    Key::new("requeue", Kind::Table(sweeps::REQUEUE), "The sweep for jobs that nobody serves."),
    Key::new("notify", Kind::Table(notify::KEYS), "Who is told when a person is needed."),
]];

/// The keys of a pool.
pub(crate) const POOL: Keys = &[pools::OWN, pools::SHARED, policy::KEYS, schedule::OF_POOL];

/// Returns the dotted path of every key that holds a value: `pool.labels`, `forge.github.api_url`.
/// Named tables stand under the kind they have.
pub fn paths() -> Vec<String> {
    let mut found = Vec::new();
    collect(ROOT, "", &mut found);
    found.sort();
    found.dedup();
    found
}

fn collect(keys: Keys, above: &str, found: &mut Vec<String>) {
    for key in keys.iter().copied().flatten() {
        let path = format!("{above}{}", key.name);
        match &key.kind {
            Kind::Table(inner) | Kind::Tables(inner) => collect(inner, &format!("{path}."), found),
            Kind::Kinds(variants) => {
                for variant in *variants {
                    collect(variant.keys, &format!("{path}.{}.", variant.kind), found);
                }
            }
            Kind::Text
            | Kind::Texts
            | Kind::Name
            | Kind::Whole { .. }
            | Kind::Number { .. }
            | Kind::Flag
            | Kind::Duration { .. }
            | Kind::DurationOrOff
            | Kind::Size
            | Kind::Choice(_)
            | Kind::Secret
            | Kind::Secrets
            | Kind::TextOrSecret
            | Kind::Address
            | Kind::Url
            | Kind::Path
            | Kind::TextMap
            | Kind::Free => found.push(path),
        }
    }
}
