//! A pool: how many instances there should be, and which of them may go.
//!
//! A pool keeps what its instances last reported (`reports`), decides from it how many to create
//! and which to ask to retire (`plan`, a pure function), and paces that: permits, a budget (`pace`),
//! and what the lives of its instances came to (`lives`): a breaker and hosts to avoid (`breaker`,
//! `hosts`). The supervisor is the shell around them
//! (`actor`): it gives every row an owner and replaces an owner that dies (`actor/owners`), and it
//! carries plans out (`actor/planning`).
//!
//! ```text
//!   demand ─┐                       ┌─► start an owner, permit it to create
//!   reports ┼─► plan ─► pace ───────┼─► permit to delete
//!   config ─┘   (how many) (how fast)└─► ask to retire: the instance decides
//! ```
//!
//! A pool never deletes and never writes a row. What it promises: no more than `max` places
//! are held at once, no instance that works is asked to retire, no instance is created before the
//! machine of every row it started with was checked, and no dead owner is given up before its row
//! says `deleted`.

mod actor;
mod blame;
mod breaker;
mod conditions;
mod explain;
#[cfg(test)]
pub(crate) mod fixtures;
mod hosts;
mod lives;
mod messages;
mod pace;
mod plan;
mod reads;
mod reports;
mod silence;

pub(crate) use actor::{PoolStart, start};
pub use blame::blamed_images;
pub use conditions::HostConditions;
pub use explain::explain_pool;
pub use messages::{Demand, InstanceReport, RetireAnswer, ToPool};
#[cfg(feature = "testing")]
pub(crate) use plan::{PlanLimits, plan};
