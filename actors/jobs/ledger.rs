//! Every job, its forge fact and our offer: inputs in, changes out, nothing else.
//!
//! Each input is a method that takes `now`, brings memory up to date and returns a
//! [`Change`]: what must be durable, and what is done after that. Whoever calls it saves
//! before acting, and handles no other input in between without adding it to the same save.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Accepts;
use super::change::{Act, Change};
use super::index::{Index, Open};
use super::memory::{Instances, Tombstones, Unservable};
use super::routing::Route;
use crate::model::{
    Event, ForgeId, Generation, Home, Instance, InstanceId, Job, JobFact, JobId, JobNotice,
    OfferEnd, OpenOffer, PoolId, PoolSpec, Subject, Timestamp, What,
};
use crate::mutants::{self, Mutant};
use crate::pool::Demand;
use crate::settings::RequeueSettings;

/// Holds what is asked of us.
pub(crate) struct Ledger {
    pub(super) settings: RequeueSettings,
    /// Jobs that are neither over nor closed.
    pub(super) open: BTreeMap<JobId, Open>,
    /// Jobs given up locally, which an execution reopens.
    pub(super) closed: BTreeMap<JobId, Job>,
    pub(super) tombstones: Tombstones,
    pub(super) unservable: Unservable,
    pub(super) instances: Instances,
    pub(super) pools: Vec<Standing>,
    /// Where the runners of pools register, also of those that have left the config.
    pub(super) homes: BTreeMap<PoolId, Home>,
    /// Notices that came before the pools were known; nobody could say whose they are.
    pub(super) early: Option<Vec<JobNotice>>,
    /// When a repository last answered for one of its jobs.
    pub(super) in_sight: BTreeMap<Repository, Timestamp>,
    pub(super) index: Index,
    /// The demand each pool was last told.
    pub(super) told: BTreeMap<PoolId, Demand>,
    pub(super) change: Change,
    pub(super) touched: BTreeSet<JobId>,
}

/// Holds a pool and whether it says that it takes work.
pub(super) struct Standing {
    pub(super) spec: Arc<PoolSpec>,
    pub(super) accepts: Accepts,
}

/// Names a repository at a forge.
pub(super) type Repository = (ForgeId, String, String);

impl Ledger {
    /// Remembers what the store kept: open jobs, closed ones, and tombstones.
    pub(crate) fn restore(
        settings: RequeueSettings,
        jobs: Vec<Job>,
        closed: Vec<Job>,
        tombstones: Vec<(JobId, Timestamp)>,
        now: Timestamp,
    ) -> Self {
        let mut ledger = Self {
            settings,
            open: BTreeMap::new(),
            closed: closed.into_iter().map(|job| (job.id.clone(), job)).collect(),
            tombstones: Tombstones::restore(tombstones),
            unservable: Unservable::default(),
            instances: Instances::default(),
            pools: Vec::new(),
            homes: BTreeMap::new(),
            early: Some(Vec::new()),
            in_sight: BTreeMap::new(),
            index: Index::default(),
            told: BTreeMap::new(),
            change: Change::default(),
            touched: BTreeSet::new(),
        };
        for job in jobs.into_iter().filter(Job::is_live) {
            ledger.take_in(job, now);
        }
        ledger
    }

    /// Learns from a row where the runners of its pool register, which the config may not name.
    pub(crate) fn learn_home(&mut self, row: &Instance) {
        let home = || Home { forge: row.forge.clone(), scope: row.scope.clone() };
        self.homes.entry(row.pool.clone()).or_insert_with(home);
    }

    /// Returns a job as it is remembered, also one that is closed or that no pool serves.
    pub(crate) fn show(&self, id: &JobId) -> Option<&Job> {
        let open = self.open.get(id).map(|open| &open.job);
        open.or_else(|| self.closed.get(id)).or_else(|| self.unservable.get(id))
    }

    /// Counts a job among the open ones.
    pub(super) fn take_in(&mut self, job: Job, now: Timestamp) {
        let open = Open {
            route: job.pool.clone().map(Route::To),
            held: false,
            last: None,
            changed_at: now,
            job,
        };
        self.index.add(&open);
        self.open.insert(open.job.id.clone(), open);
    }

    /// Changes an open job; its row is saved.
    pub(super) fn amend(&mut self, id: &JobId, now: Timestamp, amend: impl FnOnce(&mut Job)) {
        let Some(open) = self.open.get_mut(id) else { return };
        self.index.remove(open);
        let axes = |job: &Job| (job.fact.rank(), job.offer.clone(), job.execution.clone());
        let before = axes(&open.job);
        amend(&mut open.job);
        if axes(&open.job) != before {
            open.changed_at = now;
        }
        self.index.add(open);
        self.touched.insert(id.clone());
    }

    /// Lets a job leave the open ones; its row is saved as it is.
    pub(super) fn let_go(&mut self, id: &JobId) -> Option<Job> {
        let open = self.open.remove(id)?;
        self.index.remove(&open);
        self.touched.remove(id);
        self.change.save.jobs.insert(id.clone(), open.job.clone());
        Some(open.job)
    }

    /// Writes into a job's timeline; what is said again at once is only counted.
    pub(super) fn note(&mut self, id: &JobId, what: What, now: Timestamp) {
        let Some(open) = self.open.get_mut(id) else { return };
        let event = match open.last.take() {
            Some(last) if last.what == what => {
                Event { count: last.count + 1, last_at: now, ..last }
            }
            Some(_) | None => {
                let seq = open.job.events;
                open.job.events += 1;
                let subject = Subject::Job(id.clone());
                Event { subject, seq, at: now, last_at: now, count: 1, what }
            }
        };
        open.last = Some(event.clone());
        self.touched.insert(id.clone());
        self.change.save.events.insert((event.subject.clone(), event.seq), event);
    }

    /// Plans something for after the save.
    pub(super) fn act(&mut self, act: Act) {
        self.change.acts.push(act);
    }

    /// Plans to tell an instance that a job is no longer its business.
    pub(super) fn tell_end(
        &mut self,
        instance: InstanceId,
        job: &JobId,
        generation: Generation,
        why: OfferEnd,
    ) {
        if !mutants::is(Mutant::ReservedForever) {
            self.act(Act::EndOffer { instance, job: job.clone(), generation, why });
        }
    }

    /// Settles who serves whom, and returns all that this input changed.
    pub(super) fn finish(&mut self, now: Timestamp) -> Change {
        if self.early.is_none() {
            self.promote(now);
            self.pair(now);
            self.tell_demand();
        }
        for id in std::mem::take(&mut self.touched) {
            if let Some(open) = self.open.get(&id) {
                self.change.save.jobs.insert(id, open.job.clone());
            }
        }
        std::mem::take(&mut self.change)
    }

    pub(super) fn job(&self, id: &JobId) -> Option<&Job> {
        self.open.get(id).map(|open| &open.job)
    }

    pub(super) fn fact(&self, id: &JobId) -> Option<&JobFact> {
        self.job(id).map(|job| &job.fact)
    }

    pub(super) fn offer_of(&self, id: &JobId) -> Option<OpenOffer> {
        self.job(id).and_then(Job::open_offer).cloned()
    }

    pub(super) fn offers_to(&self, instance: &InstanceId) -> Vec<JobId> {
        self.index.offers.get(instance).into_iter().flatten().cloned().collect()
    }

    pub(super) fn runs_on(&self, instance: &InstanceId) -> Vec<JobId> {
        self.index.runs.get(instance).into_iter().flatten().cloned().collect()
    }
}
