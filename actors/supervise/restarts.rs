//! How soon a dead child may live again, and when its parent should give up.

use std::collections::VecDeque;
use std::time::Duration;

use crate::backoff::doubled;
use crate::model::{Timestamp, elapsed};

/// Deaths older than this are forgiven.
const WINDOW: Duration = Duration::from_mins(1);

/// Remembers recent deaths of one child.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts {
    deaths: VecDeque<Timestamp>,
}

impl Restarts {
    /// Notes a death and returns how long to wait before the next life: nothing for the
    /// first, then 100 ms doubling to 10 s.
    pub(crate) fn count(&mut self, now: Timestamp) -> Duration {
        self.deaths.retain(|at| elapsed(*at, now) < WINDOW);
        let earlier = u32::try_from(self.deaths.len()).unwrap_or(u32::MAX);
        self.deaths.push_back(now);
        match earlier.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                doubled(Duration::from_millis(100), Duration::from_secs(10), doublings)
            }
        }
    }

    /// Returns whether the child died too often to be worth another life.
    pub(crate) fn hopeless(&self) -> bool {
        self.deaths.len() >= 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::after;

    #[test]
    fn the_first_death_is_forgiven_at_once_and_the_fifth_in_a_minute_is_not() {
        let mut restarts = Restarts::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(restarts.count(now), Duration::ZERO);
        assert_eq!(restarts.count(now), Duration::from_millis(100));
        assert_eq!(restarts.count(now), Duration::from_millis(200));
        assert!(!restarts.hopeless());
        restarts.count(now);
        restarts.count(now);
        assert!(restarts.hopeless());
        assert_eq!(restarts.count(after(now, WINDOW)), Duration::ZERO);
        assert!(!restarts.hopeless());
    }
}
