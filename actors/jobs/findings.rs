//! What the forge answers when it is asked about one job.
//!
//! An answer is bound to the attempt it was asked for: a late one never touches a
//! successor. It is the only thing that may let a fact sink, because it is no late notice:
//! the forge gives an assigned job back to its queue when the runner does not pick it up.

use std::time::Duration;

use super::Finding;
use super::ages::STALE;
use super::change::Change;
use super::demand::Seat;
use super::facts::Source;
use super::ledger::{Ledger, Repository};
use crate::model::{
    Closure, Job, JobFact, JobId, JobReading, Offer, OfferEnd, OfferStage, Sighting, Timestamp,
    What, is_due,
};
use crate::mutants::{self, Mutant};

/// The forge gives a job back to its queue when its runner does not begin within this.
const PICKED_UP: Duration = Duration::from_mins(1);

impl Ledger {
    /// Hears what the forge said about a job that was asked about.
    pub(crate) fn finding(&mut self, finding: Finding, now: Timestamp) -> Change {
        if self.is_about_now(&finding) {
            match finding.seen {
                Sighting::Seen(reading) => self.read(&finding.job, reading, now),
                Sighting::Absent => self.missed(&finding.job, now),
                Sighting::Unknown(_) => {}
            }
        }
        self.finish(now)
    }

    /// Returns whether a finding is about the attempt that stands, as it stands.
    fn is_about_now(&self, finding: &Finding) -> bool {
        let Some(open) = self.open.get(&finding.job) else { return false };
        let same_attempt = open.job.generation == finding.generation
            && open.job.holder() == finding.instance.as_ref();
        let unmoved = open.changed_at <= finding.begun;
        same_attempt && unmoved || mutants::is(Mutant::NoGenerationCheck)
    }

    fn read(&mut self, id: &JobId, reading: JobReading, now: Timestamp) {
        let Some(repository) = self.job(id).map(repository) else { return };
        self.in_sight.insert(repository, now);
        self.amend(id, now, |job| {
            job.asked.times = job.asked.times.saturating_add(1);
            (job.asked.last_at, job.asked.missing, job.asked.missing_since) = (Some(now), 0, None);
        });
        self.note(id, What::Asked { answer: in_words(&reading) }, now);
        match reading.fact {
            JobFact::Waiting | JobFact::Queued if reading.run_over => {
                self.close(id, Closure::RunOver, now);
            }
            JobFact::Waiting => {}
            JobFact::Queued => self.requeue(id, now),
            fact @ (JobFact::InProgress | JobFact::Completed(_)) => {
                self.raise(id, fact, reading.runner, Source::Direct, now);
            }
        }
    }

    /// Puts a job back in line that the forge still calls queued.
    fn requeue(&mut self, id: &JobId, now: Timestamp) {
        let Some(job) = self.job(id) else { return };
        // An undelivered offer is not contradicted by it.
        let offered = job.open_offer().is_some_and(|offer| offer.stage == OfferStage::Offered);
        let (holder, generation) = (job.holder().cloned(), job.generation);
        if job.fact == JobFact::Waiting {
            return self.raise(id, JobFact::Queued, None, Source::Direct, now);
        }
        if offered || self.is_fresh(job, now) || holder.is_none() && job.fact == JobFact::Queued {
            return;
        }
        let why = OfferEnd::Requeued;
        self.amend(id, now, |job| {
            (job.fact, job.execution, job.runner) = (JobFact::Queued, None, None);
            job.generation = generation.next();
            if holder.is_some() {
                job.offer = Offer::Ended { why, at: now };
            }
        });
        if let Some(instance) = holder {
            self.note(id, What::Unoffered { instance: instance.clone(), why }, now);
            self.tell_end(instance, id, generation, why);
        }
        self.assign(id, Seat::Kept, now);
    }

    /// Returns whether an execution is so young that the forge's reads may lag behind it.
    fn is_fresh(&self, job: &Job, now: Timestamp) -> bool {
        job.execution.as_ref().is_some_and(|run| {
            !is_due(run.since, PICKED_UP, now) && !self.instances.is_over(&run.instance)
        })
    }

    /// Counts a 404; two in a row close a job, unless its whole repository is out of sight: then
    /// access was lost, and the job is held open for a day if no machine of ours is left to hold it.
    fn missed(&mut self, id: &JobId, now: Timestamp) {
        let Some(job) = self.job(id) else { return };
        let before = job.asked.last_at.filter(|_| job.asked.missing > 0);
        let others = self.in_sight.get(&repository(job)).copied();
        self.amend(id, now, |job| {
            job.asked.times = job.asked.times.saturating_add(1);
            job.asked.last_at = Some(now);
            job.asked.missing = job.asked.missing.saturating_add(1);
            job.asked.missing_since.get_or_insert(now);
        });
        self.note(id, What::Asked { answer: "not found".into() }, now);
        let denied = before.zip(others).is_some_and(|(before, others)| others >= before);
        if denied || self.is_lost_for_good(id, now) {
            self.close(id, Closure::NotFound, now);
        }
    }

    /// Returns whether a job was denied for a day while nothing of ours could be running it.
    fn is_lost_for_good(&self, id: &JobId, now: Timestamp) -> bool {
        let Some(job) = self.job(id) else { return false };
        let unheld = job.holder().is_none_or(|holder| !self.instances.is_alive(holder));
        unheld && job.asked.missing_since.is_some_and(|since| is_due(since, STALE, now))
    }
}

fn repository(job: &Job) -> Repository {
    (job.id.forge.clone(), job.place.owner.clone(), job.place.repository.clone())
}

fn in_words(reading: &JobReading) -> String {
    let fact = match &reading.fact {
        JobFact::Waiting => "waiting",
        JobFact::Queued => "queued",
        JobFact::InProgress => "in progress",
        JobFact::Completed(_) => "completed",
    };
    match (&reading.runner, reading.run_over) {
        (Some(runner), _) => format!("{fact} on `{runner}`"),
        (None, true) => format!("{fact}, in a run that is over"),
        (None, false) => fact.into(),
    }
}
