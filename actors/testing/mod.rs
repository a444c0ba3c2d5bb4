//! A world for the real actors to live in: one seed, virtual time, and lies on purpose.
//!
//! [`Outside`] is the truth and survives everything: machines, runners, jobs, the durable
//! records, and the queue of what happens next. [`SimForge`], [`SimProvider`] and [`SimStore`]
//! are handles onto it that lie as [`Faults`] say. [`World`] lets a daemon live in it, crashes
//! it, starts it again, and shows everything it does to a [`Watcher`] as [`Observed`], with the
//! truth of that moment beside it. [`Watched`] is a world with the real fleet in it and all
//! checkers beside it. Scenarios force single behaviours by the methods of `World`;
//! [`contract`] is what every store must do.
//!
//! The same seed gives the same [`Trace`], in every process.

#[expect(clippy::missing_panics_doc, reason = "a breach of the contract panics: its purpose")]
pub mod contract;

mod checks;
mod clock;
pub mod decide;
mod dice;
mod episodes;
mod faults;
mod forge;
mod happening;
mod liveness;
mod observed;
mod outside;
mod provider;
mod script;
pub mod sim;
mod store;
mod watched;
mod world;

pub use checks::Checker;
pub use clock::{
    HOUR, MINUTE, Moment, SECOND, SimChance, SimClock, SimSeal, SimSpawner, date, in_virtual_time,
    millis,
};
pub use dice::{Dice, Rate};
pub use episodes::{Episode, EpisodeKind};
pub use faults::{
    Faults, ForgeFaults, MachineFaults, PeopleFaults, ProviderFaults, StoreFaults, Weather,
};
pub use forge::{ForgeState, JobStage, SimForge, SimJob, SimRunner};
pub use liveness::{
    JOB_LIMIT, LEAVING_LIMIT, LivenessChecker, PARKED_JOB_LIMIT, PLACE_LIMIT,
    REGISTRATIONS_AN_HOUR, REGISTRATIONS_IN_THE_FIRST_HOUR, WaitTimes, Waits,
};
pub use observed::{DeleteCalled, Observed, Refused, Seen, Trace};
pub use outside::{Outside, Shared};
pub use provider::{Kind, Machine, Machines, SimProvider, Stage};
pub use script::{CreatePlan, Death, DeletePlan, Fate, HookKind, MintPlan, Point, Resists, Script};
pub use store::{MemoryRecords, SimStore};
pub use watched::{Watched, start_fleet};
pub use world::{Daemon, Leftovers, Plan, SimPorts, Watcher, Workload, World, pool};

#[cfg(test)]
mod tests;
