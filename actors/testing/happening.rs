//! What can happen outside, each at its moment.

use super::forge::Delivery;
use super::script::Death;
use crate::model::{Conclusion, HostName, InstanceId, Labels, RunnerId};

/// Something that happens outside. Numbers of machines and jobs are the world's own.
#[derive(Debug)]
pub(super) enum Happening {
    /// The next job arrives, and with it the chance of other trouble.
    Arrival,
    /// A held job is let go.
    Release(u64),
    Deliver(Box<Delivery>),
    /// The forge pairs jobs and runners.
    Match,
    /// An agent picks its assignment up.
    PickUp {
        job: u64,
        attempt: u32,
    },
    /// An assignment that no runner picked up lapses.
    Unassign {
        job: u64,
        attempt: u32,
    },
    /// A job is cancelled between assignment and pick-up.
    CancelAssigned {
        job: u64,
        attempt: u32,
    },
    /// A job is cancelled wherever it is.
    CancelJob(u64),
    /// The forge gives up on a job whose machine died.
    JobLost(u64),
    /// The forge gives a job whose machine died back to its queue.
    GiveBack(u64),
    /// A registration that was not connected for a day is forgotten.
    Fade(RunnerId),

    /// A machine comes to exist.
    Appear(u64),
    /// A machine is up: its agent or its poller starts.
    Up(u64),
    /// A machine asks for work.
    Poll(u64),
    /// The supervisor of a machine reports, and answers a challenge.
    Report {
        machine: u64,
        challenge: Option<u64>,
    },
    /// An agent notices that its registration is gone.
    Dismissed(u64),
    /// A worker is done.
    WorkEnds {
        machine: u64,
        job: u64,
    },
    /// A machine's process ends.
    Die(u64, Death),
    /// A machine dies under its job.
    DieWorking {
        machine: u64,
        job: u64,
        death: Death,
    },
    /// A deleted machine is gone.
    Depart(u64),
    /// A stranger's deletion has run its grace.
    ExternalDeparture(u64),
    /// The provider falls into doubt about a machine.
    Doubt(u64),
    /// The doubt about a machine is over.
    Clear(u64),
    /// A lost host's machine shows its end, or nothing any more.
    Surface(u64),
    /// A host is lost.
    HostLost(HostName),
    /// The watcher is told how a machine is.
    Tell(u64),
    /// The watcher is told that a machine is no longer there.
    TellMissing {
        provider: usize,
        machine: crate::model::MachineName,
    },

    /// An episode begins, by its number.
    Begin(usize),
    /// An episode heals.
    Heal(usize),
    /// The forge learns late that a job is over.
    LearnEnd {
        job: u64,
        conclusion: Conclusion,
    },

    /// An operator does something.
    Operator(OperatorAction),
    /// The daemon starts again.
    Restart,
}

/// Something an operator does.
#[derive(Clone, Debug)]
pub(super) enum OperatorAction {
    /// Asks for an instance to go when it is free.
    Delete(InstanceId),
    Force(InstanceId),
    /// Drains a pool, or resumes it.
    Drain {
        pool: usize,
        drained: bool,
    },
    /// Changes a pool's machines.
    Roll(usize),
    /// Changes a pool's labels, and its machines with them.
    Relabel {
        pool: usize,
        labels: Labels,
    },
    /// Takes a pool out of the config.
    Remove(usize),
    /// Puts a pool back into the config.
    Restore(usize),
    /// Stops the daemon in an orderly way and starts it again.
    Restart,
    /// Ends the daemon that was asked to stop.
    Stop,
}
