//! Holds creation back after repeated failures, and lets one probe find out when it works again.
//!
//! ```text
//!   closed ──3 failures in a row──► open ──wait──► one probe ──ready──► closed
//!                                    ▲               │ failed: wait twice as long
//!                                    └───────────────┘ (5 s to 5 min)
//! ```
//!
//! Failures are counted per pool and revision: an edited pool starts at zero, and machines of the
//! old shape say nothing about the new one. Any instance that becomes ready closes the breaker,
//! whichever was the probe. Machines that had started when it opened may fail without making the
//! wait longer.

use std::time::Duration;

use crate::backoff::doubled;
use crate::model::{InstanceId, Timestamp, after};

/// How many failures in a row open the breaker.
const FAILURES_TO_OPEN: u32 = 3;
const FIRST_PROBE_DELAY: Duration = Duration::from_secs(5);
const MAX_PROBE_DELAY: Duration = Duration::from_mins(5);

/// Remembers how creation went lately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Breaker {
    failures: u32,
    open: Option<OpenBreaker>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenBreaker {
    since: Timestamp,
    /// How many probes have failed.
    rounds: u32,
    /// When the next probe may start.
    until: Timestamp,
    probe: Option<InstanceId>,
}

impl Breaker {
    /// Returns a breaker as an earlier supervisor left it; a probe may start at once.
    pub(crate) fn restored(open_since: Option<Timestamp>, now: Timestamp) -> Self {
        let open =
            open_since.map(|since| OpenBreaker { since, rounds: 0, until: now, probe: None });
        Self { failures: open.as_ref().map_or(0, |_| FAILURES_TO_OPEN), open }
    }

    /// Returns how many may be created now: any number, one probe, or none.
    pub(crate) fn admits(&self, now: Timestamp) -> u32 {
        match &self.open {
            None => u32::MAX,
            Some(open) => u32::from(open.probe.is_none() && now >= open.until),
        }
    }

    /// Takes that an instance may start; the first one while open is the probe.
    pub(crate) fn began(&mut self, id: &InstanceId) {
        if let Some(open) = &mut self.open {
            open.probe.get_or_insert_with(|| id.clone());
        }
    }

    /// Takes that an instance became ready.
    pub(crate) fn ready(&mut self) {
        *self = Self::default();
    }

    /// Takes that an instance never became ready.
    pub(crate) fn failed(&mut self, id: &InstanceId, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        match &mut self.open {
            Some(open) if open.probe.as_ref() == Some(id) => {
                open.rounds = open.rounds.saturating_add(1);
                open.until = after(now, wait(open.rounds));
                open.probe = None;
            }
            None if self.failures >= FAILURES_TO_OPEN => {
                self.open = Some(OpenBreaker {
                    since: now,
                    rounds: 0,
                    until: after(now, wait(0)),
                    probe: None,
                });
            }
            Some(_) | None => {}
        }
    }

    /// Takes that an instance is gone; a probe that went without an outcome proves nothing.
    pub(crate) fn gone(&mut self, id: &InstanceId, now: Timestamp) {
        if let Some(open) = &mut self.open
            && open.probe.as_ref() == Some(id)
        {
            open.probe = None;
            open.until = after(now, wait(open.rounds));
        }
    }

    /// Returns since when creation is held, if it is.
    pub(crate) fn open_since(&self) -> Option<Timestamp> {
        self.open.as_ref().map(|open| open.since)
    }

    /// Returns when a probe may start, if that is still to come.
    pub(crate) fn next_probe(&self, now: Timestamp) -> Option<Timestamp> {
        self.open.as_ref().map(|open| open.until).filter(|until| *until > now)
    }

    /// Returns why it is open or closed, for people.
    pub(crate) fn why(&self) -> String {
        match &self.open {
            None => "an instance became ready, or the pool was edited".into(),
            Some(_) => format!("{} instances in a row never became ready", self.failures),
        }
    }
}

fn wait(rounds: u32) -> Duration {
    doubled(FIRST_PROBE_DELAY, MAX_PROBE_DELAY, rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for name in ["a", "b", "c"] {
            breaker.failed(&name.into(), at(0));
        }
        breaker
    }

    #[test]
    fn two_failures_hold_nothing_and_the_third_in_a_row_does() {
        let mut breaker = Breaker::default();
        breaker.failed(&"a".into(), at(0));
        breaker.failed(&"b".into(), at(0));
        assert_eq!(breaker.admits(at(0)), u32::MAX);
        breaker.ready();
        breaker.failed(&"c".into(), at(0));
        assert_eq!(breaker.admits(at(0)), u32::MAX, "they were not in a row");
        assert_eq!(opened().admits(at(0)), 0);
        assert_eq!(opened().open_since(), Some(at(0)));
    }

    #[test]
    fn one_probe_goes_when_the_wait_is_over() {
        let mut breaker = opened();
        assert_eq!(breaker.admits(at(4)), 0);
        assert_eq!(breaker.next_probe(at(4)), Some(at(5)));
        assert_eq!(breaker.admits(at(5)), 1);
        breaker.began(&"probe".into());
        assert_eq!(breaker.admits(at(600)), 0, "one probe at a time");
        breaker.ready();
        assert_eq!(breaker.admits(at(600)), u32::MAX);
        assert_eq!(breaker.open_since(), None);
    }

    #[test]
    fn each_failed_probe_doubles_the_wait_up_to_five_minutes() {
        let mut breaker = opened();
        let mut now = 5;
        for expected in [10, 20, 40, 80, 160, 300, 300] {
            breaker.began(&"probe".into());
            breaker.failed(&"probe".into(), at(now));
            assert_eq!(breaker.next_probe(at(now)), Some(at(now + expected)));
            now += expected;
        }
    }

    #[test]
    fn those_that_started_before_it_opened_do_not_prolong_the_wait() {
        let mut breaker = opened();
        for name in ["d", "e", "f"] {
            breaker.failed(&name.into(), at(1));
        }
        assert_eq!(breaker.admits(at(5)), 1);
    }

    #[test]
    fn a_probe_that_vanishes_makes_room_for_another() {
        let mut breaker = opened();
        breaker.began(&"probe".into());
        breaker.gone(&"probe".into(), at(6));
        assert_eq!(breaker.admits(at(10)), 0);
        assert_eq!(breaker.admits(at(11)), 1);
    }

    #[test]
    fn a_restart_keeps_it_open_and_may_probe_at_once() {
        let breaker = Breaker::restored(Some(at(3)), at(50));
        assert_eq!(breaker.open_since(), Some(at(3)));
        assert_eq!(breaker.admits(at(50)), 1);
        assert_eq!(Breaker::restored(None, at(50)).admits(at(50)), u32::MAX);
    }
}
