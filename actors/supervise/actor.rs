//! The few lines that turn mail into actix.

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};

use crate::mail::{Gone, Inlet};

/// Wraps our messages for actix, which thus stays out of them.
pub(crate) struct Letter<M>(pub(crate) M);

impl<M> Message for Letter<M> {
    type Result = ();
}

/// Returns a way to reach an actor.
pub(crate) fn inlet<A, M>(addr: Addr<A>) -> Inlet<M>
where
    A: Actor + Handler<Letter<M>>,
    A::Context: ToEnvelope<A, Letter<M>>,
    M: Send + 'static,
{
    Inlet::new(move |letter| {
        if !addr.connected() {
            return Err(Gone);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place: `tell` checks who is there"
        )]
        addr.do_send(Letter(letter));
        Ok(())
    })
}

/// Tells the parent when its child is gone. A field of every child.
pub(crate) struct Obituary(Option<Box<dyn FnOnce(bool) + Send>>);

impl Obituary {
    /// Makes an obituary; `tell` learns whether the child panicked and must not panic itself.
    pub(crate) fn new(tell: impl FnOnce(bool) + Send + 'static) -> Self {
        Self(Some(Box::new(tell)))
    }
}

impl Drop for Obituary {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(std::thread::panicking());
        }
    }
}

/// Halts a child when its parent lets go.
pub(crate) struct Leash(Option<Box<dyn FnOnce() + Send>>);

impl Leash {
    /// Makes a leash; `halt` must not panic.
    pub(crate) fn new(halt: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(halt)))
    }

    /// Lets the child live on: it has ended by itself.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(halt) = self.0.take() {
            halt();
        }
    }
}
