//! The open jobs: their rows, their timelines, and what the current input changed of them.
//!
//! The other parts of the ledger decide; what they decide is written here. Each write keeps the
//! [`JobIndex`] in step, and everything written since the last [`OpenJobs::take_change`] is
//! saved together: rows, events and the messages that follow the save, in the order in which
//! they were written.

use std::collections::{BTreeMap, BTreeSet};

use super::change::{Act, LedgerChange};
use super::index::JobIndex;
use super::routing::JobRoute;
use crate::model::{DeliveryId, Event, Job, JobId, Subject, Timestamp, What};
use crate::mutants::{self, Mutant};
use crate::ports::ExitRevision;

/// Holds the jobs that are neither over nor closed.
#[derive(Default)]
pub(super) struct OpenJobs {
    jobs: BTreeMap<JobId, OpenJob>,
    index: JobIndex,
    change: LedgerChange,
    /// Jobs whose row differs from the saved one.
    changed: BTreeSet<JobId>,
}

/// Holds an open job and what only memory knows of it.
struct OpenJob {
    job: Job,
    /// Whether no pool takes it now, though it may be demand of its first choice.
    held: bool,
    /// The last route that its timeline names.
    route: Option<JobRoute>,
    /// When either axis last moved: what was asked before that says nothing about it.
    changed_at: Timestamp,
    /// The last event, so that its repetition is counted instead of written again.
    last_event: Option<Event>,
}

impl OpenJobs {
    pub(super) fn get(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id).map(|open| &open.job)
    }

    pub(super) fn index(&self) -> &JobIndex {
        &self.index
    }

    /// Returns every job.
    pub(super) fn all(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|open| &open.job)
    }

    /// Returns when the forge's fact, our offer or the execution of a job last moved.
    pub(super) fn changed_at(&self, id: &JobId) -> Option<Timestamp> {
        self.jobs.get(id).map(|open| open.changed_at)
    }

    /// Adds a job whose timeline already names the pool it waits for, if it has one.
    pub(super) fn add(&mut self, job: Job, now: Timestamp) {
        let route = job.pool.clone().map(JobRoute::To);
        self.insert(job, route, now);
    }

    /// Adds a job that is reported for the first time.
    pub(super) fn add_new(&mut self, job: Job, now: Timestamp) {
        self.insert(job, None, now);
    }

    fn insert(&mut self, job: Job, route: Option<JobRoute>, now: Timestamp) {
        self.index.add(&job, false);
        let id = job.id.clone();
        let open = OpenJob { job, held: false, route, changed_at: now, last_event: None };
        self.jobs.insert(id, open);
    }

    /// Changes a job; its row is saved.
    pub(super) fn update(&mut self, id: &JobId, now: Timestamp, update: impl FnOnce(&mut Job)) {
        let Some(open) = self.jobs.get_mut(id) else { return };
        self.index.remove(&open.job, open.held);
        let axes = |job: &Job| (job.fact.rank(), job.offer.clone(), job.execution.clone());
        let before = axes(&open.job);
        update(&mut open.job);
        if axes(&open.job) != before {
            open.changed_at = now;
        }
        self.index.add(&open.job, open.held);
        self.changed.insert(id.clone());
    }

    /// Writes into a job's timeline; an event that repeats the last one only raises its count.
    pub(super) fn record(&mut self, id: &JobId, what: What, now: Timestamp) {
        let Some(open) = self.jobs.get_mut(id) else { return };
        let event = match open.last_event.take() {
            Some(last) if last.what == what => {
                Event { count: last.count + 1, last_at: now, ..last }
            }
            Some(_) | None => {
                let seq = open.job.events;
                open.job.events += 1;
                let subject = Subject::Job(id.clone());
                Event { subject, seq, at: now, last_at: now, count: 1, what }
            }
        };
        open.last_event = Some(event.clone());
        self.changed.insert(id.clone());
        self.change.save.events.insert((event.subject.clone(), event.seq), event);
    }

    /// Gives a job the route that `choose` returns.
    pub(super) fn assign(
        &mut self,
        id: &JobId,
        now: Timestamp,
        choose: impl FnOnce(&JobIndex, &Job, bool) -> JobRoute,
    ) {
        let Some(open) = self.jobs.get_mut(id) else { return };
        // It leaves the index first: a job does not compete with itself for room.
        self.index.remove(&open.job, open.held);
        let route = choose(&self.index, &open.job, open.held);
        open.held = !matches!(route, JobRoute::To(_));
        open.job.pool = match &route {
            JobRoute::To(pool) | JobRoute::Held { pool, .. } => Some(pool.clone()),
            JobRoute::Unserved(_) => None,
        };
        self.index.add(&open.job, open.held);
        if open.route.as_ref() == Some(&route) {
            return;
        }
        open.route = Some(route.clone());
        let what = match route {
            JobRoute::To(pool) => What::Routed(pool),
            JobRoute::Held { pool, why } => What::Held { pool, why: why.to_string() },
            JobRoute::Unserved(why) => What::Unserved(why),
        };
        self.record(id, what, now);
    }

    /// Takes every waiting job out of its pool's queue, and returns them, oldest first.
    pub(super) fn unassign_all(&mut self) -> Vec<JobId> {
        let waiting: Vec<JobId> = self.index.waiting_jobs().into_iter().map(|(_, id)| id).collect();
        for id in &waiting {
            if let Some(open) = self.jobs.get_mut(id) {
                self.index.remove(&open.job, open.held);
                open.held = true;
                self.index.add(&open.job, true);
            }
        }
        waiting
    }

    /// Removes a job that is over or given up; its row is saved as it is.
    pub(super) fn remove(&mut self, id: &JobId) -> Option<Job> {
        let open = self.jobs.remove(id)?;
        self.index.remove(&open.job, open.held);
        self.changed.remove(id);
        self.change.save.jobs.insert(id.clone(), open.job.clone());
        Some(open.job)
    }

    /// Sends a message once this change is saved.
    pub(super) fn send(&mut self, act: Act) {
        let lost = matches!(act, Act::EndOffer { .. }) && mutants::is(Mutant::ReservedForever);
        if !lost {
            self.change.acts.push(act);
        }
    }

    /// Marks a delivery as handled, with whatever it changed.
    pub(super) fn save_handled(&mut self, delivery: Option<DeliveryId>) {
        self.change.save.handled.extend(delivery);
    }

    /// Saves the record of an end whose verdict was revised, with its event.
    pub(super) fn save_revision(&mut self, revision: ExitRevision, event: Event) {
        self.change.save.events.insert((event.subject.clone(), event.seq), event);
        self.change.save.revisions.insert(revision.record.instance.clone(), revision);
    }

    pub(super) fn save_tombstone(&mut self, id: &JobId, now: Timestamp) {
        self.change.save.tombstones.push((id.clone(), now));
    }

    /// Deletes the tombstones from before a moment.
    pub(super) fn delete_tombstones(&mut self, before: Option<Timestamp>) {
        self.change.save.forget_before = before;
    }

    /// Returns everything that was written since the last call.
    pub(super) fn take_change(&mut self) -> LedgerChange {
        for id in std::mem::take(&mut self.changed) {
            if let Some(open) = self.jobs.get(&id) {
                self.change.save.jobs.insert(id, open.job.clone());
            }
        }
        std::mem::take(&mut self.change)
    }

    /// Returns every job, and whether no pool takes it.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Job, bool)> {
        self.jobs.values().map(|open| (&open.job, open.held))
    }
}
