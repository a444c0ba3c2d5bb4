//! What time alone decides, and what it never does: an undelivered offer lapses, a job that no
//! runner took becomes stale; a delivered offer and a running job never grow too old.

use std::time::Duration;

use super::open_jobs::OpenJobs;
use crate::model::{InstanceId, JobId, OfferStage, Timestamp, is_due};

/// The forge itself gives up a job that no runner took for this long.
pub(crate) const STALE_AFTER: Duration = Duration::from_hours(24);

/// Returns the jobs whose undelivered offer is older than `lapse_after`.
pub(super) fn lapsed_offers(jobs: &OpenJobs, lapse_after: Duration, now: Timestamp) -> Vec<JobId> {
    let is_old = |job: &&JobId| {
        jobs.get(job).and_then(|job| job.open_offer()).is_some_and(|offer| {
            offer.stage == OfferStage::Offered && is_due(offer.since, lapse_after, now)
        })
    };
    jobs.index().offered().filter(is_old).cloned().collect()
}

/// Returns the jobs that no runner took for a day.
pub(super) fn stale_jobs(jobs: &OpenJobs, now: Timestamp) -> Vec<JobId> {
    let old = jobs.index().queues().flat_map(|queue| {
        queue.iter().take_while(|(queued_at, _)| is_due(*queued_at, STALE_AFTER, now))
    });
    let resting = jobs.index().resting().map(|(_, job)| job);
    let resting = resting
        .filter(|id| jobs.get(id).is_some_and(|job| is_due(job.queued_at, STALE_AFTER, now)));
    // A job that a deployment rule held back for days may have been released just now: it is
    // old by the forge's clock and young in our queue.
    let waited =
        |id: &&JobId| jobs.get(id).is_some_and(|job| is_due(job.heard_at, STALE_AFTER, now));
    old.map(|(_, job)| job).chain(resting).filter(waited).cloned().collect()
}

/// Returns the jobs that run on an instance which lost its runner, and that the forge is to be
/// asked about: it may have given them back to its queue. A job that it has answered about
/// within `ask_again_after` waits.
pub(super) fn jobs_to_ask_about(
    instance: &InstanceId,
    jobs: &OpenJobs,
    ask_again_after: Duration,
    now: Timestamp,
) -> Vec<JobId> {
    let mut running = jobs.index().running_on(instance);
    running.retain(|job| {
        let last = jobs.get(job).and_then(|job| job.asked.last_at);
        last.is_none_or(|last| is_due(last, ask_again_after, now))
    });
    running
}
