//! Plain instances and every kind of input, for the tests of this folder.

use std::time::Duration;

use super::asks::Asked;
use super::call::CallKind;
use super::step::Input;
use super::{Answer, MachineCall, Permit, birth};
use crate::mail::NoAnswer;
use crate::model::{
    Began, Binding, Conclusion, End, ExitFacts, ExitReport, ForgeId, Generation, HeldOffer,
    Instance, InstanceId, JobFact, JobId, JobOver, JobReading, Labels, MachineName, MachinePhase,
    MachineSpec, MachineView, OfferEnd, Policy, PoolSpec, Reason, Registration, RemovalRequest,
    RequestedBy, Revision, RunnerId, RunnerName, RunnerView, Scope, Setup, Sighting, Stamp, State,
    Tail, Timestamp, Urgency, VerdictClass, Warrant, WarrantKind, Worker, after,
};
use crate::ports::{
    CreateError, Deletion, Deregistered, ForgeError, Jit, MintError, Minted, ProviderError, Seal,
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

pub(super) fn began() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

pub(super) fn now() -> Timestamp {
    after(began(), Duration::from_secs(3))
}

/// Returns the plainest instance that can be in the state: late-bound where only that can be.
pub(super) fn in_state(state: State) -> (Instance, Binding) {
    let binding = if state == State::Reserved { Binding::Late } else { Binding::Early };
    let mut row = birth::requested_row(InstanceId::from("linux-1"), &spec(binding), began());
    row.state = state;
    if state == State::PendingCreate {
        return (row, binding);
    }
    let known = Registration::Known { name: RunnerName::from("linux-1"), id: RunnerId(7) };
    row.mints = 1;
    row.create_called_at = Some(began());
    row.registration = known;
    if state.was_created() {
        row.seen_at = Some(began());
    }
    if state.is_booted() {
        row.ready_at = Some(began());
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
            row.removal = Some(RemovalRequest { urgency, reason, by: None, at: began() });
        }
        State::Ended => row.end = Some(End::Exited(ExitFacts::default())),
        State::PendingDelete | State::Deleting | State::Deleted => {
            let kind = WarrantKind::Idle;
            row.warrant = Some(Warrant { kind, evidence: vec![], at: began() });
            row.verdict = Some(VerdictClass::Removed);
        }
        State::PendingCreate | State::Creating | State::Starting | State::Idle => {}
    }
    (row, binding)
}

/// Puts an instance where its mint is awaited.
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

fn view(phase: MachinePhase, worker: Worker) -> MachineView {
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

fn ask(urgency: Urgency, reason: Reason) -> Input {
    let by = (urgency > Urgency::Retire)
        .then(|| RequestedBy { who: "ops".into(), why: "because".into() });
    Input::Retire(Asked { urgency, reason, evidence: String::new(), by })
}

fn look(seen: Sighting<MachineView>) -> Answer {
    Answer::Machine { begun: now(), seen }
}

fn over(names_us: bool, conclusion: Conclusion) -> Input {
    let conclusion = Some(conclusion);
    Input::JobOver(JobOver { job: job(1), conclusion, names_us, at: now() })
}

fn online() -> RunnerView {
    RunnerView { name: "linux-1".into(), id: RunnerId(7), online: true, busy: false }
}

fn says(setup: Setup) -> Input {
    Input::MachineCalled(1, MachineCall::ReportSetup(setup, "in its words".into()))
}

/// An input by name, with the call it answers, made anew each time.
pub(super) type Named = (&'static str, Option<CallKind>, Box<dyn Fn() -> Input>);

#[expect(clippy::too_many_lines, reason = "a table: one row an input")]
pub(super) fn inputs() -> Vec<Named> {
    fn answer(name: &'static str, kind: CallKind, make: fn() -> Answer) -> Named {
        (name, Some(kind), Box::new(move || Input::Answered(1, make())))
    }
    fn message(name: &'static str, make: fn() -> Input) -> Named {
        (name, None, Box::new(make))
    }
    vec![
        message("start", || Input::Start),
        message("revived", || Input::Revived { panicked: true }),
        message("wake", || Input::Wake),
        message("permit start", || Input::Permit(Permit::Start)),
        message("permit delete", || Input::Permit(Permit::Delete)),
        answer("created", CallKind::Create, || {
            Answer::Created(Ok(view(MachinePhase::Booting, Worker::Absent)))
        }),
        answer("create refused", CallKind::Create, || {
            Answer::Created(Err(CreateError::Refused { machine: "m".into(), why: "no".into() }))
        }),
        answer("create unanswered", CallKind::Create, || {
            Answer::Created(Err(CreateError::Unanswered { machine: "m".into(), why: "?".into() }))
        }),
        answer("minted", CallKind::Mint, || {
            Answer::Minted(Ok(Minted { id: RunnerId(7), jit: Jit::new("jit") }))
        }),
        answer("mint taken", CallKind::Mint, || {
            Answer::Minted(Err(MintError::Taken("linux-1".into())))
        }),
        answer("mint later", CallKind::Mint, || {
            Answer::Minted(Err(MintError::Later { after: None, why: "rate".into() }))
        }),
        answer("mint refused", CallKind::Mint, || {
            Answer::Minted(Err(MintError::Refused { why: "no".into() }))
        }),
        answer("mint unanswered", CallKind::Mint, || {
            Answer::Minted(Err(MintError::Unanswered { why: "?".into() }))
        }),
        answer("removed 204", CallKind::Deregister, || {
            Answer::Deregistered(Ok(Deregistered::Removed))
        }),
        answer("removed 404", CallKind::Deregister, || {
            Answer::Deregistered(Ok(Deregistered::NotFound))
        }),
        answer("removed 422", CallKind::Deregister, || {
            Answer::Deregistered(Ok(Deregistered::Working))
        }),
        answer("removed ?", CallKind::Deregister, || {
            Answer::Deregistered(Err(ForgeError::Later { after: None, why: "?".into() }))
        }),
        answer("read running", CallKind::LookMachine, || {
            look(Sighting::Seen(view(MachinePhase::Running, Worker::Absent)))
        }),
        answer("read worker", CallKind::LookMachine, || {
            look(Sighting::Seen(view(MachinePhase::Running, Worker::Present)))
        }),
        answer("read doubt", CallKind::LookMachine, || {
            look(Sighting::Seen(view(MachinePhase::Doubt("lost".into()), Worker::Unknown)))
        }),
        answer("read over", CallKind::LookMachine, || {
            look(Sighting::Seen(view(MachinePhase::Over(ExitFacts::default()), Worker::Absent)))
        }),
        answer("read absent", CallKind::LookMachine, || look(Sighting::Absent)),
        answer("read ?", CallKind::LookMachine, || look(Sighting::Unknown("?".into()))),
        answer("runner online", CallKind::LookRunner, || Answer::Runner {
            begun: now(),
            seen: Sighting::Seen(online()),
        }),
        answer("runner absent", CallKind::LookRunner, || Answer::Runner {
            begun: now(),
            seen: Sighting::Absent,
        }),
        answer("work none", CallKind::LookWork, || Answer::Work {
            begun: now(),
            seen: Sighting::Absent,
        }),
        answer("work found", CallKind::LookWork, || Answer::Work {
            begun: now(),
            seen: Sighting::Seen(job(1)),
        }),
        answer("job running", CallKind::LookJob, || {
            let (fact, runner) = (JobFact::InProgress, None);
            Answer::Job(Sighting::Seen(JobReading { fact, runner, run_over: false }))
        }),
        answer("remains", CallKind::ExitReport, || {
            Answer::ExitReport(ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] })
        }),
        answer("delete accepted", CallKind::Delete, || Answer::Deleted(Ok(Deletion::Accepted))),
        answer("delete not found", CallKind::Delete, || Answer::Deleted(Ok(Deletion::NotFound))),
        answer("delete failed", CallKind::Delete, || {
            Answer::Deleted(Err(ProviderError::Later { after: None, why: "?".into() }))
        }),
        answer("delivery allowed", CallKind::AskLedger, || Answer::Delivery {
            generation: Generation(1),
            allowed: Ok(true),
        }),
        answer("delivery refused", CallKind::AskLedger, || Answer::Delivery {
            generation: Generation(1),
            allowed: Ok(false),
        }),
        answer("delivery ?", CallKind::AskLedger, || Answer::Delivery {
            generation: Generation(1),
            allowed: Err(NoAnswer::Late),
        }),
        answer("offer not open", CallKind::AskLedger, || Answer::OfferOpen {
            generation: Generation(1),
            open: Ok(false),
        }),
        message("stale answer", || Input::Answered(99, Answer::Deleted(Ok(Deletion::Accepted)))),
        message("seen running", || Input::Seen(view(MachinePhase::Running, Worker::Unknown))),
        message("seen worker", || Input::Seen(view(MachinePhase::Running, Worker::Present))),
        message("seen over", || {
            Input::Seen(view(MachinePhase::Over(ExitFacts::default()), Worker::Absent))
        }),
        message("missed", || Input::Missed),
        message("listed online", || Input::RunnerSeen(online())),
        message("listed offline", || Input::RunnerSeen(RunnerView { online: false, ..online() })),
        message("runner missed", || Input::RunnerMissed),
        message("offer", || Input::Offer(job(2), Generation(1))),
        message("offer again", || Input::Offer(job(1), Generation(1))),
        message("offer ended", || {
            Input::OfferEnded(job(1), Generation(1), OfferEnd::TakenElsewhere)
        }),
        message("old offer ended", || {
            Input::OfferEnded(job(1), Generation(0), OfferEnd::TakenElsewhere)
        }),
        message("executing", || Input::Executing(job(1))),
        message("executing other", || Input::Executing(job(2))),
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
        message("poll", || Input::Poll),
        message("asks for its jit", || Input::MachineCalled(1, MachineCall::RequestJit)),
        message("says installing", || says(Setup::Installing)),
        message("says idle", || says(Setup::Idle)),
        message("says failed", || says(Setup::Failed)),
        message("says what it runs", || {
            Input::MachineCalled(1, MachineCall::ReportSystem("Ubuntu 24.04".into()))
        }),
        message("word of another attempt", || Input::MachineCalled(2, MachineCall::RequestJit)),
    ]
}
