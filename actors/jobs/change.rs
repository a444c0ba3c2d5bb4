//! The values that inputs turn into.
//!
//! A [`JobEffect`] passes between the parts of the ledger while it handles one input. A
//! [`LedgerChange`] is what leaves it: what must be durable first, and what is done after.

use std::collections::BTreeMap;

use super::demand::Prefer;
use crate::model::{
    Closure, Conclusion, DeliveryId, Epoch, Event, Generation, InstanceId, Job, JobFact, JobId,
    JobOver, NamedRunner, OfferEnd, PoolId, Subject, Timestamp, WriteId,
};
use crate::pool::Demand;
use crate::ports::{ExitRevision, JobSave};
use crate::requeue::AskReason;

/// Holds what to save and, once that is durable, what to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LedgerChange {
    pub(crate) save: Save,
    pub(crate) acts: Vec<Act>,
}

impl LedgerChange {
    /// Adds a later change, so that both become durable in one transaction.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.save.absorb(later.save);
        for act in later.acts {
            // Only the last demand counts: a pool would plan for each of them.
            if let Act::Demand { pool, .. } = &act {
                self.acts
                    .retain(|older| !matches!(older, Act::Demand { pool: of, .. } if of == pool));
            }
            self.acts.push(act);
        }
    }
}

/// Holds one transaction of the ledger, before it gets its epoch and write id.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Save {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) tombstones: Vec<(JobId, Timestamp)>,
    pub(crate) handled: Vec<DeliveryId>,
    pub(crate) events: BTreeMap<(Subject, u32), Event>,
    pub(crate) revisions: BTreeMap<InstanceId, ExitRevision>,
    pub(crate) forget_before: Option<Timestamp>,
}

impl Save {
    /// Returns whether the store has nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.tombstones.is_empty()
            && self.handled.is_empty()
            && self.events.is_empty()
            && self.revisions.is_empty()
            && self.forget_before.is_none()
    }

    fn absorb(&mut self, later: Self) {
        self.jobs.extend(later.jobs);
        self.tombstones.extend(later.tombstones);
        self.handled.extend(later.handled);
        self.events.extend(later.events);
        self.revisions.extend(later.revisions);
        self.forget_before = later.forget_before.or(self.forget_before);
    }

    /// Completes the transaction for the store.
    pub(crate) fn into_save(self, epoch: Epoch, write: WriteId) -> JobSave {
        JobSave {
            jobs: self.jobs.into_values().collect(),
            tombstones: self.tombstones,
            handled: self.handled,
            events: self.events.into_values().collect(),
            revisions: self.revisions.into_values().collect(),
            forget_before: self.forget_before,
            epoch,
            write,
        }
    }
}

/// Names what is done once the save is durable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// Offer a job to an instance, and wait for its answer.
    Offer {
        instance: InstanceId,
        job: JobId,
        generation: Generation,
        /// Whether it was delivered already, and is only sent again.
        delivered: bool,
    },
    /// Tell an instance that an offer, or what came of it, is over.
    EndOffer { instance: InstanceId, job: JobId, generation: Generation, why: OfferEnd },
    /// Tell an instance that a job is proven to run on it.
    ShowExecution { instance: InstanceId, job: JobId },
    /// Tell an instance that its job is over.
    ShowJobOver { instance: InstanceId, over: JobOver },
    /// Tell a pool how much work waits for it.
    Demand { pool: PoolId, demand: Demand },
    /// Have the forge asked about a job at once, for this reason.
    AskForge(JobId, AskReason),
    /// Tell the log of an end whose verdict is settled.
    TellDeath(InstanceId),
    /// Announce an event that is not stored.
    Announce(Event),
    /// Show a job that has no row on the board.
    Show(Box<Job>),
    /// Take a job that has no row off the board.
    Hide(JobId),
}

/// Names what one part of the ledger wants of another. The ledger carries effects out at once
/// and in order, each with all that follows from it before the next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JobEffect {
    /// The forge reported a fact.
    Report(FactReport),
    /// It is proven that the job runs on the instance.
    Execute { job: JobId, instance: InstanceId },
    /// The fact rises to `completed`.
    End { job: JobId, conclusion: Conclusion },
    /// We give the job up.
    Close { job: JobId, why: Closure },
    /// The job's offer is over, if one is open.
    EndOffer { job: JobId, why: OfferEnd },
    /// The job's pool is decided, if it wants a runner.
    Assign { job: JobId, prefer: Prefer },
    /// The instance no longer waits for an offer.
    Withdraw(InstanceId),
    /// The job leaves the open ones.
    Archive(JobId),
    /// A message goes out after the save.
    Send(Act),
}

/// Holds what a forge said about an open job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FactReport {
    pub(super) job: JobId,
    pub(super) fact: JobFact,
    /// The runner it names, if any.
    pub(super) runner: Option<NamedRunner>,
    pub(super) source: ReportSource,
}

/// Tells how a report came: a notice may be late, an answer to a question is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportSource {
    Notice,
    Answer,
}
