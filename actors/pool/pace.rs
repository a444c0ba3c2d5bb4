//! How fast: start permits, delete permits, and the budget for asking instances to retire.
//!
//! An instance holds its start permit from the grant until it is ready, has failed or is
//! gone (longer while lives fail: see [`lives`](super::lives)), and its delete permit until the provider confirmed the absence. Both are read off
//! the reports, so a permit cannot leak: only grants that no report shows yet are remembered.
//! A stuck deletion gives its permit back, or 32 of them would hold up all others.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::InstanceReport;
use super::lives::Lives;
use crate::instance::Permit;
use crate::model::{HostName, InstanceId, Policy, State, Timestamp, after, elapsed};

/// How many machines of a pool may be under deletion at once.
const DELETE_PERMITS: u32 = 32;
/// The window in which the retire budget is counted.
const RETIRE_BUDGET_WINDOW: Duration = Duration::from_mins(1);

/// Remembers what was permitted and spent.
#[derive(Clone, Debug)]
pub(crate) struct PoolPace {
    /// Permits that were granted and that no report shows in use yet.
    granted: BTreeMap<InstanceId, Permit>,
    /// When instances were asked to retire, within the last minute.
    spent: VecDeque<Timestamp>,
    /// What lives came to, and whether creation is held after failures.
    pub(crate) lives: Lives,
}

/// Holds which instances wait for which permit, the longest waiting first, and how many are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PermitQueue {
    /// How many machines may start.
    pub(crate) free_starts: u32,
    /// How many machines may be deleted.
    pub(crate) free_deletes: u32,
    pub(crate) starts: Vec<InstanceId>,
    pub(crate) deletes: Vec<InstanceId>,
}

impl PoolPace {
    /// Returns the pace of a pool with these lives.
    pub(crate) fn new(lives: Lives) -> Self {
        Self { granted: BTreeMap::new(), spent: VecDeque::new(), lives }
    }

    /// Takes what a report shows: what its life came to, and a permit that is in use by now.
    pub(crate) fn update(&mut self, report: &InstanceReport, now: Timestamp) {
        self.lives.report(report, now);
        if self.granted.get(&report.id).is_some_and(|permit| waits_in(*permit) != report.state) {
            self.granted.remove(&report.id);
        }
    }

    /// Takes a permit back from an owner that exited; its successor asks again.
    pub(crate) fn owner_gone(&mut self, id: &InstanceId) {
        self.granted.remove(id);
    }

    /// Removes an instance that is deleted.
    pub(crate) fn remove(&mut self, id: &InstanceId, now: Timestamp) {
        self.granted.remove(id);
        self.lives.gone(id, now);
    }

    /// Remembers that a permit was granted.
    pub(crate) fn grant(&mut self, id: &InstanceId, permit: Permit, now: Timestamp) {
        if permit == Permit::Start {
            self.lives.began(id, now);
        }
        self.granted.insert(id.clone(), permit);
    }

    /// Returns which instances wait, and how many permits are free.
    pub(crate) fn queue(
        &self,
        policy: &Policy,
        reports: &BTreeMap<InstanceId, InstanceReport>,
    ) -> PermitQueue {
        let mut starting = StartingMachines::default();
        let mut deleting = 0_u32;
        let mut starts = Vec::new();
        let mut deletes = Vec::new();
        for report in reports.values() {
            let granted = self.granted.get(&report.id).copied();
            match holds(report, granted) {
                Some(Permit::Start) => starting.count(report.host.as_ref()),
                Some(Permit::Delete) => deleting += 1,
                None => match report.wants {
                    Some(Permit::Start) if report.removal.is_none() => starts.push(report),
                    Some(Permit::Delete) => deletes.push(report),
                    Some(Permit::Start) | None => {}
                },
            }
        }
        let unproven = self.lives.unproven(reports).count();
        PermitQueue {
            free_starts: starting
                .free(policy, self.lives.hosts().len())
                .min(policy.start_permits.saturating_sub(starting.all + unproven)),
            free_deletes: DELETE_PERMITS.saturating_sub(deleting),
            starts: longest_waiting(starts),
            deletes: longest_waiting(deletes),
        }
    }

    /// Returns how many instances may still be asked to retire within this minute.
    pub(crate) fn budget(&self, policy: &Policy, now: Timestamp) -> u32 {
        let spent =
            self.spent.iter().filter(|at| elapsed(**at, now) < RETIRE_BUDGET_WINDOW).count();
        policy.retire_budget.saturating_sub(u32::try_from(spent).unwrap_or(u32::MAX))
    }

    /// Spends one from the budget; returns whether there was one.
    pub(crate) fn spend(&mut self, policy: &Policy, now: Timestamp) -> bool {
        self.spent.retain(|at| elapsed(*at, now) < RETIRE_BUDGET_WINDOW);
        if self.budget(policy, now) == 0 {
            return false;
        }
        self.spent.push_back(now);
        true
    }

    /// Returns when the budget alone will allow more.
    pub(crate) fn next_plan(&self, policy: &Policy, now: Timestamp) -> Option<Timestamp> {
        (self.budget(policy, now) == 0)
            .then(|| {
                self.spent.iter().map(|at| after(*at, RETIRE_BUDGET_WINDOW)).find(|at| *at > now)
            })
            .flatten()
    }
}

/// Counts machines that start, by host where that is known.
#[derive(Default)]
struct StartingMachines {
    all: u32,
    unplaced: u32,
    by_host: BTreeMap<HostName, u32>,
}

impl StartingMachines {
    fn count(&mut self, host: Option<&HostName>) {
        self.all += 1;
        match host {
            Some(host) => *self.by_host.entry(host.clone()).or_default() += 1,
            None => self.unplaced += 1,
        }
    }

    /// Returns how many more may start. The provider chooses the host, so the share of a
    /// host cannot be enforced but only the sum of all shares; a host that is over its own
    /// (because it is sick and nothing comes up there) takes nothing from the others.
    fn free(&self, policy: &Policy, hosts: u32) -> u32 {
        let in_all = policy.start_permits.saturating_sub(self.all);
        if hosts == 0 {
            return in_all;
        }
        let share = policy.start_permits_per_host.max(1);
        let shares = share.saturating_mul(hosts);
        let taken: u32 = self.by_host.values().map(|starting| (*starting).min(share)).sum();
        in_all.min(shares.saturating_sub(taken).saturating_sub(self.unplaced))
    }
}

/// Returns the permit that an instance holds.
fn holds(report: &InstanceReport, granted: Option<Permit>) -> Option<Permit> {
    match report.state {
        State::PendingCreate | State::PendingDelete => {
            granted.filter(|permit| waits_in(*permit) == report.state)
        }
        State::Creating | State::Starting => Some(Permit::Start),
        State::Deleting => (report.occupies && !report.stuck).then_some(Permit::Delete),
        State::Idle
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::Deleted => None,
    }
}

/// Returns the state in which an instance waits for a permit.
fn waits_in(permit: Permit) -> State {
    match permit {
        Permit::Start => State::PendingCreate,
        Permit::Delete => State::PendingDelete,
    }
}

fn longest_waiting(mut waiting: Vec<&InstanceReport>) -> Vec<InstanceId> {
    waiting.sort_by_key(|report| report.since);
    waiting.into_iter().map(|report| report.id.clone()).collect()
}

#[cfg(test)]
mod tests;
