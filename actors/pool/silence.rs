//! Which machines that stopped asking for work are asked to go, and when.
//!
//! A machine that has been silent for `poller_timeout` is replaced. When many fall silent together
//! the cause may be ours (a listener that cannot be reached, a certificate that expired), and their
//! replacements would be as silent: then they go one at a time, the next when its replacement was
//! heard, or when that took `poller_timeout`. Those on a host that is known to be out of reach have
//! a cause of their own, and do not count among the many.

use std::collections::BTreeMap;

use super::InstanceReport;
use crate::model::{InstanceId, PoolSpec, State, Timestamp, after, is_due};

/// How many may be silent at once before it is a concern, or this share of the pool if that is more.
const MAX_SILENT: usize = 3;
const MAX_SILENT_PERCENT: usize = 20;

/// Remembers which silent machine was asked to go last, where they go one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SilentMachines {
    last_asked: Option<Timestamp>,
}

/// Holds what is to be done about silent machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SilencePlan {
    /// Which to ask to go, the longest silent first.
    pub(crate) retire: Vec<InstanceId>,
    /// How many are silent, if so many that the cause is in doubt.
    pub(crate) concern: Option<u32>,
    /// When time alone changes this.
    pub(crate) next_plan: Option<Timestamp>,
}

impl SilentMachines {
    /// Takes that a silent machine was asked to go.
    pub(crate) fn asked(&mut self, now: Timestamp) {
        self.last_asked = Some(now);
    }

    /// Decides which silent machines go now.
    pub(crate) fn plan(
        &self,
        spec: &PoolSpec,
        reports: &BTreeMap<InstanceId, InstanceReport>,
        now: Timestamp,
    ) -> SilencePlan {
        let timeout = spec.policy.poller_timeout;
        let mut silent: Vec<(Timestamp, &InstanceReport)> = reports
            .values()
            .filter(|report| report.state == State::Idle && report.removal.is_none())
            .filter_map(|report| Some((report.silent_since?, report)))
            .collect();
        silent.sort_by_key(|(since, _)| *since);
        let (lost, unexplained): (Vec<_>, Vec<_>) =
            silent.into_iter().partition(|(_, report)| report.unreachable);

        let population = reports.values().filter(|report| report.occupies).count();
        let is_many = unexplained.len() > MAX_SILENT.max(population * MAX_SILENT_PERCENT / 100);
        let next_may_go = self
            .last_asked
            .is_none_or(|asked| is_due(asked, timeout, now) || has_replacement(reports, asked));
        let at_once = match (is_many, next_may_go) {
            (false, _) => usize::MAX,
            (true, true) => 1,
            (true, false) => 0,
        };
        let is_old = |(since, _): &&(Timestamp, &InstanceReport)| is_due(*since, timeout, now);
        let due = lost.iter().filter(is_old).chain(unexplained.iter().filter(is_old).take(at_once));
        let waits = self.last_asked.filter(|_| is_many && !next_may_go);
        let next_plan = lost
            .iter()
            .chain(&unexplained)
            .map(|(since, _)| *since)
            .chain(waits)
            .map(|since| after(since, timeout))
            .filter(|at| *at > now)
            .min();
        SilencePlan {
            retire: due.map(|(_, report)| report.id.clone()).collect(),
            concern: is_many.then(|| u32::try_from(unexplained.len()).unwrap_or(u32::MAX)),
            next_plan,
        }
    }
}

/// Returns whether an instance that was requested since then is ready and heard.
fn has_replacement(reports: &BTreeMap<InstanceId, InstanceReport>, since: Timestamp) -> bool {
    reports.values().any(|report| {
        let is_ready = matches!(report.state, State::Idle | State::Reserved | State::Busy);
        is_ready && report.is_capacity() && report.created_at >= since
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::fixtures::{at, report, reports, spec};

    fn silent(id: &str, since: u64) -> InstanceReport {
        InstanceReport { silent_since: Some(at(since)), ..report(id, State::Idle) }
    }

    fn asked(plan: &SilencePlan) -> Vec<&str> {
        plan.retire.iter().map(InstanceId::as_str).collect()
    }

    #[test]
    fn a_machine_that_has_been_silent_for_three_minutes_goes() {
        let all = reports([silent("a", 10), silent("b", 60), report("c", State::Idle)]);
        let machines = SilentMachines::default();
        let plan = machines.plan(&spec(0, 10), &all, at(189));
        assert_eq!((asked(&plan), plan.next_plan), (vec![], Some(at(190))));
        let plan = machines.plan(&spec(0, 10), &all, at(190));
        assert_eq!((asked(&plan), plan.next_plan), (vec!["a"], Some(at(240))));
        assert_eq!(plan.concern, None);
    }

    #[test]
    fn many_that_fall_silent_together_are_a_concern_and_go_one_at_a_time() {
        let four = || [silent("a", 0), silent("b", 1), silent("c", 2), silent("d", 3)];
        let mut machines = SilentMachines::default();
        let plan = machines.plan(&spec(0, 10), &reports(four()), at(200));
        assert_eq!((asked(&plan), plan.concern), (vec!["a"], Some(4)));
        machines.asked(at(200));
        let plan = machines.plan(&spec(0, 10), &reports(four()), at(201));
        assert_eq!((asked(&plan), plan.next_plan), (vec![], Some(at(380))));
        // Its replacement was heard.
        let [a, b, c, d] = four();
        let new = InstanceReport { created_at: at(210), ..report("n", State::Idle) };
        let all = reports([a.clone(), b.clone(), c.clone(), d.clone(), new.clone()]);
        assert_eq!(asked(&machines.plan(&spec(0, 10), &all, at(220))), ["a"]);
        // One that is silent as well is none.
        let deaf = InstanceReport { silent_since: Some(at(250)), ..new };
        let all = reports([a, b, c, d, deaf]);
        assert!(machines.plan(&spec(0, 10), &all, at(330)).retire.is_empty());
        assert_eq!(asked(&machines.plan(&spec(0, 10), &all, at(380))), ["a"], "it took too long");
    }

    #[test]
    fn three_or_a_fifth_of_the_pool_are_few() {
        let pool = |silent_ones: usize, heard: usize| {
            let quiet = (0..silent_ones).map(|at| silent(&format!("s{at}"), 0));
            let heard = (0..heard).map(|at| report(&format!("h{at}"), State::Busy));
            let all = quiet.chain(heard).map(|report| (report.id.clone(), report)).collect();
            let plan = SilentMachines::default().plan(&spec(0, 100), &all, at(200));
            (plan.retire.len(), plan.concern.is_some())
        };
        assert_eq!(pool(3, 0), (3, false));
        assert_eq!(pool(8, 32), (8, false));
        assert_eq!(pool(9, 31), (1, true));
    }

    #[test]
    fn those_on_a_host_out_of_reach_go_together_and_are_no_concern() {
        let lost = |id: &str| InstanceReport { unreachable: true, ..silent(id, 0) };
        let all = reports([lost("a"), lost("b"), lost("c"), lost("d"), silent("e", 0)]);
        let plan = SilentMachines::default().plan(&spec(0, 10), &all, at(180));
        assert_eq!((asked(&plan).len(), plan.concern), (5, None));
    }
}
