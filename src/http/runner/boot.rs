//! What the machines of a pool need to become runners, from its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_actors::model::{ForgeId, Scope};
use serde_json::Value;

use crate::config::{Config, Pool, ProviderSettings};
use crate::ports::{ForgeServices, Release};

/// Describes what the machines of one pool are set up with.
pub(in crate::http) struct Boot {
    /// Where this daemon is reached.
    pub(super) home: String,
    /// The pages of the forge.
    pub(super) web: String,
    pub(super) scope: Scope,
    pub(super) labels: Vec<String>,
    pub(super) os: String,
    pub(super) arch: String,
    /// Proxies and variables of the runner, by name.
    pub(super) proxies: BTreeMap<&'static str, String>,
    pub(super) env: BTreeMap<String, String>,
    /// Certificates the runner shall also trust, PEM.
    pub(super) ca: Option<String>,
    pub(super) specs: Value,
    /// Whether the runner is started under a supervisor that reports.
    pub(super) has_witness: bool,
    pub(super) release: Release,
}

impl Boot {
    /// Returns what every pool of external machines needs, by its name.
    pub(in crate::http) fn all(
        config: &Config,
        forges: &BTreeMap<ForgeId, ForgeServices>,
    ) -> BTreeMap<String, Arc<Self>> {
        let of = |pool: &Pool| Some((pool.name.clone(), Arc::new(Self::of(pool, config, forges)?)));
        config.pools.iter().filter_map(of).collect()
    }

    fn of(pool: &Pool, config: &Config, forges: &BTreeMap<ForgeId, ForgeServices>) -> Option<Self> {
        // Only machines of external providers set themselves up over HTTP.
        let ProviderSettings::External(external) = config.providers.get(&pool.provider)? else {
            return None;
        };
        let release = Release {
            version: external.runner_version.clone(),
            mirror: external.runner_mirror.clone(),
        };
        let mut proxies = BTreeMap::new();
        if let Some(proxy) = &pool.proxy {
            proxies.extend(proxy.http.clone().map(|url| ("http_proxy", url)));
            proxies.extend(proxy.https.clone().map(|url| ("https_proxy", url)));
            let none = proxy.no_proxy.join(",");
            proxies.extend((!none.is_empty()).then_some(("no_proxy", none)));
        }
        Some(Self {
            home: config.http.public_url.clone().unwrap_or_default(),
            web: forges.get(pool.forge.as_str())?.web_url.clone(),
            scope: pool.scope.clone(),
            labels: pool.labels.clone(),
            os: pool.os.clone(),
            arch: pool.arch.clone(),
            proxies,
            env: pool.env.clone(),
            ca: pool.ca.as_ref().map(|ca| ca.pem.clone()),
            specs: pool.extra_specs.clone().unwrap_or(Value::Null),
            has_witness: pool.has_supervisor(),
            release,
        })
    }

    /// Returns where machines fetch what they need.
    pub(super) fn metadata_url(&self) -> String {
        format!("{}/runner/v1/metadata", self.home)
    }

    /// Returns where machines tell how far they are.
    pub(super) fn callback_url(&self) -> String {
        format!("{}/runner/v1/callbacks", self.home)
    }

    /// Returns below which address supervisors report.
    pub(super) fn report_url(&self) -> String {
        format!("{}/runner/v1", self.home)
    }

    /// Returns the operating system in GitHub's word.
    pub(super) fn platform(&self) -> &'static str {
        match self.os.as_str() {
            "windows" => "win",
            "macos" => "osx",
            _ => "linux",
        }
    }

    /// Returns where the runner's release lies.
    pub(super) fn release_url(&self) -> String {
        self.release.url(self.platform(), &self.arch)
    }

    /// Returns the name of the runner's service, without its ending.
    pub(super) fn service_name(&self) -> String {
        let place = match &self.scope {
            Scope::Repository { owner, name } => format!("{owner}.{name}"),
            Scope::Organization(owner) => owner.clone(),
            Scope::Enterprise(slug) => slug.clone(),
        };
        let fits = |message: char| message.is_ascii_alphanumeric() || "._-".contains(message);
        let place: String = place.chars().map(|it| if fits(it) { it } else { '-' }).collect();
        format!("actions.runner.{place}")
    }
}
