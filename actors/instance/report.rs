//! What an owner reports to the pool, the ledger and the log, after it is durable.

use tracing::info;

use super::Permit;
use super::actor::Links;
use super::lifecycle::Lifecycle;
use crate::jobs::{InstanceChange, InstanceUpdate, ToLedger};
use crate::model::{
    ExitRecord, HeldOffer, Instance, JobId, JobStatus, Policy, Reason, Refusal, State, Tail,
    Timestamp, VerdictClass, is_due,
};
use crate::pool::{InstanceReport, StartOutcome, ToPool};

/// Remembers what was reported, so that only changes are.
#[derive(Default)]
pub(super) struct Reporter {
    to_pool: Option<InstanceReport>,
    to_ledger: LedgerReport,
}

/// What the ledger knows of the instance.
#[derive(Default)]
struct LedgerReport {
    /// For how many mints the names were reported, plus one.
    names: Option<u32>,
    offerable: bool,
    working: Option<JobId>,
    ended: bool,
    /// What the ledger was told of the job after the end was recorded.
    learned: Option<(JobId, JobStatus)>,
    deleted: bool,
}

impl Reporter {
    /// Reports everything to a new ledger again.
    pub(super) fn forget_ledger(&mut self) {
        self.to_ledger = LedgerReport::default();
    }

    /// Tells the pool and the ledger what they must know, when it changed.
    pub(super) fn publish(
        &mut self,
        row: &Instance,
        lifecycle: &Lifecycle,
        runner_lost: bool,
        links: &Links,
    ) {
        let report = report(row, lifecycle);
        if self.to_pool.as_ref() != Some(&report) {
            self.to_pool = Some(report.clone());
            let _: Result<(), _> = links.pool.tell(ToPool::Report(report));
        }
        let mut changes = self.to_ledger.changes(row);
        if runner_lost {
            changes.push(InstanceChange::RunnerLost);
        }
        for what in changes {
            let update = InstanceUpdate { id: row.id.clone(), pool: row.pool.clone(), what };
            let _: Result<(), _> = links.ledger.tell(ToLedger::Instance(update));
        }
    }
}

impl LedgerReport {
    /// Returns what changed since the last report.
    fn changes(&mut self, row: &Instance) -> Vec<InstanceChange> {
        let mut changes = Vec::new();
        if self.names != Some(row.mints) && !self.ended {
            self.names = Some(row.mints);
            let names = (1..=row.mints.max(1)).map(|mint| row.runner_name(mint)).collect();
            changes.push(InstanceChange::Answers(names));
        }
        let offerable = row.is_offerable();
        if offerable != self.offerable {
            self.offerable = offerable;
            changes.push(if offerable {
                InstanceChange::Offerable
            } else {
                InstanceChange::Unavailable
            });
        }
        // Reported once for each job: a ledger that knows the end of the job, and could not reach
        // this owner then, answers with it now.
        let works = row.executing.as_ref().filter(|_| row.job_over.is_none());
        if works.is_some() && self.working.as_ref() != works && !row.state.is_over() {
            self.working = works.cloned();
            changes.push(InstanceChange::Working(works.cloned()));
        }
        if row.state.is_over() && !self.ended {
            self.ended = true;
            changes.push(InstanceChange::Ended);
        }
        let learned = learned_late(row);
        if learned.is_some() && self.learned != learned {
            self.learned.clone_from(&learned);
            changes.extend(learned.map(|(job, status)| InstanceChange::LearnedOf(job, status)));
        }
        if row.state == State::Deleted && !self.deleted {
            self.deleted = true;
            changes.push(InstanceChange::Deleted);
        }
        changes
    }
}

/// Returns what an instance whose end is on record knows of its job; the record may know less.
fn learned_late(row: &Instance) -> Option<(JobId, JobStatus)> {
    row.verdict.filter(|_| row.state.is_over())?;
    let job = row.executing.clone()?;
    let over = row.job_over.as_ref();
    let status = over.map_or(JobStatus::Running, |over| JobStatus::Over(over.conclusion.clone()));
    Some((job, status))
}

/// Tells the ledger of the record of an end.
pub(super) fn report_record(record: &ExitRecord, links: &Links) {
    let slim = ExitRecord { tail: Tail::NotNeeded, ..record.clone() };
    let what = InstanceChange::Concluded(Box::new(slim));
    let update = InstanceUpdate { id: record.instance.clone(), pool: record.pool.clone(), what };
    let _: Result<(), _> = links.ledger.tell(ToLedger::Instance(update));
}

/// Gives an offer back that the instance will not serve.
pub(super) fn give_back(offer: HeldOffer, row: &Instance, links: &Links) {
    let _: Result<(), _> = links.ledger.tell(ToLedger::OfferAnswered {
        job: offer.job,
        instance: row.id.clone(),
        generation: offer.generation,
        answer: Some(Err(Refusal::NotReady)),
    });
}

/// Logs the end of a runner, and, unless the forge may still correct its verdict, the end of its log.
pub(super) fn log_exit(exit: &ExitRecord) {
    let facts = exit.exit.as_ref();
    info!(
        pool.id = %exit.pool, instance.id = %exit.instance,
        exit_code = facts.and_then(|facts| facts.code),
        signal = facts.and_then(|facts| facts.signal),
        reason = facts.and_then(|facts| facts.reason.as_deref()),
        verdict = %exit.verdict.class,
        provisional = exit.provisional.is_some(),
        "runner terminated"
    );
    if exit.provisional.is_none() {
        log_death(exit);
    }
}

/// Logs the end of a runner's log where it was captured and is needed.
pub(crate) fn log_death(exit: &ExitRecord) {
    let facts = exit.exit.as_ref();
    if !exit.needs_tail() {
        return;
    }
    if let Tail::Captured(tail) = &exit.tail {
        info!(
            pool.id = %exit.pool, instance.id = %exit.instance,
            job.id = exit.job.as_ref().map(tracing::field::display),
            verdict = %exit.verdict.class,
            ended_at = facts.and_then(|facts| facts.ended_at).map(tracing::field::display),
            tail = %tail,
            "runner death log captured"
        );
    }
}

/// Returns whether the machine shows work that neither the forge nor an offer explains yet.
pub(crate) fn is_unnamed(row: &Instance) -> bool {
    row.state == State::Busy && row.executing.is_none() && row.offer.is_none()
}

/// Returns whether an instance has been in its state for longer than is healthy.
pub fn is_stuck(row: &Instance, policy: &Policy, now: Timestamp) -> bool {
    can_stick(row) && is_due(row.since, policy.stuck_after, now)
}

/// Returns whether staying long in this state is a sign of trouble.
pub(super) fn can_stick(row: &Instance) -> bool {
    match row.state {
        State::Creating | State::Retiring | State::Reserved | State::Deleting => true,
        State::Busy => row.executing.is_none(),
        State::PendingCreate
        | State::Starting
        | State::Idle
        | State::Ended
        | State::PendingDelete
        | State::Deleted => false,
    }
}

/// Returns what the pool must know.
fn report(row: &Instance, lifecycle: &Lifecycle) -> InstanceReport {
    let wants = match row.state {
        State::PendingCreate => Some(Permit::Start),
        State::PendingDelete => Some(Permit::Delete),
        State::Creating
        | State::Starting
        | State::Idle
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::Deleting
        | State::Deleted => None,
    };
    InstanceReport {
        id: row.id.clone(),
        state: row.state,
        since: row.since,
        created_at: row.created_at,
        removal: row.removal.as_ref().map(|removal| removal.urgency),
        revision: row.revision.clone(),
        host: row.host.clone(),
        registered: row.registration.may_exist(),
        occupies: row.occupies(),
        wants,
        checked: lifecycle.has_looked(),
        stuck: lifecycle.is_stuck(),
        unnamed: is_unnamed(row),
        outcome: outcome_for_pool(row),
    }
}

/// Returns what this life says about its pool's health.
fn outcome_for_pool(row: &Instance) -> Option<StartOutcome> {
    if row.ready_at.is_some() {
        return Some(StartOutcome::Ready);
    }
    let asked_to_go = row.removal.as_ref().is_some_and(|removal| {
        !matches!(removal.reason, Reason::BootDeadline | Reason::BootFailed)
    });
    let failed = matches!(
        row.verdict,
        Some(
            VerdictClass::CreateFailed
                | VerdictClass::BootFailed
                | VerdictClass::ImagePull
                | VerdictClass::Unschedulable
                | VerdictClass::OutdatedRunner
        )
    );
    (failed && !asked_to_go).then_some(StartOutcome::Failed)
}
