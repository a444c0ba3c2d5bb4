//! The messages of the fleet, through which the daemon reaches every actor.

use crate::instance::{Consent, Dispatch, MachineCall, NextReport, WitnessReport};
use crate::mail::Reply;
use crate::model::{
    InstanceId, JobNotice, MachineName, MachineView, PoolId, PoolSpec, ProviderId, Refusal,
    RequestedBy, Timestamp, Urgency,
};
use crate::pool::HostConditions;
use crate::ports::Jit;

/// A message to the fleet.
pub enum ToFleet {
    /// The pools of the config, whole; pools that are missing drain until empty.
    Apply(Vec<PoolSpec>),
    /// A forge reported a job; durable in the inbox if it came by webhook.
    Notice(JobNotice),
    /// An operator wants an instance gone.
    Retire {
        instance: InstanceId,
        urgency: Urgency,
        by: RequestedBy,
        /// What its owner answers.
        reply: Reply<Result<Consent, Refusal>>,
    },
    /// An operator drains or resumes a pool.
    Drain {
        pool: PoolId,
        drained: bool,
        who: String,
        /// Whether it is durable.
        reply: Reply<Result<(), Refusal>>,
    },
    /// An operator declares the foreign machines ours.
    AdoptForeign {
        by: RequestedBy,
        /// How many machines that concerns, once it is durable.
        reply: Reply<Result<usize, Refusal>>,
    },
    /// A machine asks for work.
    Dispatch {
        /// The instance it was created for.
        instance: InstanceId,
        /// Whether it will say so when it has what it is handed.
        acknowledges: bool,
        /// The answer; a `Wait` may be long in coming.
        reply: Reply<Dispatch>,
    },
    /// A machine has what it was handed.
    Acknowledged(InstanceId),
    /// The hosts of a provider that should get no new work, all of them.
    Hosts { provider: ProviderId, hosts: HostConditions },
    /// A machine called while it is set up.
    MachineCalled {
        /// The instance it was created for.
        instance: InstanceId,
        attempt: u32,
        /// What it wants or reports.
        call: MachineCall,
        /// The JIT config, if it asked for it and there is one; or why the call is refused.
        reply: Reply<Result<Option<Jit>, Refusal>>,
    },
    /// The supervisor of a machine reports.
    Reported {
        /// The instance the machine was created for.
        instance: InstanceId,
        attempt: u32,
        report: WitnessReport,
        /// When it reports next, or why it is refused.
        reply: Reply<Result<NextReport, Refusal>>,
    },
    /// A provider saw a machine.
    Seen(ProviderId, MachineView),
    /// A provider no longer shows a machine.
    Missed(ProviderId, MachineName),
    /// The reaper found a machine of ours without a record.
    Orphan(ProviderId, MachineView),
    /// The reaper or the watch over hosts asks an instance to retire; the pool's budget applies.
    Reap {
        pool: PoolId,
        instance: InstanceId,
        /// Why, and where the answer goes.
        ask: crate::instance::Retire,
    },
    /// A pool's breaker opened or closed.
    Breaker {
        pool: PoolId,
        /// Since when it is open.
        open: Option<Timestamp>,
        why: String,
    },
    PoolDied {
        pool: PoolId,
        /// Which of its supervisors: a pool that was emptied may be back already.
        incarnation: u64,
        /// Whether by a panic.
        panicked: bool,
    },
    /// A removed pool has no instance left.
    PoolEmpty(PoolId),
    /// The ledger, the reaper, the requeue or an intake actor died.
    Died {
        part: FleetPart,
        /// Whether by a panic.
        panicked: bool,
    },
    /// Answer: the mailbox is read.
    Ping(Reply<()>),
    /// Stop intake and creation, let running calls finish, touch no machine.
    Shutdown(Reply<()>),
    /// The lease is lost: stop at once, cause nothing more, touch no machine.
    Fenced,
    /// Its keeper shuts down.
    Halt,
    /// Let an actor panic, to prove that the others survive it.
    #[cfg(feature = "testing")]
    Panic(Victim),
}

/// Names an actor that shall panic.
#[cfg(feature = "testing")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Victim {
    Fleet,
    Ledger,
    Pool(PoolId),
    Instance(InstanceId),
}

/// Names the single actors under the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FleetPart {
    Ledger,
    Reaper,
    Requeue,
    /// The poll for notices that never came.
    Intake,
}
