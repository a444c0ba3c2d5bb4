//! The poll for notices that never came.
//!
//! Webhooks get lost. On every tick each scope that some pool serves is asked for its open
//! jobs, and the ledger gets every one; it knows which are new. A forge that fails is
//! asked again on the next tick, and one that hangs delays no other.

mod actor;

use std::collections::BTreeSet;

pub(crate) use actor::{IntakeStart, start};

use crate::model::{ForgeId, Scope};

/// A message to the intake.
#[derive(Debug)]
pub enum ToIntake {
    /// All scopes that the configured pools serve.
    Scopes(BTreeSet<(ForgeId, Scope)>),
    Tick,
    /// Its parent is gone or shuts down.
    Halt,
}
