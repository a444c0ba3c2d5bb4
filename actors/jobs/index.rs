//! The open jobs by each property that a decision looks them up by.
//!
//! The index is derived from the jobs alone: [`OpenJobs`](super::open_jobs::OpenJobs) removes a
//! job before it changes and adds it again after, so the index cannot drift, and an index built
//! anew equals it.

use std::collections::{BTreeMap, BTreeSet};

use super::routing::JobRequirements;
use crate::model::{
    InstanceId, Job, JobFact, JobId, Offer, OfferEnd, PoolId, PoolSpec, RunnerName, Timestamp,
};
use crate::mutants::{self, Mutant};

/// Orders jobs by age.
pub(super) type JobQueue = BTreeSet<(Timestamp, JobId)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobIndex {
    /// Jobs that wait for a runner of a pool.
    queued: BTreeMap<PoolId, JobQueue>,
    /// Jobs that wait for their first choice to take work again.
    blocked: BTreeMap<PoolId, JobQueue>,
    /// Jobs that no pool takes now, by what they require.
    held: BTreeMap<JobRequirements, JobQueue>,
    /// Jobs that rest after attempts which came to nothing, by the end of that.
    resting: JobQueue,
    /// Those that rest, by pool.
    resting_in: BTreeMap<PoolId, BTreeSet<JobId>>,
    /// How many jobs are offered to or run on instances of a pool.
    served: BTreeMap<PoolId, u32>,
    /// Open offers by the instance they are made to.
    offers: BTreeMap<InstanceId, BTreeSet<JobId>>,
    /// Executions by the instance they are proven on.
    executions: BTreeMap<InstanceId, BTreeSet<JobId>>,
    /// Jobs in progress on a runner that no instance has answered to, by its name.
    unclaimed: BTreeMap<RunnerName, BTreeSet<JobId>>,
}

// What decisions look up.
impl JobIndex {
    /// Returns the jobs that wait for a pool.
    pub(super) fn queued(&self, pool: &PoolId) -> Option<&JobQueue> {
        self.queued.get(pool)
    }

    /// Returns the jobs that wait for a pool to take work again.
    pub(super) fn blocked(&self, pool: &PoolId) -> Option<&JobQueue> {
        self.blocked.get(pool)
    }

    /// Returns the jobs that rest, those that wake first at the front.
    pub(super) fn resting(&self) -> impl Iterator<Item = &(Timestamp, JobId)> {
        self.resting.iter()
    }

    /// Returns whether a job of this pool rests.
    pub(super) fn rests_in(&self, pool: &PoolId) -> bool {
        self.resting_in.contains_key(pool)
    }

    /// Returns the jobs of a pool that rest.
    pub(super) fn resting_of(&self, pool: &PoolId) -> impl Iterator<Item = &JobId> {
        self.resting_in.get(pool).into_iter().flatten()
    }

    /// Returns every job that waits for a runner.
    pub(super) fn waiting_jobs(&self) -> JobQueue {
        self.queues().flatten().cloned().collect()
    }

    /// Returns every queue of waiting jobs.
    pub(super) fn queues(&self) -> impl Iterator<Item = &JobQueue> {
        self.queued.values().chain(self.held.values())
    }

    /// Returns the oldest job that no pool took and that this pool could serve.
    pub(super) fn oldest_held(&self, pool: &PoolSpec) -> Option<&JobId> {
        let fitting = self.held.iter().filter(|(requirements, _)| requirements.fit(pool));
        fitting.filter_map(|(_, queue)| queue.first()).min().map(|(_, job)| job)
    }

    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns how many jobs wait for a pool.
    pub(super) fn queue_length(&self, pool: &PoolId) -> usize {
        self.queued.get(pool).map_or(0, BTreeSet::len)
    }

    /// Returns how many jobs wait for, are offered to, or run on a pool's instances.
    pub(super) fn load(&self, pool: &PoolId) -> usize {
        self.queue_length(pool) + self.served.get(pool).map_or(0, |count| *count as usize)
    }

    /// Returns whether an instance has an open offer or runs a job.
    pub(super) fn is_taken(&self, instance: &InstanceId) -> bool {
        self.offers.contains_key(instance) || self.executions.contains_key(instance)
    }

    /// Returns the jobs that have an open offer.
    pub(super) fn offered(&self) -> impl Iterator<Item = &JobId> {
        self.offers.values().flatten()
    }

    pub(super) fn offered_to(&self, instance: &InstanceId) -> Vec<JobId> {
        self.offers.get(instance).into_iter().flatten().cloned().collect()
    }

    pub(super) fn running_on(&self, instance: &InstanceId) -> Vec<JobId> {
        self.executions.get(instance).into_iter().flatten().cloned().collect()
    }

    /// Returns the jobs in progress on a runner of this name or of a further mint's, which no
    /// instance has answered to.
    pub(super) fn unclaimed(&self, first: &RunnerName) -> impl Iterator<Item = &JobId> {
        let of_this = move |name: &RunnerName| name.is_of(first.as_str());
        self.unclaimed
            .range(first.clone()..)
            .take_while(|(name, _)| name.as_str().starts_with(first.as_str()))
            .filter(move |(name, _)| of_this(name))
            .flat_map(|(_, jobs)| jobs)
    }
}

// How it follows the jobs.
impl JobIndex {
    /// Adds a job; `held` tells whether no pool takes it now.
    pub(super) fn add(&mut self, job: &Job, held: bool) {
        let aged = || (job.queued_at, job.id.clone());
        match WaitGroup::of(job, held) {
            WaitGroup::Queued(pool) => {
                self.queued.entry(pool).or_default().insert(aged());
            }
            WaitGroup::Held(requirements, pool) => {
                self.held.entry(requirements).or_default().insert(aged());
                if let Some(pool) = pool {
                    self.blocked.entry(pool).or_default().insert(aged());
                }
            }
            WaitGroup::Resting(until) => {
                self.resting.insert((until, job.id.clone()));
                if let Some(pool) = &job.pool {
                    self.resting_in.entry(pool.clone()).or_default().insert(job.id.clone());
                }
            }
            WaitGroup::Served(pool) => {
                if let Some(pool) = pool {
                    *self.served.entry(pool).or_default() += 1;
                }
            }
            WaitGroup::None => {}
        }
        if let Some(offer) = job.open_offer() {
            self.offers.entry(offer.instance.clone()).or_default().insert(job.id.clone());
        }
        if let Some(run) = &job.execution {
            self.executions.entry(run.instance.clone()).or_default().insert(job.id.clone());
        }
        if let Some(name) = unclaimed_runner(job) {
            self.unclaimed.entry(name.clone()).or_default().insert(job.id.clone());
        }
    }

    /// Removes a job that was added as it is now.
    pub(super) fn remove(&mut self, job: &Job, held: bool) {
        let aged = (job.queued_at, job.id.clone());
        match WaitGroup::of(job, held) {
            WaitGroup::Queued(pool) => take(&mut self.queued, &pool, &aged),
            WaitGroup::Held(requirements, pool) => {
                take(&mut self.held, &requirements, &aged);
                if let Some(pool) = pool {
                    take(&mut self.blocked, &pool, &aged);
                }
            }
            WaitGroup::Resting(until) => {
                self.resting.remove(&(until, job.id.clone()));
                if let Some(pool) = &job.pool {
                    take(&mut self.resting_in, pool, &job.id);
                }
            }
            WaitGroup::Served(pool) => {
                if let Some(pool) = pool
                    && let Some(count) = self.served.get_mut(&pool)
                {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.served.remove(&pool);
                    }
                }
            }
            WaitGroup::None => {}
        }
        if let Some(offer) = job.open_offer() {
            take(&mut self.offers, &offer.instance, &job.id);
        }
        if let Some(run) = &job.execution {
            take(&mut self.executions, &run.instance, &job.id);
        }
        if let Some(name) = unclaimed_runner(job) {
            take(&mut self.unclaimed, name, &job.id);
        }
    }
}

/// Names the one group of waiting or served jobs that a job belongs to.
enum WaitGroup {
    Queued(PoolId),
    Held(JobRequirements, Option<PoolId>),
    Resting(Timestamp),
    Served(Option<PoolId>),
    None,
}

impl WaitGroup {
    fn of(job: &Job, held: bool) -> Self {
        if job.holder().is_some() {
            return Self::Served(job.pool.clone());
        }
        if !job.wants_runner() || is_parked_for_ever(job) {
            return Self::None;
        }
        if let Some(until) = job.attempts.rests_until {
            return Self::Resting(until);
        }
        match (&job.pool, held) {
            (Some(pool), false) => Self::Queued(pool.clone()),
            (pool, _) => Self::Held(JobRequirements::of(job), pool.clone()),
        }
    }
}

/// Returns whether a job is given up after one attempt: a deliberate mistake.
fn is_parked_for_ever(job: &Job) -> bool {
    let in_vain = matches!(job.offer, Offer::Ended { why: OfferEnd::Requeued, .. });
    in_vain && mutants::is(Mutant::ParkedForever)
}

/// Returns the runner a job is in progress on, if it is not known to be ours.
fn unclaimed_runner(job: &Job) -> Option<&RunnerName> {
    let unproven = job.fact == JobFact::InProgress && job.execution.is_none();
    job.runner.as_ref().filter(|_| unproven).map(|runner| &runner.name)
}

/// Removes a value from a group, and the group with its last value.
fn take<K: Ord, V: Ord>(groups: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(group) = groups.get_mut(key) {
        group.remove(value);
        if group.is_empty() {
            groups.remove(key);
        }
    }
}
