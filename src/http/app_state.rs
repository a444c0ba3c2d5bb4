//! What the handlers share.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::ActorRef;
use ostler_actors::model::{ControllerId, ForgeId, Policy, PoolId, Scope};
use ostler_actors::ports::{Clock, Inbox, Records};
use ostler_actors::registry::Registry;

use super::api::EventStream;
use super::follow::Forgotten;
use super::gate::Gate;
use super::runner::{Boot, MachineAuths};
use crate::config::Config;
use crate::ports::{CallHealth, ForgeServices, ForgeWebhooks, History, SaveHealth, Status};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::notify::Sources;
use crate::telemetry::waits::Waits;
use crate::tokens::Tokens;

/// Holds what handlers may see, and the inbox. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct AppState {
    pub(super) inbox: Arc<dyn Inbox>,
    pub(super) records: Arc<dyn Records>,
    pub(super) history: Arc<dyn History>,
    pub(super) saves: SaveHealth,
    /// The schema version of the store.
    pub(super) schema: usize,
    pub(super) fleet: ActorRef<ToFleet>,
    pub(super) registry: Arc<Registry>,
    pub(super) status: Arc<Status>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) machine_auth: MachineAuths,
    /// The configuration in force.
    pub(super) config: Arc<ArcSwap<Config>>,
    /// The forges of that configuration.
    pub(super) forges: Arc<ArcSwap<BTreeMap<ForgeId, ForgeServices>>>,
    pub(super) gate: Arc<Gate>,
    pub(super) event_stream: Arc<EventStream>,
    pub(super) waits: Arc<Waits>,
    pub(super) forgotten: Arc<Forgotten>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) provider_health: Arc<CallHealth>,
    /// This installation.
    pub(super) controller: ControllerId,
    pub(super) started_at: Timestamp,
    /// The forges that may deliver; none while no delivery is taken.
    webhook_targets: Arc<ArcSwapOption<BTreeMap<String, Arc<WebhookTarget>>>>,
    /// What checks the tokens of machines.
    pub(super) tokens: Option<Tokens>,
    /// What machines are set up with, by pool; those of pools that went are kept.
    boots: Arc<ArcSwap<BTreeMap<String, Arc<Boot>>>>,
}

/// What an [`AppState`] is made of.
pub struct Parts {
    pub inbox: Arc<dyn Inbox>,
    pub records: Arc<dyn Records>,
    pub history: Arc<dyn History>,
    pub saves: SaveHealth,
    /// The schema version of the store.
    pub schema: usize,
    /// The way to the fleet.
    pub fleet: ActorRef<ToFleet>,
    /// The board.
    pub registry: Arc<Registry>,
    /// What the daemon says about itself.
    pub status: Arc<Status>,
    /// The date.
    pub clock: Arc<dyn Clock>,
    /// The configuration at the start.
    pub config: Arc<Config>,
    /// This installation.
    pub controller: ControllerId,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Tells whether a forge of this name may deliver.
pub(super) enum WebhookSource {
    Known(Arc<WebhookTarget>),
    /// No forge of this name sends webhooks here.
    Unknown,
    /// Deliveries are not taken now, whatever the forge.
    Shut,
}

/// What a delivery of one forge is judged by.
pub(super) struct WebhookTarget {
    pub(super) forge: ForgeId,
    pub(super) webhooks: Arc<dyn ForgeWebhooks>,
    pub(super) scopes: Vec<Scope>,
}

impl AppState {
    /// Creates the state; no forge may deliver yet.
    pub fn new(parts: Parts) -> Self {
        let Parts { inbox, records, history, saves, schema, .. } = parts;
        let Parts { fleet, registry, status, clock, config, controller, metrics, .. } = parts;
        let started_at = clock.now();
        Self {
            inbox,
            records,
            history,
            saves,
            schema,
            fleet,
            registry,
            status,
            clock,
            gate: Arc::new(Gate::new(&config.http)),
            config: Arc::new(ArcSwap::new(config)),
            forges: Arc::default(),
            event_stream: Arc::default(),
            waits: Arc::default(),
            forgotten: Arc::default(),
            metrics,
            provider_health: Arc::default(),
            controller,
            started_at,
            machine_auth: MachineAuths::default(),
            webhook_targets: Arc::default(),
            tokens: None,
            boots: Arc::default(),
        }
    }

    /// Lets machines call home that prove themselves with one of these tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Tokens) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Lets the forges of a configuration deliver: for its pools, and for `left`, where runners
    /// of removed pools are left.
    pub fn open(
        &self,
        config: &Arc<Config>,
        forges: BTreeMap<ForgeId, ForgeServices>,
        left: &[(ForgeId, Scope)],
    ) {
        let target = |(id, forge): (&ForgeId, &ForgeServices)| {
            let webhooks = Arc::clone(forge.webhooks.as_ref()?);
            let pools = config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let left = left.iter().filter(|(forge, _)| forge == id).map(|(_, scope)| scope);
            let scopes = pools.map(|pool| &pool.scope).chain(left).cloned().collect();
            let target = WebhookTarget { forge: id.clone(), webhooks, scopes };
            Some((id.as_str().to_owned(), Arc::new(target)))
        };
        let targets = forges.iter().filter_map(target).collect();
        self.webhook_targets.store(Some(Arc::new(targets)));
        for pool in &config.pools {
            self.metrics.know_pool(&pool.name);
        }
        for forge in forges.keys() {
            self.metrics.know_forge(forge.as_str());
        }
        // A machine of a pool that was just removed may be on its way here.
        let mut boots = (**self.boots.load()).clone();
        boots.extend(Boot::all(config, &forges));
        self.boots.store(Arc::new(boots));
        self.config.store(Arc::clone(config));
        self.forges.store(Arc::new(forges));
    }

    /// Returns the providers that review the tokens of machines.
    pub fn machine_auth(&self) -> &MachineAuths {
        &self.machine_auth
    }

    /// Returns where the calls to providers are reported.
    pub fn provider_health(&self) -> &Arc<CallHealth> {
        &self.provider_health
    }

    /// Takes no deliveries any more: the sender keeps them and is asked later.
    pub fn shut(&self) {
        self.webhook_targets.store(None);
    }

    /// Returns what the notifier looks at.
    pub fn sights(&self) -> Sources {
        let app_state = self.clone();
        Sources {
            registry: Arc::clone(&self.registry),
            records: Arc::clone(&self.records),
            status: Arc::clone(&self.status),
            now: {
                let clock = Arc::clone(&self.clock);
                Arc::new(move || clock.now())
            },
            config: Arc::clone(&self.config),
            leaks: Arc::new(move || app_state.leaks()),
        }
    }

    /// Returns what the machines of a pool are set up with.
    pub(super) fn boot(&self, pool: &str) -> Option<Arc<Boot>> {
        self.boots.load().get(pool).cloned()
    }

    /// Ends the readings of events, which would otherwise outlast the daemon.
    pub fn end_readings(&self) {
        self.event_stream.close();
    }

    /// Looks at the deadlines of a pool; the documented ones for a pool that left the configuration.
    pub(super) fn with_policy<T>(&self, pool: &PoolId, look: impl FnOnce(&Policy) -> T) -> T {
        let config = self.config.load();
        match config.pools.iter().find(|written| written.name == pool.as_str()) {
            Some(written) => look(&written.policy),
            None => look(&Policy::default()),
        }
    }

    pub(super) fn webhook_source(&self, forge: &str) -> WebhookSource {
        match &*self.webhook_targets.load() {
            None => WebhookSource::Shut,
            Some(targets) => targets
                .get(forge)
                .map_or(WebhookSource::Unknown, |target| WebhookSource::Known(Arc::clone(target))),
        }
    }
}
