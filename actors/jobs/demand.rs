//! Whose demand the waiting jobs are, and how much each pool is told.
//!
//! A pool is given no more jobs than its `max` has room for, so that those beyond it move
//! on at once, and those within it stay while its machines come up, although the pool may
//! call itself full by then. A job that has moved on stays where it is until that pool
//! refuses too: otherwise each freed place would swing the whole line back and forth.

use std::sync::Arc;

use super::Accepts;
use super::change::{Act, Change};
use super::index::{Line, Open};
use super::ledger::{Ledger, Standing};
use super::routing::{Route, Want, route};
use crate::model::{Home, InstanceId, Job, JobFact, JobId, PoolId, PoolSpec, Timestamp, What};
use crate::pool::Demand;

/// Tells whether a job has had its place in a pool before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// No: the best pool that takes it.
    Fresh,
    /// Yes: it keeps it, if the pool still serves.
    Kept,
}

impl Ledger {
    /// Learns which pools there are, in the order of the config.
    pub(crate) fn pools_changed(&mut self, specs: Vec<Arc<PoolSpec>>, now: Timestamp) -> Change {
        let accepts = |id: &PoolId| {
            let known = self.pools.iter().find(|pool| pool.spec.id == *id);
            known.map_or(Accepts::Work, |pool| pool.accepts)
        };
        self.pools =
            specs.into_iter().map(|spec| Standing { accepts: accepts(&spec.id), spec }).collect();
        for Standing { spec, .. } in &self.pools {
            let home = Home { forge: spec.forge.clone(), scope: spec.scope.clone() };
            self.homes.insert(spec.id.clone(), home);
        }
        self.told.clear();
        let early = self.early.take().unwrap_or_default();
        self.assign_all(now);
        self.look_at_unservable(now);
        for notice in early {
            self.hear(notice, now);
        }
        self.finish(now)
    }

    /// Learns whether a pool takes work; it may have forgotten its demand, so it is told.
    pub(crate) fn standing_changed(
        &mut self,
        id: &PoolId,
        accepts: Accepts,
        now: Timestamp,
    ) -> Change {
        self.told.remove(id);
        if let Some(pool) = self.pools.iter_mut().find(|pool| pool.spec.id == *id) {
            pool.accepts = accepts;
        }
        if matches!(accepts, Accepts::Draining | Accepts::Broken) {
            let line = self.index.queued.get(id).cloned().unwrap_or_default();
            for (_, job) in line {
                self.assign(&job, Seat::Fresh, now);
            }
        }
        self.finish(now)
    }

    /// Returns how much work waits for a pool.
    pub(crate) fn demand(&self, id: &PoolId) -> Demand {
        let oldest = |line: Option<&Line>| line.and_then(Line::first).map(|(at, _)| *at);
        let (queued, blocked) = (self.index.queued.get(id), self.index.blocked.get(id));
        let broken = |pool: &&Standing| pool.spec.id == *id && pool.accepts == Accepts::Broken;
        // A job that waits for a place, or for the end of a drain, is withheld on purpose: its
        // age is nobody's alarm. One that waits for a broken pool should be served and is not.
        let failed = blocked.filter(|_| self.pools.iter().any(|pool| broken(&pool)));
        Demand {
            queued: u32::try_from(self.index.waiting(id)).unwrap_or(u32::MAX),
            blocked: blocked.is_some(),
            oldest: oldest(queued).into_iter().chain(oldest(failed)).min(),
        }
    }

    /// Decides whose demand a job is, if it wants a runner.
    pub(super) fn assign(&mut self, id: &JobId, seat: Seat, now: Timestamp) {
        // Until the pools are known nobody can say; then all are looked at.
        if self.early.is_some() || !self.job(id).is_some_and(Job::wants_runner) {
            return;
        }
        // It is taken out first: a job does not compete with itself for room.
        let Some(mut open) = self.open.remove(id) else { return };
        self.index.remove(&open);
        let route = self.choose(&open, seat);
        let moved = open.route.as_ref() != Some(&route);
        open.held = !matches!(route, Route::To(_));
        open.job.pool = match &route {
            Route::To(pool) | Route::Held { pool, .. } => Some(pool.clone()),
            Route::Nobody(_) => None,
        };
        open.route = Some(route.clone());
        self.index.add(&open);
        self.open.insert(id.clone(), open);
        if moved {
            let what = match route {
                Route::To(pool) => What::Routed(pool),
                Route::Held { pool, why } => What::Held { pool, why: why.to_string() },
                Route::Nobody(why) => What::Unserved(why),
            };
            self.note(id, what, now);
        }
    }

    fn choose(&self, open: &Open, seat: Seat) -> Route {
        let want = Want::of(&open.job);
        let kept = open.job.pool.as_ref().filter(|_| seat == Seat::Kept && !open.held);
        let serves = |pool: &Standing| {
            matches!(pool.accepts, Accepts::Work | Accepts::Full) && want.fits(&pool.spec)
        };
        match kept.and_then(|id| self.pools.iter().find(|pool| pool.spec.id == *id)) {
            Some(pool) if serves(pool) => Route::To(pool.spec.id.clone()),
            Some(_) | None => self.route(&want),
        }
    }

    /// Routes by what each pool takes now.
    pub(super) fn route(&self, want: &Want) -> Route {
        let standing: Vec<(&PoolSpec, Accepts)> =
            self.pools.iter().map(|pool| (&*pool.spec, self.takes(pool))).collect();
        route(want, &standing)
    }

    /// Returns whether a pool takes one more job.
    fn takes(&self, pool: &Standing) -> Accepts {
        let id = &pool.spec.id;
        let waiting = self.index.waiting(id);
        // A runner that waits for an offer is room, whatever the pool can create.
        let ready = || self.free(id).take(waiting + 1).count() > waiting;
        let load = self.index.load(id);
        match pool.accepts {
            Accepts::Draining => Accepts::Draining,
            Accepts::Full | Accepts::Broken if ready() => Accepts::Work,
            Accepts::Work if load >= pool.spec.max as usize && !ready() => Accepts::Full,
            accepts @ (Accepts::Work | Accepts::Full | Accepts::Broken) => accepts,
        }
    }

    /// Returns those of a pool who wait for an offer and have none, longest first.
    pub(super) fn free(&self, pool: &PoolId) -> impl Iterator<Item = &InstanceId> {
        self.instances.line(pool).filter(|id| !self.index.is_taken(id))
    }

    /// Lets jobs that nobody took go where they are taken now, oldest first.
    pub(super) fn promote(&mut self, now: Timestamp) {
        for at in 0..self.pools.len() {
            while let Some(job) = self.next_held(at) {
                self.assign(&job, Seat::Fresh, now);
            }
        }
    }

    /// Returns the oldest job that nobody took and this pool takes now.
    fn next_held(&self, at: usize) -> Option<JobId> {
        let pool = self.pools.get(at).filter(|_| !self.index.held.is_empty())?;
        if self.takes(pool) != Accepts::Work {
            return None;
        }
        let heads = self.index.held.iter().filter(|(want, _)| want.fits(&pool.spec));
        heads.filter_map(|(_, line)| line.first()).min().map(|(_, job)| job.clone())
    }

    /// Decides anew for every waiting job, oldest first.
    fn assign_all(&mut self, now: Timestamp) {
        let lines = self.index.queued.values().chain(self.index.held.values());
        let waiting: Line = lines.flatten().cloned().collect();
        for (_, id) in &waiting {
            if let Some(open) = self.open.get_mut(id) {
                self.index.remove(open);
                open.held = true;
                self.index.add(open);
            }
        }
        for (_, id) in &waiting {
            self.assign(id, Seat::Fresh, now);
        }
    }

    /// Takes in remembered jobs that some pool can serve after all.
    fn look_at_unservable(&mut self, now: Timestamp) {
        let queued = self.unservable.iter().filter(|job| job.fact == JobFact::Queued);
        let served = queued.filter(|job| !matches!(self.route(&Want::of(job)), Route::Nobody(_)));
        for id in served.map(|job| job.id.clone()).collect::<Vec<_>>() {
            if let Some(job) = self.unservable.take(&id) {
                self.take_in(job, now);
                self.assign(&id, Seat::Fresh, now);
            }
        }
    }

    /// Plans to tell pools whose demand changed.
    pub(super) fn tell_demand(&mut self) {
        let pools: Vec<PoolId> = self.pools.iter().map(|pool| pool.spec.id.clone()).collect();
        for pool in pools {
            let demand = self.demand(&pool);
            if self.told.insert(pool.clone(), demand) != Some(demand) {
                self.act(Act::Demand { pool, demand });
            }
        }
    }
}
