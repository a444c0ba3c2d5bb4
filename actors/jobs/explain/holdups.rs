//! What else keeps a job waiting, beside the standing of its pool: machines that boot, and a
//! forge that may not be asked much more.

use std::sync::Arc;

use super::{Accepts, JobRequirements, PoolStatus, Route, ago, machines, route, states};
use crate::model::{Instance, Job, JobState, PoolId, State, Timestamp, elapsed};

/// How many machines that boot are told of.
const BOOTS: usize = 3;

/// Below this share of an hour's calls a budget is worth telling.
const SCARCE: u32 = 20;

/// Holds what is known around a waiting job.
#[derive(Clone, Debug, Default)]
pub struct HoldUps {
    /// Instances of any pool that are being made or boot.
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
    /// When it begins anew, where that is known.
    pub resets_at: Option<Timestamp>,
}

impl BudgetLeft {
    fn is_scarce(&self) -> bool {
        self.remaining <= self.limit / SCARCE
    }

    fn told(&self, now: Timestamp) -> String {
        let until = self.resets_at.map_or_else(String::new, |at| {
            format!("; it begins anew in {} s", elapsed(now, at).as_secs())
        });
        format!(
            "The forge's rate budget is nearly spent: {} of {} calls ({}) are left for {}{until}.",
            self.remaining, self.limit, self.resource, self.who
        )
    }
}

impl HoldUps {
    /// Tells of machines of the pool that boot, and of scarce budgets.
    pub(super) fn told(&self, pool: &PoolStatus, now: Timestamp) -> Vec<String> {
        let of_pool = || self.booting.iter().filter(|row| row.pool == pool.spec.id);
        let mut said: Vec<String> = of_pool().take(BOOTS).map(|row| boot(row, pool, now)).collect();
        let more = of_pool().count().saturating_sub(BOOTS);
        if more > 0 {
            said.push(format!("{more} more machines of pool `{}` are on their way.", pool.spec.id));
        }
        said.extend(self.scarce().map(|budget| budget.told(now)));
        said
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
        State::Creating => format!("`{id}`: is being made for {waited} s."),
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

/// Says in one sentence why a job waits; nothing when it does not.
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
    let Some(pool) = &job.pool else {
        let standing: Vec<_> = pools.iter().map(|pool| (&*pool.spec, pool.accepts())).collect();
        return match route(&JobRequirements::of(job), &standing) {
            Route::Unserved(why) => why,
            Route::To(pool) | Route::Held { pool, .. } => {
                format!("pool `{pool}` can serve it and will be told")
            }
        };
    };
    let found = pools.iter().find(|standing| standing.spec.id == *pool);
    let Some((standing, view)) = found.and_then(|it| Some((it, it.view.as_ref()?))) else {
        return format!("pool `{pool}` has not shown itself yet");
    };
    match standing.accepts() {
        Accepts::Draining => return format!("pool `{pool}` is draining"),
        Accepts::Broken => {
            let since = ago(view.breaker.unwrap_or(now), now);
            return format!("creation in pool `{pool}` has failed again and again for {since}");
        }
        Accepts::Full => {
            let (have, max) = (machines(view), view.max);
            return format!("pool `{pool}` is at its maximum: {have} of {max} ({})", states(view));
        }
        Accepts::Work if !view.settled => {
            return format!("pool `{pool}` still looks at the machines it had before the restart");
        }
        Accepts::Work => {}
    }
    if let Some(budget) = holdups.scarce().find(|budget| budget.remaining == 0) {
        return format!("the forge's rate budget of {} is spent", budget.who);
    }
    holdups.nearest(pool).map_or_else(
        || format!("pool `{pool}` has {} jobs waiting and wants {}", view.demand, view.want),
        |row| boot(row, standing, now).trim_end_matches('.').to_owned(),
    )
}
