//! The life cycle: which part takes an input, and which part drives a state.
//!
//! [`Lifecycle::step`] is the whole of an owner's thinking, as one function: what is known and what
//! came in, to what is saved and what is done. An input is taken in as facts; then `drive` looks at
//! where the instance stands and decides, in the same way after a message, an alarm or a restart.
//!
//! Each part keeps its volatile state to itself. A restart forgets all of it, on purpose: holds
//! begin again, counts of absences begin again, and nothing is decided on stale reads. A part that
//! needs another gets it as an argument and calls its methods.

use super::availability::Availability;
use super::creation::{Creation, NotCreated};
use super::deletion::MachineDeletion;
use super::effect::EffectOutcome;
#[cfg(test)]
use super::effect::{EffectKind, EffectToken};
use super::idle_check::{IdleCheck, IdleCriteria};
use super::offers::OfferKeeper;
use super::post_mortem::PostMortem;
use super::probe::MachineProbe;
use super::registration::{AbsenceProof, Registrar, RemovalProgress};
use super::removal::{RemovalDecision, RetireRequest};
use super::runner_check::RunnerCheck;
use super::setup::SetupCalls;
use super::transition::{Bookkeeping, InputReply, InstanceInput, Transition, TransitionResult};
use super::witness::Witness;
use super::work::Conclusions;
use super::{Consent, Permit, ReportEvent, WitnessReport};
use crate::model::{
    Binding, Conclusion, End, ExitFacts, Instance, JobOver, MachinePhase, MachineView, PoolSpec,
    Reason, Refusal, Registration, Sighting, State, Timestamp, Urgency, WarrantKind, What, Worker,
    signal_of,
};
use crate::mutants::{self, Mutant};
use crate::ports::{Handover, Seal};

/// What a machine's process gets when the machine is deleted.
const SIGTERM: i32 = 15;

/// What an owner remembers only while it lives, by part.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifecycle {
    bookkeeping: Bookkeeping,
    creation: Creation,
    registrar: Registrar,
    setup: SetupCalls,
    probe: MachineProbe,
    witness: Witness,
    runner_check: RunnerCheck,
    availability: Availability,
    offers: OfferKeeper,
    idle_check: IdleCheck,
    post_mortem: PostMortem,
    deletion: MachineDeletion,
}

impl Lifecycle {
    /// Begins for an owner; `cut_off` says why nothing can be called at all, if so.
    pub(super) fn new(handover: Handover, cut_off: Option<String>) -> Self {
        Self { bookkeeping: Bookkeeping::new(handover, cut_off), ..Self::default() }
    }

    /// Lets it hold one of the provider's slots before it calls a create.
    pub(super) fn with_create_slots(mut self, has_slots: bool) -> Self {
        self.creation.use_slots(has_slots);
        self
    }

    /// Takes something in and decides.
    pub(super) fn step(
        &mut self,
        row: &Instance,
        input: InstanceInput,
        spec: &PoolSpec,
        seal: &dyn Seal,
        now: Timestamp,
    ) -> TransitionResult {
        let bookkeeping = std::mem::take(&mut self.bookkeeping);
        self.availability.begin(now);
        let mut ctx = Transition::begin(row, bookkeeping, spec, seal, now);
        let reply = if row.state == State::Deleted {
            InputReply::Nothing
        } else {
            self.handle(input, &mut ctx)
        };
        self.drive(&mut ctx);
        let reply = match reply {
            // What is wanted of the machine next, the decision has just said.
            InputReply::Reported(Ok(_)) => InputReply::Reported(Ok(self
                .witness
                .next_report(&ctx.row, ctx.policy().witness_timeout))),
            InputReply::Nothing
            | InputReply::Offer(_)
            | InputReply::Retire(_)
            | InputReply::MachineCalled(_)
            | InputReply::Reported(Err(_)) => reply,
        };
        ctx.mark_stuck();
        let (result, bookkeeping) = ctx.finish(row, reply);
        self.bookkeeping = bookkeeping;
        result
    }

    /// Returns whether the machine was read since the owner started, or need not be.
    pub(super) fn has_looked(&self) -> bool {
        self.probe.has_looked()
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.bookkeeping.is_stuck()
    }

    /// Returns whether the machine's witness said last that a worker is there.
    pub(super) fn shows_worker(&self) -> bool {
        self.probe.shows_worker() || self.witness.shows_worker()
    }

    /// Returns whether an offer may be sent to the instance. A machine that was not found, that
    /// others delete, or of which the provider cannot tell, may be gone before it is delivered.
    pub(super) fn can_take_offer(&self, row: &Instance, now: Timestamp) -> bool {
        row.is_offerable() && self.availability.can_take_offer(now) && self.probe.is_well()
    }

    /// Returns since when a machine that should ask for work has been silent, if it is.
    pub(super) fn silent_since(&self, row: &Instance, now: Timestamp) -> Option<Timestamp> {
        self.availability.silent_since(row, now)
    }

    /// Returns whether the instance is no capacity because its host is out of reach.
    pub(super) fn is_out_of_reach(&self, row: &Instance) -> bool {
        self.availability.is_out_of_reach(row)
    }

    /// Returns whether its place against `max` is free although its machine may exist.
    pub(super) fn frees_place(&self, row: &Instance) -> bool {
        self.availability.frees_place(row)
    }

    // Inputs.

    fn handle(&mut self, input: InstanceInput, ctx: &mut Transition<'_>) -> InputReply {
        match input {
            InstanceInput::Wake => {}
            InstanceInput::Start => self.witness.listen(ctx.now),
            InstanceInput::Revived { panicked } => {
                self.witness.listen(ctx.now);
                ctx.record(What::Respawned { panicked });
            }
            InstanceInput::Permit(Permit::Start) => self.creation.permit(),
            InstanceInput::Permit(Permit::Delete) => self.deletion.permit(),
            InstanceInput::EffectDone(token, outcome) => {
                if ctx.take_in_flight(token) {
                    self.effect_done(outcome, ctx);
                }
            }
            InstanceInput::Seen(view) => self.machine_seen(&view, ctx),
            InstanceInput::Missed => self.probe.missed(ctx),
            InstanceInput::RunnerSeen(view) => self.runner_check.seen(&view, ctx),
            InstanceInput::RunnerMissed => RunnerCheck::missed(ctx),
            InstanceInput::Offer(job, generation) => {
                let available = self.availability.can_take_offer(ctx.now) && self.probe.is_well();
                let answer = self.offers.offered(&job, generation, available, ctx);
                return InputReply::Offer(answer);
            }
            InstanceInput::OfferEnded(job, generation, why) => {
                self.conclusions().execution_taken_back(&job, why, ctx);
                OfferKeeper::ended(&job, generation, why, &mut self.registrar, ctx);
            }
            InstanceInput::Executing(job) => self.conclusions().executing(job, ctx),
            InstanceInput::JobOver(over) => self.conclusions().job_over(over, ctx),
            InstanceInput::Retire(request) => {
                return InputReply::Retire(self.removal_requested(request, ctx));
            }
            InstanceInput::Poll { acknowledges } => {
                self.availability.polled(acknowledges, ctx.now);
                self.probe.polled(ctx);
            }
            InstanceInput::HandedOut => self.offers.handed_out(ctx.now),
            InstanceInput::Acknowledged => self.offers.acknowledged(),
            InstanceInput::Host(condition) => self.availability.host_changed(condition),
            InstanceInput::MachineCalled(attempt, call) => {
                let answer = self.setup.called(attempt, call, &mut self.probe, ctx);
                return InputReply::MachineCalled(answer);
            }
            InstanceInput::Reported(attempt, report) => {
                let answer = self.supervisor_reported(attempt, report, ctx);
                return InputReply::Reported(
                    answer
                        .map(|()| self.witness.next_report(&ctx.row, ctx.policy().witness_timeout)),
                );
            }
        }
        InputReply::Nothing
    }

    /// Takes a report of the machine's supervisor.
    fn supervisor_reported(
        &mut self,
        attempt: u32,
        report: WitnessReport,
        ctx: &mut Transition<'_>,
    ) -> Result<(), Refusal> {
        let decisive = self.witness.reported(attempt, &report, ctx)?;
        if !ctx.row.state.is_over() {
            self.probe.called(ctx);
            let works = report.worker == Worker::Present || report.event == ReportEvent::JobStarted;
            ctx.row.once_started |= works;
            ctx.row.worked |= works;
        }
        match report.event {
            ReportEvent::Heartbeat | ReportEvent::JobCompleted => {}
            ReportEvent::AgentStarted => self.setup.agent_started(ctx),
            ReportEvent::JobStarted => {
                self.conclusions().worker_seen("its supervisor reports that a job began", ctx);
            }
            ReportEvent::AgentExited { code, log } => {
                self.post_mortem.agent_exited(code, log, ctx);
            }
        }
        if report.worker == Worker::Present {
            self.conclusions().worker_seen("its supervisor sees a worker", ctx);
        }
        if let Some(begun) = decisive {
            self.idle_check.machine_answered(begun, report.worker, ctx);
        }
        Ok(())
    }

    fn effect_done(&mut self, outcome: EffectOutcome, ctx: &mut Transition<'_>) {
        match outcome {
            EffectOutcome::Created(Ok(view)) => {
                self.probe.skip_first_read();
                self.machine_seen(&view, ctx);
            }
            EffectOutcome::Slot(answer) => {
                self.creation.slot_answered(answer, &mut self.probe, ctx);
            }
            EffectOutcome::Created(Err(error)) => {
                let created = Creation::failed(error, &mut self.probe, ctx);
                self.end_if_not_created(created, ctx);
            }
            EffectOutcome::Minted(answer) if ctx.row.state == State::Creating => {
                let created =
                    self.creation.minted(answer, &mut self.registrar, &mut self.probe, ctx);
                self.end_if_not_created(created, ctx);
            }
            EffectOutcome::Minted(answer) => {
                self.offers.minted(answer, &mut self.registrar, ctx);
            }
            EffectOutcome::Deregistered(answer) => {
                let progress = self.registrar.deregistered(&answer, ctx);
                self.removal_progressed(progress, ctx);
            }
            EffectOutcome::Machine { begun, seen } => self.machine_read(begun, seen, ctx),
            EffectOutcome::Runner { begun, seen } => {
                if matches!(ctx.row.registration, Registration::Uncertain(_)) {
                    let progress = self.registrar.looked_up(&seen, ctx);
                    self.removal_progressed(progress, ctx);
                } else {
                    self.runner_check.read(begun, &seen, ctx);
                }
            }
            EffectOutcome::Work { seen: Sighting::Seen(job), .. } => {
                self.conclusions().executing(job, ctx);
            }
            EffectOutcome::Work { begun, seen } => {
                self.idle_check.forge_answered(begun, &seen, ctx);
            }
            EffectOutcome::Job(seen) => self.post_mortem.job_read(seen),
            EffectOutcome::ExitReport(exit_report) => self.post_mortem.exit_report(exit_report),
            EffectOutcome::Deleted(answer) => self.deletion.deleted(answer, &mut self.probe, ctx),
            EffectOutcome::Delivery { generation, allowed } => {
                self.offers.delivery_confirmed(generation, allowed, &mut self.registrar, ctx);
            }
            EffectOutcome::OfferOpen { generation, open } => {
                OfferKeeper::offer_confirmed(generation, open, &mut self.registrar, ctx);
            }
        }
    }

    /// Takes the answer to a direct read of the machine.
    fn machine_read(
        &mut self,
        begun: Timestamp,
        seen: Sighting<MachineView>,
        ctx: &mut Transition<'_>,
    ) {
        match seen {
            Sighting::Seen(view) => {
                self.probe.found(ctx);
                self.machine_seen(&view, ctx);
                self.idle_check.machine_answered(begun, view.worker, ctx);
                self.deletion.machine_found(&mut self.probe, ctx);
            }
            Sighting::Absent => {
                if self.probe.not_found(begun) {
                    self.machine_absent(begun, ctx);
                }
            }
            Sighting::Unknown(_) => {
                self.idle_check.machine_answered(begun, Worker::Unknown, ctx);
                self.probe.read_failed(ctx);
            }
        }
    }

    /// Takes what a machine looks like, from a direct read, a watch or a listing.
    fn machine_seen(&mut self, view: &MachineView, ctx: &mut Transition<'_>) {
        let was_leaving = self.probe.is_leaving();
        if !self.probe.observe(view, ctx) {
            return;
        }
        if let MachinePhase::Over(exit) = &view.phase {
            let mut exit = exit.clone();
            // Before our own delete, only others can have asked it to go.
            let told_to_stop = was_leaving || (view.leaving && signal_of(&exit) == Some(SIGTERM));
            if told_to_stop && ctx.row.state != State::Retiring {
                let reason = || ExitFacts::DELETED_EXTERNALLY.to_owned();
                exit.machine_reason.get_or_insert_with(reason);
            }
            self.post_mortem.machine_over(End::Exited(exit), ctx);
        }
        if view.leaving {
            self.post_mortem.gather_early(ctx);
        }
        if view.worker == Worker::Present {
            ctx.row.worked = true;
            self.conclusions().worker_seen("the machine shows a worker", ctx);
        }
    }

    /// Takes a direct read that did not find the machine.
    fn machine_absent(&mut self, begun: Timestamp, ctx: &mut Transition<'_>) {
        match ctx.row.state {
            State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => {
                if self.probe.confirms_absence(begun, ctx.policy().absence_confirm, ctx) {
                    let deleted_externally = self.probe.is_leaving();
                    self.post_mortem.machine_over(End::Gone { deleted_externally }, ctx);
                }
            }
            State::Creating => {
                let created = Creation::machine_absent(begun, &mut self.probe, ctx);
                self.end_if_not_created(created, ctx);
            }
            State::Deleting => self.deletion.machine_absent(begun, &mut self.probe, ctx),
            State::PendingCreate | State::Ended | State::PendingDelete | State::Deleted => {}
        }
    }

    fn end_if_not_created(&mut self, created: Result<(), NotCreated>, ctx: &mut Transition<'_>) {
        if let Err(not_created) = created {
            self.post_mortem.machine_over(not_created.into(), ctx);
        }
    }

    fn removal_progressed(&mut self, progress: RemovalProgress, ctx: &mut Transition<'_>) {
        match (progress, ctx.row.state) {
            // Reads begun before the removal prove nothing about a machine that might have come
            // online.
            (RemovalProgress::Gone, State::Creating) => self.probe.count_absences_from_now(ctx),
            (RemovalProgress::JobRuns, State::Retiring) => {
                let why = "the forge refused to remove the runner: it works";
                self.conclusions().work_proven(why, ctx);
            }
            (RemovalProgress::Pending | RemovalProgress::Gone | RemovalProgress::JobRuns, _) => {}
        }
    }

    /// Answers a request to go.
    fn removal_requested(
        &mut self,
        request: RetireRequest,
        ctx: &mut Transition<'_>,
    ) -> Result<Consent, Refusal> {
        match request.decide(ctx.row.state) {
            RemovalDecision::Consent(consent) => {
                if request.matters(ctx.row.state) {
                    ctx.request_removal(request.urgency, request.reason, request.by);
                }
                Ok(consent)
            }
            RemovalDecision::ReadMachine => {
                self.believe_the_reaper(request.urgency, ctx);
                self.probe.read_now(ctx);
                Ok(Consent::Looking)
            }
            RemovalDecision::ReadRunner => {
                self.runner_check.suspect();
                Ok(Consent::Looking)
            }
            RemovalDecision::Refuse(why) => {
                ctx.record(What::Refused { request: request.text(), why });
                Err(why)
            }
        }
    }

    /// Makes the mistakes that take a listing for proof, where one of them is chosen: without this
    /// the owner itself would save what they mean to break.
    fn believe_the_reaper(&mut self, urgency: Urgency, ctx: &mut Transition<'_>) {
        if mutants::is(Mutant::ListingProvesAbsence) {
            self.post_mortem.machine_over(End::Gone { deleted_externally: false }, ctx);
        }
        let takes_findings_for_warrants =
            mutants::is(Mutant::ReaperDeletesDirectly) || mutants::is(Mutant::MissingClaimKills);
        if urgency == Urgency::Force && takes_findings_for_warrants {
            let evidence = vec!["the reaper says so".into()];
            self.post_mortem.open(WarrantKind::Idle, evidence, ctx);
        }
    }

    // States.

    /// Decides what to do next, until the state does not change any more.
    fn drive(&mut self, ctx: &mut Transition<'_>) {
        for _ in 0..State::ALL.len() {
            let before = ctx.row.state;
            self.deletion.drive_forgotten(&mut self.post_mortem, ctx);
            self.post_mortem.open_if_forced(ctx);
            self.post_mortem.void_if_began(ctx);
            if !self.post_mortem.is_open() {
                self.drive_state(ctx);
            }
            // The state may have opened it.
            if self.post_mortem.is_open() {
                self.probe.drive(ctx);
                self.post_mortem.drive(ctx);
            }
            if ctx.row.state == before {
                break;
            }
        }
    }

    fn drive_state(&mut self, ctx: &mut Transition<'_>) {
        match ctx.row.state {
            State::PendingCreate => {
                self.creation.drive_pending(&mut self.registrar, &mut self.probe, ctx);
            }
            State::Creating => {
                let created = self.creation.drive(&mut self.registrar, &mut self.probe, ctx);
                self.end_if_not_created(created, ctx);
            }
            State::Starting => self.drive_starting(ctx),
            State::Idle => self.drive_idle(ctx),
            State::Reserved => {
                self.probe.drive(ctx);
                self.offers.drive(&mut self.registrar, &self.availability, ctx);
            }
            State::Busy => self.drive_busy(ctx),
            State::Retiring => self.drive_retiring(ctx),
            State::Ended => self.post_mortem.open_after_end(ctx),
            State::PendingDelete => self.deletion.drive_pending(&mut self.probe, ctx),
            State::Deleting => self.deletion.drive(&mut self.registrar, &mut self.probe, ctx),
            State::Deleted => {}
        }
    }

    fn drive_starting(&mut self, ctx: &mut Transition<'_>) {
        self.probe.drive(ctx);
        // Its job may have begun, and even ended, before the machine was seen.
        if ctx.row.executing.is_some() {
            self.conclusions().work_proven("the forge proved a job here", ctx);
        } else if ctx.row.removal.is_some() {
            self.retire(ctx.removal_reason(), ctx);
        } else if ctx.row.ready_at.is_some() {
            ctx.move_to(State::Idle, "its runner is ready");
        } else if ctx.row.binding == Binding::Early && ctx.row.registration == Registration::Gone {
            // It came up after its create was settled: its runner can never come online.
            ctx.request_removal(Urgency::Retire, Reason::Unregistered, None);
            self.retire("it came up without a registration", ctx);
        } else if ctx.has_passed(ctx.row.since, ctx.policy().boot_timeout) {
            // The forge is asked twice whether the runner ever came online; a machine that proves
            // by itself that its runner never started needs no second witness.
            let askable = matches!(ctx.row.registration, Registration::Known { .. });
            if !askable || ctx.row.once_started || self.runner_check.drive(ctx) {
                ctx.request_removal(Urgency::Retire, Reason::BootDeadline, None);
                self.retire("not ready in time", ctx);
            }
        }
    }

    fn drive_idle(&mut self, ctx: &mut Transition<'_>) {
        self.probe.drive(ctx);
        self.availability.drive(ctx);
        if ctx.is_working() {
            self.conclusions().work_proven("the forge proved a job here", ctx);
        } else if ctx.row.removal.is_some() {
            self.retire(ctx.removal_reason(), ctx);
        } else if self.runner_check.is_suspected() && self.runner_check.drive(ctx) {
            // A runner that lost the forge is no capacity, however well its machine looks.
            let (reason, why) = self.runner_check.removal();
            ctx.request_removal(Urgency::Retire, reason, None);
            self.retire(why, ctx);
        }
    }

    fn drive_busy(&mut self, ctx: &mut Transition<'_>) {
        self.probe.drive(ctx);
        if !ctx.is_working() && self.is_expired(ctx) {
            self.expire(ctx);
            return;
        }
        match ctx.row.job_over.clone() {
            Some(over) => self.drive_job_over(&over, ctx),
            None if ctx.row.executing.is_none() => self.drive_unnamed_work(ctx),
            None => {}
        }
    }

    /// The job is over at the forge; the machine usually ends by itself first.
    fn drive_job_over(&mut self, over: &JobOver, ctx: &mut Transition<'_>) {
        let cancelled = over.conclusion.as_ref() == Some(&Conclusion::Cancelled);
        let (kind, criteria) = match (over.names_us, cancelled) {
            (true, false) => (WarrantKind::Served, IdleCriteria::after_its_job(ctx)),
            // Cancelled before pick-up, it may still listen and take another.
            (true, true) => (WarrantKind::Served, IdleCriteria::full(ctx)),
            (false, _) => {
                if !ctx.has_passed(over.at, ctx.policy().zombie_after) {
                    return;
                }
                (WarrantKind::Zombie, IdleCriteria::full(ctx))
            }
        };
        let check = &mut self.idle_check;
        if let Some(seen) = check.drive(criteria, &mut self.registrar, &mut self.witness, ctx) {
            let evidence = vec![format!("job {} is over at the forge", over.job), seen];
            self.post_mortem.open(kind, evidence, ctx);
        }
    }

    /// Something ran here, or so the forge said once, and it cannot be named. The instance goes
    /// back to `retiring`, with the full hold and look, when the witness says no worker or a
    /// repeated deregistration is accepted.
    fn drive_unnamed_work(&mut self, ctx: &mut Transition<'_>) {
        // Only an instance that was to go anyway is deregistered again, and never while a worker
        // is seen.
        let was_to_go = ctx.row.removal.is_some() && !self.shows_worker();
        let free = if was_to_go
            && ctx.row.registration.may_exist()
            && self.registrar.drive_removal(AbsenceProof::Twice, ctx)
        {
            Some("its registration could be removed".to_owned())
        } else {
            self.idle_check.drive_unnamed_work(&mut self.witness, ctx)
        };
        if let Some(free) = free {
            ctx.request_removal(Urgency::Retire, Reason::Spent, None);
            self.retire(format!("no job is known here and {free}"), ctx);
        }
    }

    fn drive_retiring(&mut self, ctx: &mut Transition<'_>) {
        if ctx.is_working() {
            self.conclusions().work_proven("the forge proved a job here", ctx);
            return;
        }
        self.probe.drive(ctx);
        if self.is_expired(ctx) {
            self.expire(ctx);
            return;
        }
        let criteria = IdleCriteria::full(ctx);
        let check = &mut self.idle_check;
        if let Some(seen) = check.drive(criteria, &mut self.registrar, &mut self.witness, ctx) {
            let mut evidence = vec![ctx.removal_reason(), seen];
            let kind = if self.never_began(ctx) {
                evidence.push("its runner never started".into());
                WarrantKind::NeverBegan
            } else {
                WarrantKind::Idle
            };
            self.post_mortem.open(kind, evidence, ctx);
        }
    }

    /// Returns whether a machine was in doubt for longer than a job can last.
    fn is_expired(&self, ctx: &mut Transition<'_>) -> bool {
        if ctx.row.registration.may_exist() || !ctx.was_ever_registered() || self.shows_worker() {
            return false;
        }
        let since = *ctx.row.doubt_since.get_or_insert(ctx.now);
        ctx.has_passed(since, ctx.policy().doubt_limit)
    }

    fn expire(&mut self, ctx: &mut Transition<'_>) {
        let days = ctx.policy().doubt_limit.as_secs() / (24 * 60 * 60);
        let evidence = format!("unregistered for {days} days, and nothing proved work since");
        self.post_mortem.open(WarrantKind::Expired, vec![evidence], ctx);
    }

    /// Begins the idle check, from its beginning.
    fn retire(&mut self, why: impl Into<String>, ctx: &mut Transition<'_>) {
        self.idle_check.reset();
        self.witness.drop_challenge();
        self.registrar.restart_hold();
        ctx.move_to(State::Retiring, why);
    }

    /// Returns whether positive proof says that no runner ever worked here.
    fn never_began(&self, ctx: &Transition<'_>) -> bool {
        let too_late =
            ctx.row.removal.as_ref().is_some_and(|removal| removal.reason == Reason::BootDeadline);
        let proven = self.probe.never_began() || self.runner_check.is_proven();
        too_late && proven && !ctx.row.once_started && ctx.row.ready_at.is_none()
    }

    fn conclusions(&mut self) -> Conclusions<'_> {
        Conclusions { idle_check: &mut self.idle_check, post_mortem: &mut self.post_mortem }
    }
}

#[cfg(test)]
impl Lifecycle {
    /// Returns that of an owner whose machine was read; its effects have tokens above 100.
    pub(super) fn settled() -> Self {
        let mut lifecycle = Self::default();
        lifecycle.bookkeeping.skip_tokens(100);
        lifecycle.probe.skip_first_read();
        lifecycle
    }

    /// Puts an effect in flight that no transition started.
    pub(super) fn expect(&mut self, kind: EffectKind, token: EffectToken) {
        self.bookkeeping.expect(kind, token);
    }

    pub(super) fn token_of(&self, kind: EffectKind) -> Option<EffectToken> {
        self.bookkeeping.token_of(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::fixtures::{Wax, in_state, now, spec, started_at};
    use crate::model::{Binding, JobId, after};

    #[test]
    fn a_job_that_began_and_ended_before_its_machine_was_seen_is_not_waited_for() {
        let (mut row, binding) = in_state(State::Creating);
        let job = JobId { forge: "github".into(), number: 1 };
        row.executing = Some(job.clone());
        let (conclusion, names_us) = (Some(Conclusion::Success), true);
        row.job_over = Some(JobOver { job, conclusion, names_us, at: started_at() });
        let mut lifecycle = Lifecycle::default();
        let result = lifecycle.step(
            &row,
            InstanceInput::Poll { acknowledges: true },
            &spec(binding),
            &Wax,
            now(),
        );
        assert_eq!(result.row.state, State::Busy, "where the end of its job is acted on");
    }

    #[test]
    fn a_machine_in_doubt_goes_when_it_was_unregistered_for_longer_than_a_job_can_last() {
        let (mut row, _) = in_state(State::Retiring);
        row.registration = Registration::Gone;
        let spec = spec(Binding::Early);
        let mut lifecycle = Lifecycle::settled();
        let mut time = now();
        let mut take =
            |row: &Instance, time| lifecycle.step(row, InstanceInput::Wake, &spec, &Wax, time);
        row = take(&row, time).row;
        assert_eq!(row.doubt_since, Some(time), "on record, for owners to come");
        time = after(time, spec.policy.doubt_limit / 2);
        row = take(&row, time).row;
        assert_eq!(row.state, State::Retiring, "neither the machine nor the forge answers");
        time = after(time, spec.policy.doubt_limit / 2);
        row = take(&row, time).row;
        time = after(time, spec.policy.postmortem_timeout);
        row = take(&row, time).row;
        assert_eq!(row.warrant.map(|warrant| warrant.kind), Some(WarrantKind::Expired));
    }
}
