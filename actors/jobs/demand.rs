//! Whose demand the waiting jobs are, and how much each pool has.
//!
//! A pool is given no more jobs than its `max` has room for, so that those beyond it move
//! on at once, and those within it stay while its machines come up, although the pool may
//! call itself full by then. A job that has moved on stays where it is until that pool
//! refuses too: otherwise each freed place would swing the whole queue back and forth.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Accepts;
use super::change::Act;
use super::index::{JobIndex, JobQueue};
use super::offers::Offers;
use super::open_jobs::OpenJobs;
use super::routing::{JobRequirements, JobRoute, route};
use crate::model::{Job, JobId, PoolId, PoolSpec, Timestamp};
use crate::pool::Demand;

/// Decides whose demand each waiting job is, and reports it to the pools.
#[derive(Default)]
pub(super) struct DemandRouter {
    /// The pools in the order of the config; `None` until they are known.
    pools: Option<Vec<RoutedPool>>,
    /// The demand each pool was last sent.
    reported: BTreeMap<PoolId, Demand>,
}

/// Holds a pool and whether it takes work, by its own report.
struct RoutedPool {
    spec: Arc<PoolSpec>,
    accepts: Accepts,
}

/// Tells which pool a job should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefer {
    /// The one that fits best of those that take it.
    BestPool,
    /// The one it waited in before, if that still serves.
    CurrentPool,
}

impl DemandRouter {
    /// Takes over the pools of the config. Their demand is sent again.
    pub(super) fn set_pools(&mut self, specs: Vec<Arc<PoolSpec>>) {
        let before = self.pools.take().unwrap_or_default();
        let accepts = |id: &PoolId| {
            let known = before.iter().find(|pool| pool.spec.id == *id);
            known.map_or(Accepts::Work, |pool| pool.accepts)
        };
        let routed = |spec: Arc<PoolSpec>| RoutedPool { accepts: accepts(&spec.id), spec };
        self.pools = Some(specs.into_iter().map(routed).collect());
        self.reported.clear();
    }

    /// Returns whether the pools are known. Before that no job is anyone's demand.
    pub(super) fn knows_pools(&self) -> bool {
        self.pools.is_some()
    }

    pub(super) fn pool_ids(&self) -> Vec<PoolId> {
        self.pools().iter().map(|pool| pool.spec.id.clone()).collect()
    }

    /// Returns whether a pool's breaker is open.
    pub(super) fn is_broken(&self, id: &PoolId) -> bool {
        self.pools().iter().any(|pool| pool.spec.id == *id && pool.accepts == Accepts::Broken)
    }

    /// Returns the pools whose breaker is open.
    pub(super) fn broken(&self) -> Vec<PoolId> {
        let broken = self.pools().iter().filter(|pool| pool.accepts == Accepts::Broken);
        broken.map(|pool| pool.spec.id.clone()).collect()
    }

    /// Returns the pools whose machines have another shape from now on.
    pub(super) fn revised(&self, specs: &[Arc<PoolSpec>]) -> Vec<PoolId> {
        let is_new = |spec: &&Arc<PoolSpec>| {
            let known = self.pools().iter().find(|pool| pool.spec.id == spec.id);
            known.is_some_and(|pool| pool.spec.revision != spec.revision)
        };
        specs.iter().filter(is_new).map(|spec| spec.id.clone()).collect()
    }

    /// Takes a pool's report of whether it takes work. Its supervisor may be new and know no
    /// demand, so that is sent again.
    pub(super) fn set_accepts(
        &mut self,
        id: &PoolId,
        accepts: Accepts,
        jobs: &mut OpenJobs,
        offers: &Offers,
        now: Timestamp,
    ) {
        self.reported.remove(id);
        let mut pools = self.pools.iter_mut().flatten();
        if let Some(pool) = pools.find(|pool| pool.spec.id == *id) {
            pool.accepts = accepts;
        }
        if matches!(accepts, Accepts::Draining | Accepts::Broken) {
            for (_, job) in jobs.index().queued(id).cloned().unwrap_or_default() {
                self.assign(&job, Prefer::BestPool, jobs, offers, now);
            }
        }
    }

    /// Decides whose demand a job is, if it wants a runner.
    pub(super) fn assign(
        &self,
        id: &JobId,
        prefer: Prefer,
        jobs: &mut OpenJobs,
        offers: &Offers,
        now: Timestamp,
    ) {
        // Once the pools are known, all jobs are assigned.
        if self.knows_pools() && jobs.get(id).is_some_and(Job::wants_runner) {
            jobs.assign(id, now, |index, job, held| {
                let current = job.pool.as_ref().filter(|_| prefer == Prefer::CurrentPool && !held);
                self.choose(&JobRequirements::of(job), current, index, offers)
            });
        }
    }

    /// Decides anew for every waiting job, oldest first.
    pub(super) fn assign_all(&self, jobs: &mut OpenJobs, offers: &Offers, now: Timestamp) {
        for id in jobs.unassign_all() {
            self.assign(&id, Prefer::BestPool, jobs, offers, now);
        }
    }

    /// Gives jobs that no pool took to pools that take them now, oldest first.
    pub(super) fn assign_held(&self, jobs: &mut OpenJobs, offers: &Offers, now: Timestamp) {
        for pool in self.pools() {
            while let Some(job) = next_held(pool, jobs.index(), offers) {
                self.assign(&job, Prefer::BestPool, jobs, offers, now);
            }
        }
    }

    /// Routes by what each pool takes now.
    pub(super) fn route(
        &self,
        requirements: &JobRequirements,
        jobs: &JobIndex,
        offers: &Offers,
    ) -> JobRoute {
        let pools = self.pools().iter();
        let pools: Vec<_> = pools.map(|pool| (&*pool.spec, takes(pool, jobs, offers))).collect();
        route(requirements, &pools)
    }

    /// Sends each pool its demand, if that differs from what was last sent.
    pub(super) fn report(&mut self, jobs: &mut OpenJobs) {
        for pool in self.pool_ids() {
            let demand = self.demand(&pool, jobs.index());
            if self.reported.insert(pool.clone(), demand) != Some(demand) {
                jobs.send(Act::Demand { pool, demand });
            }
        }
    }

    /// Returns how much work waits for a pool.
    pub(super) fn demand(&self, id: &PoolId, jobs: &JobIndex) -> Demand {
        let oldest = |queue: Option<&JobQueue>| queue.and_then(JobQueue::first).map(|(at, _)| *at);
        let (queued, blocked) = (jobs.queued(id), jobs.blocked(id));
        let broken = |pool: &RoutedPool| pool.spec.id == *id && pool.accepts == Accepts::Broken;
        // A job that waits for a place, or for the end of a drain, is withheld on purpose: its
        // age is no alarm. One that waits for a broken pool should be served and is not.
        let failed = blocked.filter(|_| self.pools().iter().any(broken));
        // A probe is worth making for a job that rests: it may show that the pool works again.
        let rests = self.is_broken(id) && jobs.rests_in(id);
        Demand {
            queued: u32::try_from(jobs.queue_length(id)).unwrap_or(u32::MAX),
            blocked: blocked.is_some() || rests,
            oldest: oldest(queued).into_iter().chain(oldest(failed)).min(),
        }
    }

    fn choose(
        &self,
        requirements: &JobRequirements,
        current: Option<&PoolId>,
        jobs: &JobIndex,
        offers: &Offers,
    ) -> JobRoute {
        let serves = |pool: &RoutedPool| {
            matches!(pool.accepts, Accepts::Work | Accepts::Full) && requirements.fit(&pool.spec)
        };
        match current.and_then(|id| self.pools().iter().find(|pool| pool.spec.id == *id)) {
            Some(pool) if serves(pool) => JobRoute::To(pool.spec.id.clone()),
            Some(_) | None => self.route(requirements, jobs, offers),
        }
    }

    fn pools(&self) -> &[RoutedPool] {
        self.pools.as_deref().unwrap_or_default()
    }

    /// Returns what a pool was last sent, and whether it is broken.
    #[cfg(test)]
    pub(super) fn reported(&self, id: &PoolId) -> (Option<Demand>, bool) {
        let pool = self.pools().iter().find(|pool| pool.spec.id == *id);
        let broken = pool.is_some_and(|pool| pool.accepts == Accepts::Broken);
        (self.reported.get(id).copied(), broken)
    }
}

/// Returns the oldest job that no pool took and this one takes now.
fn next_held(pool: &RoutedPool, jobs: &JobIndex, offers: &Offers) -> Option<JobId> {
    if !jobs.has_held() || takes(pool, jobs, offers) != Accepts::Work {
        return None;
    }
    jobs.oldest_held(&pool.spec).cloned()
}

/// Returns whether a pool takes one more job.
fn takes(pool: &RoutedPool, jobs: &JobIndex, offers: &Offers) -> Accepts {
    let id = &pool.spec.id;
    let waiting = jobs.queue_length(id);
    // A runner that waits for an offer is room, whatever the pool can create.
    let ready = || offers.free(id, jobs).take(waiting + 1).count() > waiting;
    match pool.accepts {
        Accepts::Draining => Accepts::Draining,
        Accepts::Full | Accepts::Broken if ready() => Accepts::Work,
        Accepts::Work if jobs.load(id) >= pool.spec.max as usize && !ready() => Accepts::Full,
        accepts @ (Accepts::Work | Accepts::Full | Accepts::Broken) => accepts,
    }
}
