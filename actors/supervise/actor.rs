//! The few lines that connect mailboxes to actix.

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};

use crate::mail::{Gone, Mailbox};

/// Wraps our messages for actix, which thus stays out of them.
pub(crate) struct Envelope<M>(pub(crate) M);

impl<M> Message for Envelope<M> {
    type Result = ();
}

/// Returns a way to reach an actor.
pub(crate) fn mailbox<A, M>(addr: Addr<A>) -> Mailbox<M>
where
    A: Actor + Handler<Envelope<M>>,
    A::Context: ToEnvelope<A, Envelope<M>>,
    M: Send + 'static,
{
    Mailbox::new(move |message| {
        if !addr.connected() {
            return Err(Gone);
        }
        #[expect(clippy::disallowed_methods, reason = "the one place: `tell` checks who is there")]
        addr.do_send(Envelope(message));
        Ok(())
    })
}

/// Notifies the parent when its child is gone. A field of every child.
pub(crate) struct ExitNotifier(Option<Box<dyn FnOnce(bool) + Send>>);

impl ExitNotifier {
    /// Calls `tell` on the child's exit with whether it panicked; `tell` must not panic itself.
    pub(crate) fn new(tell: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }
}

impl Drop for ExitNotifier {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(std::thread::panicking());
        }
    }
}

/// Stops a child when its parent drops the guard.
pub(crate) struct StopGuard(Option<Box<dyn FnOnce() + Send>>);

impl StopGuard {
    /// Calls `halt` when dropped; it must not panic.
    pub(crate) fn new(halt: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(halt)))
    }

    /// Stops no one: the child has ended by itself.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(halt) = self.0.take() {
            halt();
        }
    }
}
