//! One leadership: the lease is ours, a fleet runs under it, until the one or the other ends.

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

use super::adapters::{Providers, try_new_pools};
use super::background_tasks::BackgroundTasks;
use super::machine_upkeep::MachineUpkeep;
use super::metered_provider::{self, Meter};
use super::system::LeasedSpawner;
use super::{Daemon, StartError, stopped};
use crate::config::watch::ConfigChange;
use crate::ports::Stage;
use crate::store::{Lease, LeaseStatus};

/// How long an orderly end may take before it is cut short.
const ORDERLY: Duration = Duration::from_secs(20);
/// How long a fleet whose lease is lost may take to end: it may not act any more.
const LOST_LEASE_STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How often schedules are looked at, and an edit is tried again that had to wait.
const SCHEDULES: Duration = Duration::from_secs(30);

/// Tells how a leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The daemon was asked to stop; the lease was given back.
    Asked,
    /// Another daemon holds the lease.
    Lost,
    /// The fleet died again and again.
    Hopeless,
}

/// Tells why the fleet of a leadership is no longer waited for.
enum NextStep {
    Ended(FleetEnd),
    /// It must be started again with other forges, with these providers.
    Rebuild(Providers),
    Stop,
    /// The lease is lost.
    Lost,
}

/// The lease, and what is needed to act under it.
pub(super) struct Leadership {
    lease: Arc<Lease>,
    status: watch::Receiver<LeaseStatus>,
    threads: Handle,
}

impl Leadership {
    pub(super) fn new(lease: Lease, threads: Handle) -> Self {
        let status = lease.watch();
        Self { lease: Arc::new(lease), status, threads }
    }

    /// Runs fleets until the leadership is over.
    pub(super) async fn run(
        mut self,
        daemon: &mut Daemon,
        config_changes: &mut mpsc::Receiver<ConfigChange>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Over, StartError> {
        let context = daemon.open_context(&daemon.config, &daemon.forges);
        let opened = match Providers::build(&context, &daemon.lent) {
            Ok(providers) => {
                let tried = try_new_pools(&context, None, daemon.clock.now()).await;
                tried.map(|()| providers)
            }
            Err(error) => Err(error),
        };
        let mut providers = match opened {
            Ok(providers) => providers,
            Err(error) => {
                self.give_back().await;
                return Err(error);
            }
        };
        daemon.starting = false;
        daemon.status.enter(Stage::Leading);
        daemon.accept_webhooks().await;
        // Others may have led since: what an earlier leadership of ours showed may be long gone.
        daemon.registry.clear_ownerless();
        loop {
            providers.before_fleet();
            daemon.forges.recall_places(&daemon.store).await;
            let pools = daemon.config.pool_specs(daemon.clock.now());
            let background_tasks = BackgroundTasks::begin(daemon);
            let machine_upkeep = MachineUpkeep::begin(daemon, &providers);
            let machine_auth = providers.capable(|it| it.machine_auth);
            let reviewing = daemon.app_state.machine_auth().open(machine_auth);
            let mut fleet = self.start_fleet(daemon, &providers, pools.clone());
            let turn = self.watch_over(daemon, config_changes, stop, &mut fleet, pools).await;
            drop((background_tasks, machine_upkeep, reviewing));
            match turn {
                NextStep::Ended(end) => return Ok(end.into()),
                NextStep::Rebuild(next) => {
                    info!("starting the fleet again with other forges or providers");
                    end_orderly(daemon, fleet).await;
                    providers = next;
                }
                NextStep::Stop => {
                    daemon.status.enter(Stage::Stopping);
                    daemon.app_state.shut();
                    end_orderly(daemon, fleet).await;
                    self.give_back().await;
                    return Ok(Over::Asked);
                }
                NextStep::Lost => {
                    let _: Result<(), _> = daemon.actor_ref.tell(ToFleet::Fenced);
                    end_soon(fleet, stop).await;
                    return Ok(Over::Lost);
                }
            }
        }
    }

    fn start_fleet(
        &self,
        daemon: &Daemon,
        providers: &Providers,
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
        let meter = Meter {
            metrics: Arc::clone(&daemon.metrics),
            health: Arc::clone(daemon.app_state.provider_health()),
            clock: Arc::clone(&daemon.clock),
        };
        let ports = fleet::Ports {
            base,
            instances: instance::Capabilities::new(
                metered_provider::doing(providers.doing(), &meter),
                daemon.forges.doing(),
                Arc::clone(&store) as _,
                Arc::clone(&daemon.seal) as _,
            ),
            jobs: jobs::JobCapabilities::new(Arc::clone(&store) as _),
            pools: fleet::PoolCapabilities::new(store as _),
            inventories: metered_provider::seeing(providers.inventories(), &meter),
            rosters: daemon.forges.rosters(),
            settings: daemon.config.settings(),
        };
        actix_rt::spawn(fleet::keep(ports, pools, daemon.actor_ref.clone()))
    }

    /// Waits for whatever ends this fleet; tells it of edits and schedules meanwhile.
    async fn watch_over(
        &mut self,
        daemon: &mut Daemon,
        config_changes: &mut mpsc::Receiver<ConfigChange>,
        stop: &mut watch::Receiver<bool>,
        fleet: &mut JoinHandle<FleetEnd>,
        mut pools: Vec<PoolSpec>,
    ) -> NextStep {
        let mut schedules = tokio::time::interval(SCHEDULES);
        loop {
            tokio::select! {
                end = &mut *fleet => return NextStep::Ended(end.unwrap_or(FleetEnd::Hopeless)),
                () = stopped(stop) => return NextStep::Stop,
                lost = self.status.wait_for(|status| *status == LeaseStatus::Lost) => {
                    drop(lost);
                    return NextStep::Lost;
                }
                Some(config_changes) = config_changes.recv() => {
                    if let Some(providers) = daemon.apply_while_leading(config_changes).await {
                        return NextStep::Rebuild(providers);
                    }
                }
                _ = schedules.tick() => {
                    if let Some(providers) = daemon.try_again_leading().await {
                        return NextStep::Rebuild(providers);
                    }
                }
            }
            let now = daemon.config.pool_specs(daemon.clock.now());
            if now != pools {
                pools.clone_from(&now);
                let _: Result<(), _> = daemon.actor_ref.tell(ToFleet::Apply(now));
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

/// Ends a fleet that may not act any more; one that does not hear is cut short, and so is one
/// that the daemon would have to wait for when it shall stop.
async fn end_soon<T>(mut fleet: JoinHandle<T>, stop: &mut watch::Receiver<bool>) {
    tokio::select! {
        _ = &mut fleet => return,
        () = stopped(stop) => {}
        () = tokio::time::sleep(LOST_LEASE_STOP_TIMEOUT) => warn!("the fleet did not end by itself and is cut short"),
    }
    fleet.abort();
}

/// Ends a fleet: calls under way may finish, no machine is touched.
async fn end_orderly(daemon: &Daemon, mut fleet: JoinHandle<FleetEnd>) {
    let asked = daemon.actor_ref.ask(ToFleet::Shutdown, ORDERLY).await;
    if let Err(why) = asked {
        warn!("the fleet did not end in time and is cut short: {why}");
    }
    if tokio::time::timeout(ORDERLY, &mut fleet).await.is_err() {
        fleet.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fleet_that_does_not_hear_of_its_lost_lease_is_cut_short() {
        let (_say, mut stop) = watch::channel(false);
        let deaf = tokio::spawn(pending::<()>());
        let ended = deaf.abort_handle();
        let began = Instant::now();
        end_soon(deaf, &mut stop).await;
        assert_eq!(began.elapsed(), LOST_LEASE_STOP_TIMEOUT);
        tokio::task::yield_now().await;
        assert!(ended.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_shall_stop_does_not_wait_for_a_fenced_fleet() {
        let (say, mut stop) = watch::channel(false);
        say.send_replace(true);
        let began = Instant::now();
        end_soon(tokio::spawn(pending::<()>()), &mut stop).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
