//! What the forge and the machine prove about jobs here.
//!
//! The row holds the proof: `executing` names the job, `job_over` its end at the forge. Proof adds
//! up: what is proven stays proven, whichever message comes first. Every proof of work voids what
//! was being concluded about an idle machine.

use std::time::Duration;

use super::idle_check::IdleCheck;
use super::post_mortem::PostMortem;
use super::transition::Transition;
use crate::model::{JobId, JobOver, OfferEnd, State, What, is_due};
use crate::mutants::{self, Mutant};

/// How exactly the beginning of a doubt is kept.
const DOUBT_GRAIN: Duration = Duration::from_hours(1);

/// What work voids: both draw conclusions about a machine without work.
pub(super) struct Conclusions<'a> {
    pub(super) idle_check: &'a mut IdleCheck,
    pub(super) post_mortem: &'a mut PostMortem,
}

impl Conclusions<'_> {
    /// Takes proof that a job runs here, whichever it is.
    pub(super) fn work_proven(&mut self, why: &str, ctx: &mut Transition<'_>) {
        if !ctx.row.state.is_past_return() {
            restart_doubt(ctx);
        }
        match ctx.row.state {
            State::Starting | State::Idle | State::Reserved | State::Retiring => {}
            // Forced or not: what its warrant rests on is void. A forced removal finds its own way
            // from `busy`.
            State::PendingDelete if ctx.row.end.is_none() => {
                ctx.row.warrant = None;
                ctx.row.verdict = None;
            }
            State::Busy => {
                self.post_mortem.work_seen_while_busy(ctx);
                return;
            }
            State::PendingCreate
            | State::Creating
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => return,
        }
        self.post_mortem.void_unless_forced();
        self.idle_check.reset();
        ctx.row.once_started = true;
        ctx.row.sealed_jit = None;
        ctx.row.offer = None;
        ctx.move_to(State::Busy, why);
    }

    /// Takes what the machine itself shows: a worker is there. One that outlived its job by far
    /// proves nothing any more.
    pub(super) fn worker_seen(&mut self, why: &str, ctx: &mut Transition<'_>) {
        let says_nothing =
            ctx.is_worker_overdue() && matches!(ctx.row.state, State::Busy | State::PendingDelete);
        if !says_nothing {
            self.work_proven(why, ctx);
        }
    }

    /// Takes the forge's proof that a job runs here.
    pub(super) fn executing(&mut self, job: JobId, ctx: &mut Transition<'_>) {
        if !ctx.was_ever_registered() {
            return; // the forge cannot have given it anything
        }
        if ctx.row.executing.as_ref() == Some(&job) {
            if ctx.row.job_over.is_none() {
                self.work_proven("the forge proved a job here", ctx);
            }
            return;
        }
        if ctx.row.state.is_past_return() && ctx.row.executing.is_some() {
            return;
        }
        ctx.record(What::Executing(job.clone()));
        ctx.row.executing = Some(job);
        ctx.row.job_over = None;
        ctx.row.sealed_jit = None;
        ctx.row.once_started |= ctx.row.seen_at.is_some();
        if ctx.row.state == State::Busy {
            self.post_mortem.void_unless_forced();
            self.idle_check.reset();
        }
        self.work_proven("the forge proved a job here", ctx);
    }

    /// Takes the end of a job at the forge.
    pub(super) fn job_over(&mut self, over: JobOver, ctx: &mut Transition<'_>) {
        let concerns_us = match &ctx.row.executing {
            Some(job) => *job == over.job,
            None => over.names_us || mutants::is(Mutant::CompletionByOfferedJob),
        };
        if !concerns_us || !ctx.was_ever_registered() {
            return;
        }
        let known = ctx.row.job_over.as_ref();
        let over = JobOver {
            names_us: over.names_us || known.is_some_and(|known| known.names_us),
            conclusion: over
                .conclusion
                .or_else(|| known.and_then(|known| known.conclusion.clone())),
            at: known.map_or(over.at, |known| known.at),
            job: over.job,
        };
        if known == Some(&over) {
            return;
        }
        ctx.record(What::JobOver { job: over.job.clone(), names_us: over.names_us });
        ctx.row.executing = Some(over.job.clone());
        ctx.row.sealed_jit = None;
        ctx.row.job_over = Some(over);
        self.idle_check.reset();
        // It ran here, or was assigned here and cancelled: either way something may have begun,
        // unless the idle check is over already: its registration is gone, nothing more can come.
        if ctx.row.state != State::PendingDelete {
            self.work_proven("the forge says that its job is over", ctx);
        }
    }

    /// Takes the end of an offer whose job the forge had proven here: the job waits again, runs
    /// elsewhere, or was given up. What works here cannot be named any more.
    pub(super) fn execution_taken_back(
        &mut self,
        job: &JobId,
        why: OfferEnd,
        ctx: &mut Transition<'_>,
    ) {
        let taken_back =
            matches!(why, OfferEnd::Requeued | OfferEnd::TakenElsewhere | OfferEnd::JobOver);
        let proven = ctx.row.executing.as_ref() == Some(job) && ctx.row.job_over.is_none();
        if taken_back && proven && !ctx.row.state.is_over() {
            ctx.record(What::OfferEnded(job.clone(), why));
            ctx.row.executing = None;
            self.idle_check.reset();
        }
    }
}

/// Begins the doubt about an unregistered machine anew: work was proven. Once an hour at most, so that
/// a worker which is seen again and again is not saved each time.
fn restart_doubt(ctx: &mut Transition<'_>) {
    let restart = ctx.row.doubt_since.filter(|since| is_due(*since, DOUBT_GRAIN, ctx.now));
    if restart.is_some() {
        ctx.row.doubt_since = Some(ctx.now);
    }
}
