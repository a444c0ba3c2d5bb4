//! An even pace with a small burst.

use std::time::Duration;

use tokio::time::Instant;

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
