//! How many, and whom to let go.
//!
//! A pool keeps the picture its instances report (`reports`), decides from it how many to
//! make and whom to ask to go (`plan`, a pure function), and paces that: permits, a budget
//! a breaker and hosts to avoid (`pace`, `breaker`, `hosts`). The supervisor (`actor`) is the shell around
//! them: it gives every row an owner, and every dead owner a successor.
//!
//! ```text
//!   demand ─┐                       ┌─► start an owner, permit it to create
//!   reports ┼─► plan ─► pace ───────┼─► permit to delete
//!   config ─┘   (how many) (how fast)└─► ask to go: the instance decides
//! ```
//!
//! A pool never deletes and never writes a row. What it promises: no more than `max` places
//! are held at once, nobody who works is asked to go, nothing is made before every row it
//! began with was looked at, and no dead owner is forgotten before its row says `deleted`.

mod actor;
mod breaker;
mod explain;
#[cfg(test)]
pub(crate) mod fixtures;
mod hosts;
mod messages;
mod name;
mod pace;
mod plan;
mod reads;
mod reports;

pub(crate) use actor::{PoolStart, start};
pub use explain::explain_pool;
pub use messages::{Demand, Outcome, Report, RetireAnswer, ToPool};
#[cfg(feature = "testing")]
pub(crate) use plan::{Mood, plan};
