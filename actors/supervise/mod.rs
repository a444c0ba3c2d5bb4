//! How a parent learns of a child's end, and a child of its parent's.
//!
//! `actix::Supervisor` does not restart an actor that panicked, so supervision is ours. Every
//! child carries an [`ExitNotifier`], whose `Drop` tells the parent on stop and on panic alike.
//! Every parent holds a [`StopGuard`] on each child, whose `Drop` halts it: when a parent dies,
//! its children stop (no machine is touched), and its successor starts them again from rows.

mod actor;
mod restarts;

pub(crate) use actor::{Envelope, ExitNotifier, StopGuard, mailbox};
pub(crate) use restarts::Restarts;
