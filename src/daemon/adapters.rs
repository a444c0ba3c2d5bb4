//! From the configuration to what acts: forges and providers by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::{ForgeId, ProviderId};
use ostler_actors::ports::{Chance, Clock, Forge, Inventory, Provider, Roster};

use tracing::warn;

use super::StartError;
use crate::config::{self, Auth, Config, ForgeSettings, ProviderSettings};
use crate::github::{Credential, GitHub, Settings};
use crate::providers::process::{INHERITED, Limits, LocalProcess, ProcessSettings};
use crate::store::{History as _, JobQuery, Page, SqlStore};

/// From how many of the latest jobs the active repositories are known.
const LATELY: u32 = 1000;

/// Holds every adapter of a configuration.
pub(super) struct Adapters {
    /// The forges.
    pub(super) forges: Forges,
    /// The providers.
    pub(super) providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
}

/// Holds forges by name; clones share what they learnt.
pub(super) type Forges = BTreeMap<ForgeId, GitHub>;

/// Makes the forges of a configuration; they ask nobody anything yet.
pub(super) fn forges(
    config: &Config,
    clock: &Arc<dyn Clock>,
    chance: &Arc<dyn Chance>,
) -> Result<Forges, StartError> {
    let mut forges = BTreeMap::new();
    for (name, forge) in &config.forges {
        let id = ForgeId::new(name.as_str());
        let settings = forge_settings(id.clone(), forge);
        let github = GitHub::new(settings, Arc::clone(clock), Arc::clone(chance))
            .map_err(|source| StartError::Forge { name: name.clone(), source })?;
        forges.insert(id, github);
    }
    Ok(forges)
}

/// Tells the forges from which repositories jobs came lately, because GitHub cannot list the jobs
/// of an organization: a poll that knows none would find none of the jobs that came meanwhile.
pub(super) async fn recall_places(store: &SqlStore, forges: &Forges) {
    let page = Page { limit: LATELY, cursor: None };
    match store.jobs(&JobQuery::default(), &page).await {
        // The latest are told last: those longest silent are the first to be forgotten.
        Ok(jobs) => jobs.items.iter().rev().for_each(|job| {
            if let Some(forge) = forges.get(&job.id.forge) {
                forge.remember(&job.place);
            }
        }),
        Err(why) => warn!("jobs that came meanwhile may be found late: {why}"),
    }
}

impl Adapters {
    /// Opens the providers beside forges that are there already.
    pub(super) fn build(config: &Config, forges: Forges) -> Result<Self, StartError> {
        let mut providers: BTreeMap<ProviderId, Arc<dyn Provider>> = BTreeMap::new();
        for (name, provider) in &config.providers {
            providers.insert(ProviderId::new(name.as_str()), make(name, provider)?);
        }
        Ok(Self { forges, providers })
    }

    /// Returns the doing halves of the forges.
    pub(super) fn doing_forges(&self) -> BTreeMap<ForgeId, Arc<dyn Forge>> {
        self.forges.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)).collect()
    }

    /// Returns the seeing halves of the forges.
    pub(super) fn rosters(&self) -> BTreeMap<ForgeId, Arc<dyn Roster>> {
        self.forges.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)).collect()
    }

    /// Returns the seeing halves of the providers.
    pub(super) fn inventories(&self) -> BTreeMap<ProviderId, Arc<dyn Inventory>> {
        self.providers.iter().map(|(id, it)| (id.clone(), Arc::clone(it) as _)).collect()
    }
}

fn make(name: &str, provider: &ProviderSettings) -> Result<Arc<dyn Provider>, StartError> {
    match provider {
        ProviderSettings::Process(process) => LocalProcess::open(process_settings(process))
            .map(|it| Arc::new(it) as Arc<dyn Provider>)
            .map_err(|source| StartError::Process { name: name.into(), source }),
        ProviderSettings::Kubernetes(_) | ProviderSettings::External(_) => {
            Err(StartError::NotYet { name: name.into(), kind: provider.kind() })
        }
    }
}

fn forge_settings(id: ForgeId, forge: &ForgeSettings) -> Settings {
    let credential = |credential: &config::Credential| match &credential.auth {
        Auth::App { client_id, private_key, .. } => Credential::App {
            client_id: client_id.clone(),
            private_key: private_key.text().clone(),
        },
        Auth::Token(token) => Credential::Token(token.text().clone()),
    };
    Settings {
        credentials: forge.credentials.iter().map(credential).collect(),
        jit_per_minute: forge.jit_per_minute,
        poll_budget: forge.poll_budget,
        ..Settings::of(id, forge.api_url.clone())
    }
}

fn process_settings(process: &config::Process) -> ProcessSettings {
    let mut settings = ProcessSettings::new(&process.work_dir);
    settings.runner_dir.clone_from(&process.runner_dir);
    settings.command.clone_from(&process.command);
    settings.user.clone_from(&process.user);
    settings.nice = process.nice;
    settings.max_parallel = process.max_parallel.and_then(|most| usize::try_from(most).ok());
    settings.limits =
        Limits { memory: process.limits.memory, pids: process.limits.pids.map(u64::from) };
    settings.env = config::inherited(INHERITED);
    settings
}
