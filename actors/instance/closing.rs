//! The post-mortem, always before deletion: exit facts, log tail, verdict, one durable record.
//!
//! What could not be had within `postmortem_timeout` is recorded as unavailable and holds
//! nothing up. Only then may the machine go.

use super::call::Call;
use super::notes::Closing;
use super::turn::Turn;
use crate::model::{
    ExitRecord, Findings, JobFact, JobReading, JobStanding, Remains, SetupStory, Sighting, State,
    Tail, Warrant, WarrantKind, What, WishRank, judge, needs_tail,
};
use crate::mutants::{self, Mutant};
use crate::ports::{Grace, Handover};

impl Turn<'_> {
    /// Begins the post-mortem under a warrant.
    pub(super) fn close(&mut self, kind: WarrantKind, evidence: Vec<String>) {
        if self.notes.closing.is_some() {
            return;
        }
        let warrant = Warrant { kind, evidence, at: self.now };
        let remains = self.nothing_left().or_else(|| self.notes.early_remains.take());
        self.notes.closing = Some(Closing { warrant, remains, job: None });
    }

    /// Makes progress with the post-mortem; records and moves on when it is complete.
    pub(super) fn drive_closing(&mut self) {
        let Some(closing) = &self.notes.closing else {
            return;
        };
        if closing.remains.is_none() && self.notes.cut_off.is_none() {
            let standing = self.known_standing().unwrap_or(JobStanding::Running);
            let want_tail =
                needs_tail(self.row.end.as_ref(), Some(closing.warrant.kind), &standing);
            self.call(Call::Remains { want_tail });
            return;
        }
        let (remains, warrant) = (closing.remains.clone(), closing.warrant.clone());
        let job = match (&closing.job, self.known_standing()) {
            (Some(asked), None) => asked.clone(),
            (_, Some(known)) => known,
            (None, None) => match self.row.executing.clone() {
                Some(job) if self.notes.cut_off.is_none() => {
                    self.call(Call::LookJob(job));
                    return;
                }
                // Nobody is left to be asked.
                Some(_) | None => JobStanding::Unknown,
            },
        };
        let remains = remains.unwrap_or_else(|| Remains::unavailable("the provider is gone"));
        self.record(warrant, remains, job);
    }

    /// Takes what the machine left.
    pub(super) fn take_remains(&mut self, remains: Remains) {
        match &mut self.notes.closing {
            Some(closing) => closing.remains = Some(remains),
            None => self.notes.early_remains = Some(remains),
        }
    }

    /// Takes the forge's word on the job that ran here.
    pub(super) fn take_job(&mut self, seen: Sighting<JobReading>) {
        let standing = match seen {
            Sighting::Seen(JobReading { fact: JobFact::Completed(conclusion), .. }) => {
                JobStanding::Over(Some(conclusion))
            }
            Sighting::Seen(_) => JobStanding::Running,
            Sighting::Absent | Sighting::Unknown(_) => JobStanding::Unknown,
        };
        if let Some(closing) = &mut self.notes.closing {
            closing.job = Some(standing);
        }
    }

    /// Returns how hard the deletion may be.
    pub(super) fn grace(&self) -> Grace {
        let forced =
            self.row.warrant.as_ref().is_some_and(|warrant| warrant.kind == WarrantKind::Operator);
        if forced { Grace::Zero } else { Grace::Usual }
    }

    /// Returns whether an operator forces it.
    pub(super) fn is_forced(&self) -> bool {
        self.row.wish.as_ref().is_some_and(|wish| wish.rank >= WishRank::Force)
    }

    fn record(&mut self, warrant: Warrant, remains: Remains, job: JobStanding) {
        let findings = Findings {
            end: self.row.end.as_ref(),
            warrant: warrant.kind,
            remains: &remains,
            job,
            was_ready: self.row.ready_at.is_some(),
            setup: self.setup_story(),
        };
        let verdict = judge(&findings);
        let exit = findings.exit();
        self.tell(What::Warranted { kind: warrant.kind, evidence: warrant.evidence.clone() });
        self.tell(What::Recorded(verdict.class));
        self.row.verdict = Some(verdict.class);
        if !mutants::is(Mutant::RecordAfterDelete) {
            self.exit = Some(ExitRecord {
                instance: self.row.id.clone(),
                pool: self.row.pool.clone(),
                job: self.row.executing.clone(),
                exit,
                tail: remains.tail,
                warrant: warrant.kind,
                verdict,
                at: self.now,
            });
        }
        self.row.warrant = Some(warrant);
        self.notes.closing = None;
        self.go(State::PendingDelete, "its end is on record");
    }

    /// Returns what the machine told while it was set up. One that was never seen had no voice.
    fn setup_story(&self) -> SetupStory<'_> {
        match (&self.row.last_word, self.notes.handover) {
            (Some(last), _) => SetupStory::Heard(last),
            (None, Handover::Fetched) if self.row.seen_at.is_some() && !self.row.adopted => {
                SetupStory::Silent
            }
            (None, Handover::Fetched | Handover::WithOrder) => SetupStory::Untold,
        }
    }

    /// Returns the remains of a machine that was never made.
    fn nothing_left(&self) -> Option<Remains> {
        let never_made = self.row.create_called_at.is_none() && !self.row.adopted;
        never_made.then_some(Remains { exit: None, tail: Tail::NotNeeded })
    }

    /// Returns what is known of the job without asking.
    fn known_standing(&self) -> Option<JobStanding> {
        match (&self.row.executing, &self.row.job_over) {
            (None, _) => Some(JobStanding::None),
            (Some(_), Some(over)) => Some(JobStanding::Over(over.conclusion.clone())),
            (Some(_), None) => None,
        }
    }
}
