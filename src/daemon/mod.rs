//! The composition root: configuration, store, adapters, fleet, servers, and an orderly end.
//!
//! ```text
//!   open the store ─▶ serve HTTP ────▶ wait for the lease ─▶ adapters ─▶ fleet
//!                                          ▲    standby                    │
//!                                          └────────── lease lost ─────────┤
//!   SIGTERM: no deliveries, calls finish, lease given back, no machine touched ◀┘
//! ```
//!
//! HTTP is served before the lease is held: a standby takes webhooks too, durably, and the leader
//! finds them in the inbox. A reload that changes pools alone is told to the fleet; one that changes
//! forges or providers makes the new ones first, then ends the fleet in the orderly way and starts
//! it again with them, which is safe because a restart touches no machine. What cannot be made
//! changes nothing.
//!
//! At its start the daemon is strict: what it cannot have ends it with an error. Later it
//! outlasts what is away for a while, standing by.

mod adapters;
mod apply_config;
mod background_tasks;
mod leadership;
mod machine_upkeep;
mod metered_provider;
mod reload;
mod service;
mod standby;
mod system;
pub mod tools;

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::fleet::{FleetEnd, ToFleet};
use ostler_actors::mail::ActorRef;
use ostler_actors::model::{ForgeId, ProviderId, Scope};
use ostler_actors::ports::{Chance, Clock, Provider, Records as _};
use ostler_actors::registry::Registry;
use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

pub use adapters::{forge_services, provider_capabilities};
pub use service::Service;
pub use system::{on_system, stop_on_signal};

use crate::config::watch::ConfigChange;
use crate::config::{Config, Loaded, Synchronous, trace_collector};
use crate::errors::chain;
use crate::http::{self, AppState, Following, Parts};
use crate::ports::{Stage, Status};
use crate::providers::OpenContext;
use crate::store;
use crate::store::{AesSeal, Durability, Options, SealError, SqlStore};
use crate::telemetry::chronicle::Listener;
use crate::telemetry::metrics::{Metrics, Recorder};
use crate::telemetry::{notify, traces};
use crate::tokens::Tokens;
use adapters::{Forges, Lent};
use apply_config::Deferred;
use leadership::{Leadership, Over};
use system::{SystemChance, SystemClock};

/// How long the servers may take to finish what they answer.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long one who could not act stands back before he tries again.
const STAND_BACK: Duration = Duration::from_secs(5);

/// Tells why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot open the store")]
    Store(#[from] store::OpenError),
    /// The key that seals.
    #[error("cannot seal secrets")]
    Seal(#[from] SealError),
    #[error(
        "cannot make `daemon.state_dir` = `{path}`; it must be a directory this daemon can write to"
    )]
    StateDir {
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    AppState(#[from] http::NoServer),
    #[error("forge `{name}` cannot be used")]
    Forge {
        name: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("provider `{name}` cannot be used")]
    Provider {
        name: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The provider would not take the machines of a pool.
    #[error("the provider refuses the machines of pool `{pool}`: {why}")]
    Pool { pool: String, why: String },
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    #[error("cannot take the lease")]
    Lease(#[source] store::OpenError),
    #[error("cannot read the records")]
    Records(#[source] ostler_actors::ports::StoreError),
}

/// Tells how the daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// The fleet died again and again: end the process with code 70.
    Hopeless,
}

/// A daemon that serves HTTP and is ready to lead.
pub struct Daemon {
    config: Arc<Config>,
    /// The forges of that configuration.
    forges: Forges,
    /// Providers that stand in for configured ones.
    lent: Lent,
    /// Where runners may be left of pools that are configured no more.
    left: Vec<(ForgeId, Scope)>,
    /// The last edit, where it waits for what stands in its way to pass.
    deferred: Option<Deferred>,
    /// Whether nothing but the start was tried yet: then what fails ends the daemon.
    starting: bool,
    store: SqlStore,
    seal: Arc<AesSeal>,
    clock: Arc<dyn Clock>,
    chance: Arc<dyn Chance>,
    actor_ref: ActorRef<ToFleet>,
    registry: Arc<Registry>,
    status: Arc<Status>,
    service: Service,
    app_state: AppState,
    server: http::Server,
    following: Following,
    metrics: Arc<Metrics>,
}

impl Daemon {
    /// Opens the store and the HTTP server. Must be called on an actix system.
    pub async fn open(loaded: Loaded, service: Service) -> Result<Self, StartError> {
        let config = Arc::new(loaded.config);
        let state_dir = &config.daemon.state_dir;
        std::fs::create_dir_all(state_dir)
            .map_err(|source| StartError::StateDir { path: state_dir.clone(), source })?;
        let durability = match config.store.synchronous {
            Synchronous::Full => Durability::Full,
            Synchronous::Normal => Durability::Normal,
        };
        let metrics = Arc::<Metrics>::default();
        let observer: Arc<dyn Fn(store::Commit) + Send + Sync> = {
            let metrics = Arc::clone(&metrics);
            Arc::new(move |commit| metrics.count_commit(commit.size, commit.took))
        };
        let options = Options { durability, observer: Some(observer), ..Options::default() };
        let store = SqlStore::open(config.store.url.expose(), options).await?;
        let seal = match config.store.sealing_key() {
            Some(key) => AesSeal::from_config(&key)?,
            None => AesSeal::from_state_dir(state_dir)?,
        };
        let (actor_ref, registry) = (ActorRef::default(), Arc::<Registry>::default());
        let status = Arc::<Status>::default();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::begin());
        let chance: Arc<dyn Chance> = Arc::new(SystemChance);
        let forges = Forges::build(&config, &clock, &chance)?;
        let live = store.live_instances(None).await.map_err(StartError::Records)?;
        let left = reload::scopes_left(&live);
        let controller = store.controller().await.map_err(StartError::Records)?;
        let app_state = AppState::new(Parts {
            inbox: Arc::new(store.clone()),
            records: Arc::new(store.clone()),
            history: Arc::new(store.clone()),
            saves: store.health(),
            schema: store::SCHEMA,
            fleet: actor_ref.clone(),
            registry: Arc::clone(&registry),
            status: Arc::clone(&status),
            clock: Arc::clone(&clock),
            config: Arc::clone(&config),
            controller: controller.id.clone(),
            metrics: Arc::clone(&metrics),
        })
        .with_tokens(machine_tokens(&seal));
        app_state.open(&config, forges.services(), &left);
        let server = http::serve(&config.http, &app_state)?;
        let recorder = Recorder::new(
            Arc::clone(&metrics),
            Arc::clone(&registry),
            Arc::new(store.clone()),
            Arc::clone(&status),
        );
        let (ear, telling) = notify::notifier(app_state.sights());
        let mut listeners: Vec<Box<dyn Listener>> = vec![Box::new(recorder), Box::new(ear)];
        let tracing = trace_collector().map(|collector| {
            let records = Arc::new(store.clone());
            traces::tracer(collector, controller.id.to_string(), records, Arc::clone(&status))
        });
        let (tracer, sending) = tracing.unzip();
        listeners.extend(tracer.map(|ear| Box::new(ear) as Box<dyn Listener>));
        let telling = async move {
            let sending = futures_util::future::OptionFuture::from(sending);
            futures_util::future::join(telling, sending).await;
        };
        let following = app_state.follow(listeners, telling);
        Ok(Self {
            metrics,
            following,
            config,
            forges,
            lent: Lent::new(),
            left,
            deferred: None,
            starting: true,
            store,
            seal: Arc::new(seal),
            clock,
            chance,
            actor_ref,
            registry,
            status,
            service,
            app_state,
            server,
        })
    }

    /// Lets a provider stand in for the configured one of its name: benchmarks run the whole daemon
    /// with more machines than one computer can carry.
    pub fn lend(&mut self, name: ProviderId, provider: Arc<dyn Provider>) {
        self.lent.insert(name, provider);
    }

    /// Returns what providers of a configuration may use, with the forges of that configuration.
    fn open_context<'a>(&self, config: &'a Config, forges: &Forges) -> OpenContext<'a> {
        let services = forges.services().into_iter();
        OpenContext {
            config,
            forge_pages: services.map(|(id, forge)| (id, forge.web_url)).collect(),
            tokens: machine_tokens(&self.seal),
            records: Some((Arc::new(self.store.clone()), Arc::new(self.store.clone()))),
        }
    }

    /// Returns the URL of the HTTP server.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns the address of the HTTP server.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the board, for those who run in this process.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the way to the fleet, for those who run in this process.
    pub fn actor_ref(&self) -> &ActorRef<ToFleet> {
        &self.actor_ref
    }

    /// Returns the records, for those who run in this process.
    pub fn store(&self) -> &SqlStore {
        &self.store
    }

    /// Runs until it is asked to stop or is hopeless.
    pub async fn run(
        mut self,
        mut config_changes: mpsc::Receiver<ConfigChange>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Ended, StartError> {
        let informing = actix_rt::spawn(service::inform(
            self.service.clone(),
            self.status.follow(),
            self.actor_ref.clone(),
            Arc::new(self.store.clone()),
        ));
        let mut ended = Ok(Ended::Asked);
        loop {
            self.status.enter(Stage::Standby);
            let leadership = match self.stand_by(&mut config_changes, &mut stop).await {
                Ok(Some(lease)) => Leadership::new(lease, tokio::runtime::Handle::current()),
                Ok(None) => break,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            };
            match leadership.run(&mut self, &mut config_changes, &mut stop).await {
                Ok(Over::Lost) => error!("the lease is lost; standing by"),
                Ok(Over::Asked) => break,
                Ok(Over::Hopeless) => {
                    ended = Ok(Ended::Hopeless);
                    break;
                }
                Err(error) if self.starting => {
                    ended = Err(error);
                    break;
                }
                Err(error) => {
                    warn!("cannot act now, standing by: {}", chain(&error));
                    self.status.config(Some(chain(&error)));
                    self.status.enter(Stage::Standby);
                    tokio::select! {
                        () = tokio::time::sleep(STAND_BACK) => {}
                        () = stopped(&mut stop) => {}
                    }
                }
            }
        }
        self.status.enter(Stage::Stopping);
        // It ends by itself, once it has told that we stop.
        drop(informing.await);
        self.app_state.shut();
        self.app_state.end_readings();
        self.server.stop(LAST_ANSWERS).await;
        drop(self.following);
        self.store.close().await;
        info!("stopped; no machine was touched");
        ended
    }
}

/// Returns what creates and checks the tokens of machines.
fn machine_tokens(seal: &AesSeal) -> Tokens {
    Tokens::new(&seal.key_for("runner tokens, version 1"))
}

/// Waits until the daemon shall stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is gone: nothing could ask to stop any more, so that counts as asking.
    drop(stop.wait_for(|stop| *stop).await);
}

impl From<FleetEnd> for Over {
    fn from(end: FleetEnd) -> Self {
        match end {
            FleetEnd::Shutdown => Self::Asked,
            FleetEnd::Fenced => Self::Lost,
            FleetEnd::Died | FleetEnd::Hopeless => Self::Hopeless,
        }
    }
}
