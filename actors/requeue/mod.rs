//! Jobs that no runner seems to serve: the forge is asked about them.
//!
//! *Unserved* is a job whose offer was delivered and not followed by an execution, one that
//! was offered to or ran on an instance that ended, one that has run for long without a
//! report, one that waits for more than an hour, or one whose pool was taken away
//! (`unserved`). Age decides only what is *asked*; what is *done* is decided by the ledger
//! from the forge's answer, which is bound to the attempt that stood when the question was
//! asked. The actor writes nothing.
//!
//! Questions about jobs that may have lost their runner are put before routine ones (`questions`).

mod actor;
mod questions;
mod unserved;

pub(crate) use actor::{RequeueStart, start};
pub use unserved::{AskReason, JobQuestion};

use crate::model::JobId;

/// A message to the requeue actor.
#[derive(Debug)]
pub enum ToRequeue {
    /// Ask about this job at once, for this reason.
    Ask(JobId, AskReason),
    /// The record of a job to be asked about was read.
    Asked(JobQuestion),
    /// Search the records for unserved jobs.
    Tick,
    /// A search of the records found these.
    Found(Vec<JobQuestion>),
    /// One question is over, answered or not.
    Answered(JobId),
    /// Its parent is gone or shuts down.
    Halt,
}

#[cfg(test)]
mod tests;
