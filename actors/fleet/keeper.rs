//! Keeps a fleet alive for as long as that makes sense.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tracing::error;

use super::sink::Sink;
use super::{Capabilities, ToFleet, actor};
use crate::base::Base;
use crate::mail::ActorRef;
use crate::model::{ForgeId, PoolSpec, ProviderId};
use crate::ports::{Inventory, Roster, Watching};
use crate::settings::Settings;
use crate::supervise::Restarts;
use crate::{instance, jobs};

/// Everything a fleet is given. The doing halves travel in closed boxes.
#[derive(Clone)]
pub struct Ports {
    /// What every actor stands on.
    pub base: Base,
    /// For owners of instances only.
    pub instances: instance::Capabilities,
    /// For the ledger only.
    pub jobs: jobs::Capabilities,
    /// For the fleet only.
    pub pools: Capabilities,
    /// The seeing halves of the providers.
    pub inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    /// The seeing halves of the forges.
    pub rosters: BTreeMap<ForgeId, Arc<dyn Roster>>,
    /// How often the sweeps look.
    pub settings: Settings,
}

/// Tells how a fleet came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetEnd {
    /// It was asked to shut down, and did.
    Shutdown,
    /// It died; it is started again.
    Died,
    /// A newer tenure writes the records: nothing more may be done by this one.
    Fenced,
    /// It, or its ledger, died too often: end the process with code 70.
    Hopeless,
}

/// Starts a fleet and keeps it alive until it shuts down, is fenced or is hopeless. Must run on a
/// `LocalSet`; letters go through `actor_ref`.
pub async fn keep(ports: Ports, pools: Vec<PoolSpec>, actor_ref: ActorRef<ToFleet>) -> FleetEnd {
    // They end with this call, however it ends: the next fleet of this process begins its own.
    let watches = ports.inventories.iter().map(|(provider, inventory)| {
        inventory.watch(Arc::new(Sink { provider: provider.clone(), fleet: actor_ref.clone() }))
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
        let wait = restarts.note(at);
        if restarts.hopeless() {
            error!("the fleet died too often; ending with code 70");
            return FleetEnd::Hopeless;
        }
        error!("the fleet died and is started again");
        tokio::time::sleep(wait).await;
    }
}
