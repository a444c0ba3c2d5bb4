//! What can be said to the intake.

use std::collections::BTreeSet;

use crate::model::{ForgeId, Scope};

/// A letter to the intake.
#[derive(Debug)]
pub enum ToIntake {
    /// The scopes the configured pools serve, whole.
    Scopes(BTreeSet<(ForgeId, Scope)>),
    Tick,
    /// Its parent is gone or shuts down.
    Halt,
}
