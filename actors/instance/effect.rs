//! What an instance may ask of the outside, and what comes back.
//!
//! A transition decides on effects; the actor starts them after the save. At most one effect of a
//! kind is in flight, and its outcome returns as an ordinary message with the effect's token.

use crate::mail::NoAnswer;
use crate::model::{
    ExitReport, Generation, JobId, JobReading, MachineName, MachineView, RunnerId, RunnerName,
    RunnerView, Sighting, Timestamp,
};
use crate::ports::{
    CreateError, CreateSlot, Deletion, Deregistered, ForgeError, Grace, Jit, MintError, Minted,
    ProviderError,
};

/// Marks one effect; an outcome with a token that is not in flight is ignored.
pub type EffectToken = u64;

/// An effect with the token that its outcome must carry.
#[derive(Clone, Debug)]
pub(super) struct PostedEffect {
    pub token: EffectToken,
    pub effect: Effect,
}

/// One call to the outside, started only after what led to it is durable.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// Create the machine; with the JIT config where the order carries it.
    Create {
        jit: Option<Jit>,
        slot: CreateSlot,
    },
    /// Wait for one of the provider's slots for creates.
    AwaitSlot,
    /// Register a runner under this name.
    Mint(RunnerName),
    Deregister(RunnerId),
    /// Read the registration, by number where it is known.
    ReadRunner(RunnerName, Option<RunnerId>),
    /// Find any registration of the machine, under whatever number.
    FindRunner,
    ReadMachine,
    /// Ask the forge whether a job in progress names this runner.
    FindWork(RunnerName),
    /// Ask the forge about the job that ran here.
    ReadJob(JobId),
    /// Gather exit facts, and the end of the log if it is wanted.
    GatherExitReport {
        want_tail: bool,
    },
    Delete(Grace),
    /// Ask the ledger whether the JIT config may be handed out.
    ConfirmDelivery(JobId, Generation),
    /// Ask the ledger whether the offer is still open.
    ConfirmOffer(JobId, Generation),
}

/// Names the kinds of effects; those that answer the same question share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EffectKind {
    Create,
    AwaitSlot,
    Mint,
    Deregister,
    ReadRunner,
    ReadMachine,
    FindWork,
    ReadJob,
    GatherExitReport,
    Delete,
    AskLedger,
}

impl Effect {
    /// Returns the kind; at most one effect of a kind is in flight.
    pub(super) fn kind(&self) -> EffectKind {
        match self {
            Self::Create { .. } => EffectKind::Create,
            Self::AwaitSlot => EffectKind::AwaitSlot,
            Self::Mint(_) => EffectKind::Mint,
            Self::Deregister(_) => EffectKind::Deregister,
            Self::ReadRunner(..) | Self::FindRunner => EffectKind::ReadRunner,
            Self::ReadMachine => EffectKind::ReadMachine,
            Self::FindWork(_) => EffectKind::FindWork,
            Self::ReadJob(_) => EffectKind::ReadJob,
            Self::GatherExitReport { .. } => EffectKind::GatherExitReport,
            Self::Delete(_) => EffectKind::Delete,
            Self::ConfirmDelivery(..) | Self::ConfirmOffer(..) => EffectKind::AskLedger,
        }
    }

    /// Returns what stands for the outcome where no answer comes; it proves nothing.
    pub(super) fn unanswered(
        &self,
        machine: &MachineName,
        begun: Timestamp,
        why: String,
    ) -> EffectOutcome {
        match *self {
            Self::Create { .. } => {
                let machine = machine.clone();
                EffectOutcome::Created(Err(CreateError::Unanswered { machine, why }))
            }
            Self::AwaitSlot => EffectOutcome::Slot(Err(why)),
            Self::Mint(_) => EffectOutcome::Minted(Err(MintError::Unanswered { why })),
            Self::Deregister(_) => {
                EffectOutcome::Deregistered(Err(ForgeError::Later { after: None, why }))
            }
            Self::ReadRunner(..) | Self::FindRunner => {
                EffectOutcome::Runner { begun, seen: Sighting::Unknown(why) }
            }
            Self::ReadMachine => EffectOutcome::Machine { begun, seen: Sighting::Unknown(why) },
            Self::FindWork(_) => EffectOutcome::Work { begun, seen: Sighting::Unknown(why) },
            Self::ReadJob(_) => EffectOutcome::Job(Sighting::Unknown(why)),
            Self::GatherExitReport { .. } => {
                EffectOutcome::ExitReport(ExitReport::unavailable(why))
            }
            Self::Delete(_) => {
                EffectOutcome::Deleted(Err(ProviderError::Later { after: None, why }))
            }
            Self::ConfirmDelivery(_, generation) => {
                EffectOutcome::Delivery { generation, allowed: Err(NoAnswer::Gone) }
            }
            Self::ConfirmOffer(_, generation) => {
                EffectOutcome::OfferOpen { generation, open: Err(NoAnswer::Gone) }
            }
        }
    }
}

/// The outcome of one effect. Reads carry when they began: some count only if begun late enough.
#[derive(Debug)]
pub enum EffectOutcome {
    /// `Provider::create`.
    Created(Result<MachineView, CreateError>),
    /// `CreateSlots::take`; or why there was none.
    Slot(Result<CreateSlot, String>),
    /// `Forge::mint`.
    Minted(Result<Minted, MintError>),
    /// `Forge::deregister`.
    Deregistered(Result<Deregistered, ForgeError>),
    /// `Inventory::read`.
    Machine { begun: Timestamp, seen: Sighting<MachineView> },
    /// `Roster::runner`, or `Roster::runner_of`.
    Runner { begun: Timestamp, seen: Sighting<RunnerView> },
    /// `Roster::work_of`.
    Work { begun: Timestamp, seen: Sighting<JobId> },
    /// `Roster::job`.
    Job(Sighting<JobReading>),
    /// `Inventory::exit_report`.
    ExitReport(ExitReport),
    /// `Provider::delete`.
    Deleted(Result<Deletion, ProviderError>),
    /// The ledger's answer to `Effect::ConfirmDelivery`.
    Delivery { generation: Generation, allowed: Result<bool, NoAnswer> },
    /// The ledger's answer to `Effect::ConfirmOffer`.
    OfferOpen { generation: Generation, open: Result<bool, NoAnswer> },
}
