//! What the supervisor of a machine reports about work on it.
//!
//! A machine that our bootstrap set up runs its agent under a supervisor, which reports over HTTP:
//! a job that began, whether a worker lives, and the end of the agent. A worker or a job that began
//! is proof of work at once. "No worker" decides nothing by itself, because it may have been seen
//! before the forge gave the runner a job: only a report that answers a *challenge* is a decisive
//! look, and a challenge is issued when the look is due, which is after the hold.
//!
//! ```text
//!  hold over ──▶ challenge issued ──reply to the next report──▶ supervisor looks ──▶ echo: decisive
//! ```
//! What is heard here is volatile and costs no save. The row keeps one fact, that a supervisor
//! reported at all: from then on the token that came with the machine opens nothing. A supervisor
//! that is silent for `witness_timeout` is no witness until it reports again; the silence counts
//! from the start of this owner, which could hear nothing before.

use std::time::Duration;

use super::messages::{NextReport, WitnessReport};
use super::transition::Transition;
use crate::model::{Instance, Refusal, State, Timestamp, Worker, elapsed};

/// When the next report is due while a look is wanted.
const LOOK_REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// When it is due otherwise.
const REPORT_INTERVAL: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, Default)]
pub(super) struct Witness {
    /// When this owner heard the supervisor last, or began to listen.
    heard_at: Option<Timestamp>,
    /// What it said about a worker last.
    worker: Option<Worker>,
    /// When the challenge was issued that waits for its answer.
    challenged_at: Option<Timestamp>,
}

impl Witness {
    /// Begins to listen: silence counts from now on.
    pub(super) fn listen(&mut self, now: Timestamp) {
        self.heard_at.get_or_insert(now);
    }

    /// Takes a report, or says why it is refused. Returns when the look that it brings began, if it
    /// is a decisive one.
    pub(super) fn reported(
        &mut self,
        attempt: u32,
        report: &WitnessReport,
        ctx: &mut Transition<'_>,
    ) -> Result<Option<Timestamp>, Refusal> {
        match ctx.row.state {
            State::Creating if ctx.row.create_called_at.is_some() => {}
            State::PendingCreate | State::Creating => return Err(Refusal::Unsettled),
            State::Starting
            | State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting => {}
            State::Deleted => return Err(Refusal::Stale),
        }
        if attempt != ctx.row.mints {
            return Err(Refusal::Stale);
        }
        ctx.row.witness_since.get_or_insert(ctx.now);
        self.heard_at = Some(ctx.now);
        self.worker = Some(report.worker);
        let answered = report.challenge.is_some() && report.challenge == self.challenge();
        Ok(answered.then(|| self.challenged_at.take()).flatten())
    }

    /// Returns whether the machine has a supervisor that is not silent.
    pub(super) fn speaks(&mut self, ctx: &mut Transition<'_>) -> bool {
        if ctx.row.witness_since.is_none() {
            return false;
        }
        let since = *self.heard_at.get_or_insert(ctx.now);
        !ctx.has_passed(since, ctx.policy().witness_timeout)
    }

    /// Wants a look that begins at `due` or later.
    pub(super) fn request_look(&mut self, due: Timestamp, now: Timestamp) {
        if self.challenged_at.is_none_or(|at| at < due) {
            self.challenged_at = Some(now);
        }
    }

    /// Drops the challenge: no look is wanted any more.
    pub(super) fn drop_challenge(&mut self) {
        self.challenged_at = None;
    }

    pub(super) fn shows_worker(&self) -> bool {
        self.worker == Some(Worker::Present)
    }

    /// Returns what the supervisor is told.
    pub(super) fn next_report(&self, row: &Instance, timeout: Duration) -> NextReport {
        let wanted = self.challenged_at.is_some() || is_look_wanted(row);
        let interval = if wanted { LOOK_REPORT_INTERVAL } else { REPORT_INTERVAL };
        // Two reports may get lost before it counts as silent.
        NextReport { interval: interval.min(timeout / 3), challenge: self.challenge() }
    }

    fn challenge(&self) -> Option<u64> {
        // The microsecond of its issue: no two challenges of one machine have the same.
        let since_epoch = elapsed(Timestamp::UNIX_EPOCH, self.challenged_at?).as_micros();
        Some(u64::try_from(since_epoch).unwrap_or(u64::MAX))
    }
}

/// Returns whether a look at a machine is wanted, or soon will be.
fn is_look_wanted(row: &Instance) -> bool {
    match row.state {
        State::Starting | State::Retiring => true,
        State::Busy => row.executing.is_none() || row.job_over.is_some(),
        State::PendingCreate
        | State::Creating
        | State::Idle
        | State::Reserved
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::effect::EffectKind;
    use crate::instance::fixtures::{Wax, in_state, now, report, spec, started_at};
    use crate::instance::lifecycle::Lifecycle;
    use crate::instance::transition::{InputReply, InstanceInput, TransitionResult};
    use crate::instance::{MachineCall, ReportEvent};
    use crate::model::{
        Binding, Conclusion, End, JobOver, Registration, Tail, VerdictClass, WarrantKind, after,
    };

    /// An owner of a machine with a supervisor, and its clock.
    struct Owner {
        row: Instance,
        lifecycle: Lifecycle,
        now: Timestamp,
    }

    impl Owner {
        fn of(state: State) -> Self {
            let (mut row, _) = in_state(state);
            row.witness_since = Some(started_at());
            let mut owner = Self { row, lifecycle: Lifecycle::settled(), now: now() };
            owner.take(InstanceInput::Start);
            owner
        }

        /// Returns one that goes, with its registration gone and its hold just over.
        fn after_the_hold() -> Self {
            let mut owner = Self::of(State::Retiring);
            owner.row.registration = Registration::Gone;
            owner.take(InstanceInput::Wake);
            owner.wait(90);
            owner.take(InstanceInput::Wake);
            owner
        }

        fn take(&mut self, input: InstanceInput) -> TransitionResult {
            let spec = spec(Binding::Early);
            let result = self.lifecycle.step(&self.row, input, &spec, &Wax, self.now);
            self.row = result.row.clone();
            result
        }

        fn report(&mut self, event: ReportEvent, worker: Worker) -> NextReport {
            self.echo(event, worker, None)
        }

        fn echo(&mut self, event: ReportEvent, worker: Worker, with: Option<u64>) -> NextReport {
            match self.take(report(event, worker, with)).after.reply {
                InputReply::Reported(Ok(next)) => next,
                other => panic!("{other:?}"),
            }
        }

        fn wait(&mut self, seconds: u64) {
            self.now = after(self.now, Duration::from_secs(seconds));
        }
    }

    #[test]
    fn a_heartbeat_that_says_nothing_new_is_not_saved() {
        for state in [State::Idle, State::Busy, State::Retiring] {
            let mut owner = Owner::of(state);
            let worker = if state == State::Busy { Worker::Present } else { Worker::Absent };
            owner.report(ReportEvent::Heartbeat, worker);
            owner.wait(30);
            let result = owner.take(report(ReportEvent::Heartbeat, worker, None));
            assert!(!result.changed, "{state}: {:?}", result.events);
            assert!(result.after.effects.is_empty(), "{state}");
        }
    }

    #[test]
    fn a_look_decides_only_as_the_answer_to_a_challenge_issued_after_the_hold() {
        let mut owner = Owner::of(State::Retiring);
        owner.row.registration = Registration::Gone;
        let next = owner.report(ReportEvent::Heartbeat, Worker::Absent);
        assert_eq!(next.challenge, None, "the hold is not over");
        owner.wait(90);
        let next = owner.report(ReportEvent::Heartbeat, Worker::Absent);
        assert_eq!(owner.row.state, State::Retiring, "it may have looked before the hold was over");
        let challenge = next.challenge.expect("a challenge");
        owner.wait(1);
        owner.echo(ReportEvent::Heartbeat, Worker::Absent, Some(challenge + 1));
        assert_eq!(owner.row.state, State::Retiring, "it answers something else");
        let answer = report(ReportEvent::Heartbeat, Worker::Absent, Some(challenge));
        let result = owner.take(answer);
        let started: Vec<_> = result.after.effects.iter().map(|it| it.effect.kind()).collect();
        let expected = [EffectKind::GatherExitReport];
        assert_eq!(
            started, expected,
            "its post-mortem begins; neither forge nor provider is asked"
        );
        owner.wait(10);
        owner.take(InstanceInput::Wake);
        let warrant = owner.row.warrant.as_ref().map(|warrant| warrant.kind);
        assert_eq!(warrant, Some(WarrantKind::Idle));
    }

    #[test]
    fn a_worker_in_the_answer_keeps_the_machine() {
        let mut owner = Owner::after_the_hold();
        let next = owner.report(ReportEvent::Heartbeat, Worker::Unknown);
        owner.echo(ReportEvent::Heartbeat, Worker::Present, next.challenge);
        assert_eq!(owner.row.state, State::Busy);
    }

    #[test]
    fn a_new_owner_accepts_no_answer_to_an_old_challenge() {
        let mut owner = Owner::after_the_hold();
        let old = owner.report(ReportEvent::Heartbeat, Worker::Unknown).challenge;
        assert!(old.is_some());
        owner.lifecycle = Lifecycle::settled();
        owner.take(InstanceInput::Start);
        owner.wait(300);
        owner.echo(ReportEvent::Heartbeat, Worker::Absent, old);
        assert_eq!(owner.row.state, State::Retiring);
    }

    #[test]
    fn a_supervisor_that_is_silent_for_too_long_is_asked_no_more() {
        let mut owner = Owner::after_the_hold();
        let started = |result: &TransitionResult| {
            result.after.effects.iter().any(|it| it.effect.kind() == EffectKind::ReadMachine)
        };
        let result = owner.take(InstanceInput::Wake);
        assert!(!started(&result));
        let timeout = spec(Binding::Early).policy.witness_timeout;
        owner.wait(timeout.as_secs());
        let result = owner.take(InstanceInput::Wake);
        assert!(started(&result), "the look of a machine without a witness");
    }

    #[test]
    fn the_exit_that_a_supervisor_reports_is_the_machines_own_end_with_its_log() {
        let mut owner = Owner::of(State::Idle);
        let log = Some("panic: \u{1b}[31mno".to_owned());
        let event = ReportEvent::AgentExited { code: Some(134), log };
        let result = owner.take(report(event, Worker::Absent, None));
        let exit = result.exit.expect("a record");
        assert_eq!(exit.exit.and_then(|exit| exit.code), Some(134));
        assert_eq!(exit.tail, Tail::Captured("panic: \\u{1b}[31mno".into()));
        assert_eq!(
            (exit.warrant, exit.verdict.class),
            (WarrantKind::OwnEnd, VerdictClass::Aborted)
        );
        assert!(matches!(owner.row.end, Some(End::Exited(_))));
    }

    #[test]
    fn a_job_that_began_is_proof_of_work() {
        for state in [State::Starting, State::Idle, State::Retiring] {
            let mut owner = Owner::of(state);
            owner.report(ReportEvent::JobStarted, Worker::Unknown);
            assert_eq!(owner.row.state, State::Busy, "{state}");
        }
    }

    #[test]
    fn a_worker_that_outlived_its_job_by_far_does_not_keep_the_machine() {
        for (conclusion, goes) in [
            (Some(Conclusion::Failure), true),
            // Cancelled before it began, its runner may have taken another job.
            (Some(Conclusion::Cancelled), false),
            // Closed by us: the forge never said that it is over.
            (None, false),
        ] {
            let mut owner = Owner::of(State::Busy);
            owner.report(ReportEvent::Heartbeat, Worker::Present);
            owner.row.registration = Registration::Gone;
            let job = owner.row.executing.clone().expect("a job");
            let (names_us, at) = (conclusion == Some(Conclusion::Cancelled), owner.now);
            let over = JobOver { job, conclusion: conclusion.clone(), names_us, at };
            owner.take(InstanceInput::JobOver(over));
            // Longer than `zombie_after`, the hold and the answers take together.
            for _ in 0..60 {
                owner.wait(30);
                let next = owner.report(ReportEvent::Heartbeat, Worker::Present);
                owner.echo(ReportEvent::Heartbeat, Worker::Present, next.challenge);
            }
            let kind = owner.row.warrant.as_ref().map(|warrant| warrant.kind);
            let expected = goes.then_some(WarrantKind::Zombie);
            assert_eq!(kind, expected, "{conclusion:?}");
        }
    }

    #[test]
    fn what_a_machine_came_with_opens_nothing_once_its_supervisor_reports() {
        let (row, _) = in_state(State::Starting);
        let mut owner = Owner { row, lifecycle: Lifecycle::settled(), now: now() };
        let call = || InstanceInput::MachineCalled(1, MachineCall::RequestJit);
        assert_eq!(owner.take(call()).after.reply, InputReply::MachineCalled(Ok(())));
        owner.report(ReportEvent::Heartbeat, Worker::Absent);
        let refused = InputReply::MachineCalled(Err(Refusal::Stale));
        assert_eq!(owner.take(call()).after.reply, refused);
        owner.report(ReportEvent::AgentStarted, Worker::Absent);
        assert_eq!(owner.row.state, State::Idle);
    }
}
