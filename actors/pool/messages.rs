//! What can be said to a pool.

use std::sync::Arc;

use crate::instance::{Consent, Permit, Retire};
use crate::mail::Reply;
use crate::model::{
    Home, HostName, InstanceId, MachineView, PoolSpec, Refusal, Registration, Revision, State,
    Timestamp, Urgency,
};

/// A letter to a pool.
#[derive(Debug)]
pub enum ToPool {
    /// One of its instances shows itself after a durable change.
    Report(Report),
    /// One of its instances is gone.
    Died {
        id: InstanceId,
        /// Whether by a panic.
        panicked: bool,
    },
    /// How much work waits for it.
    Demand(Demand),
    /// The reaper wants an instance gone; spends the pool's budget.
    Retire {
        id: InstanceId,
        /// Why, and whom to answer.
        ask: Retire,
    },
    /// A machine of ours has no record; the pool gives it an owner.
    Adopt {
        view: MachineView,
        /// Where runners of the pool it was made for register now, if that pool is known.
        home: Option<Box<Home>>,
        /// What became of it.
        reply: Reply<Result<InstanceId, Refusal>>,
    },
    Apply(Arc<PoolSpec>),
    /// Let everyone go who is free, create nobody; or take that back.
    Drain(bool),
    /// The pool is no longer in the config: drain until nobody is left, then say so.
    Remove,
    /// Create nobody any more; the process shuts down.
    Quiesce,
    /// The ledger is new: say everything to it again.
    Introduce,
    /// Its parent is gone or shuts down.
    Halt,
    /// Panic, to prove that it is survived.
    #[cfg(feature = "testing")]
    Panic,
}

/// Shows what a pool must know of one of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not exclude each other")]
pub struct Report {
    pub id: InstanceId,
    /// Where it is in its life.
    pub state: State,
    pub since: Timestamp,
    /// When the wish for it became durable.
    pub born: Timestamp,
    /// The strongest wish it carries.
    pub removal: Option<Urgency>,
    pub revision: Revision,
    /// Where its machine runs.
    pub host: Option<HostName>,
    /// Its registration, for label capacity.
    pub registered: bool,
    /// Whether it holds a place against `max`.
    pub occupies: bool,
    /// The permit it waits for.
    pub wants: Option<Permit>,
    /// Whether its machine was looked at since the owner started.
    pub looked: bool,
    /// Whether it is stuck.
    pub stuck: bool,
    /// Whether it works and nobody has named its job yet.
    pub unnamed: bool,
    /// How it ended, where that says something about the pool's health.
    pub outcome: Option<Outcome>,
}

impl Report {
    /// Returns whether the registration may exist.
    pub(crate) fn is_registered(registration: &Registration) -> bool {
        registration.may_exist()
    }
}

/// Tells what an instance's life says about its pool's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ready,
    /// It never did: create or boot failed.
    Failed,
}

/// Tells how much work waits for a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Jobs that want a runner of this pool and have no instance promised.
    pub queued: u32,
    /// Whether there is work that cannot be served now; worth exactly one instance.
    pub blocked: bool,
    /// When the oldest job was queued that should be served now: withheld ones do not count.
    pub oldest: Option<Timestamp>,
}

/// What a pool says about a wish it passed on; see [`Consent`].
pub type RetireAnswer = Result<Consent, Refusal>;
