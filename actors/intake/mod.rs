//! The poll for notices that never came.
//!
//! Webhooks get lost. On every tick each scope that some pool serves is asked for its open
//! jobs, and the ledger hears of every one; it knows which are news. A forge that fails is
//! asked again on the next tick, and one that hangs delays no other.

mod actor;
mod messages;
mod poll;

pub(crate) use actor::{IntakeStart, start};
pub use messages::ToIntake;
