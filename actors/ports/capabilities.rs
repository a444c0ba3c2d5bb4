//! What a provider can do beside creating, reading and deleting machines.
//!
//! A provider declares it ([`Provider::capabilities`](super::Provider::capabilities)) and it is
//! remembered nowhere else. Nothing here creates or deletes a machine, so a capability may be handed
//! to anyone.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use super::{MachineRef, Watching};
use crate::model::{Binding, HostName, PoolSpec, State};

/// Declares what a provider can do. What it cannot do is `None`.
#[derive(Clone, Default)]
pub struct ProviderCapabilities {
    /// How a machine gets the JIT config of a runner that is registered before it is created.
    pub handover: Handover,
    /// Limits how many creates run at once; an owner holds a slot before it commits to the call.
    pub create_slots: Option<Arc<dyn CreateSlots>>,
    /// Proves which machine a token belongs to: what a warm machine asks for work with.
    pub machine_auth: Option<Arc<dyn MachineAuth>>,
    /// Shows on a machine whether a job may be on it, for programs that take machines away.
    pub marks: Option<Arc<dyn MachineMarks>>,
    /// Reports hosts that are being emptied.
    pub host_drains: Option<Arc<dyn HostDrains>>,
    /// Lets the provider judge the machines of a pool without creating one.
    pub dry_run: Option<Arc<dyn DryRun>>,
    /// Tries settings and rights, for `check --live`.
    pub self_check: Option<Arc<dyn SelfCheck>>,
    /// Prepares the provider for a fleet that is about to begin.
    pub startup: Option<Arc<dyn Startup>>,
}

/// Tells how a machine gets the JIT config of a runner that is registered before it is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// The order carries it.
    #[default]
    WithOrder,
    /// The machine fetches it from us; until then it rests, sealed, in the instance's row.
    Fetched,
}

/// Limits how many creates run at once.
#[async_trait]
pub trait CreateSlots: Send + Sync {
    /// Waits for a slot, for as long as it takes.
    async fn take(&self) -> CreateSlot;
}

/// Holds one of a provider's slots, until its last clone is dropped; or none, where there is no limit.
#[derive(Clone, Default)]
pub struct CreateSlot(Option<Arc<dyn Any + Send + Sync>>);

impl CreateSlot {
    /// Holds what keeps the slot.
    pub fn held(slot: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(slot)))
    }

    /// Returns whether a slot is held.
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for CreateSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_held() { "CreateSlot(held)" } else { "CreateSlot(none)" })
    }
}

/// Finds out which machine a token belongs to.
#[async_trait]
pub trait MachineAuth: Send + Sync {
    /// Reviews a token.
    async fn review(&self, token: &MachineToken) -> TokenReview;
}

/// Holds the token of a machine. It is a bearer secret: it cannot be printed.
#[derive(Clone)]
pub struct MachineToken(Arc<str>);

impl MachineToken {
    /// Wraps the secret.
    pub fn new(secret: impl Into<Arc<str>>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret to the one place that compares it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MachineToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineToken(…)")
    }
}

/// Tells what came of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenReview {
    /// It belongs to this machine; the reference carries the provider's id.
    Belongs(MachineRef),
    /// It is not good, and why.
    Refused(String),
    /// It could not be found out; worth repeating.
    Unknown(String),
}

/// Writes marks on machines for other programs. Nothing of ours reads them back.
#[async_trait]
pub trait MachineMarks: Send + Sync {
    /// Marks whether a job may be on a machine, and which. A machine that is gone is no error.
    async fn mark(
        &self,
        machine: &MachineRef,
        protection: Protection,
        job: Option<&str>,
    ) -> Result<(), String>;

    /// Removes the JIT config that is kept beside a machine, once it is spent.
    async fn forget_jit(&self, machine: &MachineRef) -> Result<(), String>;
}

/// Tells whether a machine may be taken away by programs that need its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// A job may be on it: it must not be evicted.
    Busy,
    /// No job can be on it.
    Idle,
}

impl Protection {
    /// Decides how a machine is to be protected. Bound late, it is worth protecting from the moment
    /// a job is offered to it. Bound early, the forge may assign it a job at any moment without our
    /// knowing, so it is protected from its creation until it is deregistered.
    pub fn of(binding: Binding, state: State) -> Self {
        match (state, binding) {
            (State::Reserved | State::Busy, _)
            | (
                State::PendingCreate | State::Creating | State::Starting | State::Idle,
                Binding::Early,
            ) => Self::Busy,
            (
                State::PendingCreate | State::Creating | State::Starting | State::Idle,
                Binding::Late,
            )
            | (
                State::Retiring
                | State::Ended
                | State::PendingDelete
                | State::Deleting
                | State::Deleted,
                _,
            ) => Self::Idle,
        }
    }
}

/// Reports hosts that are being emptied, and those that do not answer.
pub trait HostDrains: Send + Sync {
    /// Reports to `sink` for as long as the returned guard lives.
    fn watch_drains(&self, sink: Arc<dyn DrainSink>) -> Watching;
}

/// Receives the hosts that should get no new work.
pub trait DrainSink: Send + Sync {
    /// All hosts that are being emptied now, each with the reason.
    fn draining(&self, hosts: BTreeMap<HostName, String>);

    /// All hosts that do not answer now: what runs there may still be at work.
    fn unreachable(&self, hosts: BTreeSet<HostName>);

    /// Hosts cannot be watched at the moment, and why; what was reported last stays valid.
    fn blind(&self, why: String);
}

/// Judges the machines of a pool without creating one.
#[async_trait]
pub trait DryRun: Send + Sync {
    /// Asks whether the provider would take a machine of this pool.
    async fn try_pool(&self, pool: &PoolSpec) -> DryRunResult;
}

/// Tells what the provider thinks of a pool's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DryRunResult {
    /// It would take them, as far as can be told beforehand.
    Fits,
    /// It refuses them, and why.
    Refused(String),
    /// It could not be asked, and why.
    Unknown(String),
}

/// Tries settings, credentials and rights without changing anything.
#[async_trait]
pub trait SelfCheck: Send + Sync {
    /// Tries what these pools need; one finding for each thing that was tried.
    async fn check(&self, pools: &[PoolSpec]) -> Vec<Finding>;
}

/// Holds one thing that was tried at a forge or a provider, and what came of it in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was tried, in a word: `rights`, `version`.
    pub what: &'static str,
    /// How it is to be taken.
    pub grade: Grade,
    /// What came of it, and the way out.
    pub says: String,
}

impl Finding {
    /// Returns a finding.
    pub fn new(what: &'static str, grade: Grade, says: impl Into<String>) -> Self {
        Self { what, grade, says: says.into() }
    }
}

/// Tells how a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// It works.
    Ok,
    /// It may work; look at it.
    Doubt,
    /// It does not work.
    Wrong,
}

/// Prepares a provider for a fleet.
pub trait Startup: Send + Sync {
    /// Is called before a fleet begins, while none acts: the provider clears what an ended fleet
    /// left half done, and logs what is worth knowing about itself. Returns quickly.
    fn before_fleet(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_machine_may_be_evicted_until_a_job_is_offered_to_it() {
        let of = |state| Protection::of(Binding::Late, state);
        assert_eq!(of(State::Idle), Protection::Idle);
        assert_eq!(of(State::Reserved), Protection::Busy);
        assert_eq!(of(State::Busy), Protection::Busy);
        assert_eq!(of(State::Retiring), Protection::Idle);
    }

    #[test]
    fn a_registered_machine_is_protected_from_its_creation() {
        for state in State::ALL {
            let expected = if state.is_terminating() { Protection::Idle } else { Protection::Busy };
            assert_eq!(Protection::of(Binding::Early, state), expected, "{state}");
        }
    }
}
