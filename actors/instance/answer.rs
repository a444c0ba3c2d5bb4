//! What the outside answers to an instance's calls.

use crate::mail::NoAnswer;
use crate::model::{
    ExitReport, Generation, JobId, JobReading, MachineView, RunnerView, Sighting, Timestamp,
};
use crate::ports::{
    CreateError, Deletion, Deregistered, ForgeError, MintError, Minted, ProviderError,
};

/// Marks one call; an answer with a token that is not awaited is ignored.
pub type Token = u64;

/// The outcome of one call. Looks carry when they began: some only count if begun late enough.
#[derive(Debug)]
pub enum Answer {
    /// `Provider::create`.
    Created(Result<MachineView, CreateError>),
    /// `Forge::mint`.
    Minted(Result<Minted, MintError>),
    /// `Forge::deregister`.
    Deregistered(Result<Deregistered, ForgeError>),
    /// `Inventory::read`.
    Machine {
        /// When the look began.
        begun: Timestamp,
        seen: Sighting<MachineView>,
    },
    /// `Roster::runner`.
    Runner {
        /// When the look began.
        begun: Timestamp,
        seen: Sighting<RunnerView>,
    },
    /// `Roster::work_of`.
    Work {
        /// When the look began.
        begun: Timestamp,
        seen: Sighting<JobId>,
    },
    /// `Roster::job`.
    Job(Sighting<JobReading>),
    /// `Inventory::exit_report`.
    ExitReport(ExitReport),
    /// `Provider::delete`.
    Deleted(Result<Deletion, ProviderError>),
    /// The ledger on whether the JIT config may be handed out.
    Delivery {
        generation: Generation,
        /// Yes, no, or nothing heard.
        allowed: Result<bool, NoAnswer>,
    },
    /// The ledger on whether an offer is still open.
    OfferOpen {
        generation: Generation,
        /// Yes, no, or nothing heard.
        open: Result<bool, NoAnswer>,
    },
}
