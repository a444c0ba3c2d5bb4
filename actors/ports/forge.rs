//! The forge. `Roster` looks, `Forge` also registers and removes runners.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::model::{
    JobId, JobNotice, JobReading, Labels, MachineName, Observation, Place, RunnerId, RunnerName,
    RunnerView, Scope, Sighting,
};

/// Looks at runners and jobs. Safe to hand to anyone.
#[async_trait]
pub trait Roster: Send + Sync {
    /// Lists the runners of a scope. Nominates, never proves absence.
    async fn runners(&self, scope: &Scope) -> Observation<Vec<RunnerView>>;

    /// Reads one runner directly, by id where known, else by name.
    async fn runner(&self, scope: &Scope, who: &RunnerRef) -> Sighting<RunnerView>;

    /// Looks for a registration of a machine of which no record remembers the name: its own, or
    /// a further mint's (`x`, `x-2`). `Absent` means that there is none at all.
    async fn runner_of(&self, scope: &Scope, machine: &MachineName) -> Sighting<RunnerView>;

    /// Reads one job directly, and the run it belongs to.
    async fn job(&self, job: &JobId, place: &Place, run: u64) -> Sighting<JobReading>;

    /// Finds a job in progress that names this runner, or a further mint of the same machine;
    /// `Absent` means that there is none.
    async fn work_of(&self, scope: &Scope, who: &RunnerRef) -> Sighting<JobId>;

    /// Lists jobs of the scope that are queued or in progress, for notices that never came.
    async fn open_jobs(&self, scope: &Scope) -> Observation<Vec<JobNotice>>;
}

/// Registers and removes runners. Only an instance's owner holds one.
#[async_trait]
pub trait Forge: Roster {
    /// Registers a runner and returns its JIT config.
    async fn mint(&self, order: MintOrder) -> Result<Minted, MintError>;

    /// Removes a registration.
    async fn deregister(&self, scope: &Scope, id: RunnerId) -> Result<Deregistered, ForgeError>;
}

/// Points at one registration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunnerRef {
    /// Its name.
    pub name: RunnerName,
    /// Its number, where known.
    pub id: Option<RunnerId>,
}

/// Orders a registration.
#[derive(Clone, Debug)]
pub struct MintOrder {
    /// Where.
    pub scope: Scope,
    /// Under which name.
    pub name: RunnerName,
    /// With which labels.
    pub labels: Labels,
    /// In which group.
    pub group: String,
}

/// Holds a fresh registration.
#[derive(Clone, Debug)]
pub struct Minted {
    /// Its number.
    pub id: RunnerId,
    /// The secret that lets one runner act as it.
    pub jit: Jit,
}

/// Holds a JIT config. It is a bearer secret: it cannot be printed, compared or serialised.
#[derive(Clone)]
pub struct Jit(Arc<str>);

impl Jit {
    /// Wraps the secret.
    pub fn new(secret: impl Into<Arc<str>>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret to the one place that hands it out.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Jit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jit(…)")
    }
}

/// Seals secrets that must rest in the store.
pub trait Seal: Send + Sync {
    /// Returns the sealed text.
    fn seal(&self, jit: &Jit) -> String;

    /// Returns the secret, or nothing if the key is another one.
    fn open(&self, sealed: &str) -> Option<Jit>;
}

/// Tells what a removal brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deregistered {
    /// Removed (204).
    Removed,
    /// Not found (404), which may be a lie once.
    NotFound,
    /// Refused because a job runs there (422), or so the forge says.
    Working,
}

/// Tells why no JIT config came.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The name is taken (409), perhaps by our own lost attempt.
    #[error("runner name `{0}` is taken")]
    Taken(RunnerName),
    /// Nothing was made; worth repeating under the same name.
    #[error("forge cannot register now: {why}")]
    Later {
        /// When at the earliest, if it said.
        after: Option<Duration>,
        /// What happened.
        why: String,
    },
    /// Nothing was made, and repeating will not help.
    #[error("forge refused to register: {why}")]
    Refused {
        /// What it said.
        why: String,
    },
    /// No answer: the registration may exist.
    #[error("no answer from the forge: {why}")]
    Unanswered {
        /// What happened.
        why: String,
    },
}

/// Tells why a forge call failed; nothing is proven by it.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// Worth repeating.
    #[error("forge did not serve the call: {why}")]
    Later {
        /// When at the earliest, if it said.
        after: Option<Duration>,
        /// What happened.
        why: String,
    },
}
