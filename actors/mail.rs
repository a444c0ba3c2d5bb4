//! How actors reach each other: `tell` sends a message, `ask` waits for a reply with a deadline.
//!
//! A [`Mailbox`] leads to one running actor. An [`ActorRef`] outlives it: a respawned actor installs
//! its new mailbox there, so senders need not know about the respawn. A message without a receiver
//! is counted and is not an error by itself: a sweep finds every fact again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::oneshot;

/// Counts messages whose receiver was gone, for metrics.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Returns how many messages had no receiver since the process began.
pub fn lost_messages() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// The receiver of a message is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receiver is gone")]
pub struct Gone;

/// Leads to one running actor.
pub struct Mailbox<M>(Arc<dyn Fn(M) -> Result<(), Gone> + Send + Sync>);

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> Mailbox<M> {
    /// Wraps a function that delivers a message.
    pub fn new(deliver: impl Fn(M) -> Result<(), Gone> + Send + Sync + 'static) -> Self {
        Self(Arc::new(deliver))
    }

    /// Delivers a message, or counts it as lost.
    pub fn tell(&self, message: M) -> Result<(), Gone> {
        (self.0)(message).inspect_err(|Gone| {
            LOST.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// An address that stays valid when its actor is respawned.
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
    /// Installs the mailbox of a new actor.
    pub fn install(&self, mailbox: Mailbox<M>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(mailbox);
    }

    /// Delivers a message to the current actor, or counts it as lost.
    pub fn tell(&self, message: M) -> Result<(), Gone> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(mailbox) = current else {
            LOST.fetch_add(1, Ordering::Relaxed);
            return Err(Gone);
        };
        mailbox.tell(message)
    }

    /// Asks the current actor and waits for the answer, at most `deadline`.
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

/// Why a question got no answer. It may have had its effect all the same.
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

/// Carries an answer back to the asker.
pub struct Reply<T>(Option<ReplyTo<T>>);

/// Where an answer goes.
enum ReplyTo<T> {
    /// To a task that waits for it.
    Channel(oneshot::Sender<T>),
    /// Into a short function, such as a counter.
    Callback(Box<dyn FnOnce(T) + Send>),
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Reply(…)" } else { "Reply(discarded)" })
    }
}

impl<T> Reply<T> {
    /// Returns a reply and the receiver of its answer.
    pub fn channel() -> (Self, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(ReplyTo::Channel(sender))), receiver)
    }

    /// Returns a reply that calls `callback` with the answer, in the answering actor.
    pub fn with(callback: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Some(ReplyTo::Callback(Box::new(callback))))
    }

    /// Returns a reply that drops its answer.
    pub fn discard() -> Self {
        Self(None)
    }

    /// Sends the answer.
    pub fn send(self, answer: T) {
        match self.0 {
            // The asker may have given up waiting.
            Some(ReplyTo::Channel(sender)) => drop(sender.send(answer)),
            Some(ReplyTo::Callback(callback)) => callback(answer),
            None => {}
        }
    }

    /// Returns whether the asker has given up.
    pub fn is_abandoned(&self) -> bool {
        match &self.0 {
            Some(ReplyTo::Channel(sender)) => sender.is_closed(),
            Some(ReplyTo::Callback(_)) => false,
            None => true,
        }
    }
}
