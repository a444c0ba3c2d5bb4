//! What the forge answers when it is asked about one job.
//!
//! An answer is bound to the attempt it was asked for: a late one never touches a
//! successor. It is the only thing that may let a fact sink, because it is no late notice:
//! the forge gives an assigned job back to its queue when the runner does not pick it up.

use std::collections::BTreeMap;
use std::time::Duration;

use super::JobFinding;
use super::attempts;
use super::change::{Act, FactReport, JobEffect, ReportSource};
use super::demand::Prefer;
use super::expiry::STALE_AFTER;
use super::finished::FINISHED_RETENTION;
use super::instances::KnownInstances;
use super::open_jobs::OpenJobs;
use crate::model::{
    Closure, ForgeId, Job, JobFact, JobId, JobReading, Offer, OfferEnd, OfferStage, Sighting,
    Timestamp, What, is_due,
};
use crate::mutants::{self, Mutant};

/// The forge gives a job back to its queue when its runner does not begin within this.
const PICKUP_TIMEOUT: Duration = Duration::from_mins(1);

/// Judges answers, and remembers which repositories answer at all.
#[derive(Default)]
pub(super) struct JobFindings {
    /// When a repository last answered for one of its jobs.
    last_answers: BTreeMap<RepositoryKey, Timestamp>,
}

/// Names a repository: its forge, its owner and its name.
type RepositoryKey = (ForgeId, String, String);

impl JobFindings {
    /// Takes what the forge said about a job that was asked about.
    pub(super) fn handle(
        &mut self,
        finding: JobFinding,
        jobs: &mut OpenJobs,
        instances: &KnownInstances,
        now: Timestamp,
    ) -> Vec<JobEffect> {
        if !is_current(&finding, jobs) {
            return Vec::new();
        }
        match finding.seen {
            Sighting::Seen(reading) => self.read(finding.job, reading, jobs, instances, now),
            Sighting::Absent => self.missed(finding.job, jobs, instances, now),
            Sighting::Unknown(_) => Vec::new(),
        }
    }

    /// Drops what is older than any open job can be.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.last_answers.retain(|_, at| !is_due(*at, FINISHED_RETENTION, now));
    }

    fn read(
        &mut self,
        id: JobId,
        reading: JobReading,
        jobs: &mut OpenJobs,
        instances: &KnownInstances,
        now: Timestamp,
    ) -> Vec<JobEffect> {
        let Some(repository) = jobs.get(&id).map(repository) else { return Vec::new() };
        self.last_answers.insert(repository, now);
        jobs.update(&id, now, |job| {
            job.asked.times = job.asked.times.saturating_add(1);
            (job.asked.last_at, job.asked.missing, job.asked.missing_since) = (Some(now), 0, None);
        });
        jobs.record(&id, What::Asked { answer: describe(&reading) }, now);
        match reading.fact {
            JobFact::Waiting | JobFact::Queued if reading.run_over => {
                vec![JobEffect::Close { job: id, why: Closure::RunOver }]
            }
            JobFact::Waiting => Vec::new(),
            JobFact::Queued => requeue(id, jobs, instances, now),
            fact @ (JobFact::InProgress | JobFact::Completed(_)) => {
                let (runner, source) = (reading.runner, ReportSource::Answer);
                vec![JobEffect::Report(FactReport { job: id, fact, runner, source })]
            }
        }
    }

    /// Counts a 404; two in a row close a job, unless its whole repository is out of sight: then
    /// access was lost, and the job stays open for a day if no machine of ours is left to hold it.
    fn missed(
        &self,
        id: JobId,
        jobs: &mut OpenJobs,
        instances: &KnownInstances,
        now: Timestamp,
    ) -> Vec<JobEffect> {
        let Some(job) = jobs.get(&id) else { return Vec::new() };
        let before = job.asked.last_at.filter(|_| job.asked.missing > 0);
        let others = self.last_answers.get(&repository(job)).copied();
        jobs.update(&id, now, |job| {
            job.asked.times = job.asked.times.saturating_add(1);
            job.asked.last_at = Some(now);
            job.asked.missing = job.asked.missing.saturating_add(1);
            job.asked.missing_since.get_or_insert(now);
        });
        jobs.record(&id, What::Asked { answer: "not found".into() }, now);
        let denied = before.zip(others).is_some_and(|(before, others)| others >= before);
        if denied || jobs.get(&id).is_some_and(|job| is_lost_for_good(job, instances, now)) {
            return vec![JobEffect::Close { job: id, why: Closure::NotFound }];
        }
        Vec::new()
    }
}

/// Returns whether a finding is about the attempt that stands, as it stands.
fn is_current(finding: &JobFinding, jobs: &OpenJobs) -> bool {
    let Some(job) = jobs.get(&finding.job) else { return false };
    let same_attempt =
        job.generation == finding.generation && job.holder() == finding.instance.as_ref();
    let unmoved = jobs.changed_at(&finding.job).is_some_and(|at| at <= finding.begun);
    same_attempt && unmoved || mutants::is(Mutant::NoGenerationCheck)
}

/// Puts a job back into its queue that the forge still calls queued.
fn requeue(
    id: JobId,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    // An undelivered offer is not contradicted by it.
    let offered = job.open_offer().is_some_and(|offer| offer.stage == OfferStage::Offered);
    let (holder, generation) = (job.holder().cloned(), job.generation);
    let host = job.open_offer().and_then(|offer| offer.host.clone());
    if job.fact == JobFact::Waiting {
        let (fact, source) = (JobFact::Queued, ReportSource::Answer);
        return vec![JobEffect::Report(FactReport { job: id, fact, runner: None, source })];
    }
    if offered || is_fresh(job, instances, now) || holder.is_none() && job.fact == JobFact::Queued {
        return Vec::new();
    }
    let why = OfferEnd::Requeued;
    jobs.update(&id, now, |job| {
        (job.fact, job.execution, job.runner) = (JobFact::Queued, None, None);
        // What the old attempt still answers must not match the next one.
        job.generation = generation.next();
        if let Some(instance) = &holder {
            job.avoid = host;
            attempts::fail(job, instance, now);
            job.offer = Offer::Ended { why, at: now };
        }
    });
    if let Some(instance) = holder {
        jobs.record(&id, What::Unoffered { instance: instance.clone(), why }, now);
        jobs.send(Act::EndOffer { instance, job: id.clone(), generation, why });
    }
    vec![JobEffect::Assign { job: id, prefer: Prefer::CurrentPool }]
}

/// Returns whether an execution is so young that the forge's reads may lag behind it.
fn is_fresh(job: &Job, instances: &KnownInstances, now: Timestamp) -> bool {
    job.execution.as_ref().is_some_and(|run| {
        !is_due(run.since, PICKUP_TIMEOUT, now) && !instances.is_over(&run.instance)
    })
}

/// Returns whether a job was denied for a day while no instance of ours could be running it.
fn is_lost_for_good(job: &Job, instances: &KnownInstances, now: Timestamp) -> bool {
    let unheld = job.holder().is_none_or(|holder| !instances.is_alive(holder));
    unheld && job.asked.missing_since.is_some_and(|since| is_due(since, STALE_AFTER, now))
}

fn repository(job: &Job) -> RepositoryKey {
    (job.id.forge.clone(), job.place.owner.clone(), job.place.repository.clone())
}

fn describe(reading: &JobReading) -> String {
    let fact = match &reading.fact {
        JobFact::Waiting => "waiting",
        JobFact::Queued => "queued",
        JobFact::InProgress => "in progress",
        JobFact::Completed(_) => "completed",
    };
    match (&reading.runner, reading.run_over) {
        (Some(runner), _) => format!("{fact} on `{}`", runner.name),
        (None, true) => format!("{fact}, in a run that is over"),
        (None, false) => fact.into(),
    }
}
