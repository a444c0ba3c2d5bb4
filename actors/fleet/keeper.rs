//! What a fleet is given, and who starts it again when it dies.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::error;

use super::{ToFleet, actor};
use crate::base::Base;
use crate::mail::ActorRef;
use crate::model::{ForgeId, MachineName, MachineView, PoolSpec, ProviderId};
use crate::ports::{Inventory, MachineSink, PoolRows, Roster, Watching};
use crate::settings::Settings;
use crate::supervise::Restarts;
use crate::{instance, jobs};

/// Everything a fleet is given. The doing halves travel in closed boxes.
#[derive(Clone)]
pub struct Ports {
    /// What every actor needs.
    pub base: Base,
    /// For owners of instances only.
    pub instances: instance::Capabilities,
    /// For the ledger only.
    pub jobs: jobs::JobCapabilities,
    /// For the fleet only.
    pub pools: PoolCapabilities,
    /// The seeing halves of the providers.
    pub inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    /// The seeing halves of the forges.
    pub rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    /// How often the sweeps look.
    pub settings: Settings,
}

/// Holds the writing half of pool rows; its field is private to `fleet/`, so that the fleet alone
/// writes them.
#[derive(Clone)]
pub struct PoolCapabilities {
    pub(super) rows: Arc<dyn PoolRows>,
}

impl PoolCapabilities {
    pub fn new(rows: Arc<dyn PoolRows>) -> Self {
        Self { rows }
    }
}

/// Tells how a fleet came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetEnd {
    /// It was asked to shut down, and did.
    Shutdown,
    /// It died; it is started again.
    Died,
    /// Another daemon holds the lease and writes the records: this one may do nothing more.
    Fenced,
    /// It, or its ledger, died too often: end the process with code 70.
    Hopeless,
}

/// Starts a fleet and keeps it alive until it shuts down, is fenced or is hopeless. Must run on a
/// `LocalSet`; messages go through `actor_ref`.
pub async fn keep(ports: Ports, pools: Vec<PoolSpec>, actor_ref: ActorRef<ToFleet>) -> FleetEnd {
    // The watches end with this call, however it ends: the next fleet of this process starts its own.
    let watches = ports.inventories.iter().map(|(provider, inventory)| {
        inventory
            .watch(Arc::new(FleetSink { provider: provider.clone(), fleet: actor_ref.clone() }))
    });
    let _watches: Vec<Watching> = watches.collect();
    let (config, _) = watch::channel(Arc::new(pools));
    let (fleet_exits, mut ends) = mpsc::unbounded_channel();
    let mut restarts = Restarts::default();
    loop {
        let stop_guard =
            actor::start(ports.clone(), config.clone(), actor_ref.clone(), fleet_exits.clone());
        let Some((end, at)) = ends.recv().await else { return FleetEnd::Hopeless };
        stop_guard.release();
        if end != FleetEnd::Died {
            return end;
        }
        let wait = restarts.count(at);
        if restarts.hopeless() {
            error!("the fleet died too often; ending with code 70");
            return FleetEnd::Hopeless;
        }
        error!("the fleet died and is started again");
        tokio::time::sleep(wait).await;
    }
}

/// Passes what one provider's watch sees to the fleet.
struct FleetSink {
    provider: ProviderId,
    fleet: ActorRef<ToFleet>,
}

impl MachineSink for FleetSink {
    fn seen(&self, view: MachineView) {
        // A lost sighting is found again by the next listing.
        let _: Result<(), _> = self.fleet.tell(ToFleet::Seen(self.provider.clone(), view));
    }

    fn missed(&self, machine: MachineName) {
        let _: Result<(), _> = self.fleet.tell(ToFleet::Missed(self.provider.clone(), machine));
    }
}
