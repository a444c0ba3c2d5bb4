//! A world for the real actors to live in: one seed, virtual time, and lies on purpose.

#[expect(clippy::missing_panics_doc, reason = "a breach of the contract panics: its purpose")]
pub mod contract;

mod clock;
mod dice;
mod faults;
mod forge;
mod happening;
mod observed;
mod outside;
mod provider;
mod script;
mod store;
mod trace;
mod world;

pub use clock::{Moment, SimChance, SimClock, SimSeal, SimSpawner, date, in_virtual_time, millis};
pub use dice::{Dice, Rate};
pub use faults::{
    Faults, ForgeFaults, MachineFaults, PeopleFaults, ProviderFaults, StoreFaults, Weather,
};
pub use forge::{Hub, JobStage, SimForge, SimJob, SimRunner};
pub use observed::{DeleteCalled, Observed, Refused, Seen};
pub use outside::{Outside, Shared};
pub use provider::{Kind, Machine, SimProvider, Stage, Yard};
pub use script::{CreatePlan, Death, DeletePlan, Fate, HookKind, MintPlan, Point, Script};
pub use store::{Shelf, SimStore};
pub use trace::Trace;
pub use world::{Daemon, Leftovers, Plan, SimPorts, Watcher, Workload, World, pool};

#[cfg(test)]
mod tests;
