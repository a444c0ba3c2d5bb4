//! How calls are spaced: what a lane leaves for the more urgent ones, and an even pace with a small burst.

use std::time::Duration;

use tokio::time::Instant;

use super::Lane;

/// Returns what a lane must leave for the lanes above it.
pub(super) fn floor(lane: Lane, limit: u32) -> u32 {
    match lane {
        Lane::Remove => 0,
        Lane::Mint => limit / 20,
        Lane::Check => limit / 20 * 3,
        Lane::List => limit / 10 * 3,
    }
}

/// Returns how long a lane waits in place; longer waits are the caller's to plan.
pub(super) fn wait_limit(lane: Lane) -> Duration {
    match lane {
        Lane::Remove => Duration::from_secs(20),
        Lane::Mint => Duration::from_secs(10),
        Lane::Check | Lane::List => Duration::from_secs(5),
    }
}

/// Returns a moment within the lane's own stretch after a silence: urgent lanes come back first.
pub(super) fn spread(lane: Lane, roll: u64) -> Duration {
    let stretch = match lane {
        Lane::Remove => 1_000,
        Lane::Mint => 5_000,
        Lane::Check => 15_000,
        Lane::List => 30_000,
    };
    Duration::from_millis(roll % stretch)
}

/// Spaces calls `interval` apart; after a rest, `burst` of them may go at once.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    interval: Duration,
    slack: Duration,
    /// When the next call would be due if all had kept the interval.
    due: Option<Instant>,
}

impl Pace {
    pub(super) fn new(per: Duration, calls: u32, burst: u32) -> Self {
        let interval = per / calls.max(1);
        Self { interval, slack: interval * burst.max(1).saturating_sub(1), due: None }
    }

    /// Returns how long the next call has to wait.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let due = self.due.unwrap_or(now).max(now);
        due.saturating_duration_since(now).saturating_sub(self.slack)
    }

    /// Takes the next place.
    pub(super) fn take(&mut self, now: Instant) {
        self.due = Some(self.due.unwrap_or(now).max(now) + self.interval);
    }

    /// Gives a place back.
    pub(super) fn give_back(&mut self) {
        self.due = self.due.and_then(|due| due.checked_sub(self.interval));
    }
}
