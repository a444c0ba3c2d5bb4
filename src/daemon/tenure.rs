//! One tenure: the lease is ours, a fleet runs under it, until the one or the other ends.

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::Base;
use ostler_actors::fleet::{self, FleetEnd, ToFleet};
use ostler_actors::model::PoolSpec;
use ostler_actors::{instance, jobs};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::adapters::{Adapters, recall_places};
use super::chores::Chores;
use super::ground::LeasedSpawner;
use super::reload::Edit;
use super::{Daemon, Stage, StartError, stopped};
use crate::config::watch::News;
use crate::store::{Lease, Tenure as Standing};

/// How long an orderly end may take before it is cut short.
const ORDERLY: Duration = Duration::from_secs(20);
/// How long a fleet that lost its lease may take before it is told again.
const AGAIN: Duration = Duration::from_secs(1);
/// How often schedules are looked at.
const SCHEDULES: Duration = Duration::from_secs(30);

/// Tells how a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The daemon was asked to stop; the lease was given back.
    Asked,
    /// Somebody else holds the lease.
    Lost,
    /// The fleet died again and again.
    Hopeless,
}

/// Tells why the fleet of a tenure is no longer waited for.
enum Turn {
    /// It ended.
    Ended(FleetEnd),
    /// It must be started again with other adapters.
    Rebuild,
    /// The daemon stops.
    Stop,
    /// The lease is lost.
    Lost,
}

/// The lease, and what is needed to act under it.
pub(super) struct Tenure {
    lease: Arc<Lease>,
    standing: watch::Receiver<Standing>,
    threads: Handle,
}

impl Tenure {
    pub(super) fn new(lease: Lease, threads: Handle) -> Self {
        let standing = lease.watch();
        Self { lease: Arc::new(lease), standing, threads }
    }

    /// Runs fleets until the tenure is over.
    pub(super) async fn run(
        mut self,
        daemon: &mut Daemon,
        news: &mut mpsc::Receiver<News>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Over, StartError> {
        // Others may have led since: what an earlier tenure of ours showed may be long gone.
        daemon.registry.clear_ownerless();
        loop {
            let adapters = Adapters::build(&daemon.config, daemon.forges.clone())?;
            recall_places(&daemon.store, &daemon.forges).await;
            let pools = daemon.config.pool_specs(daemon.clock.now());
            let chores = Chores::begin(daemon, &adapters);
            let mut fleet = self.start_fleet(daemon, &adapters, pools.clone());
            let turn = self.watch_over(daemon, news, stop, &mut fleet, pools).await;
            drop(chores);
            match turn {
                Turn::Ended(end) => return Ok(end.into()),
                Turn::Rebuild => {
                    info!("starting the fleet again with other forges or providers");
                    end_orderly(daemon, fleet).await;
                }
                Turn::Stop => {
                    daemon.status.enter(Stage::Stopping);
                    daemon.doors.shut();
                    end_orderly(daemon, fleet).await;
                    self.give_back().await;
                    return Ok(Over::Asked);
                }
                Turn::Lost => {
                    // A fleet that is just being started again does not hear it.
                    loop {
                        let _: Result<(), _> = daemon.office.tell(ToFleet::Fenced);
                        if tokio::time::timeout(AGAIN, &mut fleet).await.is_ok() {
                            return Ok(Over::Lost);
                        }
                    }
                }
            }
        }
    }

    fn start_fleet(
        &self,
        daemon: &Daemon,
        adapters: &Adapters,
        pools: Vec<PoolSpec>,
    ) -> JoinHandle<FleetEnd> {
        let store = Arc::new(daemon.store.clone());
        let spawner = LeasedSpawner::new(self.threads.clone(), Arc::clone(&self.lease));
        let base = Base {
            clock: Arc::clone(&daemon.clock),
            chance: Arc::clone(&daemon.chance),
            spawner: Arc::new(spawner),
            records: Arc::clone(&store) as _,
            registry: Arc::clone(&daemon.registry),
            epoch: self.lease.epoch(),
        };
        let ports = fleet::Ports {
            base,
            instances: instance::Kit::new(
                adapters.providers.clone(),
                adapters.doing_forges(),
                Arc::clone(&store) as _,
                Arc::clone(&daemon.seal) as _,
            ),
            jobs: jobs::Kit::new(Arc::clone(&store) as _),
            pools: fleet::Kit::new(store as _),
            inventories: adapters.inventories(),
            rosters: adapters.rosters(),
            settings: daemon.config.settings(),
        };
        actix_rt::spawn(fleet::keep(ports, pools, daemon.office.clone()))
    }

    /// Waits for whatever ends this fleet; tells it of edits and schedules meanwhile.
    async fn watch_over(
        &mut self,
        daemon: &mut Daemon,
        news: &mut mpsc::Receiver<News>,
        stop: &mut watch::Receiver<bool>,
        fleet: &mut JoinHandle<FleetEnd>,
        mut pools: Vec<PoolSpec>,
    ) -> Turn {
        let mut schedules = tokio::time::interval(SCHEDULES);
        loop {
            tokio::select! {
                end = &mut *fleet => return Turn::Ended(end.unwrap_or(FleetEnd::Hopeless)),
                () = stopped(stop) => return Turn::Stop,
                lost = self.standing.wait_for(|standing| *standing == Standing::Lost) => {
                    drop(lost);
                    return Turn::Lost;
                }
                Some(news) = news.recv() => {
                    if daemon.take_news(news) == Edit::Adapters {
                        return Turn::Rebuild;
                    }
                }
                _ = schedules.tick() => {}
            }
            let now = daemon.config.pool_specs(daemon.clock.now());
            if now != pools {
                pools.clone_from(&now);
                let _: Result<(), _> = daemon.office.tell(ToFleet::Apply(now));
            }
        }
    }

    async fn give_back(self) {
        // The spawner of a fleet that was cut short may still hold on to it; then it lapses.
        let Ok(lease) = Arc::try_unwrap(self.lease) else {
            warn!("the lease is still in use and lapses by itself");
            return;
        };
        if let Err(why) = lease.release().await {
            warn!("the lease could not be given back and lapses by itself: {why}");
        }
    }
}

/// Ends a fleet: calls under way may finish, no machine is touched.
async fn end_orderly(daemon: &Daemon, mut fleet: JoinHandle<FleetEnd>) {
    let asked = daemon.office.ask(ToFleet::Shutdown, ORDERLY).await;
    if let Err(why) = asked {
        warn!("the fleet did not end in time and is cut short: {why}");
    }
    if tokio::time::timeout(ORDERLY, &mut fleet).await.is_err() {
        fleet.abort();
    }
}
