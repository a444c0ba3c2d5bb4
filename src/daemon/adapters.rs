//! From the configuration to what acts: forges and providers by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ostler_actors::model::{ForgeId, ProviderId};
use ostler_actors::ports::{Chance, Clock, Forge, Inventory, Provider, Roster};

use super::StartError;
use crate::config::{self, Config, ForgeSettings, ProviderSettings};
use crate::github::{Auth, Credential, GitHub, Settings};
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
        let mut forges = BTreeMap::new();
        for (name, forge) in &config.forges {
            let id = ForgeId::new(name.as_str());
            let settings = forge_settings(id.clone(), forge);
            let github = GitHub::new(settings, Arc::clone(clock), Arc::clone(chance))
                .map_err(|source| StartError::Forge { name: name.clone(), source })?;
            forges.insert(id, github);
        }
        let mut providers: BTreeMap<ProviderId, Arc<dyn Provider>> = BTreeMap::new();
        for (name, provider) in &config.providers {
            providers.insert(
                ProviderId::new(name.as_str()),
                make(name, provider, &config.daemon.state_dir)?,
            );
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

fn make(
    name: &str,
    provider: &ProviderSettings,
    state_dir: &Path,
) -> Result<Arc<dyn Provider>, StartError> {
    match provider {
        ProviderSettings::Process(process) => {
            LocalProcess::open(process_settings(process, state_dir))
                .map(|it| Arc::new(it) as Arc<dyn Provider>)
                .map_err(|source| StartError::Process { name: name.into(), source })
        }
        ProviderSettings::Kubernetes(_) | ProviderSettings::External(_) => {
            Err(StartError::NotYet { name: name.into(), kind: provider.kind() })
        }
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
