//! How often a job was tried in vain, and when it is tried again.
//!
//! An *attempt* is an offer whose JIT config was handed out. When the forge still calls its job
//! queued after that, the attempt came to nothing, and it cost a registration and a machine. So a job
//! whose attempts keep failing rests for longer and longer, and after six of them it is *parked*:
//! tried every hour. A sign that its pool works again cuts the rest short.
//!
//! A job that rests is demand of no pool; it keeps the one it has.

use std::collections::BTreeMap;
use std::time::Duration;

use super::open_jobs::OpenJobs;
use crate::model::{
    Attempt, InstanceId, Job, JobId, OpenOffer, PoolId, Timestamp, VerdictClass, What, after,
};

/// How long a job rests before its first attempts.
const RESTS: [Duration; 6] = [
    Duration::ZERO,
    Duration::ZERO,
    Duration::from_secs(30),
    Duration::from_mins(2),
    Duration::from_mins(8),
    Duration::from_mins(30),
];
/// How long a parked job rests.
const PARKED_REST: Duration = Duration::from_hours(1);
/// How long a job rests once its pool showed that it works.
const SHORT_REST: Duration = Duration::from_secs(30);

/// How many attempts are kept for `explain`.
const MAX_KEPT: usize = 8;

/// Returns how long a job rests whose attempts failed so often.
pub(super) fn rest_after(failed: u32) -> Duration {
    let next = usize::try_from(failed).ok().and_then(|failed| RESTS.get(failed));
    next.copied().unwrap_or(PARKED_REST)
}

/// Remembers which job was tried on which instance, until the verdict of that is known.
#[derive(Default)]
pub(super) struct Attempts {
    by_instance: BTreeMap<InstanceId, JobId>,
}

impl Attempts {
    /// Takes over what the store kept.
    pub(super) fn restore(jobs: &OpenJobs) -> Self {
        let tried = jobs.all().flat_map(|job| {
            let open = job.attempts.last.iter().filter(|attempt| attempt.verdict.is_none());
            open.map(|attempt| (attempt.instance.clone(), job.id.clone()))
        });
        Self { by_instance: tried.collect() }
    }

    /// Takes that a JIT config may be handed out for a job.
    pub(super) fn begin(
        &mut self,
        id: &JobId,
        offer: &OpenOffer,
        jobs: &mut OpenJobs,
        now: Timestamp,
    ) {
        self.by_instance.insert(offer.instance.clone(), id.clone());
        let instance = offer.instance.clone();
        let attempt = Attempt { instance, began: now, failed: None, verdict: None };
        jobs.update(id, now, |job| {
            job.attempts.made = job.attempts.made.saturating_add(1);
            job.attempts.last.push(attempt);
            let surplus = job.attempts.last.len().saturating_sub(MAX_KEPT);
            job.attempts.last.drain(..surplus);
        });
    }

    /// Takes the verdict on an instance: it says why an attempt on it failed.
    pub(super) fn judged(
        &mut self,
        instance: &InstanceId,
        verdict: VerdictClass,
        jobs: &mut OpenJobs,
        now: Timestamp,
    ) {
        let Some(id) = self.by_instance.remove(instance) else { return };
        jobs.update(&id, now, |job| {
            for attempt in job.attempts.last.iter_mut().filter(|it| it.instance == *instance) {
                attempt.verdict = Some(verdict);
            }
        });
    }

    /// Forgets an instance of which nothing is left.
    pub(super) fn forget(&mut self, instance: &InstanceId) {
        self.by_instance.remove(instance);
    }
}

/// Takes that the forge still calls a job queued after its attempt on this instance: the job rests
/// before the next one.
pub(super) fn fail(job: &mut Job, instance: &InstanceId, now: Timestamp) {
    let attempts = &mut job.attempts;
    let stands = |it: &&mut Attempt| it.instance == *instance && it.failed.is_none();
    let Some(attempt) = attempts.last.iter_mut().rev().find(stands) else { return };
    attempt.failed = Some(now);
    attempts.failed = attempts.failed.saturating_add(1);
    let rest = rest_after(attempts.failed);
    attempts.rests_until = (!rest.is_zero()).then(|| after(now, rest));
}

/// Ends the rest of the jobs whose time has come; returns them.
pub(super) fn wake(jobs: &mut OpenJobs, now: Timestamp) -> Vec<JobId> {
    let resting = jobs.index().resting();
    let due: Vec<JobId> =
        resting.take_while(|(until, _)| *until <= now).map(|(_, job)| job.clone()).collect();
    for job in &due {
        jobs.update(job, now, |job| job.attempts.rests_until = None);
    }
    due
}

/// Cuts the rest of a pool's jobs short: it served another job, or something changed there.
pub(super) fn hurry(pool: &PoolId, why: &str, jobs: &mut OpenJobs, now: Timestamp) {
    let soon = after(now, SHORT_REST);
    let late = jobs.index().resting().filter(|(until, _)| *until > soon);
    let of_pool = |id: &&JobId| jobs.get(id).is_some_and(|job| job.pool.as_ref() == Some(pool));
    let late: Vec<JobId> = late.map(|(_, id)| id).filter(of_pool).cloned().collect();
    for id in late {
        jobs.update(&id, now, |job| job.attempts.rests_until = Some(soon));
        jobs.record(&id, What::RestCut(why.to_owned()), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_before_the_attempts_of_a_job_grow_and_then_it_is_parked() {
        let waits: Vec<u64> = (0..9).map(|failed| rest_after(failed).as_secs()).collect();
        assert_eq!(waits, [0, 0, 30, 120, 480, 1800, 3600, 3600, 3600]);
    }
}
