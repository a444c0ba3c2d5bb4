//! What a daemon is handed: the ports, the pools, and where to report.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Plan;
use crate::Base;
use crate::fleet::ToFleet;
use crate::instance::Capabilities;
use crate::mail::Mailbox;
use crate::model::{Epoch, ForgeId, PoolSpec, ProviderId};
use crate::ports::{Forge, Inbox, Inventory, JobRows, PoolRows, Provider, Records, Roster};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::testing::{Shared, SimChance, SimForge, SimProvider, SimSeal, SimSpawner, SimStore};

/// Starts a daemon inside the world's set of tasks and returns the way into it.
pub type Daemon = dyn Fn(SimPorts) -> Mailbox<ToFleet>;

/// Holds everything a daemon stands on.
pub struct SimPorts {
    /// Clock, chance, spawner, records, a fresh registry, and the epoch.
    pub base: Base,
    /// The doing halves, for instances.
    pub capabilities: Capabilities,
    pub rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    pub inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    /// Job rows, for the ledger.
    pub jobs: Arc<dyn JobRows>,
    /// Pool rows, for the fleet.
    pub pools: Arc<dyn PoolRows>,
    pub inbox: Arc<dyn Inbox>,
    /// The pools of the config.
    pub specs: Vec<PoolSpec>,
    /// How often the sweeps look.
    pub settings: Settings,
    /// The truth itself, for daemons that are doubles too.
    pub truth: Arc<Shared>,
}

impl SimPorts {
    pub(super) fn new(shared: &Arc<Shared>, plan: &Plan, epoch: Epoch) -> Self {
        let store = Arc::new(SimStore::new(Arc::clone(shared)));
        let (clock, forge_id) = {
            let outside = shared.lock();
            (outside.clock, outside.forge.id.clone())
        };
        let base = Base {
            clock: Arc::new(clock),
            chance: Arc::new(SimChance(Arc::clone(shared))),
            spawner: Arc::new(SimSpawner),
            records: Arc::clone(&store) as Arc<dyn Records>,
            registry: Arc::new(Registry::default()),
            epoch,
        };
        let forge = Arc::new(SimForge::new(Arc::clone(shared)));
        let providers: Vec<(ProviderId, Arc<SimProvider>)> = plan
            .providers
            .iter()
            .enumerate()
            .map(|(index, (id, _))| {
                (id.clone(), Arc::new(SimProvider::new(Arc::clone(shared), index)))
            })
            .collect();
        let doing = |(id, it): &(ProviderId, Arc<SimProvider>)| {
            (id.clone(), Arc::clone(it) as Arc<dyn Provider>)
        };
        let seeing = |(id, it): &(ProviderId, Arc<SimProvider>)| {
            (id.clone(), Arc::clone(it) as Arc<dyn Inventory>)
        };
        Self {
            base,
            capabilities: Capabilities::new(
                providers.iter().map(doing).collect(),
                BTreeMap::from([(forge_id.clone(), Arc::clone(&forge) as Arc<dyn Forge>)]),
                Arc::clone(&store) as _,
                Arc::new(SimSeal),
            ),
            rosters: BTreeMap::from([(forge_id, forge as Arc<dyn Roster>)]),
            inventories: providers.iter().map(seeing).collect(),
            jobs: Arc::clone(&store) as _,
            pools: Arc::clone(&store) as _,
            inbox: store,
            specs: plan.pools.clone(),
            settings: plan.settings.clone(),
            truth: Arc::clone(shared),
        }
    }
}
