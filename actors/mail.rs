//! How actors reach each other: `tell` a fact, `ask` a question with a deadline.
//!
//! An [`Mailbox`] leads to one living actor. An [`ActorRef`] is a standing address: the actor
//! that holds the office plugs its inlet in, and its successor replaces it, so nobody has
//! to be told about a respawn. A letter to nobody is counted, never an error by itself:
//! every fact can be found out again by a sweep.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::oneshot;

/// Counts letters whose receiver was gone, for metrics.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many letters found nobody since the process began.
pub fn lost_messages() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// Tells that a letter found nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver is gone")]
pub struct Gone;

/// Leads to one living actor.
pub struct Mailbox<M>(Arc<dyn Fn(M) -> Result<(), Gone> + Send + Sync>);

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Mailbox<M> {
    /// Wraps a way to deliver a letter.
    pub fn new(deliver: impl Fn(M) -> Result<(), Gone> + Send + Sync + 'static) -> Self {
        Self(Arc::new(deliver))
    }

    /// Delivers a letter, or counts it as lost.
    pub fn tell(&self, message: M) -> Result<(), Gone> {
        (self.0)(message).inspect_err(|Gone| {
            LOST.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// A standing address whose holder may change.
pub struct ActorRef<M>(Arc<RwLock<Option<Mailbox<M>>>>);

impl<M> Clone for ActorRef<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Default for ActorRef<M> {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(None)))
    }
}

impl<M> ActorRef<M> {
    /// Installs the holder.
    pub fn install(&self, mailbox: Mailbox<M>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(mailbox);
    }

    /// Delivers a letter to the holder, or counts it as lost.
    pub fn tell(&self, message: M) -> Result<(), Gone> {
        let holder = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(mailbox) = holder else {
            LOST.fetch_add(1, Ordering::Relaxed);
            return Err(Gone);
        };
        mailbox.tell(message)
    }

    /// Asks the holder and waits for the answer, at most `deadline`.
    pub async fn ask<T>(
        &self,
        question: impl FnOnce(Reply<T>) -> M,
        deadline: Duration,
    ) -> Result<T, NoAnswer> {
        let (reply, answer) = Reply::channel();
        self.tell(question(reply))?;
        await_answer(answer, deadline).await
    }
}

impl<M> Mailbox<M> {
    /// Asks and waits for the answer, at most `deadline`.
    pub async fn ask<T>(
        &self,
        question: impl FnOnce(Reply<T>) -> M,
        deadline: Duration,
    ) -> Result<T, NoAnswer> {
        let (reply, answer) = Reply::channel();
        self.tell(question(reply))?;
        await_answer(answer, deadline).await
    }
}

async fn await_answer<T>(answer: oneshot::Receiver<T>, deadline: Duration) -> Result<T, NoAnswer> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(NoAnswer::Gone),
        Err(_) => Err(NoAnswer::Late),
    }
}

/// Tells why a question got no answer. The question may have had its effect all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The receiver is or went away.
    #[error("the receiver is gone")]
    Gone,
    /// The deadline passed.
    #[error("no answer in time")]
    Late,
}

impl From<Gone> for NoAnswer {
    fn from(Gone: Gone) -> Self {
        Self::Gone
    }
}

/// Carries an answer back to whoever asked, if they still listen.
pub struct Reply<T>(Option<Way<T>>);

/// The way an answer takes.
enum Way<T> {
    /// To somebody who waits.
    Waiting(oneshot::Sender<T>),
    /// Into something small that is done with it, such as counting.
    Noted(Box<dyn FnOnce(T) + Send>),
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Reply(…)" } else { "Reply(nobody)" })
    }
}

impl<T> Reply<T> {
    /// Makes a reply and the place where its answer arrives.
    pub fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(Way::Waiting(sender))), receiver)
    }

    /// Makes a reply whose answer is noted at once, where it is given.
    pub fn noted(note: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Some(Way::Noted(Box::new(note))))
    }

    /// Makes a reply nobody waits for.
    pub fn nobody() -> Self {
        Self(None)
    }

    /// Sends the answer.
    pub fn send(self, answer: T) {
        match self.0 {
            // The asker may have given up; that is their right.
            Some(Way::Waiting(sender)) => drop(sender.send(answer)),
            Some(Way::Noted(note)) => note(answer),
            None => {}
        }
    }

    /// Returns whether the asker has given up.
    pub fn is_abandoned(&self) -> bool {
        match &self.0 {
            Some(Way::Waiting(sender)) => sender.is_closed(),
            Some(Way::Noted(_)) => false,
            None => true,
        }
    }
}
