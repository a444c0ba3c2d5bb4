//! The way to the API server: made when it is first needed, without retries of its own, and every
//! call with a deadline.
//!
//! The library would repeat any refused call up to fifteen times and wait for an answer for ever.
//! Here an owner decides what is repeated, and no call waits for ever.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod, Secret};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::{ApiResource, Status};
use kube::{Api, Client, Config};
use tokio::sync::OnceCell;

use super::seen::Seen;
use super::settings::KubernetesSettings;
use crate::errors::chain;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one call may take.
pub(super) const CALL: Duration = Duration::from_secs(30);

/// Tells why there can be no pods.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kubeconfig cannot be used.
    #[error("cannot use `kubeconfig` = `{path}`")]
    Kubeconfig {
        path: String,
        #[source]
        source: Box<KubeconfigError>,
    },
    /// There is no such context in it.
    #[error("`kubeconfig` = `{path}` has no context `{context}`; it has {known}")]
    Context { path: String, context: String, known: String },
    /// There is no cluster around us.
    #[error(
        "this daemon does not run inside a cluster; write `kubeconfig` = \"path\", or run it in one"
    )]
    Outside(#[source] Box<kube::config::InClusterError>),
}

/// Tells why a call brought nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The API server answered no.
    Refused(Box<Status>),
    /// It did not answer, or not in a way that proves anything.
    Unanswered(String),
}

impl Failure {
    /// Returns the code of the answer, where there was one.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Unanswered(_) => None,
        }
    }

    /// Returns whether the server vouches that it did nothing: it judged the call before it acted.
    pub(super) fn vouches(&self) -> bool {
        matches!(self.code(), Some(400 | 401 | 403 | 404 | 405 | 413 | 415 | 422 | 429))
    }

    /// Returns how long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(status) => {
                let seconds = status.details.as_ref().map(|details| details.retry_after_seconds)?;
                (seconds > 0).then(|| Duration::from_secs(seconds.into()))
            }
            Self::Unanswered(_) => None,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(status) if status.code == 403 && status.message.contains(" cannot ") => {
                write!(f, "{} (403; grant it as in config/kubernetes/rbac.yaml)", status.message)
            }
            Self::Refused(status) => write!(f, "{} ({})", status.message, status.code),
            Self::Unanswered(why) => f.write_str(why),
        }
    }
}

/// Leads to one namespace of one cluster.
pub(super) struct Cluster {
    /// The kubeconfig, read when the provider was opened; none inside a cluster.
    kubeconfig: Option<(Kubeconfig, KubeConfigOptions)>,
    namespace: Option<String>,
    made: OnceCell<Reached>,
}

/// Holds a client and the namespace it works in.
#[derive(Clone)]
pub(super) struct Reached {
    pub(super) client: Client,
    pub(super) namespace: String,
}

impl Cluster {
    /// Reads how to reach the cluster; asks nothing yet.
    pub(super) fn open(settings: &KubernetesSettings) -> Result<Self, OpenError> {
        let kubeconfig = match &settings.kubeconfig {
            None => {
                Config::incluster().map_err(|source| OpenError::Outside(Box::new(source)))?;
                None
            }
            Some(path) => {
                let path = path.display().to_string();
                let read = Kubeconfig::read_from(&path);
                let kubeconfig = read.map_err(|source| OpenError::Kubeconfig {
                    path: path.clone(),
                    source: Box::new(source),
                })?;
                if let Some(context) = &settings.context {
                    check_context(&kubeconfig, context, &path)?;
                }
                let options =
                    KubeConfigOptions { context: settings.context.clone(), ..Default::default() };
                Some((kubeconfig, options))
            }
        };
        Ok(Self { kubeconfig, namespace: settings.namespace.clone(), made: OnceCell::new() })
    }

    /// Returns the client, making it at the first call. It works on the runtime it is made on.
    pub(super) async fn reach(&self) -> Result<&Reached, Failure> {
        self.made.get_or_try_init(|| self.create()).await
    }

    async fn create(&self) -> Result<Reached, Failure> {
        let unusable = |why: String| Failure::Unanswered(format!("no way to the cluster: {why}"));
        let mut config = match &self.kubeconfig {
            None => Config::incluster().map_err(|error| unusable(error.to_string()))?,
            Some((kubeconfig, options)) => {
                Config::from_custom_kubeconfig(kubeconfig.clone(), options)
                    .await
                    .map_err(|error| unusable(error.to_string()))?
            }
        };
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT);
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| unusable(error.to_string()))?;
        Ok(Reached { client, namespace })
    }
}

impl Reached {
    pub(super) fn pods(&self) -> Api<Seen> {
        let kind = ApiResource::erase::<Pod>(&());
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind)
    }

    pub(super) fn whole_pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }
}

/// Makes a call within a deadline.
pub(super) async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Refused(status)),
        Ok(Err(error)) => Err(Failure::Unanswered(chain(&error))),
        Err(_) => {
            Err(Failure::Unanswered(format!("no answer in {} s", timeout.as_secs_f32().ceil())))
        }
    }
}

fn check_context(kubeconfig: &Kubeconfig, context: &str, path: &str) -> Result<(), OpenError> {
    if kubeconfig.contexts.iter().any(|known| known.name == context) {
        return Ok(());
    }
    let known: Vec<String> =
        kubeconfig.contexts.iter().map(|known| format!("`{}`", known.name)).collect();
    Err(OpenError::Context {
        path: path.to_owned(),
        context: context.to_owned(),
        known: if known.is_empty() { "none".into() } else { known.join(", ") },
    })
}
