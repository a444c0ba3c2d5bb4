//! What an owner reports to the pool, the ledger and the log, after it is durable.

use tracing::info;

use super::Permit;
use super::actor::Links;
use super::lifecycle::Lifecycle;
use crate::jobs::{InstanceChange, InstanceUpdate, ToLedger};
use crate::model::{
    Binding, End, ExitRecord, Failure, FailureClass, HeldOffer, Instance, JobId, JobStatus,
    LifeOutcome, LifeStage, Policy, Reason, Refusal, Registration, RunnerId, State, Tail,
    Timestamp, failure_class, is_due,
};
use crate::pool::{InstanceReport, ToPool};

/// How much of an error is shown, in characters.
const MAX_ERROR_CHARS: usize = 400;

/// Remembers what was reported, so that only changes are.
#[derive(Default)]
pub(super) struct Reporter {
    to_pool: Option<InstanceReport>,
    /// The record of the end, once it is durable.
    exit: Option<ExitRecord>,
    to_ledger: LedgerReport,
}

/// What the ledger shall have the forge asked about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LedgerQuestions {
    /// The runner of the job at work is offline or unlisted.
    pub(super) runner_lost: bool,
    /// The runner of a delivered offer may not start.
    pub(super) delivery: bool,
}

/// What the ledger knows of the instance.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was told or not")]
struct LedgerReport {
    /// For how many mints the names were reported, plus one.
    names: Option<u32>,
    /// The number of the registration that was reported last.
    number: Option<RunnerId>,
    offerable: bool,
    working: Option<JobId>,
    judged: bool,
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

    /// Keeps the record of the end, which says how the life failed.
    pub(super) fn keep_exit(&mut self, exit: ExitRecord) {
        // Of a long tail only the last line is shown again.
        let tail = match exit.tail {
            Tail::Captured(tail) => Tail::Captured(last_line(&tail).into()),
            other @ (Tail::NotNeeded | Tail::Unavailable(_)) => other,
        };
        self.exit = Some(ExitRecord { tail, ..exit });
    }

    /// Tells the pool and the ledger what they must know, when it changed.
    pub(super) fn publish(
        &mut self,
        row: &Instance,
        lifecycle: &Lifecycle,
        questions: LedgerQuestions,
        links: &Links,
        now: Timestamp,
    ) {
        let report = report(row, lifecycle, self.exit.as_ref(), now);
        if self.to_pool.as_ref() != Some(&report) {
            self.to_pool = Some(report.clone());
            let _: Result<(), _> = links.pool.tell(ToPool::Report(report));
        }
        let mut changes = self.to_ledger.changes(row, lifecycle.can_take_offer(row, now));
        if questions.runner_lost {
            changes.push(InstanceChange::RunnerLost);
        }
        if questions.delivery {
            changes.push(InstanceChange::DeliveryInDoubt);
        }
        for what in changes {
            let update = InstanceUpdate { id: row.id.clone(), pool: row.pool.clone(), what };
            let _: Result<(), _> = links.ledger.tell(ToLedger::Instance(update));
        }
    }
}

impl LedgerReport {
    /// Returns what changed since the last report.
    fn changes(&mut self, row: &Instance, offerable: bool) -> Vec<InstanceChange> {
        let mut changes = Vec::new();
        if self.names != Some(row.mints) && !self.ended {
            self.names = Some(row.mints);
            let names = (1..=row.mints.max(1)).map(|mint| row.runner_name(mint)).collect();
            changes.push(InstanceChange::Answers(row.home(), names));
        }
        if let Registration::Known { name, id } = &row.registration
            && self.number != Some(*id)
            && !self.ended
        {
            self.number = Some(*id);
            changes.push(InstanceChange::Registered(name.clone(), *id));
        }
        if offerable != self.offerable {
            self.offerable = offerable;
            changes.push(if offerable {
                InstanceChange::Offerable(row.host.clone())
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
            changes.extend(row.worked_unnamed().then_some(InstanceChange::EndedUnnamed));
            changes.push(InstanceChange::Ended);
        }
        let learned = learned_late(row);
        if learned.is_some() && self.learned != learned {
            self.learned.clone_from(&learned);
            changes.extend(learned.map(|(job, status)| InstanceChange::LearnedOf(job, status)));
        }
        let tells_of_a_job = row.binding == Binding::Late && row.mints > 0;
        if let Some(verdict) = row.verdict
            && tells_of_a_job
            && !self.judged
        {
            self.judged = true;
            changes.push(InstanceChange::Judged(verdict));
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
pub(super) fn give_back(offer: HeldOffer, why: Refusal, row: &Instance, links: &Links) {
    let _: Result<(), _> = links.ledger.tell(ToLedger::OfferAnswered {
        job: offer.job,
        instance: row.id.clone(),
        generation: offer.generation,
        answer: Some(Err(why)),
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
fn report(
    row: &Instance,
    lifecycle: &Lifecycle,
    exit: Option<&ExitRecord>,
    now: Timestamp,
) -> InstanceReport {
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
        occupies: row.occupies() && !lifecycle.frees_place(row),
        silent_since: lifecycle.silent_since(row, now),
        unreachable: lifecycle.is_out_of_reach(row),
        wants,
        checked: lifecycle.has_looked(),
        stuck: lifecycle.is_stuck(),
        unnamed: is_unnamed(row),
        outcome: life_outcome(row, lifecycle.shows_worker(), exit),
    }
}

/// Returns what this life has come to, or nothing while that is open.
///
/// A machine that ended without serving waits for its verdict; an instance that was asked to go
/// because it did not work has failed at once, or its pool would replace it before that counts.
fn life_outcome(
    row: &Instance,
    shows_worker: bool,
    exit: Option<&ExitRecord>,
) -> Option<LifeOutcome> {
    let is_proven = row.executing.is_some() || (row.state == State::Busy && shows_worker);
    if is_proven {
        return Some(LifeOutcome::Served);
    }
    let failed = |stage| LifeOutcome::Failed(failure(row, stage, exit));
    match row.state {
        State::PendingCreate
        | State::Creating
        | State::Starting
        | State::Reserved
        | State::Busy => None,
        State::Idle => is_unstarted(row).then(|| failed(LifeStage::Pickup)),
        State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => {
            let removal = row.removal.as_ref().map(|removal| means_failure(removal.reason));
            match removal {
                Some(false) => Some(LifeOutcome::Unneeded),
                Some(true) if row.state == State::Retiring => Some(failed(stage_of(row))),
                Some(true) | None => row.verdict.map(|_| failed(stage_of(row))),
            }
        }
    }
}

/// Returns whether a removal for this reason says that the runner could not serve.
fn means_failure(reason: Reason) -> bool {
    match reason {
        Reason::BootDeadline | Reason::BootFailed | Reason::Offline => true,
        Reason::Surplus
        | Reason::Drain
        | Reason::Revision
        | Reason::Lifetime
        | Reason::Orphan
        | Reason::Unlisted
        // The forge dropped the registration: that says nothing about the pool.
        | Reason::Unregistered
        // Its machine fell silent: many that do are a concern of their own, and of their host.
        | Reason::Silent
        | Reason::OfferEnded
        | Reason::Spent
        | Reason::HostDrain
        | Reason::Operator => false,
    }
}

/// Returns whether the JIT config was handed out and the offer ended before the runner started.
fn is_unstarted(row: &Instance) -> bool {
    row.binding == Binding::Late
        && row.registration.may_exist()
        && row.offer.is_none()
        && row.removal.is_none()
        && !row.once_started
}

/// Returns how far the life had come.
fn stage_of(row: &Instance) -> LifeStage {
    if matches!(row.end, Some(End::NotCreated { .. })) {
        LifeStage::Create
    } else if row.ready_at.is_none() {
        LifeStage::Boot
    } else if row.binding == Binding::Late && row.mints > 0 {
        LifeStage::Pickup
    } else {
        LifeStage::Idle
    }
}

fn failure(row: &Instance, stage: LifeStage, exit: Option<&ExitRecord>) -> Failure {
    let class = match stage {
        LifeStage::Pickup if exit.is_none() => FailureClass::Image,
        LifeStage::Create | LifeStage::Boot | LifeStage::Idle | LifeStage::Pickup => {
            failure_class(row, exit)
        }
    };
    let (error, advice) = match exit {
        Some(exit) => (error_of(row, exit), exit.verdict.advice.clone()),
        None => (open_error(row, stage), open_advice(row).into()),
    };
    Failure {
        stage,
        class,
        provisional: is_provisional(row),
        error: error.into(),
        advice: advice.into(),
    }
}

/// Returns whether proof of a job may still come that explains the end: the agent's own script
/// leaves with 0 after a job, and a machine that tells nothing may have had one.
fn is_provisional(row: &Instance) -> bool {
    match &row.end {
        Some(End::NotCreated { .. }) => false,
        Some(End::Exited(exit)) => exit.signal.is_none() && exit.code.is_none_or(|code| code == 0),
        Some(End::Gone { .. }) => true,
        None => row.state == State::Idle,
    }
}

/// Returns what the provider, the forge or the runner said of an end.
fn error_of(row: &Instance, exit: &ExitRecord) -> String {
    if let Some(End::NotCreated { why }) = &row.end {
        return shortened(why);
    }
    let mut error = exit.verdict.evidence.join("; ");
    if let Tail::Captured(tail) = &exit.tail
        && !last_line(tail).is_empty()
    {
        error = format!("its log ends with `{}`; {error}", shortened(last_line(tail)));
    }
    shortened(&error)
}

fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// Returns what is known of a failure whose record is not at hand.
fn open_error(row: &Instance, stage: LifeStage) -> String {
    match (row.verdict, row.removal.as_ref().map(|removal| removal.reason), stage) {
        (_, _, LifeStage::Pickup) if row.end.is_none() => {
            "its runner did not start after the JIT config was handed out".into()
        }
        (Some(verdict), _, _) => format!("it ended as `{verdict}`"),
        (None, Some(Reason::Offline), _) => "its runner is offline at the forge".into(),
        (None, _, _) => "its runner was not ready within the boot deadline".into(),
    }
}

fn open_advice(row: &Instance) -> &'static str {
    let class = row.verdict.unwrap_or(crate::model::VerdictClass::BootFailed);
    class.usual_advice()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::fixtures::{in_state, now};
    use crate::model::{ExitFacts, JobId, RemovalRequest, Urgency, VerdictClass};

    fn ended(code: Option<i32>) -> Instance {
        let (mut row, _) = in_state(State::PendingDelete);
        row.end = Some(End::Exited(ExitFacts { code, ..ExitFacts::default() }));
        row.verdict = Some(VerdictClass::RunnerError);
        (row.removal, row.executing, row.job_over) = (None, None, None);
        row
    }

    fn removed_for(row: Instance, reason: Reason) -> Instance {
        let removal = RemovalRequest { urgency: Urgency::Retire, reason, by: None, at: now() };
        Instance { removal: Some(removal), ..row }
    }

    fn failed(row: &Instance) -> Option<(LifeStage, bool)> {
        match life_outcome(row, false, None) {
            Some(LifeOutcome::Failed(failure)) => Some((failure.stage, failure.provisional)),
            Some(LifeOutcome::Served | LifeOutcome::Unneeded) | None => None,
        }
    }

    #[test]
    fn whatever_ended_by_itself_without_serving_has_failed_whatever_its_exit_code() {
        for code in [Some(0), Some(1), Some(7), Some(127), Some(137), Some(139), Some(143), None] {
            let mut row = ended(code);
            row.ready_at = None;
            let provisional = code.is_none_or(|code| code == 0);
            assert_eq!(failed(&row), Some((LifeStage::Boot, provisional)), "{code:?}");
            row.ready_at = Some(now());
            let stage = if row.binding == Binding::Late && row.mints > 0 {
                LifeStage::Pickup
            } else {
                LifeStage::Idle
            };
            assert_eq!(failed(&row), Some((stage, provisional)), "{code:?}");
            row.executing = Some(JobId { forge: "github".into(), number: 1 });
            assert_eq!(life_outcome(&row, false, None), Some(LifeOutcome::Served), "{code:?}");
        }
    }

    #[test]
    fn an_end_counts_once_it_is_on_record() {
        let row = Instance { state: State::Ended, verdict: None, ..ended(Some(1)) };
        assert_eq!(life_outcome(&row, false, None), None);
    }

    #[test]
    fn an_instance_dismissed_while_idle_was_not_needed_however_it_left() {
        for reason in [Reason::Surplus, Reason::Drain, Reason::Revision, Reason::Operator] {
            let row = removed_for(ended(Some(1)), reason);
            assert_eq!(life_outcome(&row, false, None), Some(LifeOutcome::Unneeded), "{reason}");
        }
        for reason in [Reason::BootDeadline, Reason::BootFailed, Reason::Offline] {
            let (row, _) = in_state(State::Retiring);
            let row = removed_for(Instance { executing: None, ..row }, reason);
            assert!(failed(&row).is_some(), "{reason}: it is replaced from now on");
        }
    }

    #[test]
    fn a_machine_that_shows_a_worker_served_before_the_forge_says_so() {
        let (mut row, _) = in_state(State::Busy);
        row.executing = None;
        assert_eq!(life_outcome(&row, true, None), Some(LifeOutcome::Served));
        assert_eq!(life_outcome(&row, false, None), None, "a refused removal is doubt, not a job");
    }

    #[test]
    fn a_refused_registration_is_the_forges_or_the_credentials_fault_never_the_providers() {
        let refused = |why: &str| {
            let end = Some(End::NotCreated { why: why.into() });
            let row = Instance { end, create_called_at: None, ..ended(None) };
            failure(&row, stage_of(&row), None)
        };
        let failure = refused("GitHub does not accept token `ci`: 401 Bad credentials");
        assert_eq!((failure.stage, failure.class), (LifeStage::Create, FailureClass::Credential));
        assert_eq!(refused("GitHub answered 422: no such group").class, FailureClass::Forge);
    }
}
