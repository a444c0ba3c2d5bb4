//! What time alone decides, and what it never does.

use std::time::Duration;

use super::change::Change;
use super::ledger::Ledger;
use super::memory::REMEMBERED;
use crate::model::{Closure, JobId, OfferEnd, OfferStage, Timestamp, is_due};

/// The forge itself gives up a job that no runner took for this long.
pub(crate) const STALE: Duration = Duration::from_hours(24);

impl Ledger {
    /// Lets undelivered offers lapse, closes stale jobs, forgets what is old.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Change {
        for job in self.lapsed(now) {
            self.end_offer(&job, OfferEnd::Lapsed, now);
        }
        for job in self.stale(now) {
            self.close(&job, Closure::Stale, now);
        }
        self.change.save.forget_before = self.tombstones.forget(now);
        self.closed.retain(|_, job| !is_due(job.over_at.unwrap_or(job.heard_at), REMEMBERED, now));
        self.in_sight.retain(|_, at| !is_due(*at, REMEMBERED, now));
        self.finish(now)
    }

    /// Returns undelivered offers that grew old. A delivered one never does.
    fn lapsed(&self, now: Timestamp) -> Vec<JobId> {
        let offered = self.index.offers.values().flatten();
        let is_old = |job: &&JobId| {
            self.offer_of(job).is_some_and(|offer| {
                offer.stage == OfferStage::Offered
                    && is_due(offer.since, self.settings.offer_stale, now)
            })
        };
        offered.filter(is_old).cloned().collect()
    }

    /// Returns jobs that nobody served for a day.
    fn stale(&self, now: Timestamp) -> Vec<JobId> {
        let lines = self.index.queued.values().chain(self.index.held.values());
        let old = lines.flat_map(|line| {
            line.iter().take_while(|(queued_at, _)| is_due(*queued_at, STALE, now))
        });
        // A job that a deployment rule held back for days may have been released just now: it is
        // old by the forge's clock and young in our line.
        let waited = |id: &&JobId| self.job(id).is_some_and(|job| is_due(job.heard_at, STALE, now));
        old.map(|(_, job)| job).filter(waited).cloned().collect()
    }
}
