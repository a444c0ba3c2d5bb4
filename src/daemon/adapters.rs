//! From the configuration to what acts: forges and providers by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::{ForgeId, ProviderId};
use ostler_actors::ports::{Chance, Clock, Forge, Inventory, Provider, Roster};

use super::StartError;
use super::ground::{SystemChance, SystemClock};
use crate::config::{self, Auth, Config, ForgeSettings, ProviderSettings};
use crate::github::{Credential, GitHub, Settings};
use crate::providers::process::{INHERITED, Limits, LocalProcess, ProcessSettings};

/// Holds every adapter of a configuration.
pub(super) struct Adapters {
    /// The forges.
    pub(super) forges: BTreeMap<ForgeId, GitHub>,
    /// The providers.
    pub(super) providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
}

impl Adapters {
    /// Makes them; they ask nobody anything yet.
    pub(super) fn build(
        config: &Config,
        clock: &Arc<dyn Clock>,
        chance: &Arc<dyn Chance>,
    ) -> Result<Self, StartError> {
        let forges = forges(config, clock, chance)?;
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

/// Makes the forges of a configuration.
pub(super) fn forges(
    config: &Config,
    clock: &Arc<dyn Clock>,
    chance: &Arc<dyn Chance>,
) -> Result<BTreeMap<ForgeId, GitHub>, StartError> {
    let named = config.forges.iter();
    let made = named.map(|(name, forge)| {
        connect(name, forge, clock, chance).map(|github| (ForgeId::new(name.as_str()), github))
    });
    made.collect()
}

/// Makes one forge for a command that asks by itself; it asks nobody anything yet.
pub fn open_forge(name: &str, forge: &ForgeSettings) -> Result<GitHub, StartError> {
    let (clock, chance) = (Arc::new(SystemClock) as _, Arc::new(SystemChance) as _);
    connect(name, forge, &clock, &chance)
}

/// Tries whether a provider opens, and lets it go again.
pub fn try_provider(name: &str, provider: &ProviderSettings) -> Result<(), StartError> {
    make(name, provider).map(drop)
}

fn connect(
    name: &str,
    forge: &ForgeSettings,
    clock: &Arc<dyn Clock>,
    chance: &Arc<dyn Chance>,
) -> Result<GitHub, StartError> {
    let settings = forge_settings(ForgeId::new(name), forge);
    GitHub::new(settings, Arc::clone(clock), Arc::clone(chance))
        .map_err(|source| StartError::Forge { name: name.to_owned(), source })
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
