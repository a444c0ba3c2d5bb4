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

use super::api::EventHub;
use super::follow::Forgotten;
use super::gate::Gate;
use super::runner::{Boot, Reviewers};
use crate::config::Config;
use crate::ports::Status;
use crate::github::GitHub;
use crate::github::webhook::Secrets;
use crate::ports::{History, SaveHealth};
use crate::store::SqlStore;
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
    pub(super) fleet: ActorRef<ToFleet>,
    pub(super) registry: Arc<Registry>,
    pub(super) status: Arc<Status>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reviewers: Reviewers,
    /// The configuration in force.
    pub(super) config: Arc<ArcSwap<Config>>,
    /// The forges of that configuration.
    pub(super) forges: Arc<ArcSwap<BTreeMap<ForgeId, GitHub>>>,
    pub(super) gate: Arc<Gate>,
    pub(super) event_hub: Arc<EventHub>,
    pub(super) waits: Arc<Waits>,
    pub(super) forgotten: Arc<Forgotten>,
    pub(super) metrics: Arc<Metrics>,
    /// This installation.
    pub(super) controller: ControllerId,
    pub(super) started_at: Timestamp,
    /// Who may deliver; nothing while nobody may.
    hooks: Arc<ArcSwapOption<BTreeMap<String, Arc<Hook>>>>,
    /// What checks the tokens of machines.
    pub(super) tokens: Option<Tokens>,
    /// What machines are set up with, by pool; those of pools that went are kept.
    boots: Arc<ArcSwap<BTreeMap<String, Arc<Boot>>>>,
}

/// What doors are made of.
pub struct Parts<'a> {
    /// The records.
    pub store: &'a SqlStore,
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

/// Tells who stands at the door.
pub(super) enum WebhookSource {
    /// A forge of ours.
    Known(Arc<Hook>),
    /// No forge of ours.
    Stranger,
    /// Whoever it is: nothing is taken now.
    Shut,
}

/// What is known about the sender of webhooks.
pub(super) struct Hook {
    pub(super) forge: ForgeId,
    pub(super) secrets: Secrets,
    pub(super) scopes: Vec<Scope>,
    pub(super) github: GitHub,
}

impl AppState {
    /// Makes the doors; no forge may deliver yet.
    pub fn new(parts: Parts<'_>) -> Self {
        let Parts { store, fleet, registry, status, clock, config, controller, metrics } = parts;
        let started_at = clock.now();
        Self {
            inbox: Arc::new(store.clone()),
            records: Arc::new(store.clone()),
            history: Arc::new(store.clone()),
            saves: store.health(),
            fleet,
            registry,
            status,
            clock,
            gate: Arc::new(Gate::new(&config.http)),
            config: Arc::new(ArcSwap::new(config)),
            forges: Arc::default(),
            event_hub: Arc::default(),
            waits: Arc::default(),
            forgotten: Arc::default(),
            metrics,
            controller,
            started_at,
            reviewers: Reviewers::default(),
            hooks: Arc::default(),
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
    /// of pools are left that are configured no more.
    pub fn open(
        &self,
        config: &Arc<Config>,
        forges: &BTreeMap<ForgeId, GitHub>,
        left: &[(ForgeId, Scope)],
    ) {
        let hook = |(id, github): (&ForgeId, &GitHub)| {
            let secrets: Vec<_> = config
                .forges
                .get(id.as_str())
                .map(|forge| forge.webhook_secrets.iter().map(|it| it.text().clone()).collect())
                .unwrap_or_default();
            let pools = config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let left = left.iter().filter(|(forge, _)| forge == id).map(|(_, scope)| scope);
            let hook = Hook {
                forge: id.clone(),
                secrets: Secrets::new(&secrets),
                scopes: pools.map(|pool| &pool.scope).chain(left).cloned().collect(),
                github: github.clone(),
            };
            (id.as_str().to_owned(), Arc::new(hook))
        };
        self.hooks.store(Some(Arc::new(forges.iter().map(hook).collect())));
        for pool in &config.pools {
            self.metrics.know_pool(&pool.name);
        }
        for forge in forges.keys() {
            self.metrics.know_forge(forge.as_str());
        }
        // A machine of a pool that was just removed may be on its way here.
        let mut boots = (**self.boots.load()).clone();
        boots.extend(Boot::all(config));
        self.boots.store(Arc::new(boots));
        self.config.store(Arc::clone(config));
        self.forges.store(Arc::new(forges.clone()));
    }

    /// Returns who can tell whose a machine's token is.
    pub fn reviewers(&self) -> &Reviewers {
        &self.reviewers
    }

    /// Takes no deliveries any more: the sender keeps them and is asked later.
    pub fn shut(&self) {
        self.hooks.store(None);
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
        self.event_hub.close();
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
        match &*self.hooks.load() {
            None => WebhookSource::Shut,
            Some(hooks) => hooks
                .get(forge)
                .map_or(WebhookSource::Stranger, |hook| WebhookSource::Known(Arc::clone(hook))),
        }
    }
}
