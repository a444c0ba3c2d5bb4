//! The shell of an instance: save, then act.

use std::sync::Arc;

use super::{Kit, ToInstance};
use crate::base::Base;
use crate::jobs::ToLedger;
use crate::mail::{Inlet, Office};
use crate::model::{Instance, InstanceId, MachineView, PoolSpec};
use crate::pool::ToPool;
use crate::ports::Controller;
use crate::registry::Taken;
use crate::supervise::Leash;

/// Tells how an owner comes to its instance.
pub(crate) enum Birth {
    /// A new wish.
    New(InstanceId),
    /// A stored row: after a restart, or after its owner died.
    Row(Box<Instance>),
    /// A machine of ours that had no record.
    Adopted(InstanceId, MachineView),
}

/// Holds what an owner is connected to.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) base: Base,
    pub(crate) kit: Kit,
    pub(crate) controller: Arc<Controller>,
    pub(crate) spec: Arc<PoolSpec>,
    pub(crate) pool: Office<ToPool>,
    pub(crate) ledger: Office<ToLedger>,
}

/// A started child: how to reach it, and the leash that halts it when dropped.
pub(crate) struct Child {
    pub(crate) inlet: Inlet<ToInstance>,
    pub(crate) leash: Leash,
}

/// Starts the owner of an instance; its end is told to the pool as `Died`.
pub(crate) fn start(_birth: Birth, _links: Links) -> Result<Child, Taken> {
    unimplemented!()
}
