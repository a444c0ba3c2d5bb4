//! Checks everything at once: rows, board and jobs. Costs a walk over all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Inquest, Violation};
use crate::model::{Instance, InstanceId, Job, JobId, PoolId, State, Timestamp, elapsed};
use crate::registry::Registry;

/// Holds what a scan looks at. Take the rows first and the board after, with no save between.
#[derive(Clone)]
pub struct Snapshot<'a> {
    /// Every row that is not `deleted`.
    pub rows: Vec<&'a Instance>,
    /// The board, once every pool has adopted its rows; none while the daemon is down.
    pub registry: Option<&'a Registry>,
    /// Every job that is neither over nor closed.
    pub jobs: Vec<&'a Job>,
    /// The jobs the forge called completed.
    pub tombstones: &'a BTreeSet<JobId>,
    /// How many machines each pool may have; the highest `max` it ever had, if it was edited.
    pub limits: &'a BTreeMap<PoolId, u32>,
    /// Instances whose rows the daemon cannot decode: they have no owner.
    pub quarantined: &'a BTreeSet<InstanceId>,
}

/// Checks everything at once.
pub fn scan(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    let mut broken = owners(snapshot);
    broken.extend(machines(&snapshot.rows));
    broken.extend(limits(snapshot));
    broken.extend(jobs(snapshot));
    broken
}

/// Every live row has an entry, and no entry shows a life that is over or never was.
fn owners(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    let Some(registry) = snapshot.registry else {
        return Vec::new();
    };
    let mut broken = Vec::new();
    let mut live = BTreeSet::new();
    for row in &snapshot.rows {
        live.insert(&row.id);
        let mut inquest = Inquest::about(&row.id);
        let set_aside = snapshot.quarantined.contains(&row.id);
        inquest.demand(set_aside || registry.holds(&row.id), 2, || {
            format!("is {} and has no entry on the board", row.state)
        });
        broken.append(&mut inquest.broken);
    }
    for shown in registry.instances() {
        // The last row is durable a moment before its owner leaves the board.
        let leaving =
            matches!(shown.state, State::PendingCreate | State::Deleting | State::Deleted);
        let mut inquest = Inquest::about(&shown.id);
        inquest.demand(leaving || live.contains(&shown.id), 2, || {
            format!("is shown as {} and has no row", shown.state)
        });
        broken.append(&mut inquest.broken);
    }
    broken
}

/// A machine answers to one live row.
fn machines(rows: &[&Instance]) -> Vec<Violation> {
    let mut owner = BTreeMap::new();
    let mut broken = Vec::new();
    for row in rows {
        if row.state == State::Deleted {
            continue;
        }
        if let Some(other) = owner.insert((&row.provider, &row.machine), &row.id) {
            let mut inquest = Inquest::about(&row.id);
            inquest.demand(false, 8, || format!("shares machine `{}` with `{other}`", row.machine));
            broken.append(&mut inquest.broken);
        }
    }
    broken
}

/// No pool has more machines than it may; one that was found could not be helped.
fn limits(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    let mut made: BTreeMap<&PoolId, u32> = BTreeMap::new();
    for row in &snapshot.rows {
        // On a host that is out of reach one that can never run a job gives its place to another.
        if row.occupies() && !row.adopted && !row.can_never_run_a_job() {
            *made.entry(&row.pool).or_default() += 1;
        }
    }
    let mut broken = Vec::new();
    for (pool, count) in made {
        let max = snapshot.limits.get(pool).copied().unwrap_or(u32::MAX);
        let mut inquest = Inquest::about(pool);
        inquest.demand(count <= max, 21, || format!("holds {count} machines, may hold {max}"));
        broken.append(&mut inquest.broken);
    }
    broken
}

/// A job over stays over; an instance is promised one job; a promise is not an execution.
fn jobs(snapshot: &Snapshot<'_>) -> Vec<Violation> {
    let mut promised: BTreeMap<&InstanceId, &JobId> = BTreeMap::new();
    let mut broken = Vec::new();
    for job in &snapshot.jobs {
        let mut inquest = Inquest::about(&job.id);
        inquest.demand(!job.is_live() || !snapshot.tombstones.contains(&job.id), 12, || {
            "rose from its tombstone".into()
        });
        if let Some(open) = job.open_offer() {
            inquest.demand(job.is_live(), 12, || "is offered though it is over or closed".into());
            inquest.demand(job.execution.is_none(), 9, || "is offered though it runs".into());
            let other = promised.insert(&open.instance, &job.id);
            inquest.demand(other.is_none(), 6, || {
                format!("is promised `{}`, and so is {other:?}", open.instance)
            });
        }
        broken.append(&mut inquest.broken);
    }
    broken
}

/// Checks that no minute held more retirements than the budget; `times` are in order.
pub fn check_budget(pool: &PoolId, times: &[Timestamp], per_minute: u32) -> Vec<Violation> {
    let mut inquest = Inquest::about(pool);
    let budget = usize::try_from(per_minute).unwrap_or(usize::MAX);
    let over = times
        .iter()
        .zip(times.iter().skip(budget))
        .find(|(first, last)| elapsed(**first, **last) < Duration::from_mins(1));
    inquest.demand(over.is_none(), 19, || {
        format!("retired more than {per_minute} within a minute, {over:?}")
    });
    inquest.broken
}
