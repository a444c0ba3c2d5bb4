//! What can be said to an instance, and what it answers.

use std::sync::Arc;

use super::answer::{Answer, Token};
use crate::mail::Reply;
use crate::model::{
    Generation, HostName, JobId, JobOver, MachineView, OfferEnd, PoolSpec, Reason, Refusal,
    RequestedBy, RunnerView, Setup, Urgency,
};
use crate::ports::Jit;

/// A letter to an instance.
#[derive(Debug)]
pub enum ToInstance {
    /// The pool lets it call the provider.
    Permit(Permit),
    /// Hosts on which machines did not come up lately; a wish for the create.
    Avoid(Vec<HostName>),
    /// A call to the outside came back.
    Answered(Token, Answer),
    /// The machine was seen like this, by a watch or in a listing.
    Seen(MachineView),
    /// A watch or a listing does not show the machine; it should look for itself.
    Missed,
    /// The runner was seen like this in a listing.
    RunnerSeen(RunnerView),
    /// A listing does not name the runner, which it should.
    RunnerMissed,
    /// The ledger offers a job. Deduplicated by generation.
    Offer {
        job: JobId,
        /// Which offer of it.
        generation: Generation,
        /// Whether the ledger already calls it delivered (said again after a restart).
        delivered: bool,
        reply: Reply<Result<(), Refusal>>,
    },
    /// The ledger ended an offer.
    OfferEnded {
        job: JobId,
        /// Which offer of it.
        generation: Generation,
        why: OfferEnd,
    },
    /// The forge proved that a job runs on this instance's runner.
    Executing(JobId),
    /// A job that ran here is over at the forge.
    JobOver(JobOver),
    /// Somebody wants it gone.
    Retire(Retire),
    /// Its machine asks for work (late binding).
    Poll(Reply<Dispatch>),
    /// Its machine called us while it is set up.
    MachineCalled {
        /// Which registration it was made with.
        attempt: u32,
        /// What it wants or reports.
        call: MachineCall,
        /// The JIT config, if it asked for it and there is one; or why it is not heard.
        reply: Reply<Result<Option<Jit>, Refusal>>,
    },
    /// The pool was edited.
    Spec(Arc<PoolSpec>),
    /// The ledger is new: say everything to it again.
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
    /// Asks for the JIT config; asking again returns the same.
    RequestJit,
    /// Reports the progress of the setup, with a message.
    ReportSetup(Setup, String),
    /// Reports the operating system.
    ReportSystem(String),
}

/// A wish that an instance go.
#[derive(Debug)]
pub struct Retire {
    pub urgency: Urgency,
    pub reason: Reason,
    pub evidence: String,
    /// Who, where it was a person.
    pub by: Option<RequestedBy>,
    /// What the owner says.
    pub reply: Reply<Result<Consent, Refusal>>,
}

/// Tells what an owner does about a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// It is on its way, or was already.
    Going,
    /// The wish is kept and granted when it is safe.
    Noted,
    /// It looks for itself before anything else.
    Looking,
}

/// Names what a pool may permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permit {
    /// To have a machine made.
    Start,
    /// To have a machine deleted.
    Delete,
}

/// Answers a machine that asks for work.
#[derive(Clone, Debug)]
pub enum Dispatch {
    /// Here is your job's JIT config; asking again returns the same.
    Work(Jit),
    /// Nothing yet; ask again.
    Wait,
    Leave,
}
