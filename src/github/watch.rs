//! Two clocks: ours, and GitHub's as its `Date` header tells it.
//!
//! GitHub refuses a signature from the future, so a clock that runs ahead by seconds locks
//! an App out. The difference is measured with every answer, used when signing, and shown to
//! the operator. Dates GitHub sends are compared with its own clock, never with ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::HeaderMap;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use ostler_actors::ports::Clock;

/// Returns the time by both clocks.
pub(super) struct ForgeClock {
    clock: Arc<dyn Clock>,
    ahead: AtomicI64,
}

impl ForgeClock {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead: AtomicI64::new(0) }
    }

    pub(super) fn here(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the time by GitHub's clock, as far as its answers showed it.
    pub(super) fn there(&self) -> Timestamp {
        shifted(self.clock.now(), -self.seconds_ahead())
    }

    /// Returns a date of GitHub's by our clock, never one in the future: the wait of a job must be
    /// right however wrong our clock is.
    pub(super) fn by_our_clock(&self, date: Timestamp) -> Timestamp {
        shifted(date, self.seconds_ahead()).min(self.clock.now())
    }

    /// Returns the same in seconds.
    pub(super) fn second_there(&self) -> i64 {
        self.clock.now().as_second() - self.seconds_ahead()
    }

    /// Returns by how many seconds our clock is ahead of GitHub's.
    pub(super) fn seconds_ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Compares the clocks. The header has whole seconds, so one second is no difference.
    pub(super) fn compare(&self, headers: &HeaderMap) {
        if let Some(there) = date(headers) {
            let ahead = self.clock.now().as_second() - there.as_second();
            let ahead = if ahead.abs() <= 1 { 0 } else { ahead };
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }
}

fn shifted(date: Timestamp, seconds: i64) -> Timestamp {
    date.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(date)
}

/// Returns the date that an answer carries.
pub(super) fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(http::header::DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
}
