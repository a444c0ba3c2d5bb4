//! What can be said to the requeue actor.

use crate::model::JobId;

/// A letter to the requeue actor.
#[derive(Debug)]
pub enum ToRequeue {
    /// The instance this job was promised to, or ran on, ended: ask at once.
    Ask(JobId),
    /// Time to look for jobs nobody serves.
    Tick,
    /// The answers to a round of questions are in.
    RoundOver,
    /// Its parent is gone or shuts down.
    Halt,
}
