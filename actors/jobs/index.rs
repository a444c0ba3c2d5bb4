//! The open jobs, looked at from every side a decision needs.
//!
//! Everything here is derived from the jobs themselves: a job is taken out before it
//! changes and put back after, so the index cannot drift, and a recount must equal it.

use std::collections::{BTreeMap, BTreeSet};

use super::routing::{Route, Want};
use crate::model::{Event, InstanceId, Job, JobFact, JobId, PoolId, RunnerName, Timestamp};

/// Holds an open job and what only memory knows of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Open {
    pub(super) job: Job,
    /// Whether no pool takes it now, though it may be demand of its first choice.
    pub(super) held: bool,
    /// Where it was last said to go.
    pub(super) route: Option<Route>,
    /// When either axis last moved: what was asked before that says nothing about it.
    pub(super) changed_at: Timestamp,
    /// The last event, so that its repetition is counted instead of written again.
    pub(super) last: Option<Event>,
}

/// Orders jobs by age.
pub(super) type Line = BTreeSet<(Timestamp, JobId)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Index {
    /// Jobs that wait for a runner of a pool.
    pub(super) queued: BTreeMap<PoolId, Line>,
    /// Jobs that wait for their first choice to take work again.
    pub(super) blocked: BTreeMap<PoolId, Line>,
    /// Jobs that no pool takes now, by what they ask.
    pub(super) held: BTreeMap<Want, Line>,
    /// How many jobs are promised to or run on instances of a pool.
    pub(super) served: BTreeMap<PoolId, u32>,
    /// Open offers by the instance they are made to.
    pub(super) offers: BTreeMap<InstanceId, BTreeSet<JobId>>,
    /// Executions by the instance they are proven on.
    pub(super) runs: BTreeMap<InstanceId, BTreeSet<JobId>>,
    /// Jobs in progress on a runner that nobody has answered to, by its name.
    pub(super) strangers: BTreeMap<RunnerName, BTreeSet<JobId>>,
}

impl Index {
    /// Counts a job in.
    pub(super) fn add(&mut self, open: &Open) {
        let job = &open.job;
        let aged = || (job.queued_at, job.id.clone());
        match Side::of(open) {
            Side::Queued(pool) => {
                self.queued.entry(pool).or_default().insert(aged());
            }
            Side::Held(want, pool) => {
                self.held.entry(want).or_default().insert(aged());
                if let Some(pool) = pool {
                    self.blocked.entry(pool).or_default().insert(aged());
                }
            }
            Side::Served(pool) => {
                if let Some(pool) = pool {
                    *self.served.entry(pool).or_default() += 1;
                }
            }
            Side::Quiet => {}
        }
        if let Some(offer) = job.open_offer() {
            self.offers.entry(offer.instance.clone()).or_default().insert(job.id.clone());
        }
        if let Some(run) = &job.execution {
            self.runs.entry(run.instance.clone()).or_default().insert(job.id.clone());
        }
        if let Some(name) = stranger(job) {
            self.strangers.entry(name.clone()).or_default().insert(job.id.clone());
        }
    }

    /// Counts a job out, as it was counted in.
    pub(super) fn remove(&mut self, open: &Open) {
        let job = &open.job;
        let aged = (job.queued_at, job.id.clone());
        match Side::of(open) {
            Side::Queued(pool) => take(&mut self.queued, &pool, &aged),
            Side::Held(want, pool) => {
                take(&mut self.held, &want, &aged);
                if let Some(pool) = pool {
                    take(&mut self.blocked, &pool, &aged);
                }
            }
            Side::Served(pool) => {
                if let Some(pool) = pool
                    && let Some(count) = self.served.get_mut(&pool)
                {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.served.remove(&pool);
                    }
                }
            }
            Side::Quiet => {}
        }
        if let Some(offer) = job.open_offer() {
            take(&mut self.offers, &offer.instance, &job.id);
        }
        if let Some(run) = &job.execution {
            take(&mut self.runs, &run.instance, &job.id);
        }
        if let Some(name) = stranger(job) {
            take(&mut self.strangers, name, &job.id);
        }
    }

    /// Returns the jobs in progress on a runner of this name or of a further mint's, which nobody
    /// has answered to.
    pub(super) fn strangers_of(&self, first: &RunnerName) -> impl Iterator<Item = &JobId> {
        let of_this = move |name: &RunnerName| name.is_of(first.as_str());
        self.strangers
            .range(first.clone()..)
            .take_while(|(name, _)| name.as_str().starts_with(first.as_str()))
            .filter(move |(name, _)| of_this(name))
            .flat_map(|(_, jobs)| jobs)
    }

    /// Returns how many jobs wait for a pool.
    pub(super) fn waiting(&self, pool: &PoolId) -> usize {
        self.queued.get(pool).map_or(0, BTreeSet::len)
    }

    /// Returns how many jobs wait for, are promised to, or run on a pool's instances.
    pub(super) fn load(&self, pool: &PoolId) -> usize {
        self.waiting(pool) + self.served.get(pool).map_or(0, |count| *count as usize)
    }

    /// Returns whether an instance is promised to a job or runs one.
    pub(super) fn is_taken(&self, instance: &InstanceId) -> bool {
        self.offers.contains_key(instance) || self.runs.contains_key(instance)
    }
}

/// Names the one line a job stands in.
enum Side {
    Queued(PoolId),
    Held(Want, Option<PoolId>),
    Served(Option<PoolId>),
    Quiet,
}

impl Side {
    fn of(open: &Open) -> Self {
        let job = &open.job;
        if job.holder().is_some() {
            return Self::Served(job.pool.clone());
        }
        if !job.wants_runner() {
            return Self::Quiet;
        }
        match (&job.pool, open.held) {
            (Some(pool), false) => Self::Queued(pool.clone()),
            (pool, _) => Self::Held(Want::of(job), pool.clone()),
        }
    }
}

/// Returns the runner a job is in progress on, if it is not known to be ours.
fn stranger(job: &Job) -> Option<&RunnerName> {
    let unproven = job.fact == JobFact::InProgress && job.execution.is_none();
    job.runner.as_ref().filter(|_| unproven)
}

/// Takes one out of a group, and the group with its last.
fn take<K: Ord, V: Ord>(groups: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(group) = groups.get_mut(key) {
        group.remove(value);
        if group.is_empty() {
            groups.remove(key);
        }
    }
}
