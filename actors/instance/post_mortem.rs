//! The post-mortem, always before deletion: exit facts, log tail, verdict, one durable record.
//!
//! It opens under a warrant. The machine and the forge are asked side by side; what could not be
//! had within one `postmortem_timeout` is recorded as unavailable and delays nothing. Only then
//! may the machine be deleted. A warrant that rests on an idle machine is void when work shows up.

use super::effect::Effect;
use super::transition::Transition;
use crate::model::{
    End, ExitFacts, ExitRecord, ExitReport, Findings, JobFact, JobReading, JobStatus, Reason,
    SetupStory, Sighting, State, Tail, Timestamp, Urgency, VerdictClass, Warrant, WarrantKind,
    What, after, clip, judge, needs_tail, provisional,
};
use crate::mutants::{self, Mutant};
use crate::ports::Handover;

#[derive(Clone, Debug, Default)]
pub(super) struct PostMortem {
    inquiry: Option<Inquiry>,
    /// Whether an exit report was gathered early, because someone else was deleting the machine.
    asked_early: bool,
    early_report: Option<ExitReport>,
}

/// A post-mortem under way.
#[derive(Clone, Debug)]
struct Inquiry {
    /// Why the machine may be deleted.
    warrant: Warrant,
    exit_report: Option<ExitReport>,
    /// What the forge says about its job, once asked.
    job: Option<JobStatus>,
    /// When it is recorded, whatever is missing.
    until: Timestamp,
}

impl PostMortem {
    /// Opens the post-mortem under a warrant, unless it is open.
    pub(super) fn open(
        &mut self,
        kind: WarrantKind,
        evidence: Vec<String>,
        ctx: &mut Transition<'_>,
    ) {
        if self.inquiry.is_some() {
            return;
        }
        let warrant = Warrant { kind, evidence, at: ctx.now };
        let exit_report = never_created(ctx).or_else(|| self.early_report.take());
        let until = after(ctx.now, ctx.policy().postmortem_timeout);
        self.inquiry = Some(Inquiry { warrant, exit_report, job: None, until });
    }

    /// Opens it by force: the only way from work to deletion without proof.
    pub(super) fn open_if_forced(&mut self, ctx: &mut Transition<'_>) {
        let can_go = ctx.row.state.is_running() || ctx.row.state == State::Retiring;
        if !can_go || !ctx.has_removal(Urgency::Force) {
            return;
        }
        let by = ctx.row.removal.as_ref().and_then(|removal| removal.by.as_ref());
        let evidence =
            by.map_or_else(|| "forced".into(), |by| format!("forced by {}: {}", by.who, by.why));
        self.open(WarrantKind::Operator, vec![evidence], ctx);
    }

    /// Opens it after the end of the machine.
    pub(super) fn open_after_end(&mut self, ctx: &mut Transition<'_>) {
        let evidence = match &ctx.row.end {
            Some(End::Exited(_)) => "the machine was seen to end".to_owned(),
            Some(End::Gone { .. }) => "two direct reads found nothing".to_owned(),
            Some(End::NotCreated { why }) => why.clone(),
            None => "the machine is over".to_owned(),
        };
        self.open(WarrantKind::OwnEnd, vec![evidence], ctx);
    }

    /// Ends the machine's life in the record: it is over, or gone for certain.
    pub(super) fn machine_over(&mut self, end: End, ctx: &mut Transition<'_>) {
        if ctx.row.state.is_over() {
            return;
        }
        let why = match &end {
            End::Exited(_) => "the machine was seen to end",
            End::Gone { .. } => "the machine is gone",
            End::NotCreated { .. } => "the machine was never created",
        };
        ctx.row.end = Some(end);
        ctx.row.sealed_jit = None;
        ctx.row.offer = None;
        self.inquiry = None;
        ctx.move_to(State::Ended, why);
    }

    /// Takes the end of the agent as its supervisor reports it: the machine's own end, with the exit
    /// facts and the end of the log. A repetition, after its reply was lost, fills in what is missing.
    pub(super) fn agent_exited(
        &mut self,
        code: Option<i32>,
        log: Option<String>,
        ctx: &mut Transition<'_>,
    ) {
        let exit = ExitFacts { code, ended_at: Some(ctx.now), ..ExitFacts::default() };
        self.machine_over(End::Exited(exit.clone()), ctx);
        if ctx.row.state != State::Ended {
            return;
        }
        let tail = match log {
            _ if !wants_tail(WarrantKind::OwnEnd, ctx) => Tail::NotNeeded,
            Some(log) => Tail::Captured(clip(&log)),
            None => Tail::Unavailable("its supervisor reported no log".into()),
        };
        let report = ExitReport { exit: Some(exit), tail, remarks: Vec::new() };
        match &mut self.inquiry {
            Some(inquiry) => inquiry.exit_report = Some(report),
            None => self.early_report = Some(report),
        }
    }

    /// Makes progress; records and moves on when everything is in, or when its time is over.
    pub(super) fn drive(&mut self, ctx: &mut Transition<'_>) {
        let Some(inquiry) = &self.inquiry else {
            return;
        };
        let job = known_job_status(ctx).or_else(|| inquiry.job.clone());
        let incomplete = inquiry.exit_report.is_none() || job.is_none();
        if incomplete && !ctx.is_cut_off() && !ctx.is_time(inquiry.until) {
            // Side by side: neither waits for the other, nor has a time of its own.
            if inquiry.exit_report.is_none() {
                let want_tail = wants_tail(inquiry.warrant.kind, ctx);
                ctx.start(Effect::GatherExitReport { want_tail });
            }
            if let (None, Some(job)) = (&job, ctx.row.executing.clone()) {
                ctx.start(Effect::ReadJob(job));
            }
            return;
        }
        if let Some(Inquiry { warrant, exit_report, .. }) = self.inquiry.take() {
            let why = ctx.cut_off_reason().unwrap_or("not to be had in time");
            let exit_report = exit_report.unwrap_or_else(|| ExitReport::unavailable(why));
            conclude(warrant, exit_report, job.unwrap_or(JobStatus::Unknown), ctx);
        }
    }

    /// Takes what the machine left.
    pub(super) fn exit_report(&mut self, exit_report: ExitReport) {
        match &mut self.inquiry {
            Some(inquiry) => inquiry.exit_report = Some(exit_report),
            None if self.asked_early => self.early_report = Some(exit_report),
            // Too late: the record is written.
            None => {}
        }
    }

    /// Takes the forge's answer about the job that ran here.
    pub(super) fn job_read(&mut self, seen: Sighting<JobReading>) {
        let status = match seen {
            Sighting::Seen(JobReading { fact: JobFact::Completed(conclusion), .. }) => {
                JobStatus::Over(Some(conclusion))
            }
            Sighting::Seen(_) => JobStatus::Running,
            Sighting::Absent | Sighting::Unknown(_) => JobStatus::Unknown,
        };
        if let Some(inquiry) = &mut self.inquiry {
            inquiry.job = Some(status);
        }
    }

    /// Gathers the exit report of a machine that someone else deletes, while it still exists.
    pub(super) fn gather_early(&mut self, ctx: &mut Transition<'_>) {
        if !std::mem::replace(&mut self.asked_early, true) {
            ctx.start(Effect::GatherExitReport { want_tail: true });
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.inquiry.is_some()
    }

    /// Drops what was being concluded without knowing of work; force needs no conclusion.
    pub(super) fn void_unless_forced(&mut self) {
        self.inquiry.take_if(|inquiry| inquiry.warrant.kind != WarrantKind::Operator);
    }

    /// Drops a warrant that says "never began" when the runner began after all: the idle check
    /// that was held is judged anew.
    pub(super) fn void_if_began(&mut self, ctx: &Transition<'_>) {
        if ctx.row.once_started {
            self.inquiry.take_if(|inquiry| inquiry.warrant.kind == WarrantKind::NeverBegan);
        }
    }

    /// Drops a warrant that a worker contradicts which shows up after the look that called the
    /// machine free: a zombie, or the runner of a job cancelled before pick-up that took another.
    pub(super) fn work_seen_while_busy(&mut self, ctx: &Transition<'_>) {
        self.inquiry.take_if(|inquiry| match inquiry.warrant.kind {
            // A worker is what an expired warrant says there is none of.
            WarrantKind::Zombie | WarrantKind::Expired => true,
            WarrantKind::Served => !ctx.is_job_done(),
            WarrantKind::OwnEnd
            | WarrantKind::NeverBegan
            | WarrantKind::Idle
            | WarrantKind::Operator => false,
        });
    }
}

/// Judges the end and saves it with the warrant: from here on the machine may be deleted.
fn conclude(warrant: Warrant, exit_report: ExitReport, job: JobStatus, ctx: &mut Transition<'_>) {
    let findings = Findings {
        end: ctx.row.end.as_ref(),
        warrant: warrant.kind,
        exit_report: &exit_report,
        job,
        was_ready: ctx.row.ready_at.is_some(),
        worked: ctx.row.worked,
        create_called: ctx.row.create_called_at.is_some(),
        dismissed: dismissed(ctx),
        setup: setup_story(ctx),
    };
    let verdict = judge(&findings);
    let exit = findings.exit();
    let provisional = provisional(&findings, &verdict, &ctx.row, ctx.now);
    ctx.record(What::Warranted { kind: warrant.kind, evidence: warrant.evidence.clone() });
    ctx.record(if provisional.is_some() {
        What::RecordedForNow(verdict.class)
    } else {
        What::Recorded(verdict.class)
    });
    ctx.row.verdict = Some(verdict.class);
    if !mutants::is(Mutant::RecordAfterDelete) {
        ctx.save_exit(ExitRecord {
            instance: ctx.row.id.clone(),
            pool: ctx.row.pool.clone(),
            job: ctx.row.executing.clone(),
            exit,
            // An ordinary end needs no log, however its tail came to be asked for.
            tail: if verdict.class == VerdictClass::Clean {
                Tail::NotNeeded
            } else {
                exit_report.tail
            },
            warrant: warrant.kind,
            verdict,
            at: ctx.now,
            provisional,
            revisions: 0,
        });
    }
    ctx.row.warrant = Some(warrant);
    ctx.move_to(State::PendingDelete, "its end is on record");
}

fn wants_tail(warrant: WarrantKind, ctx: &Transition<'_>) -> bool {
    let status = known_job_status(ctx).unwrap_or(JobStatus::Running);
    needs_tail(ctx.row.end.as_ref(), Some(warrant), &status, dismissed(ctx))
}

/// Returns what the machine reported while it was set up. One that was never seen had no voice.
fn setup_story<'a>(ctx: &'a Transition<'_>) -> SetupStory<'a> {
    match (&ctx.row.setup_report, ctx.handover()) {
        (Some(last), _) => SetupStory::Heard(last),
        (None, Handover::Fetched) if ctx.row.seen_at.is_some() && !ctx.row.adopted => {
            SetupStory::Silent
        }
        (None, Handover::Fetched | Handover::WithOrder) => SetupStory::Untold,
    }
}

/// Returns the exit report of a machine that was never created.
fn never_created(ctx: &Transition<'_>) -> Option<ExitReport> {
    let nothing_left = || ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] };
    (!ctx.row.machine_may_exist()).then(nothing_left)
}

/// Returns why it was asked to go, if nothing keeps it at the forge any more.
fn dismissed(ctx: &Transition<'_>) -> Option<Reason> {
    let free = !ctx.row.registration.may_exist();
    ctx.row.removal.as_ref().filter(|_| free).map(|removal| removal.reason)
}

/// Returns what is known of the job without asking.
fn known_job_status(ctx: &Transition<'_>) -> Option<JobStatus> {
    match (&ctx.row.executing, &ctx.row.job_over) {
        (None, _) => Some(JobStatus::None),
        (Some(_), Some(over)) => Some(JobStatus::Over(over.conclusion.clone())),
        (Some(_), None) => None,
    }
}
