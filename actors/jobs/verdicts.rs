//! Verdicts that the forge may still correct, and the facts that correct them.
//!
//! An owner records the end of its machine and tells the ledger, which hears what the forge says of jobs
//! long after the owner is gone. Each fact that names a runner here, or the job of one, is judged by
//! `model::judge`; what it changes is saved beside the jobs, with an event behind all that the owner wrote.
//! Saving the same revision twice writes the same row and the same place, so nothing is doubled. A record
//! leaves when its verdict is settled, by a fact or by time.

use std::collections::{BTreeMap, BTreeSet};

use super::change::Act;
use super::open_jobs::OpenJobs;
use crate::model::{
    Event, ExitRecord, ForgeId, InstanceId, JobFact, JobId, JobStatus, Place, REVISION_PLACE,
    RunnerName, Subject, Timestamp, What,
};
use crate::ports::ExitRevision;

/// How many are remembered; beyond that the oldest settle early.
const MAX_PROVISIONAL: usize = 10_000;

/// Remembers the records whose verdicts are not settled.
#[derive(Default)]
pub(super) struct ProvisionalVerdicts {
    records: BTreeMap<InstanceId, ExitRecord>,
    runners: BTreeMap<RunnerName, InstanceId>,
    jobs: BTreeMap<JobId, InstanceId>,
    due: BTreeSet<(Timestamp, InstanceId)>,
}

/// What the forge said about a job.
pub(super) struct HeardFact<'a> {
    pub(super) job: &'a JobId,
    pub(super) place: &'a Place,
    pub(super) fact: &'a JobFact,
    /// The runner it names, if any.
    pub(super) runner: Option<&'a RunnerName>,
}

impl ProvisionalVerdicts {
    pub(super) fn restore(records: Vec<ExitRecord>) -> Self {
        let mut verdicts = Self::default();
        for record in records {
            verdicts.insert(record);
        }
        verdicts
    }

    /// Takes the record of an end as its owner saved it: the only one that counts now.
    pub(super) fn concluded(&mut self, record: ExitRecord, jobs: &mut OpenJobs, now: Timestamp) {
        self.remove(&record.instance);
        self.insert(record);
        while self.records.len() > MAX_PROVISIONAL
            && let Some((_, oldest)) = self.due.first().cloned()
        {
            self.settle(&oldest, jobs, now);
        }
    }

    /// Takes what the forge said about a job.
    pub(super) fn heard(&mut self, heard: &HeardFact<'_>, jobs: &mut OpenJobs, now: Timestamp) {
        let status = match heard.fact {
            JobFact::Waiting | JobFact::Queued => return,
            JobFact::InProgress => JobStatus::Running,
            JobFact::Completed(conclusion) => JobStatus::Over(Some(conclusion.clone())),
        };
        let instance = match heard.runner {
            Some(name) => self.named(name, &heard.job.forge, heard.place),
            None => self.jobs.get(heard.job).cloned(),
        };
        if let Some(instance) = instance {
            self.learned(&instance, heard.job, status, jobs, now);
        }
    }

    /// Takes what is known of the job that ran on an instance.
    pub(super) fn learned(
        &mut self,
        instance: &InstanceId,
        job: &JobId,
        status: JobStatus,
        jobs: &mut OpenJobs,
        now: Timestamp,
    ) {
        let Some(known) = self.records.get(instance) else { return };
        if let Some(revised) = known.revised(job, status, now) {
            self.replace(revised, jobs, now);
        }
    }

    /// Settles what was not corrected in time.
    pub(super) fn expire(&mut self, jobs: &mut OpenJobs, now: Timestamp) {
        while let Some((until, instance)) = self.due.first().cloned()
            && until <= now
        {
            self.settle(&instance, jobs, now);
        }
    }

    fn settle(&mut self, instance: &InstanceId, jobs: &mut OpenJobs, now: Timestamp) {
        if let Some(known) = self.records.get(instance) {
            let settled = known.settled();
            self.replace(settled, jobs, now);
        }
    }

    /// Returns whose runner a job of this place names: a stranger's runner may be called the same.
    fn named(&self, name: &RunnerName, forge: &ForgeId, place: &Place) -> Option<InstanceId> {
        let first = || self.runners.get(name.unnumbered()?);
        let id = self.runners.get(name).or_else(first)?;
        let basis = self.records.get(id)?.provisional.as_ref()?;
        (basis.forge == *forge && basis.scope.covers(place)).then(|| id.clone())
    }

    /// Saves a record in the place of the one that is known.
    fn replace(&mut self, record: ExitRecord, jobs: &mut OpenJobs, now: Timestamp) {
        let Some(before) = self.remove(&record.instance) else { return };
        let settled = record.provisional.is_none();
        let event = Event {
            subject: Subject::Instance(record.instance.clone()),
            seq: REVISION_PLACE.saturating_add(record.revisions),
            at: now,
            last_at: now,
            count: 1,
            what: What::VerdictRevised {
                from: before.verdict.class,
                to: record.verdict.class,
                settled,
            },
        };
        let drop_tail = !record.needs_tail();
        jobs.save_revision(ExitRevision { record: record.clone(), drop_tail }, event);
        if settled && !drop_tail {
            jobs.send(Act::TellDeath(record.instance.clone()));
        }
        self.insert(record);
    }

    fn insert(&mut self, record: ExitRecord) {
        let Some(basis) = &record.provisional else { return };
        let id = record.instance.clone();
        self.runners.insert(basis.runner.clone(), id.clone());
        if let Some(job) = &record.job {
            self.jobs.insert(job.clone(), id.clone());
        }
        self.due.insert((basis.until, id.clone()));
        self.records.insert(id, record);
    }

    fn remove(&mut self, instance: &InstanceId) -> Option<ExitRecord> {
        let record = self.records.remove(instance)?;
        if let Some(basis) = &record.provisional {
            self.runners.remove(&basis.runner);
            self.due.remove(&(basis.until, instance.clone()));
        }
        if let Some(job) = &record.job {
            self.jobs.remove(job);
        }
        Some(record)
    }
}
