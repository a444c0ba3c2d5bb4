//! What an instance may ask of the outside. Each is one call; its answer is a letter.

use super::answer::Token;
use crate::model::{Generation, JobId, RunnerId, RunnerName};
use crate::ports::{Grace, Jit};

/// One call to the outside, made only after what led to it is durable.
#[derive(Clone, Debug)]
pub(super) enum Call {
    /// Have the machine made.
    Create {
        /// The JIT config, where the runner is registered first.
        jit: Option<Jit>,
    },
    /// Register a runner under this name.
    Mint(RunnerName),
    Deregister(RunnerId),
    /// Look the registration up, by number where it is known.
    LookRunner(RunnerName, Option<RunnerId>),
    /// Look for any registration of the machine, under whatever number.
    LookRunners,
    LookMachine,
    /// Ask the forge whether a job in progress names this runner.
    LookWork(RunnerName),
    /// Ask the forge about the job that ran here.
    LookJob(JobId),
    /// Gather what the machine left.
    ExitReport {
        /// Whether the end of the log is wanted.
        want_tail: bool,
    },
    Delete(Grace),
    /// Ask the ledger whether the JIT config may be handed out.
    AskDelivery(JobId, Generation),
    /// Ask the ledger whether the offer is still open.
    AskOpen(JobId, Generation),
}

impl Call {
    /// Returns the kind; at most one call of a kind is under way.
    pub(super) fn kind(&self) -> CallKind {
        match self {
            Self::Create { .. } => CallKind::Create,
            Self::Mint(_) => CallKind::Mint,
            Self::Deregister(_) => CallKind::Deregister,
            Self::LookRunner(..) | Self::LookRunners => CallKind::LookRunner,
            Self::LookMachine => CallKind::LookMachine,
            Self::LookWork(_) => CallKind::LookWork,
            Self::LookJob(_) => CallKind::LookJob,
            Self::ExitReport { .. } => CallKind::ExitReport,
            Self::Delete(_) => CallKind::Delete,
            Self::AskDelivery(..) | Self::AskOpen(..) => CallKind::AskLedger,
        }
    }
}

/// Names the kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallKind {
    /// See [`Call::Create`].
    Create,
    /// See [`Call::Mint`].
    Mint,
    /// See [`Call::Deregister`].
    Deregister,
    /// See [`Call::LookRunner`] and [`Call::LookRunners`].
    LookRunner,
    /// See [`Call::LookMachine`].
    LookMachine,
    /// See [`Call::LookWork`].
    LookWork,
    /// See [`Call::LookJob`].
    LookJob,
    /// See [`Call::ExitReport`].
    ExitReport,
    /// See [`Call::Delete`].
    Delete,
    /// See [`Call::AskDelivery`] and [`Call::AskOpen`].
    AskLedger,
}

/// A call with the token its answer must carry.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub token: Token,
    pub call: Call,
}
