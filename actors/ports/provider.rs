//! What makes machines. `Inventory` looks, `Provider` also acts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{CreateSlot, Jit, ProviderCapabilities};
use crate::model::{
    ExitReport, HostName, MachineName, MachineSpec, MachineView, Observation, PoolSpec, Sighting,
    Stamp,
};

/// Looks at machines. Safe to hand to anyone.
#[async_trait]
pub trait Inventory: Send + Sync {
    /// Lists the machines that carry our controller's stamp. Nominates, never proves absence.
    async fn list(&self) -> Observation<Vec<MachineView>>;

    /// Reads one machine directly.
    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView>;

    /// Gathers what the machine left: exit facts and, if `want_tail`, the end of its log.
    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport;

    /// Tells `sink` of changes as they happen, for as long as the returned guard lives. A
    /// provider that cannot watch does nothing; listings find out later.
    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        drop(sink);
        Watching::nothing()
    }
}

/// Keeps a watch going; ends it when dropped, so that no watch outlives the fleet it tells.
#[must_use = "a watch ends when its guard is dropped"]
pub struct Watching(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Watching {
    /// Returns the guard of a watch that there is not.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Returns the guard of a watch that `end` ends.
    pub fn until_dropped(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

/// Receives machines as a provider sees them change.
pub trait MachineSink: Send + Sync {
    /// A machine was seen like this.
    fn seen(&self, view: MachineView);

    /// A machine is no longer shown; direct reads must prove it.
    fn missed(&self, machine: MachineName);
}

/// Makes and deletes machines. Only an instance's owner holds one.
#[async_trait]
pub trait Provider: Inventory {
    /// Makes a machine under the order's name.
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError>;

    /// Deletes a machine. Safe to repeat.
    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError>;

    /// Declares what else this provider can do.
    fn capabilities(&self) -> ProviderCapabilities;
}

/// Points at one machine: by name, and by the provider's id where it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineRef {
    /// Its name.
    pub name: MachineName,
    /// The provider's id; a delete must not hit a successor of the same name.
    pub uid: Option<String>,
}

/// Orders a machine.
#[derive(Clone, Debug)]
pub struct CreateOrder {
    /// The name it must get.
    pub name: MachineName,
    /// What is stamped on it.
    pub stamp: Stamp,
    /// What it should be like.
    pub machine: MachineSpec,
    /// The pool, for what a provider derives from it (labels, group, scope).
    pub pool: Arc<PoolSpec>,
    /// Hosts on which machines did not come up lately, to be avoided where the provider has hosts.
    pub avoid: Vec<HostName>,
    /// Which registration of the instance it is made with; what it says of itself is bound to it.
    pub attempt: u32,
    /// The JIT config, where the runner is registered before its machine is made.
    pub jit: Option<Jit>,
    /// The slot that was taken for the call, where the provider limits its creates.
    pub slot: CreateSlot,
}

/// Tells how hard a deletion may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// The provider's usual grace period.
    Usual,
    /// None: forced by an operator, or the host is proven gone.
    Zero,
}

/// Tells what a delete call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The provider took the order; a read must confirm it.
    Accepted,
    /// The provider does not know the machine.
    NotFound,
}

/// Tells why a create call made no machine, or may have.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The provider vouches that nothing was made.
    #[error("provider refused machine `{machine}` and made nothing: {why}")]
    Refused {
        /// Which machine.
        machine: MachineName,
        /// What it said.
        why: String,
    },
    /// The provider judged the order and refused it, and vouches for nothing: part of a machine may have
    /// been made, and may even come up. Its owner looks for it at once and waits for nothing else.
    #[error("provider failed to make machine `{machine}`: {why}")]
    Failed {
        /// Which machine.
        machine: MachineName,
        /// What it said.
        why: String,
    },
    /// No answer, or one that proves nothing: the machine may exist now or later.
    #[error("no usable answer about machine `{machine}`: {why}")]
    Unanswered {
        /// Which machine.
        machine: MachineName,
        /// What happened.
        why: String,
    },
}

/// Tells why a provider call failed.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Worth repeating.
    #[error("provider did not serve the call: {why}")]
    Later {
        /// When at the earliest, if it said.
        after: Option<Duration>,
        /// What happened.
        why: String,
    },
}
