//! What a look at the world can bring. A failed look is not an empty one.
//!
//! A *listing* nominates: it may be late, partial or empty by mistake, and proves nothing
//! about what it does not name. A *direct read* of one thing proves, within the rules of
//! `instance`. Seeing something is always evidence; not seeing it rarely is.

use serde::{Deserialize, Serialize};

use super::{
    ControllerId, ExitFacts, HolderId, HostName, InstanceId, JobFact, MachineName, NamedRunner,
    PoolId, RunnerId, RunnerName,
};

/// Holds the result of one direct look at one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sighting<T> {
    /// It is there.
    Seen(T),
    /// The one asked says that it is not there.
    Absent,
    /// The look failed; nothing is proven.
    Unknown(String),
}

/// Holds the result of one listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observation<T> {
    /// Every page was read.
    Complete(T),
    /// The listing failed or is partial; it nominates nothing.
    Unusable(String),
}

/// Shows a machine as its provider sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineView {
    /// Its name at the provider.
    pub name: MachineName,
    /// The provider's own id for this very machine (a pod's uid), if it has one.
    pub uid: Option<String>,
    /// Whose it is, as stamped at creation.
    pub stamp: Stamp,
    /// How it is.
    pub phase: MachinePhase,
    /// What the machine itself says about a job on it.
    pub worker: Worker,
    /// Whether its runner ever started, where the provider can prove it.
    pub began: Began,
    /// Whether its runner is known to be ready for work.
    pub ready: bool,
    /// Whether the provider was asked to delete it.
    pub leaving: bool,
    /// Where it runs.
    pub host: Option<HostName>,
}

/// Holds what was stamped on a machine when it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The installation.
    pub controller: Option<ControllerId>,
    /// The leadership that created it.
    pub holder: Option<HolderId>,
    /// The pool it was made for.
    pub pool: Option<PoolId>,
    /// The instance it was made for.
    pub instance: Option<InstanceId>,
}

/// Tells how a machine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachinePhase {
    /// Made, not yet up.
    Booting,
    /// Up.
    Running,
    /// Over by itself: the only phase that is an end.
    Over(ExitFacts),
    /// The provider does not know (error, unknown, host lost): it may still be working.
    Doubt(String),
}

/// Tells what the machine's own witness says about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worker {
    /// A job's worker is alive there.
    Present,
    /// No worker is there.
    Absent,
    /// The witness did not answer: not the same as no worker.
    Unknown,
    /// This provider has no witness (most VMs): the forge is asked instead.
    NoWitness,
}

/// Tells whether a machine's runner ever started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Began {
    /// Positive proof that it never did.
    Never,
    /// It did, now or once.
    Yes,
    /// The shape is not understood, or the provider cannot tell.
    Unknown,
}

/// Tells what speaks against new work on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCondition {
    /// It is being emptied.
    Leaving,
    /// It does not answer: what runs there may still be at work.
    Unreachable,
}

/// Shows a registration as the forge sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerView {
    /// Its name.
    pub name: RunnerName,
    /// Its number.
    pub id: RunnerId,
    /// Whether it is connected.
    pub online: bool,
    /// What the forge believes about work; it lies in both directions.
    pub busy: bool,
}

/// Shows a job as the forge answers for it when asked directly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobReading {
    /// What the forge says.
    pub fact: JobFact,
    /// The runner it names.
    pub runner: Option<NamedRunner>,
    /// Whether the workflow run it belongs to is over, whatever the job says.
    pub run_over: bool,
}
