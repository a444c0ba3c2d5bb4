//! What else keeps a job waiting, beside the state of its pool: machines that boot, and a forge
//! that may not be asked much more.

use std::sync::Arc;

use super::{Accepts, JobRequirements, JobRoute, PoolStatus, ago, machines, rest, route, states};
use crate::model::{Instance, Job, JobState, PoolId, State, Timestamp, elapsed};

/// How many booting machines are named.
const MAX_NAMED_BOOTS: usize = 3;

/// A budget with less than one in this many calls left is worth a sentence.
const SCARCE_SHARE: u32 = 20;

/// Holds what is known around a waiting job.
#[derive(Clone, Debug, Default)]
pub struct HoldUps {
    /// Instances of any pool that are being created or boot.
    pub booting: Vec<Arc<Instance>>,
    /// What the forge still lets us ask.
    pub budgets: Vec<BudgetLeft>,
}

/// Holds what is left of one budget at a forge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLeft {
    pub who: String,
    /// Of what, in the forge's word.
    pub resource: String,
    /// How many calls are left.
    pub remaining: u32,
    /// Of how many an hour.
    pub limit: u32,
    /// When it resets, where that is known.
    pub resets_at: Option<Timestamp>,
}

impl BudgetLeft {
    fn is_scarce(&self) -> bool {
        self.remaining <= self.limit / SCARCE_SHARE
    }

    fn describe(&self, now: Timestamp) -> String {
        let until = self.resets_at.map_or_else(String::new, |at| {
            format!("; it resets in {} s", elapsed(now, at).as_secs())
        });
        format!(
            "The forge's rate budget is nearly spent: {} of {} calls ({}) are left for {}{until}.",
            self.remaining, self.limit, self.resource, self.who
        )
    }
}

impl HoldUps {
    /// Describes machines of the pool that boot, and scarce budgets.
    pub(super) fn describe(&self, pool: &PoolStatus, now: Timestamp) -> Vec<String> {
        let of_pool = || self.booting.iter().filter(|row| row.pool == pool.spec.id);
        let mut lines: Vec<String> =
            of_pool().take(MAX_NAMED_BOOTS).map(|row| boot(row, pool, now)).collect();
        let more = of_pool().count().saturating_sub(MAX_NAMED_BOOTS);
        if more > 0 {
            lines.push(format!("{more} more machines of pool `{}` are starting.", pool.spec.id));
        }
        lines.extend(self.scarce().map(|budget| budget.describe(now)));
        lines
    }

    fn scarce(&self) -> impl Iterator<Item = &BudgetLeft> {
        self.budgets.iter().filter(|budget| budget.is_scarce())
    }

    /// Returns the machine of a pool that is nearest to being ready.
    fn nearest(&self, pool: &PoolId) -> Option<&Arc<Instance>> {
        let of_pool = self.booting.iter().filter(|row| row.pool == *pool);
        of_pool.min_by_key(|row| (row.state != State::Starting, row.since))
    }
}

fn boot(row: &Instance, pool: &PoolStatus, now: Timestamp) -> String {
    let waited = elapsed(row.since, now).as_secs();
    let id = &row.id;
    match row.state {
        State::Starting => {
            let within = pool.spec.policy.boot_timeout.as_secs();
            format!("`{id}`: boot in progress {waited} s of {within} s.")
        }
        State::PendingCreate => format!("`{id}`: waits for a start permit for {waited} s."),
        State::Creating => format!("`{id}`: is being created for {waited} s."),
        State::Idle
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => format!("`{id}`: {} for {waited} s.", row.state),
    }
}

/// Describes in one sentence why a job waits; `None` when it does not.
pub fn why_it_waits(
    job: &Job,
    pools: &[PoolStatus],
    holdups: &HoldUps,
    now: Timestamp,
) -> Option<String> {
    match job.state() {
        JobState::Waiting => Some("held back at the forge by a deployment rule".into()),
        JobState::Queued => Some(in_queue(job, pools, holdups, now)),
        JobState::Offered => {
            let offer = job.open_offer()?;
            Some(format!("offered to `{}` for {}", offer.instance, ago(offer.since, now)))
        }
        JobState::Running | JobState::Completed | JobState::Closed => None,
    }
}

fn in_queue(job: &Job, pools: &[PoolStatus], holdups: &HoldUps, now: Timestamp) -> String {
    if let Some(why) = rest(job, now) {
        return why.trim_end_matches('.').to_owned();
    }
    let Some(pool) = &job.pool else {
        let accepting: Vec<_> = pools.iter().map(|pool| (&*pool.spec, pool.accepts())).collect();
        return match route(&JobRequirements::of(job), &accepting) {
            JobRoute::Unserved(why) => why,
            JobRoute::To(pool) | JobRoute::Held { pool, .. } => {
                format!("pool `{pool}` can serve it and will get it")
            }
        };
    };
    let found = pools.iter().find(|status| status.spec.id == *pool);
    let Some((status, view)) = found.and_then(|it| Some((it, it.view.as_ref()?))) else {
        return format!("pool `{pool}` has not reported yet");
    };
    match status.accepts() {
        Accepts::Draining => return format!("pool `{pool}` is draining"),
        Accepts::Broken => {
            let since = ago(view.breaker.unwrap_or(now), now);
            return format!("creation in pool `{pool}` has failed repeatedly for {since}");
        }
        Accepts::Full => {
            let (have, max) = (machines(view), view.max);
            return format!("pool `{pool}` is at its maximum: {have} of {max} ({})", states(view));
        }
        Accepts::Work if !view.settled => {
            return format!("pool `{pool}` still checks the machines it had before the restart");
        }
        Accepts::Work => {}
    }
    if let Some(budget) = holdups.scarce().find(|budget| budget.remaining == 0) {
        return format!("the forge's rate budget of {} is spent", budget.who);
    }
    holdups.nearest(pool).map_or_else(
        || format!("pool `{pool}` has {} jobs waiting and wants {}", view.demand, view.want),
        |row| boot(row, status, now).trim_end_matches('.').to_owned(),
    )
}
