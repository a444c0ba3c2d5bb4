//! How often the sweeps run, and how long they wait. Defaults are the documented ones.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub reaper: ReaperSettings,
    /// For the requeue actor and the ledger.
    pub requeue: RequeueSettings,
    /// How often forges are asked for jobs whose notices never came.
    pub poll_tick: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaperSettings {
    /// Whether it requests removals, or only records them.
    pub mode: ReaperMode,
    /// How often it sweeps.
    pub tick: Duration,
    /// How far apart two listings must be before a machine without a record is an orphan.
    pub confirm_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaperMode {
    /// It requests removals.
    Active,
    /// It records what it would have requested, and requests nothing.
    Shadow,
}

/// Settings of the requeue actor and the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequeueSettings {
    /// How often it sweeps.
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
