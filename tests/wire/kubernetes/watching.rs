//! The watch through faults: a server that is killed under it, events that are gone, listings that
//! show nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{Patch, PatchParams};
use ostler::providers::kubernetes::{Kubernetes, KubernetesSettings};
use ostler_actors::model::{
    Binding, MachineName, MachinePhase, MachineView, Observation, Sighting,
};
use ostler_actors::ports::{Inventory as _, MachineSink, Provider as _};
use serde_json::json;

use super::fixture::{Fixture, Log, by_name, order, runner, running, settings};
use crate::support::cluster::Cluster;
use crate::support::daemon::until;

const MANY: usize = 500;

/// Remembers the last view of each pod, and who was missed.
#[derive(Default)]
struct Ear {
    last: Mutex<BTreeMap<String, MachineView>>,
    missed: Mutex<BTreeSet<String>>,
}

impl MachineSink for Ear {
    fn seen(&self, view: MachineView) {
        self.last.lock().unwrap().insert(view.name.to_string(), view);
    }

    fn missed(&self, machine: MachineName) {
        self.missed.lock().unwrap().insert(machine.to_string());
    }
}

impl Ear {
    fn count(&self, phase: &MachinePhase) -> usize {
        self.last.lock().unwrap().values().filter(|view| view.phase == *phase).count()
    }

    fn missed(&self) -> BTreeSet<String> {
        self.missed.lock().unwrap().clone()
    }
}

/// Makes many pods at a time.
async fn create_many(fixture: &Fixture) {
    let create = |at: usize| {
        let provider = fixture.provider.clone();
        async move { provider.create(order(&format!("m{at}"), Binding::Late)).await.unwrap() }
    };
    let pods = futures_util::stream::iter(0..MANY).map(create).buffer_unordered(16);
    assert_eq!(pods.count().await, MANY);
}

#[tokio::test]
async fn a_server_that_is_killed_and_comes_back_costs_no_pod() {
    let Some(cluster) = Cluster::alone().await else { return };
    let (log, _listening) = Log::listen();
    let place = cluster.place().await;
    // Nothing is listed beside the watch, so every listing is its own.
    let quiet =
        KubernetesSettings { compare_every: Duration::from_hours(10), ..settings(&place, None) };
    let fixture = Fixture { provider: Kubernetes::open(quiet).unwrap(), place };
    let ear = Arc::new(Ear::default());
    let watching = fixture.provider.watch(Arc::<Ear>::clone(&ear));
    create_many(&fixture).await;
    until("all are heard of", async || ear.count(&MachinePhase::Booting) == MANY).await;
    assert!(!log.text().contains("no longer knows"), "so far nothing was forgotten");
    let before = uids(&fixture).await;

    for index in 1..=2 {
        // What happens now is not ours to watch: when the server is back and etcd has forgotten
        // its past, it cannot tell whether we missed something.
        fixture.place.add_account(&format!("account-{index}")).await;
        cluster.down().await;
        cluster.forget_the_past();
        assert!(matches!(fixture.provider.read(&by_name("m0")).await, Sighting::Unknown(_)));
        assert!(matches!(fixture.provider.list().await, Observation::Unusable(_)));
        cluster.up().await;
        assert_eq!(cluster.calls("LIST").await, 0, "its figures begin again");
        let name = format!("m{index}");
        fixture.place.bind(&name).await;
        fixture.place.say(&name, runner("Running", running())).await;
        until("what changed is heard of", async || ear.count(&MachinePhase::Running) == index)
            .await;
        // 410 Gone: the watch was told so, and listed everything once.
        let forgotten = log.text().matches("no longer knows").count();
        assert_eq!(forgotten, index, "{}", log.text());
        assert!(log.text().contains("too old resource version"), "{}", log.text());
        assert_eq!(cluster.calls("LIST").await, 1, "one listing");
        assert_eq!(cluster.calls("DELETE").await, 0, "no pod is touched");
    }
    assert_eq!(ear.missed(), BTreeSet::new(), "no pod is missed while the server is away");
    assert_eq!(ear.last.lock().unwrap().len(), MANY);
    assert_eq!(uids(&fixture).await, before, "every pod is the one it was");
    // One that really goes is missed.
    fixture.place.pods().delete("m7", &Default::default()).await.unwrap();
    until("its end is heard of", async || ear.missed().contains("m7")).await;
    assert_eq!(ear.missed().len(), 1);
    drop(watching);
}

/// Returns the ids of all pods that are not being deleted.
async fn uids(fixture: &Fixture) -> BTreeSet<String> {
    let pods = fixture.place.pods().list(&Default::default()).await.unwrap();
    let staying = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.filter_map(|pod| pod.metadata.uid).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_shows_nothing_proves_nothing() {
    let Some(fixture) = Fixture::open().await else { return };
    let names: Vec<String> = (0..10).map(|at| format!("m{at}")).collect();
    for name in &names {
        fixture.create(order(name, Binding::Late)).await;
    }
    let ear = Arc::new(Ear::default());
    let watching = fixture.provider.watch(Arc::<Ear>::clone(&ear));
    until("all are heard of", async || ear.last.lock().unwrap().len() == names.len()).await;
    // A stranger takes the label away by which pods are listed: all are there, and no listing
    // and no watch shows them any more.
    let params = PatchParams::default();
    for label in [json!(null), json!("ostler")] {
        let patch = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": label } } });
        for name in &names {
            fixture.place.pods().patch(name, &params, &Patch::Merge(&patch)).await.unwrap();
        }
        if label.is_null() {
            until("they are missed", async || ear.missed().len() == names.len()).await;
            for name in &names {
                // What an owner does that is told so: it looks for itself.
                assert!(matches!(fixture.provider.read(&by_name(name)).await, Sighting::Seen(_)));
            }
            ear.last.lock().unwrap().clear();
        }
    }
    until("all are heard of again", async || ear.last.lock().unwrap().len() == names.len()).await;
    drop(watching);
}
