//! `[provider.NAME]`: what makes machines.

mod external;
mod kubernetes;
mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use external::External;
pub use kubernetes::{Kubernetes, default_poller_image};
pub use process::{Limits, Process};

use super::daemon::Daemon;
use super::keys::{Key, Kind, Variant};
use super::load::Cx;
use super::names;
use super::section::Section;
use super::tree::Table;

const KIND: &[Key] = &[Key::new(
    "kind",
    Kind::Choice(&["kubernetes", "process", "external"]),
    "What makes the machines.",
)
.required()];

/// What `kind` may be.
pub(crate) const KINDS: &[Variant] = &[
    Variant { kind: "kubernetes", keys: &[KIND, kubernetes::KEYS] },
    Variant { kind: "process", keys: &[KIND, process::KEYS] },
    Variant { kind: "external", keys: &[KIND, external::KEYS] },
];

/// Holds one `[provider.NAME]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProviderSettings {
    Kubernetes(Kubernetes),
    /// Processes of this machine.
    Process(Process),
    /// Whatever an executable makes.
    External(External),
}

impl ProviderSettings {
    /// Returns how long one call may take; an unanswered create may still act for that long.
    pub fn call_timeout(&self) -> Duration {
        match self {
            // An API server gives up after one minute; one more for what it had begun.
            Self::Kubernetes(_) => Duration::from_mins(2),
            Self::Process(_) => Duration::from_mins(1),
            Self::External(external) => external.timeout,
        }
    }

    /// Returns the name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kubernetes(_) => "kubernetes",
            Self::Process(_) => "process",
            Self::External(_) => "external",
        }
    }
}

/// Reads every `[provider.NAME]`.
pub(crate) fn read<'a>(
    cx: &'a Cx<'a>,
    whole: &'a Table,
    daemon: &Daemon,
) -> BTreeMap<String, ProviderSettings> {
    let Some(named) = whole.get("provider").and_then(|node| node.value.table()) else {
        return BTreeMap::new();
    };
    let mut found = BTreeMap::new();
    for (name, entry) in &named.entries {
        let Some(table) = entry.node.value.table() else { continue };
        let section = Section::new(cx, Some(table), format!("provider.{name}"));
        if let Err(why) = names::label(name) {
            section.note(
                section
                    .error("kind", format!("the name of provider `{name}` {why}"))
                    .help("rename it in its header and in the pools"),
            );
        }
        let provider = match section.text("kind") {
            Some("kubernetes") => Some(ProviderSettings::Kubernetes(kubernetes::read(&section))),
            Some("process") => Some(ProviderSettings::Process(process::read(&section, daemon))),
            Some("external") => external::read(&section).map(ProviderSettings::External),
            Some(_) | None => None,
        };
        found.extend(provider.map(|provider| (name.clone(), provider)));
    }
    found
}

/// Returns a path, and notes when nothing is there.
fn there(section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let path = section.path(key)?;
    if !section.cx.exists(&path) {
        section.note(
            section
                .error(key, format!("there is no `{}`", path.display()))
                .help("relative paths start beside this file"),
        );
    }
    Some(path)
}
