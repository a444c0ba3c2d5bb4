//! Our half of a job: who is promised to it, and how a promise ends.
//!
//! ```text
//! none ─▶ offered ─▶ delivered ─▶ ended (why)
//!            └───────────────────▶ ended: refused, lapsed, the instance ended
//! ```
//!
//! An offer is committed before the instance hears of it. `offered` lapses by age. Once it
//! is `delivered`, a JIT config may be out: no age and no error ends it, only the forge's
//! word or a displacing execution.

use super::change::{Act, Change};
use super::demand::Seat;
use super::ledger::Ledger;
use crate::model::{
    Generation, InstanceId, JobId, Offer, OfferEnd, OfferStage, OpenOffer, PoolId, Refusal,
    Timestamp, What,
};

impl Ledger {
    /// Marks an offer as delivered, if it stands; the answer counts once the change is saved.
    pub(crate) fn deliver(
        &mut self,
        id: &JobId,
        instance: &InstanceId,
        generation: Generation,
        now: Timestamp,
    ) -> (Change, bool) {
        let standing = self.standing_offer(id, instance, generation);
        if standing == Some(OfferStage::Offered) {
            self.amend(id, now, |job| {
                if let Offer::Open(open) = &mut job.offer {
                    (open.stage, open.since) = (OfferStage::Delivered, now);
                }
            });
            self.note(id, What::DeliveredTo(instance.clone()), now);
        }
        (self.finish(now), standing.is_some())
    }

    /// Returns whether an offer still stands; an instance that missed its execution is told.
    pub(crate) fn is_open(
        &mut self,
        id: &JobId,
        instance: &InstanceId,
        generation: Generation,
        now: Timestamp,
    ) -> (Change, bool) {
        let standing = self.standing_offer(id, instance, generation);
        let run = self.job(id).and_then(|job| job.execution.as_ref());
        if standing.is_none() && run.is_some_and(|run| run.instance == *instance) {
            self.act(Act::ShowExecution { instance: instance.clone(), job: id.clone() });
        }
        (self.finish(now), standing.is_some())
    }

    /// Learns what an instance says to an offer; only one that was not delivered can fail.
    pub(crate) fn offer_answered(
        &mut self,
        id: &JobId,
        instance: &InstanceId,
        generation: Generation,
        answer: Option<Result<(), Refusal>>,
        now: Timestamp,
    ) -> Change {
        let taken = matches!(answer, Some(Ok(())));
        let standing = self.standing_offer(id, instance, generation);
        if !taken && standing == Some(OfferStage::Offered) {
            self.end_offer(id, OfferEnd::Refused, now);
        }
        self.finish(now)
    }

    fn standing_offer(
        &self,
        id: &JobId,
        instance: &InstanceId,
        generation: Generation,
    ) -> Option<OfferStage> {
        let offer = self.offer_of(id)?;
        let same = offer.instance == *instance && offer.generation == generation;
        same.then_some(offer.stage)
    }

    /// Ends an open offer, tells the instance, and finds the job its place in line again.
    pub(super) fn end_offer(&mut self, id: &JobId, why: OfferEnd, now: Timestamp) {
        let Some(offer) = self.offer_of(id) else { return };
        self.amend(id, now, |job| job.offer = Offer::Ended { why, at: now });
        self.note(id, What::Unoffered { instance: offer.instance.clone(), why }, now);
        // One that runs its own job was told that it does.
        if why != OfferEnd::Executed {
            self.tell_end(offer.instance, id, offer.generation, why);
        }
        self.assign(id, Seat::Kept, now);
    }

    /// Offers the oldest waiting jobs to those who have waited longest for one.
    pub(super) fn pair(&mut self, now: Timestamp) {
        let pools: Vec<PoolId> = self.pools.iter().map(|pool| pool.spec.id.clone()).collect();
        for pool in &pools {
            while let Some((job, instance)) = self.next_pair(pool) {
                self.offer(&job, instance, now);
            }
        }
    }

    fn next_pair(&self, pool: &PoolId) -> Option<(JobId, InstanceId)> {
        let (_, job) = self.index.queued.get(pool)?.first()?;
        let instance = self.free(pool).next()?;
        Some((job.clone(), instance.clone()))
    }

    fn offer(&mut self, id: &JobId, instance: InstanceId, now: Timestamp) {
        let Some(generation) = self.job(id).map(|job| job.generation.next()) else { return };
        self.instances.leave(&instance);
        let stage = OfferStage::Offered;
        let open = OpenOffer { instance: instance.clone(), generation, stage, since: now };
        self.amend(id, now, |job| {
            (job.generation, job.offer) = (generation, Offer::Open(open));
        });
        self.note(id, What::OfferedTo(instance.clone()), now);
        self.act(Act::Offer { instance, job: id.clone(), generation, delivered: false });
    }
}
