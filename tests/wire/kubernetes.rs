//! Pods for real: an API server and etcd with RBAC on, and a node that is played.
//!
//! The server is of version 1.20: it shows what pods, watches, rights, conflicts and outages mean,
//! and is no evidence for what newer servers added. Without its programs these tests are skipped.

#![expect(
    clippy::default_trait_access,
    clippy::needless_pass_by_value,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod binding;
mod chart;
mod deletion;
mod fixture;
mod guard;
mod incident;
mod postmortem;
mod rights;
mod verdicts;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use ostler::providers::kubernetes::Kubernetes;
use ostler_actors::model::{Binding, MachineName, Stamp};
use ostler_actors::ports::CreateOrder;
use ostler_actors::testing::contract::{ProviderBench, provider_contract};

use crate::support::cluster::{Cluster, Keeping};
use fixture::Fixture;

/// Runs the contract of all providers on pods that a played kubelet starts and takes away.
struct Bench {
    cluster: Arc<Cluster>,
    open: Option<(Fixture, Keeping)>,
}

impl ProviderBench for Bench {
    type Provider = Kubernetes;

    async fn open(&mut self) -> Arc<Kubernetes> {
        let fixture = Fixture::in_place(self.cluster.place().await);
        let provider = Arc::new(fixture.provider.clone());
        let keeping = fixture.place.keep_pods(fixture::runner("Running", fixture::running()));
        self.open = Some((fixture, keeping));
        provider
    }

    fn order(&self, name: &str, stamp: Stamp) -> CreateOrder {
        CreateOrder { stamp, ..fixture::order(name, Binding::Late) }
    }

    async fn end_with_seven(&mut self, machine: &MachineName) {
        let (fixture, _) = self.open.as_ref().unwrap();
        fixture.place.kubelet.wrote(machine.as_str(), "runner", "the end\n");
        let ended = fixture::runner("Failed", fixture::ended(7, "Error"));
        fixture.place.say(machine.as_str(), ended).await;
    }

    async fn pass(&mut self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_keep_the_contract_of_providers() {
    let Some(cluster) = Cluster::shared().await else { return };
    provider_contract(&mut Bench { cluster, open: None }).await;
}
