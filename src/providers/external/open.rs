//! From `[provider.NAME]` to a provider that acts, and what it says about itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{ControllerId, MachineName, PoolId, PoolSpec, ProviderId, Stamp};
use ostler_actors::ports::{Finding, Grade, SelfCheck, Startup};
use serde_json::Value;
use tracing::{info, warn};

use super::probe::{Probe, Support};
use super::records::{MachineRecords, Recorded};
use super::{External, ExternalSettings, Interface};
use crate::config::{self, inherited_from};
use crate::ports::Release;
use crate::providers::{OpenContext, Opened};

/// Variables of the daemon that every external provider is given beside `pass_env`.
const PROXY_VARIABLES: [&str; 6] =
    ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Opens a provider; asks it nothing.
pub fn open(name: &str, external: &config::External, context: &OpenContext<'_>) -> Opened {
    let records: Arc<dyn MachineRecords> = match context.records.clone() {
        Some((records, history)) => {
            Arc::new(Recorded::new(records, history, ProviderId::new(name)))
        }
        None => Arc::new(NoRecords),
    };
    let settings = settings(name, external, context);
    Ok(Arc::new(External::open(settings, records, context.tokens.clone())?))
}

fn settings(
    name: &str,
    external: &config::External,
    context: &OpenContext<'_>,
) -> ExternalSettings {
    let passed = external.pass_env.iter().map(String::as_str).chain(PROXY_VARIABLES);
    let ours = context.config.pools.iter().filter(|pool| pool.provider == name);
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
        home: context.config.http.public_url.clone().unwrap_or_default(),
        forges: context.forge_pages.clone(),
        release: Release {
            version: external.runner_version.clone(),
            mirror: external.runner_mirror.clone(),
        },
        pools: ours.map(specs).collect(),
    }
}

/// Stands in for the records where a provider is only tried: it has created nothing yet.
struct NoRecords;

#[async_trait]
impl MachineRecords for NoRecords {
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

#[async_trait]
impl SelfCheck for External {
    /// Asks the executable about itself; what an old build does not tell is no fault.
    async fn check(&self, _: &[PoolSpec]) -> Vec<Finding> {
        let probe = match self.probe().await {
            Ok(probe) => probe,
            Err(why) => {
                return vec![Finding::new(
                    "executable",
                    Grade::Wrong,
                    format!("cannot be asked: {why}"),
                )];
            }
        };
        let version = match probe.version {
            Ok(version) => Finding::new("version", Grade::Ok, version),
            Err(why) => Finding::new("version", Grade::Doubt, format!("it does not tell: {why}")),
        };
        let wanted = self.state.settings.interface.as_str();
        let (grade, says) = match probe.interface {
            Support::Yes => (Grade::Ok, format!("speaks {wanted}")),
            Support::Unstated => (Grade::Ok, format!("{wanted}, as every provider")),
            Support::Doubtful(why) => (Grade::Doubt, format!("may not speak {wanted}: {why}")),
            Support::No(known) => {
                let known = known.join(", ");
                (Grade::Wrong, format!("speaks {known}; write one as `interface`"))
            }
        };
        vec![version, Finding::new("interface", grade, says)]
    }
}

impl Startup for External {
    /// Asks the provider about itself in the background, and logs the answer.
    fn before_fleet(&self) {
        let external = self.clone();
        tokio::spawn(async move {
            let name = &external.state.settings.provider;
            match external.probe().await {
                Ok(probe) => log(name, &probe),
                Err(why) => warn!("provider `{name}` cannot be asked about itself: {why}"),
            }
        });
    }
}

fn log(name: &ProviderId, probe: &Probe) {
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
