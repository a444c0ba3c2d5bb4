//! The provider: the two halves of its port.

use std::sync::Arc;

use async_trait::async_trait;
use kube::api::ListParams;
use ostler_actors::model::{ExitReport, MachineView, Observation, Sighting};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderCapabilities, ProviderError, Watching,
};

use super::client::{CALL, Cluster, Failure, OpenError, within};
use super::ending::UnprovenEnds;
use super::names::SELECTOR;
use super::review::Reviews;
use super::seen::Seen;
use super::settings::KubernetesSettings;
use super::{exit_report, watch};
use crate::config;
use crate::providers::{OpenContext, Opened};

/// How many pods are listed at once.
const PAGE: u32 = 500;

/// Makes runners as pods.
#[derive(Clone)]
pub struct Kubernetes {
    pub(super) state: Arc<ProviderState>,
}

/// Holds what is known apart from the pods themselves.
pub(super) struct ProviderState {
    pub(super) settings: KubernetesSettings,
    pub(super) cluster: Cluster,
    pub(super) reviews: Reviews,
    pub(super) unproven_ends: UnprovenEnds,
}

/// Opens the provider of a `[provider.NAME]`.
pub fn open(kubernetes: &config::Kubernetes, context: &OpenContext<'_>) -> Opened {
    let settings = KubernetesSettings::from_config(kubernetes, context.config);
    Ok(Arc::new(Kubernetes::open(settings)?))
}

impl Kubernetes {
    /// Reads how to reach the cluster; asks it nothing yet.
    pub fn open(settings: KubernetesSettings) -> Result<Self, OpenError> {
        let cluster = Cluster::open(&settings)?;
        let state = ProviderState {
            settings,
            cluster,
            reviews: Reviews::default(),
            unproven_ends: UnprovenEnds::default(),
        };
        Ok(Self { state: Arc::new(state) })
    }
}

impl ProviderState {
    /// Lists all pods of ours, page by page: all of them or nothing.
    pub(super) async fn list(&self) -> Result<Vec<MachineView>, Failure> {
        let pods = self.cluster.reach().await?.pods();
        let mut views = Vec::new();
        let mut page = ListParams::default().labels(SELECTOR).limit(PAGE);
        loop {
            let answer = within(CALL, pods.list(&page)).await?;
            for pod in &answer.items {
                views.extend(self.judged(pod).await);
            }
            let next = answer.metadata.continue_.filter(|next| !next.is_empty());
            let Some(next) = next else {
                self.unproven_ends.retain(&views);
                return Ok(views);
            };
            page = page.continue_token(&next);
        }
    }

    /// Reads the pod a reference means; none if there is none, or another of its name.
    pub(super) async fn find(&self, machine: &MachineRef) -> Result<Option<Seen>, Failure> {
        let pods = self.cluster.reach().await?.pods();
        let found = within(CALL, pods.get_opt(machine.name.as_str())).await?;
        let same = |pod: &Seen| machine.uid.is_none() || machine.uid == pod.metadata.uid;
        Ok(found.filter(same))
    }
}

#[async_trait]
impl Inventory for Kubernetes {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        match self.state.list().await {
            Ok(views) => Observation::Complete(views),
            Err(why) => Observation::Unusable(why.to_string()),
        }
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        match self.state.find(machine).await {
            Ok(Some(pod)) => self.state.judged(&pod).await.map_or(Sighting::Absent, Sighting::Seen),
            Ok(None) => Sighting::Absent,
            Err(why) => Sighting::Unknown(why.to_string()),
        }
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        Box::pin(exit_report::gather(&self.state, machine, want_tail)).await
    }

    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        watch::begin(Arc::clone(&self.state), sink)
    }
}

#[async_trait]
impl Provider for Kubernetes {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        Box::pin(self.state.create(order)).await
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        self.state
            .delete(machine, grace)
            .await
            .map_err(|why| ProviderError::Later { after: why.retry_after(), why: why.to_string() })
    }

    fn capabilities(&self) -> ProviderCapabilities {
        let shared = Arc::new(self.clone());
        ProviderCapabilities {
            machine_auth: Some(Arc::clone(&shared) as _),
            marks: Some(Arc::clone(&shared) as _),
            host_drains: Some(Arc::clone(&shared) as _),
            dry_run: Some(Arc::clone(&shared) as _),
            self_check: Some(shared),
            ..ProviderCapabilities::default()
        }
    }
}
