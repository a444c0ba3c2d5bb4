//! Which hosts fail to bring machines up, so that the next ones are asked to go elsewhere.
//!
//! A host's score is the number of lives in a row that failed there. From [`FAILURES_TO_SHUN`] on
//! it is shunned for [`SHUN_DURATION`] after its last failure, then tried again. Never more than a
//! minority of the hosts now present is shunned, the worst first: when most hosts fail the hosts
//! are not the cause, and a pool that avoids them all would create nothing (F30). *Present* is a
//! host with a machine of ours, or one that had a machine within [`SHUN_DURATION`].
//!
//! A host is blamed instead of the pool only if another host served the same revision after the
//! trouble began, and only while avoiding it helps: the provider has the last word on where a
//! machine goes. Of more than [`MAX_HOSTS`] the least recently seen is forgotten first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{HostName, InstanceId, Timestamp, is_due};

/// From how many failures in a row on a host is shunned.
const FAILURES_TO_SHUN: u32 = 3;
/// From how many failures in a row on avoiding a host does not help.
const FAILURES_TO_BLAME_POOL: u32 = 2 * FAILURES_TO_SHUN;
/// How long after its last failure a host is tried again.
const SHUN_DURATION: Duration = Duration::from_mins(10);
/// How many hosts are remembered; more shares than that limit nothing.
const MAX_HOSTS: usize = 1024;

/// Remembers how lives went on each host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    scores: BTreeMap<HostName, HostScore>,
    /// Where each machine is that is not over.
    machines: BTreeMap<InstanceId, HostName>,
}

#[derive(Clone, Debug)]
struct HostScore {
    failures: u32,
    /// When the first life of the current row of failures began.
    failing_since: Option<Timestamp>,
    last_failed: Option<Timestamp>,
    /// When the last life of the present revision began that served here.
    served: Option<Timestamp>,
    /// How many machines are here.
    machines: u32,
    last_seen: Timestamp,
}

impl HostScore {
    fn new(now: Timestamp) -> Self {
        Self {
            failures: 0,
            failing_since: None,
            last_failed: None,
            served: None,
            machines: 0,
            last_seen: now,
        }
    }

    fn is_present(&self, now: Timestamp) -> bool {
        self.machines > 0 || !is_due(self.last_seen, SHUN_DURATION, now)
    }
}

impl Hosts {
    /// Takes that a machine is on a host.
    pub(crate) fn seen(&mut self, id: &InstanceId, host: &HostName, now: Timestamp) {
        if self.machines.get(id) != Some(host) {
            self.left(id, now);
            self.machines.insert(id.clone(), host.clone());
            self.score(host, now).machines += 1;
        }
        self.score(host, now).last_seen = now;
        self.forget_beyond(MAX_HOSTS);
    }

    /// Takes that a machine is over.
    pub(crate) fn left(&mut self, id: &InstanceId, now: Timestamp) {
        let host = self.machines.remove(id);
        if let Some(score) = host.and_then(|host| self.scores.get_mut(&host)) {
            score.machines = score.machines.saturating_sub(1);
            score.last_seen = now;
        }
    }

    /// Takes that a life that began then came to good there; `present` says whether it is of the
    /// present revision.
    pub(crate) fn served(&mut self, host: &HostName, began: Timestamp, present: bool) {
        let Some(score) = self.scores.get_mut(host) else { return };
        if present {
            score.served = score.served.max(Some(began));
        }
        if score.failing_since.is_none_or(|since| began >= since) {
            (score.failures, score.failing_since, score.last_failed) = (0, None, None);
        }
    }

    /// Takes that a life that began then failed there.
    pub(crate) fn failed(&mut self, host: &HostName, began: Timestamp, now: Timestamp) {
        let score = self.score(host, now);
        score.failures = score.failures.saturating_add(1);
        score.failing_since = Some(score.failing_since.map_or(began, |since| since.min(began)));
        score.last_failed = Some(now);
    }

    /// Takes a failure back that a late proof explains.
    pub(crate) fn take_back(&mut self, host: &HostName) {
        if let Some(score) = self.scores.get_mut(host) {
            score.failures = score.failures.saturating_sub(1);
            if score.failures == 0 {
                (score.failing_since, score.last_failed) = (None, None);
            }
        }
    }

    /// Returns whether failures on a host are its own: another host served the same revision since
    /// they began, and avoiding this one may still help.
    pub(crate) fn is_to_blame(&self, host: &HostName) -> bool {
        let Some(score) = self.scores.get(host) else { return false };
        let Some(since) = score.failing_since else { return false };
        score.failures < FAILURES_TO_BLAME_POOL
            && self.scores.iter().any(|(other, score)| {
                other != host && score.served.is_some_and(|began| began >= since)
            })
    }

    /// Forgets what served: the pool has another revision.
    pub(crate) fn new_revision(&mut self) {
        for score in self.scores.values_mut() {
            score.served = None;
        }
    }

    /// Returns how many hosts are known.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.scores.len()).unwrap_or(u32::MAX)
    }

    /// Returns the hosts to avoid with their scores, the worst first.
    pub(crate) fn shunned(&self, now: Timestamp) -> Vec<(HostName, u32)> {
        let present = self.scores.iter().filter(|(_, score)| score.is_present(now));
        let mut bad: Vec<(HostName, u32)> = present
            .clone()
            .filter(|(_, score)| score.failures >= FAILURES_TO_SHUN)
            .filter(|(_, score)| {
                score.last_failed.is_some_and(|at| !is_due(at, SHUN_DURATION, now))
            })
            .map(|(host, score)| (host.clone(), score.failures))
            .collect();
        if !bad.is_empty() {
            bad.sort_by_key(|(_, failures)| std::cmp::Reverse(*failures));
            bad.truncate(present.count().saturating_sub(1) / 2);
        }
        bad
    }

    fn score(&mut self, host: &HostName, now: Timestamp) -> &mut HostScore {
        self.scores.entry(host.clone()).or_insert_with(|| HostScore::new(now))
    }

    /// Forgets the least recently seen; those without a machine first.
    fn forget_beyond(&mut self, limit: usize) {
        while self.scores.len() > limit {
            let oldest = self.scores.iter().min_by_key(|(_, it)| (it.machines > 0, it.last_seen));
            let Some(oldest) = oldest.map(|(host, _)| host.clone()) else { return };
            self.scores.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::after;

    fn at(seconds: u64) -> Timestamp {
        after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
    }

    fn names(hosts: &Hosts, now: u64) -> Vec<String> {
        hosts.shunned(at(now)).into_iter().map(|(host, _)| host.to_string()).collect()
    }

    /// Returns hosts with one machine each.
    fn with(hosts: &[&str]) -> Hosts {
        let mut all = Hosts::default();
        for host in hosts {
            all.seen(&InstanceId::new(format!("on-{host}")), &HostName::from(*host), at(0));
        }
        all
    }

    fn fail(hosts: &mut Hosts, host: &str, seconds: std::ops::Range<u64>) {
        for second in seconds {
            hosts.failed(&host.into(), at(second), at(second));
        }
    }

    #[test]
    fn three_failures_in_a_row_shun_a_host_for_ten_minutes() {
        let mut hosts = with(&["a", "b", "c"]);
        fail(&mut hosts, "a", 1..3);
        assert!(names(&hosts, 3).is_empty());
        fail(&mut hosts, "a", 3..4);
        assert_eq!(hosts.shunned(at(4)), [("a".into(), 3)]);
        assert!(names(&hosts, 603).is_empty(), "it is tried again");
    }

    #[test]
    fn a_life_that_serves_clears_its_host_if_it_began_after_the_failures() {
        let mut hosts = with(&["a", "b", "c"]);
        fail(&mut hosts, "a", 10..15);
        hosts.served(&"a".into(), at(9), true);
        assert_eq!(names(&hosts, 15), ["a"], "it began before");
        hosts.served(&"a".into(), at(16), true);
        assert!(names(&hosts, 16).is_empty());
    }

    #[test]
    fn the_only_host_and_one_of_two_are_never_shunned() {
        for known in [&["a"][..], &["a", "b"][..]] {
            let mut hosts = with(known);
            fail(&mut hosts, "a", 0..9);
            assert!(names(&hosts, 9).is_empty(), "{known:?}");
        }
    }

    #[test]
    fn a_host_is_blamed_only_if_another_served_meanwhile_and_while_avoiding_it_helps() {
        let mut hosts = with(&["a", "b", "c"]);
        hosts.served(&"b".into(), at(5), true);
        fail(&mut hosts, "a", 6..8);
        assert!(!hosts.is_to_blame(&"a".into()), "b served before");
        hosts.served(&"a".into(), at(7), true);
        fail(&mut hosts, "a", 8..10);
        hosts.served(&"b".into(), at(9), false);
        assert!(!hosts.is_to_blame(&"a".into()), "another revision served");
        hosts.served(&"b".into(), at(9), true);
        assert!(hosts.is_to_blame(&"a".into()));
        fail(&mut hosts, "a", 10..14);
        assert!(!hosts.is_to_blame(&"a".into()), "the provider does not avoid it");
    }

    #[test]
    fn hosts_are_still_scored_after_thousands_of_names_have_come_and_gone() {
        let mut hosts = with(&["a", "b", "c"]);
        for number in 0..3_000_u64 {
            let (id, host) = (format!("i{number}"), format!("node-{number}"));
            hosts.seen(&InstanceId::new(id.clone()), &HostName::new(host), at(number));
            hosts.left(&InstanceId::new(id), at(number));
        }
        assert_eq!(hosts.len(), 1_024);
        hosts.seen(&"late".into(), &"new".into(), at(3_000));
        fail(&mut hosts, "new", 3_000..3_003);
        assert_eq!(names(&hosts, 3_003), ["new"]);
        for present in ["a", "b", "c"] {
            assert!(hosts.scores.contains_key(present), "{present} has a machine");
        }
    }

    #[test]
    fn hosts_that_are_long_gone_are_no_majority() {
        let mut hosts = Hosts::default();
        for number in 0..20 {
            let (id, host) = (format!("i{number}"), format!("gone-{number}"));
            hosts.seen(&InstanceId::new(id.clone()), &HostName::new(host), at(0));
            hosts.left(&InstanceId::new(id), at(0));
        }
        hosts.seen(&"x".into(), &"a".into(), at(900));
        hosts.seen(&"y".into(), &"b".into(), at(900));
        fail(&mut hosts, "a", 900..905);
        assert!(names(&hosts, 905).is_empty(), "one of the two that are there");
        hosts.seen(&"z".into(), &"c".into(), at(905));
        assert_eq!(names(&hosts, 905), ["a"]);
    }

    proptest! {
        #[test]
        fn a_majority_of_the_present_is_never_shunned(
            events in prop::collection::vec((0_u8..10, 0_u64..2000, any::<bool>()), 0..200),
            now in 0_u64..3000,
        ) {
            let mut hosts = Hosts::default();
            let mut events = events;
            events.sort_by_key(|(_, second, _)| *second);
            for (host, second, stays) in events {
                let (id, host) = (format!("i{second}-{host}"), HostName::new(format!("h{host}")));
                let id = InstanceId::new(id);
                hosts.seen(&id, &host, at(second));
                hosts.failed(&host, at(second), at(second));
                if !stays {
                    hosts.left(&id, at(second));
                }
            }
            let shunned = hosts.shunned(at(now));
            let present =
                hosts.scores.values().filter(|score| score.is_present(at(now))).count();
            prop_assert!(shunned.is_empty() || shunned.len() * 2 < present);
        }
    }
}
