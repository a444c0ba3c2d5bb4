//! External providers, from the configuration to what acts.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{ControllerId, ForgeId, MachineName, PoolId, ProviderId, Stamp};
use ostler_actors::ports::Records;
use serde_json::Value;
use tracing::{info, warn};

use super::StartError;
use super::adapters::Lent;
use crate::config::{self, Config, inherited_from};
use crate::providers::external::{
    External, ExternalSettings, Interface, MachineRecords, Probe, Recorded, Release, Support,
    web_url,
};
use crate::ports::History;
use crate::store::AesSeal;
use crate::tokens::Tokens;

/// Begin the names of variables that every external provider is given.
const PROXIES: [&str; 6] =
    ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Holds what an external provider needs beside its configuration.
pub(super) struct Means {
    pub(super) records: Arc<dyn Records>,
    pub(super) history: Arc<dyn History>,
    pub(super) tokens: Tokens,
    /// What stands in for configured ones.
    pub(super) lent: Lent,
}

/// Returns what makes and checks the tokens of machines.
pub(super) fn tokens(seal: &AesSeal) -> Tokens {
    Tokens::new(&seal.key_for("runner tokens, version 1"))
}

/// Opens one; it is asked nothing yet.
pub(super) fn open(
    name: &str,
    external: &config::External,
    config: &Config,
    means: &Means,
) -> Result<External, StartError> {
    let (records, history) = (Arc::clone(&means.records), Arc::clone(&means.history));
    let records = Recorded::new(records, history, ProviderId::new(name));
    External::open(settings(name, external, config), Arc::new(records), means.tokens.clone())
        .map_err(|source| StartError::External { name: name.to_owned(), source })
}

/// Asks a provider about itself, beside everything else, and tells what it said.
pub(super) fn introduce(name: &str, external: &External) {
    let (name, external) = (name.to_owned(), external.clone());
    tokio::spawn(async move {
        match external.probe().await {
            Ok(probe) => tell(&name, &probe),
            Err(why) => warn!("provider `{name}` cannot be asked about itself: {why}"),
        }
    });
}

fn tell(name: &str, probe: &Probe) {
    match &probe.version {
        Ok(version) => info!("provider `{name}` is version {version}"),
        Err(why) => info!("provider `{name}` does not tell its version: {why}"),
    }
    match &probe.interface {
        Support::Yes | Support::Unstated => {}
        Support::Doubtful(why) => {
            warn!("provider `{name}` may not speak the configured `interface`: {why}");
        }
        Support::No(known) => {
            let known = known.join(", ");
            warn!("provider `{name}` speaks {known}, and not the configured `interface`");
        }
    }
}

/// Opens a provider for a question about itself, and asks it.
pub async fn probe_external(
    name: &str,
    external: &config::External,
    config: &Config,
) -> Result<Probe, StartError> {
    let (settings, tokens) = (settings(name, external, config), Tokens::new(name.as_bytes()));
    let failed = |source| StartError::External { name: name.to_owned(), source };
    let external = External::open(settings, Arc::new(Nothing), tokens).map_err(failed)?;
    let unasked = |why| StartError::Unasked { name: name.to_owned(), why };
    external.probe().await.map_err(unasked)
}

fn settings(name: &str, external: &config::External, config: &Config) -> ExternalSettings {
    let passed = external.pass_env.iter().map(String::as_str).chain(PROXIES);
    let forge = |(name, forge): (&String, &config::ForgeSettings)| {
        (ForgeId::new(name.as_str()), web_url(&forge.api_url))
    };
    let ours = config.pools.iter().filter(|pool| pool.provider == name);
    let specs = |pool: &config::Pool| {
        let specs = pool.extra_specs.clone().unwrap_or(Value::Null);
        (PoolId::new(pool.name.as_str()), specs)
    };
    ExternalSettings {
        provider: ProviderId::new(name),
        executable: external.executable.clone(),
        config_file: external.config_file.clone(),
        interface: Interface::named(&external.interface),
        env: inherited_from(&passed.collect::<Vec<_>>()),
        timeout: external.timeout,
        concurrency: external.concurrency.try_into().unwrap_or(usize::MAX),
        starts_per_second: external.starts_per_second,
        home: config.http.public_url.clone().unwrap_or_default(),
        forges: config.forges.iter().map(forge).collect(),
        release: Release {
            version: external.runner_version.clone(),
            mirror: external.runner_mirror.clone(),
        },
        pools: ours.map(specs).collect(),
    }
}

/// Is the book of somebody who has made nothing yet.
struct Nothing;

#[async_trait]
impl MachineRecords for Nothing {
    async fn controller(&self) -> Result<ControllerId, String> {
        Ok(ControllerId::new(uuid::Uuid::nil().to_string()))
    }

    async fn pools(&self) -> Result<Vec<PoolId>, String> {
        Ok(Vec::new())
    }

    async fn stamps(&self, _: &[MachineName]) -> Result<BTreeMap<MachineName, Stamp>, String> {
        Ok(BTreeMap::new())
    }
}
