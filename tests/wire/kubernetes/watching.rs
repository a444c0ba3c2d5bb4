//! The watch through faults: a server that is killed under it, events that are gone, listings that
//! show nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::{Patch, PatchParams};
use ostler_actors::model::{Binding, MachineName, MachinePhase, MachineView, Sighting};
use ostler_actors::ports::{Inventory as _, MachineSink, Provider as _};
use serde_json::json;

use super::yard::{Yard, by_name, order, runner, running};
use crate::support::cluster::Cluster;
use crate::support::daemon::until;

const PATIENCE: Duration = Duration::from_mins(1);
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
async fn make_many(yard: &Yard) {
    let make = |at: usize| {
        let provider = yard.provider.clone();
        async move { provider.create(order(&format!("m{at}"), Binding::Late)).await.unwrap() }
    };
    let pods = futures_util::stream::iter(0..MANY).map(make).buffer_unordered(16);
    assert_eq!(pods.count().await, MANY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_comes_back_costs_no_pod() {
    let Some(cluster) = Cluster::alone().await else { return };
    let yard = Yard::in_place(cluster.place().await);
    let ear = Arc::new(Ear::default());
    let watching = yard.provider.watch(Arc::<Ear>::clone(&ear));
    make_many(&yard).await;
    until("all are heard of", PATIENCE, async || ear.count(&MachinePhase::Booting) == MANY).await;

    // Twice: the second time the server remembers no event, and says that the watch is too old.
    for turn in 0..2 {
        cluster.down().await;
        assert!(matches!(yard.provider.read(&by_name("m0")).await, Sighting::Unknown(_)));
        assert!(matches!(
            yard.provider.list().await,
            ostler_actors::model::Observation::Unusable(_)
        ));
        cluster.up().await;
        let name = format!("m{turn}");
        yard.place.bind(&name).await;
        yard.place.say(&name, runner("Running", running())).await;
        until("what changed is heard of", PATIENCE, async || {
            ear.count(&MachinePhase::Running) == turn + 1
        })
        .await;
    }
    assert_eq!(ear.missed(), BTreeSet::new(), "nobody is missed for the server's sake");
    assert_eq!(ear.last.lock().unwrap().len(), MANY);
    // One that really goes is missed.
    yard.place.pods().delete("m7", &Default::default()).await.unwrap();
    until("its end is heard of", PATIENCE, async || ear.missed().contains("m7")).await;
    assert_eq!(ear.missed().len(), 1);
    drop(watching);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_shows_nothing_proves_nothing() {
    let Some(yard) = Yard::open().await else { return };
    let names: Vec<String> = (0..10).map(|at| format!("m{at}")).collect();
    for name in &names {
        yard.make(order(name, Binding::Late)).await;
    }
    let ear = Arc::new(Ear::default());
    let watching = yard.provider.watch(Arc::<Ear>::clone(&ear));
    until("all are heard of", PATIENCE, async || ear.last.lock().unwrap().len() == names.len())
        .await;
    // Somebody takes the label away by which pods are listed: all are there, and no listing
    // and no watch shows them any more.
    let params = PatchParams::default();
    for label in [json!(null), json!("ostler")] {
        let patch = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": label } } });
        for name in &names {
            yard.place.pods().patch(name, &params, &Patch::Merge(&patch)).await.unwrap();
        }
        if label.is_null() {
            until("they are missed", PATIENCE, async || ear.missed().len() == names.len()).await;
            for name in &names {
                // What an owner does that is told so: it looks for itself.
                assert!(matches!(yard.provider.read(&by_name(name)).await, Sighting::Seen(_)));
            }
            ear.last.lock().unwrap().clear();
        }
    }
    until("all are heard of again", PATIENCE, async || {
        ear.last.lock().unwrap().len() == names.len()
    })
    .await;
    drop(watching);
}
