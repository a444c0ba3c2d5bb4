//! What can be said to the requeue actor.

use super::Question;
use crate::model::JobId;

/// A letter to the requeue actor.
#[derive(Debug)]
pub enum ToRequeue {
    /// The instance this job was promised to, or ran on, ended or lost the forge: ask at once.
    Ask(JobId),
    /// Time to look for jobs nobody serves.
    Tick,
    /// A look at the records found these to ask.
    Found(Vec<Question>),
    /// One question is over, answered or not.
    Answered(JobId),
    /// Its parent is gone or shuts down.
    Halt,
}
