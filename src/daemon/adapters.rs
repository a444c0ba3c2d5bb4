//! From the configuration to what acts: forges and providers by name.
//!
//! Making them asks nobody anything and clears nothing, so that a new set can be made while the
//! fleet of the old one still acts: an edit that cannot be built must change nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use ostler_actors::model::{ForgeId, ProviderId};
use ostler_actors::ports::{Chance, Clock, Forge, Inventory, Provider, Roster};

use tracing::warn;

use super::StartError;
use super::external::{self, Means};
use super::system_ports::{SystemChance, SystemClock};
use crate::config::{self, Config, ForgeSettings, ProviderSettings};
use crate::github::{Auth, Credential, GitHub, Settings};
use crate::providers::identity::Reviewer;
use crate::providers::kubernetes::{
    Kubernetes, KubernetesSettings, Rehearsed, default_poller_image,
};
use crate::providers::process::{INHERITED, Limits, LocalProcess, ProcessSettings};
use crate::ports::{History as _, JobQuery, Page};
use crate::store::SqlStore;

/// How many of the latest jobs say where jobs come from.
const LATELY: u32 = 1000;

/// Holds the forges of a configuration. The doors of a standby need them too.
#[derive(Clone)]
pub(super) struct Forges(pub(super) BTreeMap<ForgeId, GitHub>);

impl Forges {
    pub(super) fn build(
        config: &Config,
        clock: &Arc<dyn Clock>,
        chance: &Arc<dyn Chance>,
    ) -> Result<Self, StartError> {
        let mut forges = BTreeMap::new();
        for (name, forge) in &config.forges {
            forges.insert(ForgeId::new(name.as_str()), connect(name, forge, clock, chance)?);
        }
        Ok(Self(forges))
    }

    /// Tells the forges from which repositories jobs came lately, because GitHub cannot list the
    /// jobs of an organization: a poll that knows none finds none that came meanwhile.
    pub(super) async fn recall_places(&self, store: &SqlStore) {
        let page = Page { limit: LATELY, cursor: None };
        match store.jobs(&JobQuery::default(), &page).await {
            // The latest are told last: those longest silent are the first to be forgotten.
            Ok(jobs) => jobs.items.iter().rev().for_each(|job| {
                if let Some(forge) = self.0.get(&job.id.forge) {
                    forge.remember(&job.place);
                }
            }),
            Err(why) => warn!("jobs that came meanwhile may be found late: {why}"),
        }
    }

    /// Returns the doing halves.
    pub(super) fn doing(&self) -> BTreeMap<ForgeId, Arc<dyn Forge>> {
        self.0.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)).collect()
    }

    /// Returns the seeing halves.
    pub(super) fn rosters(&self) -> BTreeMap<ForgeId, Arc<dyn Roster>> {
        self.0.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)).collect()
    }
}

/// Makes one forge for a command that asks by itself; it asks nobody anything yet.
pub fn open_forge(name: &str, forge: &ForgeSettings) -> Result<GitHub, StartError> {
    let (clock, chance) = (Arc::new(SystemClock::begin()) as _, Arc::new(SystemChance) as _);
    connect(name, forge, &clock, &chance)
}

/// Tries whether a provider opens, and lets it go again. One that is asked about itself is tried
/// by that (`probe_external`).
pub fn try_provider(
    name: &str,
    provider: &ProviderSettings,
    state_dir: &Path,
) -> Result<(), StartError> {
    match provider {
        ProviderSettings::Process(process) => {
            open_process(name, process_settings(process, state_dir)).map(drop)
        }
        // Those are asked themselves.
        ProviderSettings::External(_) | ProviderSettings::Kubernetes(_) => Ok(()),
    }
}

/// Opens a provider of pods; it asks the cluster nothing yet.
pub fn open_kubernetes(
    name: &str,
    kubernetes: &config::Kubernetes,
    http: &config::Http,
) -> Result<Kubernetes, StartError> {
    Kubernetes::open(kubernetes_settings(kubernetes, http))
        .map_err(|source| StartError::Kubernetes { name: name.to_owned(), source })
}

/// Lets clusters judge the pods of every pool that is new or has a new shape, without making
/// one. A cluster that cannot be asked is no reason to stop.
pub(super) async fn rehearse(
    new: &Config,
    old: Option<&Config>,
    now: Timestamp,
) -> Result<(), StartError> {
    let mut rehearsals = Vec::new();
    for (name, provider) in &new.providers {
        let ProviderSettings::Kubernetes(kubernetes) = provider else { continue };
        let same = old.filter(|old| old.providers.get(name) == Some(provider));
        let known = |pool: &config::Pool| {
            same.is_some_and(|old| {
                old.pools.iter().any(|it| it.name == pool.name && it.revision == pool.revision)
            })
        };
        let cluster = open_kubernetes(name, kubernetes, &new.http)?;
        for pool in new.pools.iter().filter(|pool| pool.provider == *name && !known(pool)) {
            let (cluster, spec) = (cluster.clone(), pool.spec(now));
            rehearsals.push(async move { (cluster.rehearse(&spec).await, spec.id) });
        }
    }
    for (rehearsed, pool) in futures_util::future::join_all(rehearsals).await {
        match rehearsed {
            Rehearsed::Fits => {}
            Rehearsed::Refused(why) => {
                return Err(StartError::Pod { pool: pool.to_string(), why });
            }
            Rehearsed::Unknown(why) => {
                warn!(pool.id = %pool, "the pods of pool `{pool}` could not be tried: {why}");
            }
        }
    }
    Ok(())
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

fn open_process(name: &str, settings: ProcessSettings) -> Result<LocalProcess, StartError> {
    LocalProcess::open_beside(settings)
        .map_err(|source| StartError::Process { name: name.to_owned(), source })
}

/// Providers lent by whoever runs the daemon in this process: they stand in for those configured
/// under the same names.
pub(super) type Lent = BTreeMap<ProviderId, Arc<dyn Provider>>;

/// Holds the providers of a configuration. Only the leader makes them.
pub(super) struct Providers {
    all: BTreeMap<ProviderId, Arc<dyn Provider>>,
    /// Those of processes, once more.
    processes: BTreeMap<ProviderId, LocalProcess>,
    /// Those of pods, once more.
    clusters: BTreeMap<ProviderId, Kubernetes>,
}

impl Providers {
    pub(super) fn build(config: &Config, means: &Means) -> Result<Self, StartError> {
        let (processes, clusters) = (BTreeMap::new(), BTreeMap::new());
        let mut providers = Self { all: means.lent.clone(), processes, clusters };
        for (name, provider) in &config.providers {
            if means.lent.contains_key(name.as_str()) {
                continue;
            }
            let id = ProviderId::new(name.as_str());
            let made: Arc<dyn Provider> = match provider {
                ProviderSettings::Process(process) => {
                    let mut settings = process_settings(process, &config.daemon.state_dir);
                    settings.public_url.clone_from(&config.http.public_url);
                    let process = open_process(name, settings)?;
                    providers.processes.insert(id.clone(), process.clone());
                    Arc::new(process)
                }
                ProviderSettings::External(settings) => {
                    let external = external::open(name, settings, config, means)?;
                    external::introduce(name, &external);
                    Arc::new(external)
                }
                ProviderSettings::Kubernetes(kubernetes) => {
                    let cluster = open_kubernetes(name, kubernetes, &config.http)?;
                    providers.clusters.insert(id.clone(), cluster.clone());
                    Arc::new(cluster)
                }
            };
            providers.all.insert(id, made);
        }
        Ok(providers)
    }

    /// Clears what an ended fleet left half done; the next one has not begun.
    pub(super) fn clear_leftovers(&self) {
        for process in self.processes.values() {
            process.clear_leftovers();
        }
    }

    /// Returns those of pods.
    pub(super) fn clusters(&self) -> &BTreeMap<ProviderId, Kubernetes> {
        &self.clusters
    }

    /// Returns those who can tell whose a machine's token is.
    pub(super) fn reviewers(&self) -> BTreeMap<ProviderId, Arc<dyn Reviewer>> {
        let mut all: BTreeMap<ProviderId, Arc<dyn Reviewer>> = BTreeMap::new();
        all.extend(self.clusters.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)));
        all.extend(self.processes.iter().map(|(id, it)| (id.clone(), Arc::new(it.clone()) as _)));
        all
    }

    /// Returns the doing halves.
    pub(super) fn doing(&self) -> BTreeMap<ProviderId, Arc<dyn Provider>> {
        self.all.clone()
    }

    /// Returns the seeing halves.
    pub(super) fn inventories(&self) -> BTreeMap<ProviderId, Arc<dyn Inventory>> {
        self.all.iter().map(|(id, it)| (id.clone(), Arc::clone(it) as _)).collect()
    }
}

fn forge_settings(id: ForgeId, forge: &ForgeSettings) -> Settings {
    let auth = |auth: &config::Auth| match auth {
        config::Auth::App { client_id, private_key } => {
            Auth::App { client_id: client_id.clone(), private_key: private_key.text().clone() }
        }
        config::Auth::Token(token) => Auth::Token(token.text().clone()),
    };
    let credential =
        |it: &config::Credential| Credential { scopes: it.scopes.clone(), auth: auth(&it.auth) };
    Settings {
        credentials: forge.credentials.iter().map(credential).collect(),
        jit_per_minute: forge.jit_per_minute,
        poll_budget: forge.poll_budget,
        ..Settings::of(id, forge.api_url.clone())
    }
}

fn process_settings(process: &config::Process, state_dir: &Path) -> ProcessSettings {
    let mut settings = ProcessSettings::new(&process.work_dir);
    settings.memory = Some(state_dir.join("work_dirs"));
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

fn kubernetes_settings(kubernetes: &config::Kubernetes, http: &config::Http) -> KubernetesSettings {
    KubernetesSettings {
        namespace: kubernetes.namespace.clone(),
        kubeconfig: kubernetes.kubeconfig.clone(),
        context: kubernetes.context.clone(),
        poller_image: kubernetes.poller_image.clone().unwrap_or_else(default_poller_image),
        public_url: http.public_url.clone(),
        ..KubernetesSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Outside;

    #[test]
    fn a_credential_keeps_its_scopes() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("ostler.toml");
        let text = r#"
            [forge.github]
            kind = "github"

            [[forge.github.credential]]
            name = "one"
            scopes = ["acme"]
            token = { env = "ONE" }

            [[forge.github.credential]]
            name = "other"
            token = { env = "OTHER" }
        "#;
        std::fs::write(&file, text).unwrap();
        let config = config::load(&file, &Outside::text_only()).unwrap().config;
        let settings = forge_settings(ForgeId::new("github"), &config.forges["github"]);
        let scopes: Vec<_> = settings.credentials.into_iter().map(|it| it.scopes).collect();
        assert_eq!(scopes, [vec!["acme".parse().unwrap()], vec![]]);
    }
}
