//! The post-mortem, always before deletion: exit facts, log tail, verdict, one durable record.
//!
//! The machine and the forge are asked side by side. What could not be had within one
//! `postmortem_timeout` is recorded as unavailable and holds nothing up. Only then may the
//! machine go.

use super::call::Call;
use super::notes::Closing;
use super::turn::Turn;
use crate::model::{
    ExitRecord, ExitReport, Findings, JobFact, JobReading, JobStatus, Reason, SetupStory, Sighting,
    State, Tail, Urgency, Warrant, WarrantKind, What, after, judge, needs_tail,
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
        let exit_report = self.nothing_left().or_else(|| self.notes.early_exit_report.take());
        let until = after(self.now, self.policy().postmortem_timeout);
        self.notes.closing = Some(Closing { warrant, exit_report, job: None, until });
    }

    /// Makes progress with the post-mortem; records and moves on when it is complete, or when
    /// its time is over.
    pub(super) fn drive_closing(&mut self) {
        let Some(closing) = self.notes.closing.clone() else {
            return;
        };
        let job = self.known_standing().or(closing.job);
        let incomplete = closing.exit_report.is_none() || job.is_none();
        if incomplete && self.notes.cut_off.is_none() && !self.is_time(closing.until) {
            // Side by side: neither waits for the other, nor has a time of its own.
            if closing.exit_report.is_none() {
                let want_tail = self.wants_tail(closing.warrant.kind);
                self.call(Call::ExitReport { want_tail });
            }
            if let (None, Some(job)) = (&job, self.row.executing.clone()) {
                self.call(Call::LookJob(job));
            }
            return;
        }
        let silent = || match &self.notes.cut_off {
            Some(why) => ExitReport::unavailable(why.clone()),
            None => ExitReport::unavailable("not to be had in time"),
        };
        let exit_report = closing.exit_report.unwrap_or_else(silent);
        self.record(closing.warrant, exit_report, job.unwrap_or(JobStatus::Unknown));
    }

    fn wants_tail(&self, warrant: WarrantKind) -> bool {
        let standing = self.known_standing().unwrap_or(JobStatus::Running);
        needs_tail(self.row.end.as_ref(), Some(warrant), &standing, self.dismissed())
    }

    /// Takes what the machine left.
    pub(super) fn take_exit_report(&mut self, exit_report: ExitReport) {
        match &mut self.notes.closing {
            Some(closing) => closing.exit_report = Some(exit_report),
            None if self.notes.leaving => self.notes.early_exit_report = Some(exit_report),
            // Too late: the record is written.
            None => {}
        }
    }

    /// Takes the forge's word on the job that ran here.
    pub(super) fn take_job(&mut self, seen: Sighting<JobReading>) {
        let standing = match seen {
            Sighting::Seen(JobReading { fact: JobFact::Completed(conclusion), .. }) => {
                JobStatus::Over(Some(conclusion))
            }
            Sighting::Seen(_) => JobStatus::Running,
            Sighting::Absent | Sighting::Unknown(_) => JobStatus::Unknown,
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
        self.row.removal.as_ref().is_some_and(|removal| removal.urgency >= Urgency::Force)
    }

    fn record(&mut self, warrant: Warrant, exit_report: ExitReport, job: JobStatus) {
        let findings = Findings {
            end: self.row.end.as_ref(),
            warrant: warrant.kind,
            exit_report: &exit_report,
            job,
            was_ready: self.row.ready_at.is_some(),
            dismissed: self.dismissed(),
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
                tail: exit_report.tail,
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
        match (&self.row.setup_report, self.notes.handover) {
            (Some(last), _) => SetupStory::Heard(last),
            (None, Handover::Fetched) if self.row.seen_at.is_some() && !self.row.adopted => {
                SetupStory::Silent
            }
            (None, Handover::Fetched | Handover::WithOrder) => SetupStory::Untold,
        }
    }

    /// Returns the remains of a machine that was never made.
    fn nothing_left(&self) -> Option<ExitReport> {
        let never_made = self.row.create_called_at.is_none() && !self.row.adopted;
        never_made.then_some(ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] })
    }

    /// Returns why it was asked to go, if nothing keeps it at the forge any more.
    fn dismissed(&self) -> Option<Reason> {
        let free = !self.row.registration.may_exist();
        self.row.removal.as_ref().filter(|_| free).map(|removal| removal.reason)
    }

    /// Returns what is known of the job without asking.
    fn known_standing(&self) -> Option<JobStatus> {
        match (&self.row.executing, &self.row.job_over) {
            (None, _) => Some(JobStatus::None),
            (Some(_), Some(over)) => Some(JobStatus::Over(over.conclusion.clone())),
            (Some(_), None) => None,
        }
    }
}
