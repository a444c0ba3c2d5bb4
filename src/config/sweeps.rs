//! `[reaper]`, `[requeue]` and `[notify]`: how often the sweeps run, and who hears what they find.

use std::time::Duration;

use ostler_actors::model::Policy;
use ostler_actors::settings::{ReaperMode, ReaperSettings, RequeueSettings, Settings};

use super::declare::{Fallback::Core, Requirement::Required, ValueKind, table, whole};
use super::secrets::Secret;
use super::values::{Field as _, choice};

table! {
    /// The sweep for machines that should not exist.
    pub struct Reaper {
        /// Whether it requests removals, or only records which it would have requested.
        pub shadow as "mode": ReaperMode,
            fallback = Core(|| Settings::default().reaper.mode.toml());
        /// How often it runs.
        pub tick: Duration, fallback = Core(|| Settings::default().reaper.tick.toml());
        /// How many removals of a pool's instances may be requested in a minute, whatever the sweeps
        /// find.
        pub retire_budget: u32, kind = whole(1, 100_000),
            fallback = Core(|| Policy::default().retire_budget.toml());
    }
}

table! {
    /// The sweep for jobs that no pool serves.
    impl RequeueSettings, from Settings::default().requeue, {
        /// How often it runs; as often forges are asked for jobs whose webhook was lost.
        tick: Duration;
        /// The age at which an offer that was never delivered lapses.
        offer_stale: Duration;
        /// The age at which the forge is asked about a delivered offer without execution.
        orphan_after: Duration;
    }
}

table! {
    /// Where messages go when an operator is needed.
    pub struct Notify {
        /// Where the message is posted as JSON; a chat's address is as good as a password, so it is a
        /// secret.
        pub url: Secret => { env = "OSTLER_NOTIFY_URL" }, need = Required;
        /// What is reported: death (an instance ended as it should not), stuck (an instance makes no
        /// progress), breaker (a pool stopped creating), leak (a machine without an owner), queue (a
        /// job waits longer than queue_after), config (a reload was refused).
        pub on: Vec<String> = ["death", "stuck", "breaker", "leak", "queue", "config"],
            kind = ValueKind::Choices(&["death", "stuck", "breaker", "leak", "queue", "config"]);
        /// How long a job that a pool could serve may wait before it is reported.
        pub queue_after: Duration = "10m";
        /// How many messages go out in an hour at most; the next one says how many were held back.
        pub per_hour: u32 = 20, kind = whole(1, 10_000);
        /// The text of a message, with {fleet}, {occasion}, {subject}, {sentence} and {advice}.
        pub template: String = "[{fleet}] {sentence} {advice}";
    }
}

// `/config` shows the mode as `shadow: true` or `false`.
choice!(ReaperMode { Active = "active", Shadow = "shadow" }, show |it| *it == Self::Shadow);

/// Returns the core's settings.
pub(crate) fn settings(reaper: &Reaper, requeue: &RequeueSettings) -> Settings {
    Settings {
        reaper: ReaperSettings {
            mode: reaper.shadow,
            tick: reaper.tick,
            ..Settings::default().reaper
        },
        requeue: requeue.clone(),
        // A job whose webhook was lost is a job that no pool serves: one interval for both.
        poll_tick: requeue.tick,
    }
}
