//! Two words about time that decisions use: how long since, and whether it is due.

use std::time::Duration;

pub use jiff::Timestamp;

/// Returns how long ago `then` was; a clock that stepped back counts as no time at all.
pub fn elapsed(then: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(then).try_into().unwrap_or(Duration::ZERO)
}

/// Returns whether `wait` has passed since `then`.
pub fn is_due(then: Timestamp, wait: Duration, now: Timestamp) -> bool {
    elapsed(then, now) >= wait
}

/// Returns the moment `wait` after `then`, or the end of time.
pub fn after(then: Timestamp, wait: Duration) -> Timestamp {
    then.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_makes_nothing_due() {
        let now = Timestamp::UNIX_EPOCH;
        let later = after(now, Duration::from_mins(1));
        assert_eq!(elapsed(later, now), Duration::ZERO);
        assert!(!is_due(later, Duration::from_secs(1), now));
        assert!(is_due(now, Duration::from_mins(1), later));
    }
}
