//! Our half of a job: which instance should serve it, and how that ends.
//!
//! ```text
//! none ─▶ offered ─▶ delivered ─▶ ended (why)
//!            └───────────────────▶ ended: refused, lapsed, not fetched, the instance ended
//! ```
//!
//! An offer is committed before the instance gets it. `offered` lapses by age. Once it
//! is `delivered`, a JIT config may be out: no age and no error ends it, only the forge's
//! word or a displacing execution. The next offer of a job avoids the host of one that failed.

use std::collections::BTreeMap;

use super::change::{Act, JobEffect};
use super::demand::Prefer;
use super::index::JobIndex;
use super::open_jobs::OpenJobs;
use crate::model::{
    Generation, HostName, InstanceId, JobId, Offer, OfferEnd, OfferStage, OpenOffer, PoolId,
    Timestamp, What,
};
use crate::requeue::AskReason;

/// Makes offers, and remembers the instances that wait for one. The open offers themselves are
/// fields of the jobs.
#[derive(Default)]
pub(super) struct Offers {
    /// The queue of each pool, longest waiting first.
    waiting: BTreeMap<PoolId, BTreeMap<u64, InstanceId>>,
    /// Where in which queue an instance is.
    positions: BTreeMap<InstanceId, QueuePosition>,
    /// The next position; positions are never used again.
    next: u64,
}

/// Tells where an instance waits.
struct QueuePosition {
    pool: PoolId,
    number: u64,
    /// Where its machine runs, if that is known.
    host: Option<HostName>,
}

/// Names one offer: answers to an earlier one of the same job do not match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfferKey {
    pub(crate) job: JobId,
    pub(crate) instance: InstanceId,
    pub(crate) generation: Generation,
}

// The instances that wait.
impl Offers {
    /// Puts an instance at the end of its pool's queue, unless it is in it.
    pub(super) fn wait(&mut self, id: &InstanceId, pool: &PoolId, host: Option<HostName>) {
        if self.positions.contains_key(id) {
            return;
        }
        let position = QueuePosition { pool: pool.clone(), number: self.next, host };
        self.positions.insert(id.clone(), position);
        self.waiting.entry(pool.clone()).or_default().insert(self.next, id.clone());
        self.next += 1;
    }

    /// Takes an instance out of its pool's queue.
    pub(super) fn withdraw(&mut self, id: &InstanceId) {
        if let Some(QueuePosition { pool, number, .. }) = self.positions.remove(id)
            && let Some(queue) = self.waiting.get_mut(&pool)
        {
            queue.remove(&number);
        }
    }

    /// Returns the instances of a pool that wait for an offer and hold no job, longest first.
    pub(super) fn free(&self, pool: &PoolId, jobs: &JobIndex) -> impl Iterator<Item = &InstanceId> {
        let queue = self.waiting.get(pool).into_iter().flat_map(BTreeMap::values);
        queue.filter(|id| !jobs.is_taken(id))
    }

    /// Offers the oldest waiting jobs to the instances that have waited longest.
    pub(super) fn offer_all(&mut self, pools: &[PoolId], jobs: &mut OpenJobs, now: Timestamp) {
        for pool in pools {
            while let Some((job, instance)) = self.next_pair(pool, jobs) {
                self.offer(&job, instance, jobs, now);
            }
        }
    }

    /// Offers the job that was tried least often to a runner of a pool whose breaker is open, also
    /// one that rests: the runner is a probe, and a fresh job says most about it.
    pub(super) fn offer_to_probe(&mut self, pool: &PoolId, jobs: &mut OpenJobs, now: Timestamp) {
        while let Some((job, instance)) = self.probe_pair(pool, jobs) {
            jobs.update(&job, now, |job| job.attempts.rests_until = None);
            self.offer(&job, instance, jobs, now);
        }
    }

    fn probe_pair(&self, pool: &PoolId, jobs: &OpenJobs) -> Option<(JobId, InstanceId)> {
        let tried = |id: &&JobId| {
            jobs.get(id).map(|job| (job.attempts.failed, job.queued_at, job.id.clone()))
        };
        let job = jobs.index().resting_of(pool).min_by_key(tried)?;
        let instance = self.free(pool, jobs.index()).next()?;
        Some((job.clone(), instance.clone()))
    }

    fn next_pair(&self, pool: &PoolId, jobs: &OpenJobs) -> Option<(JobId, InstanceId)> {
        let (_, job) = jobs.index().queued(pool)?.first()?;
        let avoid = jobs.get(job).and_then(|job| job.avoid.as_ref());
        let mut free = self.free(pool, jobs.index()).peekable();
        let longest = free.peek().copied()?;
        // Where there is nothing else, the host may have recovered.
        let elsewhere = match avoid {
            Some(avoid) => free.find(|instance| self.host_of(instance) != Some(avoid)),
            None => None,
        };
        Some((job.clone(), elsewhere.unwrap_or(longest).clone()))
    }

    fn host_of(&self, instance: &InstanceId) -> Option<&HostName> {
        self.positions.get(instance).and_then(|position| position.host.as_ref())
    }

    fn offer(&mut self, id: &JobId, instance: InstanceId, jobs: &mut OpenJobs, now: Timestamp) {
        let Some(generation) = jobs.get(id).map(|job| job.generation.next()) else { return };
        let host = self.host_of(&instance).cloned();
        self.withdraw(&instance);
        let stage = OfferStage::Offered;
        let open = OpenOffer { instance: instance.clone(), generation, stage, since: now, host };
        jobs.update(id, now, |job| {
            (job.generation, job.offer) = (generation, Offer::Open(open));
        });
        jobs.record(id, What::OfferedTo(instance.clone()), now);
        jobs.send(Act::Offer { instance, job: id.clone(), generation, delivered: false });
    }
}

/// Returns how far an offer is, if it is still the open one.
pub(super) fn stage_of(offer: &OfferKey, jobs: &OpenJobs) -> Option<OfferStage> {
    let open = jobs.get(&offer.job)?.open_offer()?;
    let same = open.instance == offer.instance && open.generation == offer.generation;
    same.then_some(open.stage)
}

/// Marks an offer as delivered, if it is open; returns whether it is. The answer counts once the
/// change is saved.
pub(super) fn deliver(offer: &OfferKey, jobs: &mut OpenJobs, now: Timestamp) -> bool {
    let stage = stage_of(offer, jobs);
    if stage == Some(OfferStage::Offered) {
        jobs.update(&offer.job, now, |job| {
            if let Offer::Open(open) = &mut job.offer {
                (open.stage, open.since) = (OfferStage::Delivered, now);
            }
        });
        jobs.record(&offer.job, What::DeliveredTo(offer.instance.clone()), now);
    }
    stage.is_some()
}

/// Returns whether an offer is open; an instance that missed its execution gets it again.
pub(super) fn is_open(offer: &OfferKey, jobs: &mut OpenJobs) -> bool {
    let open = stage_of(offer, jobs).is_some();
    let run = jobs.get(&offer.job).and_then(|job| job.execution.as_ref());
    if !open && run.is_some_and(|run| run.instance == offer.instance) {
        let (instance, job) = (offer.instance.clone(), offer.job.clone());
        jobs.send(Act::ShowExecution { instance, job });
    }
    open
}

/// Ends an open offer, tells the instance, and lets the job wait for a runner again.
pub(super) fn end(
    id: JobId,
    why: OfferEnd,
    jobs: &mut OpenJobs,
    now: Timestamp,
) -> Option<JobEffect> {
    let OpenOffer { instance, generation, host, .. } = jobs.get(&id)?.open_offer()?.clone();
    jobs.update(&id, now, |job| {
        job.offer = Offer::Ended { why, at: now };
        if why == OfferEnd::NotFetched {
            job.avoid = host;
        }
    });
    jobs.record(&id, What::Unoffered { instance: instance.clone(), why }, now);
    // An instance that runs the very job it was offered got its execution.
    if why != OfferEnd::Executed {
        jobs.send(Act::EndOffer { instance, job: id.clone(), generation, why });
    }
    Some(JobEffect::Assign { job: id, prefer: Prefer::CurrentPool })
}

/// Returns the jobs whose JIT config an instance may have handed out.
pub(super) fn delivered_to(instance: &InstanceId, jobs: &OpenJobs) -> Vec<JobId> {
    let mut offered = jobs.index().offered_to(instance);
    offered.retain(|id| {
        let offer = jobs.get(id).and_then(|job| job.open_offer());
        offer.is_some_and(|offer| offer.stage == OfferStage::Delivered)
    });
    offered
}

/// Sends the open offers of an instance again, whose new owner may have missed them.
pub(super) fn repeat(instance: &InstanceId, jobs: &mut OpenJobs) {
    for id in jobs.index().offered_to(instance) {
        let Some(offer) = jobs.get(&id).and_then(|job| job.open_offer()) else { continue };
        let (generation, delivered) = (offer.generation, offer.stage == OfferStage::Delivered);
        jobs.send(Act::Offer { instance: instance.clone(), job: id, generation, delivered });
    }
}

/// Frees what was only offered to an instance that ended, and asks about the rest.
pub(super) fn instance_ended(instance: &InstanceId, jobs: &OpenJobs) -> Vec<JobEffect> {
    let offered = jobs.index().offered_to(instance).into_iter().filter_map(|id| {
        Some(match jobs.get(&id)?.open_offer()?.stage {
            OfferStage::Offered => JobEffect::EndOffer { job: id, why: OfferEnd::InstanceEnded },
            // It may have begun the job before it ended: only the forge knows.
            OfferStage::Delivered => JobEffect::Send(Act::AskForge(id, AskReason::InstanceEnded)),
        })
    });
    let running = jobs.index().running_on(instance).into_iter();
    let ask = |job| JobEffect::Send(Act::AskForge(job, AskReason::InstanceEnded));
    offered.chain(running.map(ask)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_waits_once_and_the_longest_waiting_comes_first() {
        let (mut offers, pool) = (Offers::default(), PoolId::from("linux"));
        for id in ["b", "a", "b"] {
            offers.wait(&id.into(), &pool, None);
        }
        let none = JobIndex::default();
        let queue: Vec<_> = offers.free(&pool, &none).map(InstanceId::as_str).collect();
        assert_eq!(queue, ["b", "a"]);
    }
}
