//! What one input brings: what must be durable first, and what is done after.

use std::collections::BTreeMap;

use crate::model::{
    DeliveryId, Epoch, Event, Generation, InstanceId, Job, JobId, JobOver, OfferEnd, PoolId,
    Subject, Timestamp, WriteId,
};
use crate::pool::Demand;
use crate::ports::JobSave;

/// Holds what to save and, once that is durable, what to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Change {
    pub(crate) save: Save,
    pub(crate) acts: Vec<Act>,
}

impl Change {
    /// Adds a later change, so that both become durable at once.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.save.absorb(later.save);
        for act in later.acts {
            if let Act::Demand { pool, .. } = &act {
                self.acts
                    .retain(|told| !matches!(told, Act::Demand { pool: of, .. } if of == pool));
            }
            self.acts.push(act);
        }
    }
}

/// Holds one transaction of the ledger, without its marks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Save {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) tombstones: Vec<(JobId, Timestamp)>,
    pub(crate) handled: Vec<DeliveryId>,
    pub(crate) events: BTreeMap<(Subject, u32), Event>,
    pub(crate) forget_before: Option<Timestamp>,
}

impl Save {
    /// Returns whether there is nothing to save.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.tombstones.is_empty()
            && self.handled.is_empty()
            && self.events.is_empty()
            && self.forget_before.is_none()
    }

    fn absorb(&mut self, later: Self) {
        self.jobs.extend(later.jobs);
        self.tombstones.extend(later.tombstones);
        self.handled.extend(later.handled);
        self.events.extend(later.events);
        self.forget_before = later.forget_before.or(self.forget_before);
    }

    /// Marks the transaction for the store.
    pub(crate) fn marked(self, epoch: Epoch, write: WriteId) -> JobSave {
        JobSave {
            jobs: self.jobs.into_values().collect(),
            tombstones: self.tombstones,
            handled: self.handled,
            events: self.events.into_values().collect(),
            forget_before: self.forget_before,
            epoch,
            write,
        }
    }
}

/// Names what is done once the save is durable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    /// Offer a job to an instance, and hear its answer.
    Offer {
        instance: InstanceId,
        job: JobId,
        generation: Generation,
        /// Whether it was delivered already, and is only said again.
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
    /// Have the forge asked about a job at once.
    AskForge(JobId),
    /// Tell followers of the feed something that is not kept.
    Announce(Event),
    /// Show a job that has no row on the board.
    Show(Box<Job>),
    /// Take a job that has no row off the board.
    Hide(JobId),
}
