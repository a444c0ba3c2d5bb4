//! The forge. `Roster` looks, `Forge` also registers and removes runners.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

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
    /// Passed immediately before the call goes out; until then it may be given up.
    pub gate: MintGate,
}

/// Decides whether a registration goes out or is given up: whichever comes first.
///
/// Registrations wait for the forge's budget, and meanwhile the reason for one may go away. One that
/// was not sent yet costs nothing; one that was may exist.
#[derive(Clone, Debug)]
pub struct MintGate(Arc<watch::Sender<MintStage>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MintStage {
    Waiting,
    Sent,
    GivenUp,
}

impl Default for MintGate {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(MintStage::Waiting)))
    }
}

impl MintGate {
    /// Takes that the call goes out now; returns whether it may.
    pub fn send(&self) -> bool {
        self.settle(MintStage::Sent) == MintStage::Sent
    }

    /// Gives the call up; returns whether it was not sent, so that nothing is registered by it.
    pub fn give_up(&self) -> bool {
        self.settle(MintStage::GivenUp) == MintStage::GivenUp
    }

    /// Waits until the call was sent or given up.
    pub async fn settled(&self) {
        let mut stages = self.0.subscribe();
        // The sender is held here, so it cannot be gone.
        drop(stages.wait_for(|now| *now != MintStage::Waiting).await);
    }

    /// Decides, unless that has happened; returns what was decided.
    fn settle(&self, stage: MintStage) -> MintStage {
        self.0.send_if_modified(|now| {
            let decides = *now == MintStage::Waiting;
            if decides {
                *now = stage;
            }
            decides
        });
        *self.0.borrow()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_is_either_sent_or_given_up_and_never_both() {
        let gate = MintGate::default();
        assert!(gate.give_up());
        assert!(!gate.send(), "its turn came too late");
        let gate = MintGate::default();
        assert!(gate.send() && gate.send(), "a call that is repeated was sent");
        assert!(!gate.give_up());
    }
}
