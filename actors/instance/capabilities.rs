//! The tools only an instance's owner may use, in a box only `instance/` can open.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{ForgeId, ProviderId};
use crate::ports::{Forge, InstanceRows, Provider, Seal};

/// Holds the doing halves of provider, forge and store. Anyone may carry it; its fields are
/// private to `instance/`, so machines are made and deleted, runners registered and removed,
/// and instance rows written by owners alone.
///
/// ```compile_fail
/// fn reap(kit: &ostler_actors::instance::Kit) {
///     drop(&kit.providers); // private: a reaper cannot reach a machine
/// }
/// ```
#[derive(Clone)]
pub struct Capabilities {
    // Shared: every owner carries a kit.
    pub(super) providers: Arc<BTreeMap<ProviderId, Arc<dyn Provider>>>,
    pub(super) forges: Arc<BTreeMap<ForgeId, Arc<dyn Forge>>>,
    pub(super) rows: Arc<dyn InstanceRows>,
    pub(super) seal: Arc<dyn Seal>,
}

impl Capabilities {
    pub fn new(
        providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
        forges: BTreeMap<ForgeId, Arc<dyn Forge>>,
        rows: Arc<dyn InstanceRows>,
        seal: Arc<dyn Seal>,
    ) -> Self {
        Self { providers: Arc::new(providers), forges: Arc::new(forges), rows, seal }
    }
}
