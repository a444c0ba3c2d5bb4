//! Which hosts fail to bring machines up, so that the next ones are asked to go elsewhere.
//!
//! A host's score is the number of machines in a row that never became ready there. From
//! [`FAILURES_TO_SHUN`] on it is shunned for [`SHUN_DURATION`] after its last failure, then tried again. Never
//! more than a minority is shunned, the worst first: when most hosts fail the hosts are not
//! the cause, and a pool that avoids them all would create nothing (F30).
//!
//! The provider may ignore it: it has the last word on where a machine goes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{HostName, Timestamp, is_due};

/// From how many failures in a row on a host is shunned.
const FAILURES_TO_SHUN: u32 = 3;
/// How long after its last failure a host is tried again.
const SHUN_DURATION: Duration = Duration::from_mins(10);
/// How many hosts are remembered; more shares than that limit nothing.
const MAX_HOSTS: usize = 1024;

/// Remembers how many machines in a row failed on each host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(BTreeMap<HostName, HostScore>);

#[derive(Clone, Debug, Default)]
struct HostScore {
    failures: u32,
    last_failed: Option<Timestamp>,
}

impl Hosts {
    /// Takes that a machine is on a host.
    pub(crate) fn seen(&mut self, host: &HostName) {
        if self.0.len() < MAX_HOSTS && !self.0.contains_key(host) {
            self.0.insert(host.clone(), HostScore::default());
        }
    }

    /// Takes that a machine became ready there.
    pub(crate) fn ready(&mut self, host: &HostName) {
        if let Some(score) = self.0.get_mut(host) {
            *score = HostScore::default();
        }
    }

    /// Takes that a machine never became ready there.
    pub(crate) fn failed(&mut self, host: &HostName, now: Timestamp) {
        if let Some(score) = self.0.get_mut(host) {
            score.failures = score.failures.saturating_add(1);
            score.last_failed = Some(now);
        }
    }

    /// Returns how many hosts are known.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns the hosts to avoid with their scores, the worst first.
    pub(crate) fn shunned(&self, now: Timestamp) -> Vec<(HostName, u32)> {
        let mut bad: Vec<(HostName, u32)> = self
            .0
            .iter()
            .filter(|(_, score)| score.failures >= FAILURES_TO_SHUN)
            .filter(|(_, score)| {
                score.last_failed.is_some_and(|at| !is_due(at, SHUN_DURATION, now))
            })
            .map(|(host, score)| (host.clone(), score.failures))
            .collect();
        bad.sort_by_key(|(_, failures)| std::cmp::Reverse(*failures));
        bad.truncate(self.0.len().saturating_sub(1) / 2);
        bad
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

    fn with(hosts: &[&str]) -> Hosts {
        let mut all = Hosts::default();
        for host in hosts {
            all.seen(&HostName::from(*host));
        }
        all
    }

    #[test]
    fn three_failures_in_a_row_shun_a_host_for_ten_minutes() {
        let mut hosts = with(&["a", "b", "c"]);
        for second in [1, 2] {
            hosts.failed(&"a".into(), at(second));
        }
        assert!(names(&hosts, 3).is_empty());
        hosts.failed(&"a".into(), at(3));
        assert_eq!(hosts.shunned(at(4)), [("a".into(), 3)]);
        assert!(names(&hosts, 603).is_empty(), "it is tried again");
    }

    #[test]
    fn a_machine_that_becomes_ready_clears_its_host() {
        let mut hosts = with(&["a", "b", "c"]);
        for second in 0..5 {
            hosts.failed(&"a".into(), at(second));
        }
        hosts.ready(&"a".into());
        assert!(names(&hosts, 5).is_empty());
    }

    #[test]
    fn the_only_host_and_one_of_two_are_never_shunned() {
        for known in [&["a"][..], &["a", "b"][..]] {
            let mut hosts = with(known);
            for second in 0..9 {
                hosts.failed(&"a".into(), at(second));
            }
            assert!(names(&hosts, 9).is_empty(), "{known:?}");
        }
    }

    proptest! {
        #[test]
        fn a_majority_is_never_shunned(
            failures in prop::collection::vec((0_u8..8, 0_u64..2000), 0..200),
            known in 1_u8..8,
            now in 0_u64..3000,
        ) {
            let mut hosts = Hosts::default();
            (0..known).for_each(|host| hosts.seen(&HostName::new(format!("h{host}"))));
            for (host, second) in failures {
                hosts.failed(&HostName::new(format!("h{host}")), at(second));
            }
            prop_assert!(hosts.shunned(at(now)).len() * 2 < usize::from(known));
        }
    }
}
