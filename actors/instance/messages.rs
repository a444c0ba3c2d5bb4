//! The messages to an instance, and its answers.

use std::sync::Arc;
use std::time::Duration;

use super::effect::{EffectOutcome, EffectToken};
use crate::mail::Reply;
use crate::model::{
    Generation, HostCondition, HostName, JobId, JobOver, MachineView, OfferEnd, PoolSpec, Reason,
    Refusal, RequestedBy, RunnerView, Setup, Urgency, Worker,
};
use crate::ports::Jit;

/// A message to an instance.
#[derive(Debug)]
pub enum ToInstance {
    /// The pool lets it call the provider.
    Permit(Permit),
    /// Hosts on which machines did not come up lately; the create should avoid them.
    Avoid(Vec<HostName>),
    /// An effect is done.
    EffectDone(EffectToken, EffectOutcome),
    /// The machine was seen like this, by a watch or in a listing.
    Seen(MachineView),
    /// A watch or a listing does not show the machine; the owner should read it.
    Missed,
    /// The runner was seen like this in a listing.
    RunnerSeen(RunnerView),
    /// A listing does not name the runner, which it should.
    RunnerMissed,
    /// The ledger offers a job. Deduplicated by generation.
    Offer {
        job: JobId,
        generation: Generation,
        /// Whether the ledger already calls it delivered (said again after a restart).
        delivered: bool,
        reply: Reply<Result<(), Refusal>>,
    },
    /// The ledger ended an offer.
    OfferEnded { job: JobId, generation: Generation, why: OfferEnd },
    /// The forge proved that a job runs on this instance's runner.
    Executing(JobId),
    /// A job that ran here is over at the forge.
    JobOver(JobOver),
    /// A request to go: from the pool, the reaper or an operator.
    Retire(Retire),
    /// Its machine asks for work (late binding).
    Poll {
        /// Whether it will say so when it has what it is handed.
        acknowledges: bool,
        reply: Reply<Dispatch>,
    },
    /// Its machine has what it was handed.
    Acknowledged,
    /// What speaks against new work on its host, if anything does.
    Host(Option<HostCondition>),
    /// Its machine called us while it is set up.
    MachineCalled {
        /// The registration it was created with.
        attempt: u32,
        call: MachineCall,
        /// The JIT config, if the machine requested it and there is one; or why the call is refused.
        reply: Reply<Result<Option<Jit>, Refusal>>,
    },
    /// The supervisor of its machine reports.
    Reported {
        /// The registration the machine was created with.
        attempt: u32,
        report: WitnessReport,
        /// When it reports next, or why it is refused.
        reply: Reply<Result<NextReport, Refusal>>,
    },
    /// The pool's config changed.
    Spec(Arc<PoolSpec>),
    /// The ledger is new: report everything to it again.
    Introduce,
    /// Its parent is gone or shuts down: stop, touch nothing.
    Halt,
    /// Panic, to prove that it is survived.
    #[cfg(feature = "testing")]
    Panic,
}

/// A call of a machine while it is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineCall {
    /// Requests the JIT config; asking again returns the same.
    RequestJit,
    /// Reports the progress of the setup, with a message.
    ReportSetup(Setup, String),
    /// Reports the operating system.
    ReportSystem(String),
}

/// A report of the supervisor that runs the agent of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessReport {
    /// Why it reports now.
    pub event: ReportEvent,
    /// Whether a job's worker lives on the machine.
    pub worker: Worker,
    /// The challenge that this look answers.
    pub challenge: Option<u64>,
}

/// Tells why a supervisor reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportEvent {
    Heartbeat,
    /// The agent was started.
    AgentStarted,
    JobStarted,
    JobCompleted,
    /// The agent ended, with this exit code and this at the end of its log.
    AgentExited {
        code: Option<i32>,
        log: Option<String>,
    },
}

/// Tells a supervisor what is wanted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextReport {
    /// How long it may wait with the next report.
    pub interval: Duration,
    /// What it repeats with a look that begins now or later.
    pub challenge: Option<u64>,
}

/// A request that an instance go.
#[derive(Debug)]
pub struct Retire {
    pub urgency: Urgency,
    pub reason: Reason,
    pub evidence: String,
    /// Who, where it was a person.
    pub by: Option<RequestedBy>,
    pub reply: Reply<Result<Consent, Refusal>>,
}

/// Tells what an owner does about a removal request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It is on its way, or was already.
    Going,
    /// The request is kept and granted when it is safe.
    Noted,
    /// It looks for itself before anything else.
    Looking,
}

/// Names what a pool may permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permit {
    /// To create the machine.
    Start,
    /// To delete the machine.
    Delete,
}

/// Answers a machine that asks for work.
#[derive(Clone, Debug)]
pub enum Dispatch {
    /// The job's JIT config; asking again returns the same.
    Work(Jit),
    /// Nothing yet; ask again.
    Wait,
    Leave,
}
