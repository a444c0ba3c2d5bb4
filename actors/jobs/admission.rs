//! Which reported jobs concern us.
//!
//! An organization's webhook reports every job, those on hosted runners too. A job is admitted
//! (it gets a row) when some pool could serve it, or when it runs on a runner of ours. Any other
//! job is only remembered, so that `explain` can say why no pool serves it and so that it is
//! admitted once a pool can.

use std::collections::{BTreeMap, VecDeque};

use super::change::Act;
use super::index::JobIndex;
use super::open_jobs::OpenJobs;
use super::routing::{JobRequirements, JobRoute};
use crate::model::{
    Asked, Event, Generation, Home, Job, JobAttempts, JobFact, JobId, JobNotice, Offer, PoolId,
    Subject, Timestamp, What,
};

/// How many jobs that no pool serves are kept for `explain`.
const MAX_UNSERVED: usize = 1000;

/// Decides which jobs are admitted, and remembers the last ones that were not.
#[derive(Default)]
pub(super) struct Admission {
    /// Where the runners of pools register, also of those that have left the config.
    homes: BTreeMap<PoolId, Home>,
    unserved: BTreeMap<JobId, Job>,
    /// The unserved, oldest report first.
    order: VecDeque<JobId>,
}

impl Admission {
    /// Learns where the runners of a pool of the config register.
    pub(super) fn set_home(&mut self, pool: &PoolId, home: Home) {
        self.homes.insert(pool.clone(), home);
    }

    /// Learns from a row where the runners of its pool register; the config knows better.
    pub(super) fn suppose_home(&mut self, pool: &PoolId, home: impl FnOnce() -> Home) {
        self.homes.entry(pool.clone()).or_insert_with(home);
    }

    /// Returns a job that no pool serves, if it is still remembered.
    pub(super) fn unserved(&self, id: &JobId) -> Option<&Job> {
        self.unserved.get(id)
    }

    /// Admits a job that is not open, if it concerns us; returns whether it does. `runs_in` is
    /// the pool of the instance that answers to the runner the notice names.
    pub(super) fn admit(
        &mut self,
        notice: &JobNotice,
        runs_in: Option<&PoolId>,
        route: impl Fn(&JobRequirements, &JobIndex) -> JobRoute,
        jobs: &mut OpenJobs,
        now: Timestamp,
    ) -> bool {
        let id = &notice.id;
        let ours = runs_in.is_some_and(|pool| self.could_run_in(pool, notice));
        if let Some(job) = self.unserved.get_mut(id) {
            // It was held back by its forge when no pool could serve it, and a pool can now.
            let released = notice.fact == JobFact::Queued && job.fact == JobFact::Waiting;
            let is_served =
                || !matches!(route(&JobRequirements::of(job), jobs.index()), JobRoute::Unserved(_));
            if released && is_served() {
                return self.recall(id, jobs, now);
            }
            if notice.fact.rank() > job.fact.rank() {
                job.fact = notice.fact.clone();
                jobs.send(Act::Show(Box::new(job.clone())));
            }
            return ours && self.recall(id, jobs, now);
        }
        let mut job = first_report(notice, now);
        match route(&JobRequirements::of(&job), jobs.index()) {
            JobRoute::To(pool) | JobRoute::Held { pool, .. } => job.pool = Some(pool),
            JobRoute::Unserved(_) if ours => {}
            JobRoute::Unserved(why) => {
                self.reject(job, notice.fact.clone(), why, jobs, now);
                return false;
            }
        }
        jobs.add_new(job, now);
        if notice.fact == JobFact::Waiting {
            jobs.record(id, What::JobReported(JobFact::Waiting), now);
        }
        true
    }

    /// Opens a job that no pool could serve; returns whether it was remembered.
    pub(super) fn recall(&mut self, id: &JobId, jobs: &mut OpenJobs, now: Timestamp) -> bool {
        let Some(job) = self.unserved.remove(id) else { return false };
        self.order.retain(|kept| kept != id);
        jobs.add(job, now);
        true
    }

    /// Returns the remembered jobs that some pool can serve by now.
    pub(super) fn served_now(&self, route: impl Fn(&JobRequirements) -> JobRoute) -> Vec<JobId> {
        let queued = self.unserved.values().filter(|job| job.fact == JobFact::Queued);
        queued
            .filter(|job| !matches!(route(&JobRequirements::of(job)), JobRoute::Unserved(_)))
            .map(|job| job.id.clone())
            .collect()
    }

    /// Returns whether a runner of this pool could have taken such a job. Forges have delivered
    /// events of foreign repositories: a runner's name alone proves nothing, and neither does the name
    /// of one whose pool has left the config.
    fn could_run_in(&self, pool: &PoolId, notice: &JobNotice) -> bool {
        let home = self.homes.get(pool);
        home.is_some_and(|home| home.forge == notice.id.forge && home.scope.covers(&notice.place))
    }

    /// Remembers a job that no pool serves, and announces it; it gets no row.
    fn reject(
        &mut self,
        job: Job,
        fact: JobFact,
        why: String,
        jobs: &mut OpenJobs,
        now: Timestamp,
    ) {
        if fact.is_over() {
            return;
        }
        let subject = Subject::Job(job.id.clone());
        let what = What::Unserved(why);
        jobs.send(Act::Announce(Event { subject, seq: 0, at: now, last_at: now, count: 1, what }));
        let job = Job { fact, ..job };
        jobs.send(Act::Show(Box::new(job.clone())));
        if let Some(dropped) = self.remember(job) {
            jobs.send(Act::Hide(dropped));
        }
    }

    /// Remembers a job; returns the one that is dropped for it.
    fn remember(&mut self, job: Job) -> Option<JobId> {
        let id = job.id.clone();
        if self.unserved.insert(id.clone(), job).is_some() {
            return None;
        }
        self.order.push_back(id);
        if self.order.len() <= MAX_UNSERVED {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.unserved.remove(&oldest).map(|job| job.id)
    }
}

/// Returns the record of a job that is reported for the first time.
fn first_report(notice: &JobNotice, now: Timestamp) -> Job {
    Job {
        id: notice.id.clone(),
        place: notice.place.clone(),
        run: notice.run,
        name: notice.name.clone(),
        url: notice.url.clone(),
        labels: notice.labels.clone(),
        fact: JobFact::Waiting,
        pool: None,
        offer: Offer::None,
        generation: Generation::default(),
        execution: None,
        closed: None,
        queued_at: notice.queued_at,
        heard_at: now,
        over_at: None,
        runner: None,
        avoid: None,
        attempts: JobAttempts::default(),
        asked: Asked::default(),
        events: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::{QUEUED, T0, id, notice};

    #[test]
    fn the_oldest_unserved_job_is_dropped_for_a_new_one_beyond_the_limit() {
        let (mut admission, mut jobs) = (Admission::default(), OpenJobs::default());
        let unserved = |_: &JobRequirements, _: &JobIndex| JobRoute::Unserved("no pool".into());
        for number in 0..=u64::try_from(MAX_UNSERVED).unwrap() {
            let notice = notice(number, QUEUED, None);
            assert!(!admission.admit(&notice, None, unserved, &mut jobs, T0));
        }
        assert!(admission.unserved(&id(0)).is_none());
        assert!(admission.unserved(&id(1)).is_some());
        let acts = jobs.take_change().acts;
        let hidden: Vec<_> = acts.iter().filter(|act| matches!(act, Act::Hide(_))).collect();
        assert_eq!(hidden, [&Act::Hide(id(0))]);
    }
}
