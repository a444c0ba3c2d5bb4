//! `[reaper]` and `[requeue]`: how often the sweeps look, and how patient they are.

use std::time::Duration;

use ostler_actors::settings::{ReaperMode, ReaperSettings, RequeueSettings, Settings};
use serde::Serialize;

use super::keys::{Key, Keys, Kind};
use super::section::Section;
use super::written;

/// The keys of `[reaper]`.
pub(crate) const REAPER: Keys = &[&[
    Key::new(
        "mode",
        Kind::Choice(&["active", "shadow"]),
        "Whether it asks machines to go, or only records what it would have asked.",
    )
    .or("\"active\""),
    Key::new("tick", Kind::Duration { least: 1 }, "How often it looks.").or("\"60s\""),
    Key::new(
        "retire_budget",
        Kind::Whole { least: 1, most: 100_000 },
        "How many instances of a pool may be asked to go in a minute, whatever the sweeps believe.",
    )
    .or("20"),
]];

/// The keys of `[requeue]`.
pub(crate) const REQUEUE: Keys = &[&[
    Key::new(
        "tick",
        Kind::Duration { least: 1 },
        "How often it looks; as often forges are asked for jobs whose webhook was lost.",
    )
    .or("\"60s\""),
    Key::new(
        "offer_stale",
        Kind::Duration { least: 1 },
        "The age at which an offer that was never delivered lapses.",
    )
    .or("\"300s\""),
    Key::new(
        "orphan_after",
        Kind::Duration { least: 1 },
        "The age at which a delivered offer without execution is asked about at the forge.",
    )
    .or("\"300s\""),
]];

/// Holds `[reaper]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reaper {
    /// Whether it only records: `mode = "shadow"`.
    pub shadow: bool,
    /// How often it looks: `"60s"`.
    #[serde(serialize_with = "written::duration")]
    pub tick: Duration,
    /// How many instances of a pool may be asked to go in a minute: 20.
    pub retire_budget: u32,
}

/// Holds `[requeue]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Requeue {
    /// How often it looks: `"60s"`.
    #[serde(serialize_with = "written::duration")]
    pub tick: Duration,
    /// The age at which an undelivered offer lapses: `"300s"`.
    #[serde(serialize_with = "written::duration")]
    pub offer_stale: Duration,
    /// The age at which a delivered offer without execution is asked about: `"300s"`.
    #[serde(serialize_with = "written::duration")]
    pub orphan_after: Duration,
}

impl Reaper {
    pub(crate) fn read(section: &Section<'_>) -> Self {
        Self {
            shadow: section.text("mode") == Some("shadow"),
            tick: section.duration("tick").unwrap_or(Duration::from_mins(1)),
            retire_budget: section.whole("retire_budget").unwrap_or(20),
        }
    }
}

impl Requeue {
    pub(crate) fn read(section: &Section<'_>) -> Self {
        let five = Duration::from_mins(5);
        Self {
            tick: section.duration("tick").unwrap_or(Duration::from_mins(1)),
            offer_stale: section.duration("offer_stale").unwrap_or(five),
            orphan_after: section.duration("orphan_after").unwrap_or(five),
        }
    }
}

/// Returns the core's settings.
pub(crate) fn settings(reaper: &Reaper, requeue: &Requeue) -> Settings {
    let standard = Settings::default();
    Settings {
        reaper: ReaperSettings {
            mode: if reaper.shadow { ReaperMode::Shadow } else { ReaperMode::Active },
            tick: reaper.tick,
            ..standard.reaper
        },
        requeue: RequeueSettings {
            tick: requeue.tick,
            offer_stale: requeue.offer_stale,
            orphan_after: requeue.orphan_after,
        },
        // A job whose webhook was lost is a job nobody serves: both are looked for equally often.
        poll_tick: requeue.tick,
    }
}
