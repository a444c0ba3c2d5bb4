//! Holds creation back after repeated failures, and lets one probe find out when it works again.
//!
//! ```text
//!   closed ──3 lives failed──► open ──wait──► one probe ──served, or healthy for 10 min──► closed
//!                               ▲                │ failed: the next wait
//!                               └────────────────┘ (15 s, 30 s, 1, 2, 4 min, then every 6 min)
//! ```
//!
//! What counts as a failed life, and what proves that it works again, is decided in
//! [`lives`](super::lives). Lives that had begun when it opened make the wait no longer.
//!
//! It survives a restart by the time at which it opened: the probes go on where their schedule would
//! be, so that a daemon that restarts in a loop starts no more of them.

use std::time::Duration;

use crate::model::{InstanceId, Timestamp, after};

/// The waits before the probes, from one to the next.
const PROBE_DELAYS: [Duration; 5] = [
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(4),
];
/// The wait before each probe after those.
const LATER_PROBE_DELAY: Duration = Duration::from_mins(6);

/// Whether creation is held, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker(Option<OpenBreaker>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenBreaker {
    since: Timestamp,
    /// How many probes have failed.
    rounds: usize,
    /// When the next probe may start.
    until: Timestamp,
    probe: Option<InstanceId>,
}

impl Breaker {
    /// Returns a breaker as an earlier supervisor left it, with its probe where that still lives.
    pub(crate) fn restored(open_since: Option<Timestamp>, now: Timestamp) -> Self {
        Self(open_since.map(|since| {
            // A clock that was set back must not hold creation for longer than a wait.
            let since = since.min(now);
            let (mut rounds, mut until) = (0, after(since, delay(0)));
            while until <= now {
                rounds += 1;
                until = after(until, delay(rounds));
            }
            OpenBreaker { since, rounds, until, probe: None }
        }))
    }

    /// Takes a life that began after it opened and is not over for the probe.
    pub(crate) fn adopt_probe(&mut self, id: &InstanceId) {
        if let Some(open) = &mut self.0 {
            open.probe.get_or_insert_with(|| id.clone());
        }
    }

    /// Holds creation, if it is not held.
    pub(crate) fn open(&mut self, now: Timestamp) {
        self.0.get_or_insert_with(|| OpenBreaker {
            since: now,
            rounds: 0,
            until: after(now, delay(0)),
            probe: None,
        });
    }

    /// Lets creation go on.
    pub(crate) fn close(&mut self) {
        self.0 = None;
    }

    /// Returns how many may be created now: any number, one probe, or none.
    pub(crate) fn admits(&self, now: Timestamp) -> u32 {
        match &self.0 {
            None => u32::MAX,
            Some(open) => u32::from(open.probe.is_none() && now >= open.until),
        }
    }

    /// Takes that an instance may start; the first one while open is the probe.
    pub(crate) fn began(&mut self, id: &InstanceId) {
        self.adopt_probe(id);
    }

    /// Takes that an instance failed, is gone or is stuck: if it was the probe, the next one waits
    /// for longer. A probe that proved nothing is no better than one that failed.
    pub(crate) fn came_to_nothing(&mut self, id: &InstanceId, now: Timestamp) {
        if let Some(open) = &mut self.0
            && open.probe.as_ref() == Some(id)
        {
            open.rounds += 1;
            open.until = after(now, delay(open.rounds));
            open.probe = None;
        }
    }

    /// Returns whether a life is the probe.
    pub(crate) fn is_probe(&self, id: &InstanceId) -> bool {
        self.0.as_ref().is_some_and(|open| open.probe.as_ref() == Some(id))
    }

    /// Returns since when creation is held, if it is.
    pub(crate) fn open_since(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|open| open.since)
    }

    /// Returns when a probe may start, if there is none.
    pub(crate) fn probe_at(&self) -> Option<Timestamp> {
        self.0.as_ref().filter(|open| open.probe.is_none()).map(|open| open.until)
    }
}

fn delay(rounds: usize) -> Duration {
    PROBE_DELAYS.get(rounds).copied().unwrap_or(LATER_PROBE_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        breaker.open(at(0));
        breaker
    }

    #[test]
    fn one_probe_goes_when_the_wait_is_over() {
        let mut breaker = opened();
        assert_eq!((breaker.admits(at(14)), breaker.probe_at()), (0, Some(at(15))));
        assert_eq!(breaker.admits(at(15)), 1);
        breaker.began(&"probe".into());
        assert_eq!(breaker.admits(at(600)), 0, "one probe at a time");
        breaker.close();
        assert_eq!((breaker.admits(at(600)), breaker.open_since()), (u32::MAX, None));
    }

    #[test]
    fn each_probe_that_comes_to_nothing_prolongs_the_wait_up_to_six_minutes() {
        let mut breaker = opened();
        let mut now = 15;
        for expected in [30, 60, 120, 240, 360, 360, 360] {
            breaker.began(&"probe".into());
            breaker.came_to_nothing(&"probe".into(), at(now));
            assert_eq!(breaker.probe_at(), Some(at(now + expected)));
            now += expected;
        }
    }

    #[test]
    fn probes_that_fail_at_once_are_13_in_the_first_hour_and_10_in_each_later_one() {
        let mut breaker = opened();
        let mut probes = [0; 4];
        for second in 0..4 * 3_600 {
            if breaker.admits(at(second)) == 1 {
                probes[usize::try_from(second / 3_600).unwrap()] += 1;
                breaker.began(&"probe".into());
                breaker.came_to_nothing(&"probe".into(), at(second));
            }
        }
        assert_eq!(probes, [13, 10, 10, 10]);
    }

    #[test]
    fn those_that_began_before_it_opened_do_not_prolong_the_wait() {
        let mut breaker = opened();
        for name in ["d", "e", "f"] {
            breaker.came_to_nothing(&name.into(), at(1));
        }
        assert_eq!(breaker.admits(at(15)), 1);
    }

    #[test]
    fn a_daemon_that_restarts_every_ten_seconds_starts_no_more_probes() {
        let mut probes = 0;
        let mut breaker = opened();
        for second in 0..3_600 {
            if second % 10 == 9 {
                breaker = Breaker::restored(breaker.open_since(), at(second));
            }
            if breaker.admits(at(second)) == 1 {
                probes += 1;
                breaker.began(&"probe".into());
                breaker.came_to_nothing(&"probe".into(), at(second));
            }
        }
        assert!((1..=13).contains(&probes), "{probes} probes in an hour");
        assert_eq!(breaker.open_since(), Some(at(0)));
    }

    #[test]
    fn a_restart_keeps_it_open_and_waits_for_no_longer_than_a_wait() {
        for (restart, probe) in [(3, 15), (15, 45), (50, 105), (10_000, 10_185)] {
            let breaker = Breaker::restored(Some(at(0)), at(restart));
            assert_eq!(breaker.probe_at(), Some(at(probe)), "after {restart} s");
        }
        let ahead = Breaker::restored(Some(at(9_000)), at(50));
        assert_eq!(ahead.probe_at(), Some(at(65)), "the clock was set back");
        assert_eq!(Breaker::restored(None, at(50)).admits(at(50)), u32::MAX);
    }
}
