//! What the core asks of the world: traits and their errors, nothing else.
//!
//! Every port is split into *seeing* and *doing*. Reaper, requeue and HTTP are handed only
//! the seeing halves, so "a reaper deleted a busy runner" does not compile.

mod capabilities;
mod clock;
mod forge;
mod provider;
mod store;

pub use capabilities::{
    CreateSlot, CreateSlots, DrainSink, DryRun, DryRunResult, Finding, Grade, Handover, HostDrains,
    MachineAuth, MachineMarks, MachineToken, Protection, ProviderCapabilities, SelfCheck, Startup,
    TokenReview,
};
pub use clock::{Chance, Clock, SpawnedTask, Spawner};
pub use forge::{
    Deregistered, Forge, ForgeError, Jit, MintError, MintGate, MintOrder, Minted, Roster,
    RunnerRef, Seal,
};
pub use provider::{
    CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderError, Watching,
};
pub use store::{
    Acceptance, Controller, ExitRevision, Inbox, InstanceRows, InstanceSave, JobRows, JobSave,
    PoolRows, QuarantinedRow, RecordKey, Records, SaveError, StoreError,
};
