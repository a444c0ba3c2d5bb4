//! What time alone decides, and what it never does: an undelivered offer lapses, a job that no
//! runner took becomes stale; a delivered offer and a running job never grow too old.

use std::time::Duration;

use super::open_jobs::OpenJobs;
use crate::model::{InstanceId, JobId, OfferStage, Timestamp, is_due};
use crate::settings::RequeueSettings;

/// The forge itself gives up a job that no runner took for this long.
pub(crate) const STALE_AFTER: Duration = Duration::from_hours(24);

/// Knows the ages from which something is done.
pub(super) struct Expiry {
    settings: RequeueSettings,
}

impl Expiry {
    pub(super) fn new(settings: RequeueSettings) -> Self {
        Self { settings }
    }

    /// Returns the jobs whose undelivered offer is too old.
    pub(super) fn lapsed_offers(&self, jobs: &OpenJobs, now: Timestamp) -> Vec<JobId> {
        let is_old = |job: &&JobId| {
            jobs.get(job).and_then(|job| job.open_offer()).is_some_and(|offer| {
                offer.stage == OfferStage::Offered
                    && is_due(offer.since, self.settings.offer_stale, now)
            })
        };
        jobs.index().offered().filter(is_old).cloned().collect()
    }

    /// Returns the jobs that no runner took for a day.
    pub(super) fn stale_jobs(&self, jobs: &OpenJobs, now: Timestamp) -> Vec<JobId> {
        let old = jobs.index().queues().flat_map(|queue| {
            queue.iter().take_while(|(queued_at, _)| is_due(*queued_at, STALE_AFTER, now))
        });
        // A job that a deployment rule held back for days may have been released just now: it is
        // old by the forge's clock and young in our queue.
        let waited =
            |id: &&JobId| jobs.get(id).is_some_and(|job| is_due(job.heard_at, STALE_AFTER, now));
        old.map(|(_, job)| job).filter(waited).cloned().collect()
    }

    /// Returns the jobs that ran on an instance which lost its runner, and that the forge is to
    /// be asked about: it may have given them back to its queue. One that it has just answered
    /// about waits.
    pub(super) fn jobs_to_ask_about(
        &self,
        instance: &InstanceId,
        jobs: &OpenJobs,
        now: Timestamp,
    ) -> Vec<JobId> {
        let mut running = jobs.index().running_on(instance);
        running.retain(|job| {
            let last = jobs.get(job).and_then(|job| job.asked.last_at);
            last.is_none_or(|last| is_due(last, self.settings.orphan_after, now))
        });
        running
    }
}
