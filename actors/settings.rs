//! How often the sweeps look, and how patient they are. Defaults are the documented ones.

use std::time::Duration;

/// Holds the settings of the sweeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The reaper's.
    pub reaper: ReaperSettings,
    /// The requeue actor's and the ledger's.
    pub requeue: RequeueSettings,
    /// How often forges are asked for jobs whose notices never came.
    pub poll_tick: Duration,
}

/// Holds the reaper's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaperSettings {
    /// Whether it asks, or only records what it would have asked.
    pub mode: ReaperMode,
    /// How often it looks.
    pub tick: Duration,
    /// How far apart two listings must be before a machine without a record is an orphan.
    pub confirm_after: Duration,
}

/// Tells whether the reaper asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaperMode {
    /// It asks.
    Active,
    /// It records what it would have asked for, and asks nothing.
    Shadow,
}

/// Holds the requeue actor's and the ledger's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequeueSettings {
    /// How often it looks.
    pub tick: Duration,
    /// The age at which an undelivered offer lapses.
    pub offer_stale: Duration,
    /// The age at which a delivered offer without execution is asked about.
    pub orphan_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reaper: ReaperSettings {
                mode: ReaperMode::Active,
                tick: Duration::from_mins(1),
                confirm_after: Duration::from_mins(1),
            },
            requeue: RequeueSettings {
                tick: Duration::from_mins(1),
                offer_stale: Duration::from_mins(5),
                orphan_after: Duration::from_mins(5),
            },
            poll_tick: Duration::from_mins(1),
        }
    }
}
