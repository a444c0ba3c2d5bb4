//! The messages of a pool.

use std::sync::Arc;

use super::HostConditions;
use crate::instance::{Consent, Permit, Retire};
use crate::mail::Reply;
use crate::model::{
    Home, HostName, InstanceId, LifeOutcome, MachineView, PoolSpec, Refusal, Revision, RunnerName,
    State, Timestamp, Urgency,
};

/// A message to a pool.
#[derive(Debug)]
pub enum ToPool {
    /// One of its instances reports after a durable change.
    Report(InstanceReport),
    /// The owner of one of its instances exited.
    Died {
        id: InstanceId,
        /// Whether by a panic.
        panicked: bool,
    },
    /// How much work waits for it.
    Demand(Demand),
    /// The forge names a runner that a job ran on, and its instance has no owner any more.
    RanOn(RunnerName),
    /// The reaper asks an instance to retire; spends the pool's budget.
    Retire {
        id: InstanceId,
        /// Why, and where the answer goes.
        ask: Retire,
    },
    /// A machine of ours has no record; the pool gives it an owner.
    Adopt {
        view: MachineView,
        /// Where runners of the pool it was created for register now, if that pool is known.
        home: Option<Box<Home>>,
        /// The adopting instance, or why there is none.
        reply: Reply<Result<InstanceId, Refusal>>,
    },
    Apply(Arc<PoolSpec>),
    /// The hosts of its provider that should get no new work.
    Hosts(HostConditions),
    /// Ask every free instance to retire and create none; or stop doing so.
    Drain(bool),
    /// The pool is no longer in the config: drain until no instance is left, then report that.
    Remove,
    /// Create and delete nothing more; the process shuts down.
    Quiesce,
    /// The ledger is new: report everything to it again.
    Introduce,
    /// Its parent is gone or shuts down.
    Halt,
    /// Panic, to prove that it is survived.
    #[cfg(feature = "testing")]
    Panic,
}

/// Shows what a pool must know of one of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub struct InstanceReport {
    pub id: InstanceId,
    pub state: State,
    pub since: Timestamp,
    /// When the request for it became durable.
    pub created_at: Timestamp,
    /// The strongest removal request for it.
    pub removal: Option<Urgency>,
    pub revision: Revision,
    /// Where its machine runs.
    pub host: Option<HostName>,
    /// Its registration, for label capacity.
    pub registered: bool,
    /// Whether it holds a place against `max`.
    pub occupies: bool,
    /// Since when its machine has been silent that should ask for work.
    pub silent_since: Option<Timestamp>,
    /// Whether its machine waits on a host that is out of reach.
    pub unreachable: bool,
    /// The permit it waits for.
    pub wants: Option<Permit>,
    /// Whether its machine was read or listed since the owner started.
    pub checked: bool,
    pub stuck: bool,
    /// Whether it works and its job is not known yet.
    pub unnamed: bool,
    /// What its life came to, once that is known.
    pub outcome: Option<LifeOutcome>,
}

impl InstanceReport {
    /// Returns whether it can be given work once it is ready.
    pub fn is_capacity(&self) -> bool {
        self.silent_since.is_none() && !self.unreachable
    }
}

/// Tells how much work waits for a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Jobs that want a runner of this pool and are offered to no instance.
    pub queued: u32,
    /// Whether there is work that cannot be served now; worth exactly one instance.
    pub blocked: bool,
    /// When the oldest job was queued that should be served now: withheld ones do not count.
    pub oldest: Option<Timestamp>,
}

/// What an instance answers to a removal request; see [`Consent`].
pub type RetireAnswer = Result<Consent, Refusal>;
