//! Counts and times every call to a provider, and reports how it went.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{
    ExitReport, MachineView, Observation, ProviderId, Sighting, Tail, refuses_credential,
};
use ostler_actors::ports::{
    Clock, CreateError, CreateOrder, Deletion, Grace, Inventory, MachineRef, MachineSink, Provider,
    ProviderCapabilities, ProviderError, Watching,
};
use tokio::time::Instant;

use self::CallResult::{Failed, Served};
use crate::ports::CallHealth;
use crate::telemetry::metrics::Metrics;

/// A port whose calls are counted.
struct Metered<P: ?Sized> {
    inner: Arc<P>,
    name: String,
    meter: Meter,
}

/// Where calls are reported.
#[derive(Clone)]
pub(super) struct Meter {
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<CallHealth>,
    pub(super) clock: Arc<dyn Clock>,
}

/// How a call went.
enum CallResult<'a> {
    /// It was served, with this outcome.
    Served(&'static str),
    /// It was not, with this outcome and error.
    Failed(&'static str, &'a str),
}

impl<P: ?Sized> Metered<P> {
    fn new(id: &ProviderId, inner: Arc<P>, meter: &Meter) -> Self {
        meter.metrics.know_provider(id.as_str());
        Self { inner, name: id.to_string(), meter: meter.clone() }
    }

    async fn time<T>(
        &self,
        op: &'static str,
        call: impl Future<Output = T>,
        result: impl FnOnce(&T) -> CallResult<'_>,
    ) -> T {
        let began = Instant::now();
        let answer = call.await;
        let Meter { metrics, health, clock } = &self.meter;
        let outcome = match result(&answer) {
            Served(outcome) => {
                health.served(&self.name);
                outcome
            }
            Failed(outcome, error) => {
                health.failed(&self.name, error, clock.now());
                outcome
            }
        };
        metrics.count_call(&self.name, op, outcome, began.elapsed());
        answer
    }
}

/// Wraps the doing halves.
pub(super) fn doing(
    providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
    meter: &Meter,
) -> BTreeMap<ProviderId, Arc<dyn Provider>> {
    let wrap = |(id, inner)| {
        let metered_provider = Metered::new(&id, inner, meter);
        (id, Arc::new(metered_provider) as Arc<dyn Provider>)
    };
    providers.into_iter().map(wrap).collect()
}

/// Wraps the seeing halves.
pub(super) fn seeing(
    inventories: BTreeMap<ProviderId, Arc<dyn Inventory>>,
    meter: &Meter,
) -> BTreeMap<ProviderId, Arc<dyn Inventory>> {
    let wrap = |(id, inner)| {
        let metered_provider = Metered::new(&id, inner, meter);
        (id, Arc::new(metered_provider) as Arc<dyn Inventory>)
    };
    inventories.into_iter().map(wrap).collect()
}

#[async_trait]
impl<P: Inventory + ?Sized> Inventory for Metered<P> {
    async fn list(&self) -> Observation<Vec<MachineView>> {
        self.time("list", self.inner.list(), |seen| match seen {
            Observation::Complete(_) => Served("ok"),
            Observation::Unusable(why) => Failed("failed", why),
        })
        .await
    }

    async fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        self.time("read", self.inner.read(machine), |seen| match seen {
            Sighting::Seen(_) => Served("ok"),
            Sighting::Absent => Served("absent"),
            Sighting::Unknown(why) => Failed("failed", why),
        })
        .await
    }

    async fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        self.time("remains", self.inner.exit_report(machine, want_tail), |exit_report| {
            match exit_report.tail {
                Tail::Captured(_) | Tail::NotNeeded => Served("ok"),
                // What cannot be had of one machine says nothing about the others.
                Tail::Unavailable(_) => Served("failed"),
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
            Ok(_) => Served("ok"),
            Err(CreateError::Refused { why, .. }) if refuses_credential(why) => {
                Failed("refused", why)
            }
            Err(CreateError::Failed { why, .. }) if refuses_credential(why) => {
                Failed("failed", why)
            }
            Err(CreateError::Refused { .. }) => Served("refused"),
            Err(CreateError::Failed { .. }) => Served("failed"),
            Err(CreateError::Unanswered { why, .. }) => Failed("unanswered", why),
        })
        .await
    }

    async fn delete(&self, machine: &MachineRef, grace: Grace) -> Result<Deletion, ProviderError> {
        self.time("delete", self.inner.delete(machine, grace), |answer| match answer {
            Ok(Deletion::Accepted) => Served("ok"),
            Ok(Deletion::NotFound) => Served("absent"),
            Err(ProviderError::Later { why, .. }) => Failed("failed", why),
        })
        .await
    }

    fn capabilities(&self) -> ProviderCapabilities {
        self.inner.capabilities()
    }
}
