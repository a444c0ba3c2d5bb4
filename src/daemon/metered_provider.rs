//! Counts and times every call to a provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{ExitReport, MachineView, Observation, ProviderId, Sighting, Tail};
use ostler_actors::ports::{
    CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderCapabilities, ProviderError, Watching,
};
use tokio::time::Instant;

use crate::telemetry::metrics::Metrics;

/// A port whose calls are counted.
struct Metered<P: ?Sized> {
    inner: Arc<P>,
    name: String,
    metrics: Arc<Metrics>,
}

impl<P: ?Sized> Metered<P> {
    fn new(id: &ProviderId, inner: Arc<P>, metrics: &Arc<Metrics>) -> Self {
        metrics.know_provider(id.as_str());
        Self { inner, name: id.to_string(), metrics: Arc::clone(metrics) }
    }

    async fn time<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = T>,
        outcome: impl FnOnce(&T) -> &'static str,
    ) -> T {
        let began = Instant::now();
        let answer = call.await;
        self.metrics.count_call(&self.name, op, outcome(&answer), began.elapsed());
        answer
    }
}

/// Wraps the doing halves.
pub(super) fn doing(
    providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
    metrics: &Arc<Metrics>,
) -> BTreeMap<ProviderId, Arc<dyn Provider>> {
    let wrap = |(id, inner)| {
        let metered_provider = Metered::new(&id, inner, metrics);
        (id, Arc::new(metered_provider) as Arc<dyn Provider>)
    };
    providers.into_iter().map(wrap).collect()
}

/// Wraps the seeing halves.
pub(super) fn seeing(
    inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    metrics: &Arc<Metrics>,
) -> BTreeMap<ProviderId, Arc<dyn Inventory>> {
    let wrap = |(id, inner)| {
        let metered_provider = Metered::new(&id, inner, metrics);
        (id, Arc::new(metered_provider) as Arc<dyn Inventory>)
    };
    inventories.into_iter().map(wrap).collect()
}

#[async_trait]
impl<P: Inventory + ?Sized> Inventory for Metered<P> {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.time("list", self.inner.list(), |seen| match seen {
            Observation::Complete(_) => "ok",
            Observation::Unusable(_) => "failed",
        })
        .await
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        self.time("read", self.inner.read(machine), |seen| match seen {
            Sighting::Seen(_) => "ok",
            Sighting::Absent => "absent",
            Sighting::Unknown(_) => "failed",
        })
        .await
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        self.time("remains", self.inner.exit_report(machine, want_tail), |exit_report| {
            match exit_report.tail {
                Tail::Captured(_) | Tail::NotNeeded => "ok",
                Tail::Unavailable(_) => "failed",
            }
        })
        .await
    }

    fn watch(&self, sink: Arc<dyn MachineSink>) -> Watching {
        self.inner.watch(sink)
    }
}

#[async_trait]
impl<P: Provider + ?Sized> Provider for Metered<P> {
    async fn create(&self, order: CreateOrder) -> Result<MachineView, CreateError> {
        self.time("create", self.inner.create(order), |answer| match answer {
            Ok(_) => "ok",
            Err(CreateError::Refused { .. }) => "refused",
            Err(CreateError::Unanswered { .. }) => "unanswered",
        })
        .await
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        self.time("delete", self.inner.delete(machine, grace), |answer| match answer {
            Ok(Deletion::Accepted) => "ok",
            Ok(Deletion::NotFound) => "absent",
            Err(ProviderError::Later { .. }) => "failed",
        })
        .await
    }

    fn capabilities(&self) -> ProviderCapabilities {
        self.inner.capabilities()
    }
}
