//! Plain instances and every kind of input, for the tests of this folder.

use std::time::Duration;

use super::effect::{EffectKind, EffectOutcome};
use super::origin::requested_row;
use super::removal::RetireRequest;
use super::transition::InstanceInput;
use super::{MachineCall, Permit, ReportEvent, WitnessReport};
use crate::mail::NoAnswer;
use crate::model::{
    Began, Binding, Conclusion, End, ExitFacts, ExitReport, ForgeId, Generation, HeldOffer,
    HostCondition, Instance, InstanceId, JobFact, JobId, JobOver, JobReading, Labels, MachineName,
    MachinePhase, MachineSpec, MachineView, OfferEnd, Policy, PoolSpec, Reason, Registration,
    RemovalRequest, RequestedBy, Revision, RunnerId, RunnerName, RunnerView, Scope, Setup,
    Sighting, Stamp, State, Tail, Timestamp, Urgency, VerdictClass, Warrant, WarrantKind, Worker,
    after,
};
use crate::ports::{
    CreateError, CreateSlot, Deletion, Deregistered, ForgeError, Jit, MintError, Minted,
    ProviderError, Seal,
};

/// Seals by marking; good enough to tell clear from sealed.
pub(super) struct Wax;

impl Seal for Wax {
    fn seal(&self, jit: &Jit) -> String {
        format!("sealed:{}", jit.reveal())
    }

    fn open(&self, sealed: &str) -> Option<Jit> {
        sealed.strip_prefix("sealed:").map(Jit::new)
    }
}

pub(super) fn spec(binding: Binding) -> PoolSpec {
    PoolSpec {
        id: "linux".into(),
        forge: "github".into(),
        scope: Scope::Organization("acme".into()),
        provider: "local".into(),
        binding,
        labels: Labels::default(),
        accept_unlabelled: false,
        runner_group: "Default".into(),
        min_idle: 0,
        max: 10,
        machine: MachineSpec::default(),
        revision: Revision::from("r1"),
        prefix: "linux".into(),
        policy: Policy::default(),
    }
}

fn job(number: u64) -> JobId {
    JobId { forge: ForgeId::from("github"), number }
}

pub(super) fn started_at() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

pub(super) fn now() -> Timestamp {
    after(started_at(), Duration::from_secs(3))
}

/// Returns the plainest instance that can be in the state: late-bound where only that can be.
pub(super) fn in_state(state: State) -> (Instance, Binding) {
    let binding = if state == State::Reserved { Binding::Late } else { Binding::Early };
    let mut row = requested_row(InstanceId::from("linux-1"), &spec(binding), started_at());
    row.state = state;
    if state == State::PendingCreate {
        return (row, binding);
    }
    let known = Registration::Known { name: RunnerName::from("linux-1"), id: RunnerId(7) };
    row.mints = 1;
    row.create_called_at = Some(started_at());
    row.registration = known;
    if state.was_created() {
        row.seen_at = Some(started_at());
    }
    if state.is_booted() {
        row.ready_at = Some(started_at());
        row.once_started = true;
    }
    match state {
        State::Reserved => {
            let generation = Generation(1);
            row.offer = Some(HeldOffer { job: job(1), generation, delivered: true });
            row.sealed_jit = Some("sealed:jit".into());
        }
        State::Busy => row.executing = Some(job(1)),
        State::Retiring => {
            let (urgency, reason) = (Urgency::Retire, Reason::Surplus);
            row.removal = Some(RemovalRequest { urgency, reason, by: None, at: started_at() });
        }
        State::Ended => row.end = Some(End::Exited(ExitFacts::default())),
        State::PendingDelete | State::Deleting | State::Deleted => {
            let kind = WarrantKind::Idle;
            row.warrant = Some(Warrant { kind, evidence: vec![], at: started_at() });
            row.verdict = Some(VerdictClass::Removed);
        }
        State::PendingCreate | State::Creating | State::Starting | State::Idle => {}
    }
    (row, binding)
}

/// Puts an instance where it is registered and waits for a slot to be created in.
pub(super) fn awaiting_slot(row: &mut Instance) {
    if row.state == State::Creating {
        row.create_called_at = None;
        row.sealed_jit = Some("sealed:jit".into());
    }
}

/// Puts an instance where its mint is in flight.
pub(super) fn being_minted(row: &mut Instance) {
    match row.state {
        State::Creating => row.create_called_at = None,
        State::Reserved => {
            row.sealed_jit = None;
            row.offer = row.offer.take().map(|held| HeldOffer { delivered: false, ..held });
        }
        State::PendingCreate
        | State::Starting
        | State::Idle
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => return,
    }
    row.registration = Registration::Uncertain(RunnerName::from("linux-1"));
}

pub(super) fn view(phase: MachinePhase, worker: Worker) -> MachineView {
    MachineView {
        name: MachineName::from("linux-1"),
        uid: None,
        stamp: Stamp::default(),
        phase,
        worker,
        began: Began::Unknown,
        ready: false,
        leaving: false,
        host: None,
    }
}

fn ask(urgency: Urgency, reason: Reason) -> InstanceInput {
    let by = (urgency > Urgency::Retire)
        .then(|| RequestedBy { who: "ops".into(), why: "because".into() });
    InstanceInput::Retire(RetireRequest { urgency, reason, evidence: String::new(), by })
}

fn look(seen: Sighting<MachineView>) -> EffectOutcome {
    EffectOutcome::Machine { begun: now(), seen }
}

fn over(names_us: bool, conclusion: Conclusion) -> InstanceInput {
    let conclusion = Some(conclusion);
    InstanceInput::JobOver(JobOver { job: job(1), conclusion, names_us, at: now() })
}

fn online() -> RunnerView {
    RunnerView { name: "linux-1".into(), id: RunnerId(7), online: true, busy: false }
}

fn says(setup: Setup) -> InstanceInput {
    InstanceInput::MachineCalled(1, MachineCall::ReportSetup(setup, "in its words".into()))
}

/// Returns a report of the supervisor of the machine's first registration.
pub(super) fn report(event: ReportEvent, worker: Worker, challenge: Option<u64>) -> InstanceInput {
    InstanceInput::Reported(1, WitnessReport { event, worker, challenge })
}

/// An input by name, with the effect it answers, built anew each time.
pub(super) type NamedInput = (&'static str, Option<EffectKind>, Box<dyn Fn() -> InstanceInput>);

#[expect(clippy::too_many_lines, reason = "a table: one row an input")]
pub(super) fn inputs() -> Vec<NamedInput> {
    fn answer(name: &'static str, kind: EffectKind, new: fn() -> EffectOutcome) -> NamedInput {
        (name, Some(kind), Box::new(move || InstanceInput::EffectDone(1, new())))
    }
    fn message(name: &'static str, new: fn() -> InstanceInput) -> NamedInput {
        (name, None, Box::new(new))
    }
    vec![
        message("start", || InstanceInput::Start),
        message("revived", || InstanceInput::Revived { panicked: true }),
        message("wake", || InstanceInput::Wake),
        message("permit start", || InstanceInput::Permit(Permit::Start)),
        message("permit delete", || InstanceInput::Permit(Permit::Delete)),
        answer("created", EffectKind::Create, || {
            EffectOutcome::Created(Ok(view(MachinePhase::Booting, Worker::Absent)))
        }),
        answer("create refused", EffectKind::Create, || {
            EffectOutcome::Created(Err(CreateError::Refused {
                machine: "m".into(),
                why: "no".into(),
            }))
        }),
        answer("create failed", EffectKind::Create, || {
            EffectOutcome::Created(Err(CreateError::Failed {
                machine: "m".into(),
                why: "no flavor".into(),
            }))
        }),
        answer("slot held", EffectKind::AwaitSlot, || {
            EffectOutcome::Slot(Ok(CreateSlot::held(())))
        }),
        answer("no slot", EffectKind::AwaitSlot, || EffectOutcome::Slot(Err("late".into()))),
        answer("create unanswered", EffectKind::Create, || {
            EffectOutcome::Created(Err(CreateError::Unanswered {
                machine: "m".into(),
                why: "?".into(),
            }))
        }),
        answer("minted", EffectKind::Mint, || {
            EffectOutcome::Minted(Ok(Minted { id: RunnerId(7), jit: Jit::new("jit") }))
        }),
        answer("mint taken", EffectKind::Mint, || {
            EffectOutcome::Minted(Err(MintError::Taken("linux-1".into())))
        }),
        answer("mint later", EffectKind::Mint, || {
            EffectOutcome::Minted(Err(MintError::Later { after: None, why: "rate".into() }))
        }),
        answer("mint refused", EffectKind::Mint, || {
            EffectOutcome::Minted(Err(MintError::Refused { why: "no".into() }))
        }),
        answer("mint unanswered", EffectKind::Mint, || {
            EffectOutcome::Minted(Err(MintError::Unanswered { why: "?".into() }))
        }),
        answer("removed 204", EffectKind::Deregister, || {
            EffectOutcome::Deregistered(Ok(Deregistered::Removed))
        }),
        answer("removed 404", EffectKind::Deregister, || {
            EffectOutcome::Deregistered(Ok(Deregistered::NotFound))
        }),
        answer("removed 422", EffectKind::Deregister, || {
            EffectOutcome::Deregistered(Ok(Deregistered::Working))
        }),
        answer("removed ?", EffectKind::Deregister, || {
            EffectOutcome::Deregistered(Err(ForgeError::Later { after: None, why: "?".into() }))
        }),
        answer("read running", EffectKind::ReadMachine, || {
            look(Sighting::Seen(view(MachinePhase::Running, Worker::Absent)))
        }),
        answer("read worker", EffectKind::ReadMachine, || {
            look(Sighting::Seen(view(MachinePhase::Running, Worker::Present)))
        }),
        answer("read doubt", EffectKind::ReadMachine, || {
            look(Sighting::Seen(view(MachinePhase::Doubt("lost".into()), Worker::Unknown)))
        }),
        answer("read over", EffectKind::ReadMachine, || {
            look(Sighting::Seen(view(MachinePhase::Over(ExitFacts::default()), Worker::Absent)))
        }),
        answer("read absent", EffectKind::ReadMachine, || look(Sighting::Absent)),
        answer("read ?", EffectKind::ReadMachine, || look(Sighting::Unknown("?".into()))),
        answer("runner online", EffectKind::ReadRunner, || EffectOutcome::Runner {
            begun: now(),
            seen: Sighting::Seen(online()),
        }),
        answer("runner absent", EffectKind::ReadRunner, || EffectOutcome::Runner {
            begun: now(),
            seen: Sighting::Absent,
        }),
        answer("work none", EffectKind::FindWork, || EffectOutcome::Work {
            begun: now(),
            seen: Sighting::Absent,
        }),
        answer("work found", EffectKind::FindWork, || EffectOutcome::Work {
            begun: now(),
            seen: Sighting::Seen(job(1)),
        }),
        answer("job running", EffectKind::ReadJob, || {
            let (fact, runner) = (JobFact::InProgress, None);
            EffectOutcome::Job(Sighting::Seen(JobReading { fact, runner, run_over: false }))
        }),
        answer("exit report", EffectKind::GatherExitReport, || {
            EffectOutcome::ExitReport(ExitReport {
                exit: None,
                tail: Tail::NotNeeded,
                remarks: vec![],
            })
        }),
        answer("delete accepted", EffectKind::Delete, || {
            EffectOutcome::Deleted(Ok(Deletion::Accepted))
        }),
        answer("delete not found", EffectKind::Delete, || {
            EffectOutcome::Deleted(Ok(Deletion::NotFound))
        }),
        answer("delete failed", EffectKind::Delete, || {
            EffectOutcome::Deleted(Err(ProviderError::Later { after: None, why: "?".into() }))
        }),
        answer("delivery allowed", EffectKind::AskLedger, || EffectOutcome::Delivery {
            generation: Generation(1),
            allowed: Ok(true),
        }),
        answer("delivery refused", EffectKind::AskLedger, || EffectOutcome::Delivery {
            generation: Generation(1),
            allowed: Ok(false),
        }),
        answer("delivery ?", EffectKind::AskLedger, || EffectOutcome::Delivery {
            generation: Generation(1),
            allowed: Err(NoAnswer::Late),
        }),
        answer("offer not open", EffectKind::AskLedger, || EffectOutcome::OfferOpen {
            generation: Generation(1),
            open: Ok(false),
        }),
        message("stale answer", || {
            InstanceInput::EffectDone(99, EffectOutcome::Deleted(Ok(Deletion::Accepted)))
        }),
        message("seen running", || {
            InstanceInput::Seen(view(MachinePhase::Running, Worker::Unknown))
        }),
        message("seen worker", || {
            InstanceInput::Seen(view(MachinePhase::Running, Worker::Present))
        }),
        message("seen over", || {
            InstanceInput::Seen(view(MachinePhase::Over(ExitFacts::default()), Worker::Absent))
        }),
        message("missed", || InstanceInput::Missed),
        message("listed online", || InstanceInput::RunnerSeen(online())),
        message("listed offline", || {
            InstanceInput::RunnerSeen(RunnerView { online: false, ..online() })
        }),
        message("runner missed", || InstanceInput::RunnerMissed),
        message("offer", || InstanceInput::Offer(job(2), Generation(1))),
        message("offer again", || InstanceInput::Offer(job(1), Generation(1))),
        message("offer ended", || {
            InstanceInput::OfferEnded(job(1), Generation(1), OfferEnd::TakenElsewhere)
        }),
        message("old offer ended", || {
            InstanceInput::OfferEnded(job(1), Generation(0), OfferEnd::TakenElsewhere)
        }),
        message("executing", || InstanceInput::Executing(job(1))),
        message("executing other", || InstanceInput::Executing(job(2))),
        message("job over here", || over(true, Conclusion::Success)),
        message("job cancelled here", || over(true, Conclusion::Cancelled)),
        message("job over", || over(false, Conclusion::Success)),
        message("retire", || ask(Urgency::Retire, Reason::Surplus)),
        message("unlisted", || ask(Urgency::Retire, Reason::Unlisted)),
        message("offline", || ask(Urgency::Retire, Reason::Offline)),
        message("unregistered", || ask(Urgency::Retire, Reason::Unregistered)),
        message("delete", || ask(Urgency::Delete, Reason::Operator)),
        message("force", || ask(Urgency::Force, Reason::Operator)),
        message("forget", || ask(Urgency::Forget, Reason::Operator)),
        message("poll", || InstanceInput::Poll { acknowledges: true }),
        message("handed out", || InstanceInput::HandedOut),
        message("acknowledged", || InstanceInput::Acknowledged),
        message("host unreachable", || InstanceInput::Host(Some(HostCondition::Unreachable))),
        message("asks for its jit", || InstanceInput::MachineCalled(1, MachineCall::RequestJit)),
        message("says installing", || says(Setup::Installing)),
        message("says idle", || says(Setup::Idle)),
        message("says failed", || says(Setup::Failed)),
        message("says what it runs", || {
            InstanceInput::MachineCalled(1, MachineCall::ReportSystem("Ubuntu 24.04".into()))
        }),
        message("reports no worker", || report(ReportEvent::Heartbeat, Worker::Absent, None)),
        message("reports a worker", || report(ReportEvent::Heartbeat, Worker::Present, None)),
        message("answers an old challenge", || {
            report(ReportEvent::Heartbeat, Worker::Absent, Some(1))
        }),
        message("reports its agent started", || {
            report(ReportEvent::AgentStarted, Worker::Unknown, None)
        }),
        message("reports a job", || report(ReportEvent::JobStarted, Worker::Unknown, None)),
        message("reports a job done", || report(ReportEvent::JobCompleted, Worker::Unknown, None)),
        message("reports its agent over", || {
            let event = ReportEvent::AgentExited { code: Some(0), log: None };
            report(event, Worker::Absent, None)
        }),
        message("call of another attempt", || {
            InstanceInput::MachineCalled(2, MachineCall::RequestJit)
        }),
    ]
}
