//! Decides how many instances a pool should have, and which may go.
//!
//! `want = clamp(busy + reserved + demand + min_idle, 0, max)`. Scale-up is at once;
//! scale-down waits until an instance has been idle for `scale_down_after`. Only free instances
//! are asked to retire, and asking is all that happens: the instance decides.
//!
//! A late-bound instance whose offer ended is spent: it is registered and cannot ask for work again.
//! The forge may still give it a waiting job, so it counts for demand, never for `min_idle`.
//!
//! A machine shows its worker before the forge's notice says which job that is. Until then
//! the job is both `busy` and demand, and would be served twice; so each such machine counts
//! as one of the waiting jobs, for as long as a notice may take and no longer.
//!
//! Planning is a function of what is known and of `now`. When nothing changes it has nothing
//! to add, and `next_plan` says when time alone will change that, so no timer runs without a
//! reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Demand, InstanceReport};
use crate::model::{Binding, InstanceId, PoolSpec, Reason, State, Timestamp, after, is_due};

/// How long the notice of a job may take that a machine already shows.
const NOTICE_TIMEOUT: Duration = Duration::from_mins(1);

/// Holds what limits a plan besides the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanLimits {
    /// Every free instance is asked to retire, and none is created.
    pub(crate) draining: bool,
    /// The machine of every row the pool started with was checked.
    pub(crate) settled: bool,
    /// The breaker is closed, so that an instance that goes can be replaced.
    pub(crate) healthy: bool,
    /// How many may be created now, by permits and breaker.
    pub(crate) admits: u32,
    /// How many may be asked to retire now, by the budget.
    pub(crate) budget: u32,
    /// How many places of `max` are held by rows that cannot be decoded.
    pub(crate) quarantined: u32,
}

/// Holds what a pool should do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolPlan {
    /// How many instances there should be.
    pub(crate) want: u32,
    pub(crate) create: u32,
    /// Which to ask to retire, in this order, and why.
    pub(crate) retire: Vec<(InstanceId, Reason)>,
    /// When time alone will change the plan.
    pub(crate) next_plan: Option<Timestamp>,
}

/// Decides what a pool should do now.
pub(crate) fn plan(
    spec: &PoolSpec,
    reports: &BTreeMap<InstanceId, InstanceReport>,
    demand: Demand,
    limits: PlanLimits,
    now: Timestamp,
) -> PoolPlan {
    let tally = PoolTally::of(reports);
    let unnamed = unnamed(reports, now);
    let demand = unserved(demand, &unnamed);
    let want = want(spec, tally, demand, limits);
    let idle = idle(reports);
    let mut retire = if limits.draining {
        all_free(reports)
    } else {
        let mut leaving = spent(spec, &idle, now);
        leaving.extend(outdated(spec, &idle, tally.missing(spec, want), limits, now));
        let surplus = usable(spec, tally, &idle, &leaving, demand).saturating_sub(want);
        leaving.extend(surplus_of(spec, &idle, &leaving, surplus, now));
        leaving
    };
    retire.truncate(usize::try_from(limits.budget).unwrap_or(usize::MAX));

    let remaining = usable(spec, tally, &idle, &retire, demand);
    let create = if limits.draining || !limits.settled {
        0
    } else {
        want.saturating_sub(remaining)
            .min(spec.max.saturating_sub(tally.occupying).saturating_sub(limits.quarantined))
            .min(limits.admits)
    };
    let next_plan = if limits.draining {
        None
    } else {
        let by_age = next_plan(spec, &idle, &retire, remaining > want, now);
        by_age.into_iter().chain(unnamed).min()
    };
    PoolPlan { want, create, retire, next_plan }
}

/// Counts a pool's instances by what they are good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolTally {
    pub(crate) busy: u32,
    /// Those that have an offer.
    pub(crate) reserved: u32,
    /// Those that are or will be ready, can be given work, and are not asked to go.
    pub(crate) free: u32,
    /// Those that hold a place against `max`.
    pub(crate) occupying: u32,
    /// Those that start, or retire and are not proven free.
    pub(crate) unavailable: u32,
    /// Those that are ready and that are not asked to go.
    pub(crate) ready: u32,
    /// Those that hold a place on the way out and are stuck there.
    pub(crate) lost: u32,
}

impl PoolTally {
    pub(crate) fn of(reports: &BTreeMap<InstanceId, InstanceReport>) -> Self {
        let mut tally = Self::default();
        for report in reports.values() {
            tally.occupying += u32::from(report.occupies);
            // A stuck one is an alarm of its own; it must not hold up a roll for ever.
            tally.unavailable += u32::from(is_unavailable(report) && !report.stuck);
            let is_ready = report.state == State::Idle && report.is_capacity();
            tally.ready += u32::from(is_ready && report.removal.is_none());
            let leaving = report.state.is_terminating() && report.occupies;
            tally.lost += u32::from(leaving && report.stuck);
            match report.state {
                State::Busy => tally.busy += 1,
                State::Reserved => tally.reserved += 1,
                State::PendingCreate | State::Creating | State::Starting | State::Idle => {
                    tally.free += u32::from(report.removal.is_none() && report.is_capacity());
                }
                State::Retiring
                | State::Ended
                | State::PendingDelete
                | State::Deleting
                | State::Deleted => {}
            }
        }
        tally
    }

    /// Returns how many serve demand or will.
    ///
    /// A removal request takes a free instance out of the count. It does not take out one that
    /// works: that serves the very job that `want` counts, and must not be created twice for it.
    pub(crate) fn capacity(self) -> u32 {
        self.busy + self.reserved + self.free
    }

    /// Returns how many of those wanted are not there to serve, or start or retire.
    ///
    /// One that failed to come up is missing until another is ready: counting only those on
    /// their way would let a roll go on with machines that never arrive. A place that a stuck
    /// one holds cannot be filled, and is not waited for.
    fn missing(self, spec: &PoolSpec, want: u32) -> u32 {
        let attainable = want.min(spec.max.saturating_sub(self.lost));
        let absent = attainable.saturating_sub(self.busy + self.reserved + self.ready);
        absent.max(self.unavailable)
    }
}

fn is_unavailable(report: &InstanceReport) -> bool {
    match report.state {
        State::PendingCreate | State::Creating | State::Starting | State::Retiring => true,
        State::Idle => report.removal.is_some(),
        State::Reserved
        | State::Busy
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => false,
    }
}

/// Returns until when each machine counts as a waiting job, whose job is not known yet.
fn unnamed(reports: &BTreeMap<InstanceId, InstanceReport>, now: Timestamp) -> Vec<Timestamp> {
    let unnamed = reports.values().filter(|report| report.unnamed);
    unnamed.map(|report| after(report.since, NOTICE_TIMEOUT)).filter(|until| *until > now).collect()
}

/// Returns the demand without the jobs that are shown to run.
fn unserved(demand: Demand, unnamed: &[Timestamp]) -> Demand {
    let served = u32::try_from(unnamed.len()).unwrap_or(u32::MAX);
    Demand { queued: demand.queued.saturating_sub(served), ..demand }
}

fn want(spec: &PoolSpec, tally: PoolTally, demand: Demand, limits: PlanLimits) -> u32 {
    let working = tally.busy.saturating_add(tally.reserved);
    if limits.draining {
        return working.min(spec.max);
    }
    working
        .saturating_add(demand.queued)
        .saturating_add(u32::from(demand.blocked))
        .saturating_add(spec.min_idle)
        .min(spec.max)
}

/// Returns how many serve demand or will, or wait idle for more, once these have left.
fn usable(
    spec: &PoolSpec,
    tally: PoolTally,
    idle: &[&InstanceReport],
    leaving: &[(InstanceId, Reason)],
    demand: Demand,
) -> u32 {
    let going: BTreeSet<&InstanceId> = leaving.iter().map(|(id, _)| id).collect();
    let spent = idle.iter().filter(|it| is_spent(spec, it) && !going.contains(&it.id)).count();
    let waiting = demand.queued.saturating_add(u32::from(demand.blocked));
    let useless = u32::try_from(spent).unwrap_or(u32::MAX).saturating_sub(waiting);
    tally.capacity().saturating_sub(count(leaving)).saturating_sub(useless)
}

/// Returns every free instance, those of which the least exists first.
fn all_free(reports: &BTreeMap<InstanceId, InstanceReport>) -> Vec<(InstanceId, Reason)> {
    let mut free: Vec<(u8, &InstanceReport)> = reports
        .values()
        .filter(|report| report.removal.is_none())
        .filter_map(|report| Some((drain_rank(report.state)?, report)))
        .collect();
    free.sort_by_key(|(rank, report)| (*rank, report.since, report.id.clone()));
    free.into_iter().map(|(_, report)| (report.id.clone(), Reason::Drain)).collect()
}

/// Returns in which order free instances are drained, none for those that are not free: whichever
/// is farthest from taking a job goes first.
fn drain_rank(state: State) -> Option<u8> {
    match state {
        State::PendingCreate => Some(0),
        State::Starting => Some(1),
        State::Idle => Some(2),
        // `creating` cannot tell yet whether a machine exists; it is asked once it can.
        State::Creating
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => None,
    }
}

/// Returns late-bound instances whose registration outlived its offer: they get no offer
/// again, and had the forge wanted them it would have said so by now.
fn spent(spec: &PoolSpec, idle: &[&InstanceReport], now: Timestamp) -> Vec<(InstanceId, Reason)> {
    idle.iter()
        .filter(|report| is_spent(spec, report) && is_idle_long(spec, report, now))
        .map(|report| (report.id.clone(), Reason::OfferEnded))
        .collect()
}

fn is_spent(spec: &PoolSpec, report: &InstanceReport) -> bool {
    spec.binding == Binding::Late && report.registered
}

/// Returns idle instances of another shape or too old, as many as may be missing at once.
fn outdated(
    spec: &PoolSpec,
    idle: &[&InstanceReport],
    missing: u32,
    limits: PlanLimits,
    now: Timestamp,
) -> Vec<(InstanceId, Reason)> {
    // No instance goes for a successor that cannot be created.
    if !limits.settled || !limits.healthy {
        return Vec::new();
    }
    let at_once = (spec.max / 20).max(1);
    let room = at_once.saturating_sub(missing);
    idle.iter()
        .filter(|report| !(is_spent(spec, report) && is_idle_long(spec, report, now)))
        .filter_map(|report| {
            let reason = if report.revision != spec.revision {
                Reason::Revision
            } else if is_too_old(spec.policy.max_lifetime, report, now) {
                Reason::Lifetime
            } else {
                return None;
            };
            Some((report.id.clone(), reason))
        })
        .take(usize::try_from(room).unwrap_or(usize::MAX))
        .collect()
}

fn is_idle_long(spec: &PoolSpec, report: &InstanceReport, now: Timestamp) -> bool {
    is_due(report.since, spec.policy.scale_down_after, now)
}

fn is_too_old(lifetime: Option<Duration>, report: &InstanceReport, now: Timestamp) -> bool {
    lifetime.is_some_and(|lifetime| is_due(report.created_at, lifetime, now))
}

/// Returns the longest idle beyond what is wanted, without those that go anyway.
fn surplus_of(
    spec: &PoolSpec,
    idle: &[&InstanceReport],
    leaving: &[(InstanceId, Reason)],
    surplus: u32,
    now: Timestamp,
) -> Vec<(InstanceId, Reason)> {
    let leaving: BTreeSet<&InstanceId> = leaving.iter().map(|(id, _)| id).collect();
    idle.iter()
        .filter(|report| !leaving.contains(&report.id))
        .filter(|report| is_idle_long(spec, report, now))
        .take(usize::try_from(surplus).unwrap_or(usize::MAX))
        .map(|report| (report.id.clone(), Reason::Surplus))
        .collect()
}

/// Returns the idle instances that are not asked to go, the longest idle first.
fn idle(reports: &BTreeMap<InstanceId, InstanceReport>) -> Vec<&InstanceReport> {
    let mut idle: Vec<&InstanceReport> = reports
        .values()
        .filter(|report| report.state == State::Idle && report.removal.is_none())
        // A silent one is replaced for its silence, one out of reach when its host is back or gone.
        .filter(|report| report.is_capacity())
        .collect();
    idle.sort_by_key(|report| report.since);
    idle
}

/// Returns when the next idle instance reaches an age that matters.
fn next_plan(
    spec: &PoolSpec,
    idle: &[&InstanceReport],
    leaving: &[(InstanceId, Reason)],
    has_surplus: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let leaving: BTreeSet<&InstanceId> = leaving.iter().map(|(id, _)| id).collect();
    idle.iter()
        .filter(|report| !leaving.contains(&report.id))
        .flat_map(|report| {
            let by_age = (has_surplus || is_spent(spec, report))
                .then(|| after(report.since, spec.policy.scale_down_after));
            let by_lifetime =
                spec.policy.max_lifetime.map(|lifetime| after(report.created_at, lifetime));
            [by_age, by_lifetime]
        })
        .flatten()
        .filter(|at| *at > now)
        .min()
}

fn count(list: &[(InstanceId, Reason)]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
