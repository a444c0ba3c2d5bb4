//! From the configuration to what acts: forges and providers by name.
//!
//! This is the list of what can be configured: a new kind of forge or provider is one more line in
//! [`open_forge`] or [`open_provider`]. Opening asks nothing of the outside and clears nothing, so
//! that a new set can be opened while the fleet of the old one still acts: an edit that cannot be
//! built must change nothing.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use jiff::Timestamp;
use ostler_actors::model::{ForgeId, ProviderId};
use ostler_actors::ports::{
    Chance, Clock, DryRunResult, Forge, Inventory, Provider, ProviderCapabilities, Roster,
};
use tracing::warn;

use super::StartError;
use super::system::{SystemChance, SystemClock};
use crate::config::{self, Config, ForgeSettings, ProviderSettings};
use crate::github::GitHub;
use crate::ports::{ForgeAdapter, ForgeServices, History, JobQuery, Page};
use crate::providers::{OpenContext, external, kubernetes, process};
use crate::tokens::Tokens;

/// How many of the latest jobs say which repositories are active.
const RECENT_JOBS: u32 = 1000;

/// Opens a forge. One line a kind; all settings are of one kind so far.
fn open_forge(
    name: &str,
    settings: &ForgeSettings,
    clock: &Arc<dyn Clock>,
    chance: &Arc<dyn Chance>,
) -> Result<Arc<dyn ForgeAdapter>, StartError> {
    GitHub::open(name, settings, Arc::clone(clock), Arc::clone(chance))
        .map(|forge| Arc::new(forge) as _)
        .map_err(|source| StartError::Forge { name: name.to_owned(), source: source.into() })
}

/// Opens a provider. One line a kind.
fn open_provider(
    name: &str,
    settings: &ProviderSettings,
    context: &OpenContext<'_>,
) -> Result<Arc<dyn Provider>, StartError> {
    match settings {
        ProviderSettings::Process(it) => process::open(it, context),
        ProviderSettings::Kubernetes(it) => kubernetes::open(it, context),
        ProviderSettings::External(it) => external::open(name, it, context),
    }
    .map_err(|source| StartError::Provider { name: name.to_owned(), source })
}

/// Holds the forges of a configuration. The surfaces of a standby need them too.
#[derive(Clone)]
pub(super) struct Forges(BTreeMap<ForgeId, Arc<dyn ForgeAdapter>>);

impl Forges {
    pub(super) fn build(
        config: &Config,
        clock: &Arc<dyn Clock>,
        chance: &Arc<dyn Chance>,
    ) -> Result<Self, StartError> {
        let open = |(name, settings): (&String, &ForgeSettings)| {
            Ok((ForgeId::new(name.as_str()), open_forge(name, settings, clock, chance)?))
        };
        config.forges.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Tells the forges from which repositories jobs came lately: GitHub cannot list the jobs of an
    /// organization, so a poll that knows no repository finds no job that came meanwhile.
    pub(super) async fn recall_places(&self, history: &dyn History) {
        let page = Page { limit: RECENT_JOBS, cursor: None };
        match history.jobs(&JobQuery::default(), &page).await {
            // The latest are told last: a forge forgets the longest silent first.
            Ok(jobs) => jobs.items.iter().rev().for_each(|job| {
                if let Some(forge) = self.0.get(&job.id.forge) {
                    forge.services().monitor.remember(&job.place);
                }
            }),
            Err(why) => warn!("jobs that came meanwhile may be found late: {why}"),
        }
    }

    /// Returns what surfaces and background tasks may use.
    pub(super) fn services(&self) -> BTreeMap<ForgeId, ForgeServices> {
        self.0.iter().map(|(id, forge)| (id.clone(), forge.services())).collect()
    }

    /// Returns the doing halves.
    pub(super) fn doing(&self) -> BTreeMap<ForgeId, Arc<dyn Forge>> {
        self.0.iter().map(|(id, forge)| (id.clone(), Arc::clone(forge) as _)).collect()
    }

    /// Returns the seeing halves.
    pub(super) fn rosters(&self) -> BTreeMap<ForgeId, Arc<dyn Roster>> {
        self.0.iter().map(|(id, forge)| (id.clone(), Arc::clone(forge) as _)).collect()
    }
}

/// Providers lent by the program that runs the daemon in its own process: they stand in for those
/// configured under the same names.
pub(super) type Lent = BTreeMap<ProviderId, Arc<dyn Provider>>;

/// Holds the providers of a configuration. Only the leader opens them.
pub(super) struct Providers(BTreeMap<ProviderId, Arc<dyn Provider>>);

impl Providers {
    pub(super) fn build(context: &OpenContext<'_>, lent: &Lent) -> Result<Self, StartError> {
        let mut all = lent.clone();
        for (name, settings) in &context.config.providers {
            let id = ProviderId::new(name.as_str());
            if !lent.contains_key(&id) {
                all.insert(id, open_provider(name, settings, context)?);
            }
        }
        Ok(Self(all))
    }

    /// Prepares the providers for a fleet that is about to begin.
    pub(super) fn before_fleet(&self) {
        for startup in self.capable(|capabilities| capabilities.startup).values() {
            startup.before_fleet();
        }
    }

    /// Returns one capability of those that have it.
    pub(super) fn capable<T>(
        &self,
        of: impl Fn(ProviderCapabilities) -> Option<T>,
    ) -> BTreeMap<ProviderId, T> {
        let capable = |(id, provider): (&ProviderId, &Arc<dyn Provider>)| {
            Some((id.clone(), of(provider.capabilities())?))
        };
        self.0.iter().filter_map(capable).collect()
    }

    /// Returns the doing halves.
    pub(super) fn doing(&self) -> BTreeMap<ProviderId, Arc<dyn Provider>> {
        self.0.clone()
    }

    /// Returns the seeing halves.
    pub(super) fn inventories(&self) -> BTreeMap<ProviderId, Arc<dyn Inventory>> {
        self.0.iter().map(|(id, provider)| (id.clone(), Arc::clone(provider) as _)).collect()
    }
}

/// Lets providers judge the machines of every pool that is new or has a new shape, without creating
/// one. A provider that cannot be asked is no reason to stop.
pub(super) async fn try_new_pools(
    context: &OpenContext<'_>,
    old: Option<&Config>,
    now: Timestamp,
) -> Result<(), StartError> {
    let new = context.config;
    let mut trials = Vec::new();
    for (name, settings) in &new.providers {
        let same = old.filter(|old| old.providers.get(name) == Some(settings));
        let known = |pool: &config::Pool| {
            same.is_some_and(|old| {
                old.pools.iter().any(|it| it.name == pool.name && it.revision == pool.revision)
            })
        };
        let pools = new.pools.iter().filter(|pool| pool.provider == *name && !known(pool));
        let specs: Vec<_> = pools.map(|pool| pool.spec(now)).collect();
        if specs.is_empty() {
            continue;
        }
        let Some(dry_run) = open_provider(name, settings, context)?.capabilities().dry_run else {
            continue;
        };
        for spec in specs {
            let dry_run = Arc::clone(&dry_run);
            trials.push(async move { (dry_run.try_pool(&spec).await, spec.id) });
        }
    }
    for (result, pool) in futures_util::future::join_all(trials).await {
        match result {
            DryRunResult::Fits => {}
            DryRunResult::Refused(why) => {
                return Err(StartError::Pool { pool: pool.to_string(), why });
            }
            DryRunResult::Unknown(why) => {
                warn!(pool.id = %pool, "pool `{pool}`: its machines could not be tried: {why}");
            }
        }
    }
    Ok(())
}

/// Opens a forge for a command that asks by itself.
pub fn forge_services(name: &str, settings: &ForgeSettings) -> Result<ForgeServices, StartError> {
    let (clock, chance) = (Arc::new(SystemClock::begin()) as _, Arc::new(SystemChance) as _);
    open_forge(name, settings, &clock, &chance).map(|forge| forge.services())
}

/// Opens a provider for a command that tries it and creates nothing.
pub fn provider_capabilities(
    name: &str,
    config: &Config,
) -> Result<ProviderCapabilities, StartError> {
    let why: Box<dyn Error + Send + Sync> = "it is not configured".into();
    let settings = config
        .providers
        .get(name)
        .ok_or_else(|| StartError::Provider { name: name.to_owned(), source: why })?;
    let context = OpenContext {
        config,
        forge_pages: BTreeMap::new(),
        tokens: Tokens::new(name.as_bytes()),
        records: None,
    };
    open_provider(name, settings, &context).map(|provider| provider.capabilities())
}
