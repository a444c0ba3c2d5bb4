//! Jobs nobody is serving, as far as we know: the forge is asked about them.
//!
//! *Unserved* is a job whose offer was delivered and not followed by an execution, one that
//! was promised to or ran on an instance that ended, one that has run for long without
//! news, one that waits for more than an hour, or one whose pool was taken away
//! (`unserved`). Age decides only what is *asked*; what is *done* is decided by the ledger
//! from the forge's answer, which is bound to the attempt that stood when the question was
//! asked. The actor writes nothing.

mod actor;
mod messages;
mod unserved;

pub(crate) use actor::{RequeueStart, start};
pub use messages::ToRequeue;
pub use unserved::{Question, Why};
#[cfg(test)]
mod tests;
