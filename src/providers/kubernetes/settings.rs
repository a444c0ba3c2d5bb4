//! What an operator may say about pods.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{self, Config, default_poller_image};

/// Whom the token of a warm pod is for; no other service takes it.
pub const AUDIENCE: &str = "ostler-dispatch";

/// Describes one provider of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesSettings {
    /// Where the pods live; the daemon's own namespace, or that of the context, when left out.
    pub namespace: Option<String>,
    /// How to reach the cluster; the one the daemon runs in when left out.
    pub kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig.
    pub context: Option<String>,
    /// The image the poller of a late-bound pod runs in.
    pub poller_image: String,
    /// Where pods ask for work: the daemon's public address.
    pub public_url: Option<String>,
    /// How long a pod may be terminating beyond its grace before its node is looked at.
    pub overdue: Duration,
    /// How often everything is listed and compared, beside the watch.
    pub compare_every: Duration,
    /// How soon a pod that a listing no longer shows is looked for in a second one.
    pub confirm_after: Duration,
}

impl KubernetesSettings {
    /// Returns the settings of a `[provider.NAME]`.
    pub fn from_config(kubernetes: &config::Kubernetes, config: &Config) -> Self {
        Self {
            namespace: kubernetes.namespace.clone(),
            kubeconfig: kubernetes.kubeconfig.clone(),
            context: kubernetes.context.clone(),
            poller_image: kubernetes.poller_image.clone().unwrap_or_else(default_poller_image),
            public_url: config.http.public_url.clone(),
            ..Self::default()
        }
    }
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            namespace: None,
            kubeconfig: None,
            context: None,
            poller_image: default_poller_image(),
            public_url: None,
            overdue: Duration::from_mins(5),
            compare_every: Duration::from_mins(5),
            confirm_after: Duration::from_secs(10),
        }
    }
}
