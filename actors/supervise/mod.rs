//! How a parent learns of a child's exit, and a child of its parent's.
//!
//! `actix::Supervisor` does not restart an actor that panicked, so supervision is ours. Every
//! child carries an [`ExitNotifier`], whose `Drop` tells the parent on stop and on panic alike.
//! Every parent holds a [`StopGuard`] on each child, whose `Drop` halts it: when a parent dies,
//! its children stop (no machine is touched), and its successor starts them again from rows.

mod actor;

use std::collections::VecDeque;
use std::time::Duration;

pub(crate) use actor::{Envelope, ExitNotifier, StopGuard, mailbox};

use crate::backoff::doubled;
use crate::model::{Timestamp, elapsed};

/// Exits older than this do not count.
const RESTART_WINDOW: Duration = Duration::from_mins(1);

/// Remembers the recent exits of one child: how soon it is restarted, and when its parent gives up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restarts {
    exits: VecDeque<Timestamp>,
}

impl Restarts {
    /// Counts an exit and returns how long to wait before the restart: nothing for the first, then
    /// 100 ms doubling to 10 s.
    pub(crate) fn count(&mut self, now: Timestamp) -> Duration {
        self.exits.retain(|at| elapsed(*at, now) < RESTART_WINDOW);
        let earlier = u32::try_from(self.exits.len()).unwrap_or(u32::MAX);
        self.exits.push_back(now);
        match earlier.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                doubled(Duration::from_millis(100), Duration::from_secs(10), doublings)
            }
        }
    }

    /// Returns whether the child exited too often to be restarted at once.
    pub(crate) fn hopeless(&self) -> bool {
        self.exits.len() >= 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::after;

    #[test]
    fn the_first_exit_is_restarted_at_once_and_the_fifth_in_a_minute_is_hopeless() {
        let mut restarts = Restarts::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(restarts.count(now), Duration::ZERO);
        assert_eq!(restarts.count(now), Duration::from_millis(100));
        assert_eq!(restarts.count(now), Duration::from_millis(200));
        assert!(!restarts.hopeless());
        restarts.count(now);
        restarts.count(now);
        assert!(restarts.hopeless());
        assert_eq!(restarts.count(after(now, RESTART_WINDOW)), Duration::ZERO);
        assert!(!restarts.hopeless());
    }
}
