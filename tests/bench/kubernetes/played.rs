//! What scheduler and kubelet do, for the daemon's pods and for the bare client's alike, and the pod
//! both make.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use ostler::providers::kubernetes::{AUDIENCE, Kubernetes, KubernetesSettings};
use ostler_actors::model::{Binding, Labels, MachineSpec, Policy, PoolSpec, Stamp};
use ostler_actors::ports::{CreateOrder, CreateSlot, Provider as _};
use serde_json::{Value, json};

use super::support::cluster::Place;

/// Puts a pod on the node and starts its poller; returns the poller's token.
pub(crate) async fn warm_up(place: &Place, name: &str) -> String {
    place.bind(name).await;
    let poller = part("poller", &json!({ "running": {} }));
    place.say(name, json!({ "phase": "Pending", "initContainerStatuses": [poller] })).await;
    place.token("warm", Some(AUDIENCE), Some(name)).await
}

/// Says that the runner runs.
pub(crate) async fn run(place: &Place, name: &str) {
    place.say(name, status("Running", &json!({ "running": {} }))).await;
}

/// How long a runner's process lives on after its job.
const GOODBYE: Duration = Duration::from_millis(200);

/// Lets the runner end after its job, and says so. A pod that is over goes as soon as it is deleted.
pub(crate) async fn end(place: &Place, name: &str) {
    tokio::time::sleep(GOODBYE).await;
    let ended = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    place.say(name, status("Succeeded", &ended)).await;
}

fn status(phase: &str, state: &Value) -> Value {
    json!({ "phase": phase, "containerStatuses": [part("runner", state)] })
}

fn part(name: &str, state: &Value) -> Value {
    json!({
        "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": state, "lastState": {},
    })
}

pub(crate) fn open(place: &Place) -> Kubernetes {
    Kubernetes::open(KubernetesSettings {
        namespace: Some(place.namespace.clone()),
        kubeconfig: Some(place.kubeconfig(None)),
        public_url: Some("http://127.0.0.1:1".into()),
        ..KubernetesSettings::default()
    })
    .unwrap()
}

/// Returns a pod exactly as the provider would make it, without its name.
pub(crate) async fn template(place: &Arc<Place>) -> Pod {
    static TEMPLATES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("template{}", TEMPLATES.fetch_add(1, Ordering::Relaxed));
    open(place).create(order(&name)).await.unwrap();
    let made = place.pods().get(&name).await.unwrap();
    place.pods().delete(&name, &DeleteParams::default()).await.unwrap();
    let metadata = kube::core::ObjectMeta {
        labels: made.metadata.labels,
        annotations: made.metadata.annotations,
        ..Default::default()
    };
    Pod { metadata, spec: made.spec, status: None }
}

fn order(name: &str) -> CreateOrder {
    let machine = MachineSpec {
        image: "runner:bench".into(),
        flavor: String::new(),
        os: "linux".into(),
        arch: "x64".into(),
        // The server of the tests names no account by itself.
        extra: json!({ "pod": { "spec": { "serviceAccountName": "warm" } } }),
    };
    let pool = PoolSpec {
        id: "linux".into(),
        forge: "github".into(),
        scope: "acme".parse().unwrap(),
        provider: "k8s".into(),
        binding: Binding::Late,
        labels: Labels::from_iter(["linux"]),
        accept_unlabelled: false,
        runner_group: "Default".into(),
        min_idle: 0,
        max: 10,
        machine: machine.clone(),
        revision: "r1".into(),
        prefix: "linux".into(),
        policy: Policy::default(),
    };
    let stamp = Stamp {
        controller: Some("controller".into()),
        holder: Some("holder".into()),
        pool: Some("linux".into()),
        instance: Some(name.into()),
    };
    let pool = Arc::new(pool);
    CreateOrder {
        name: name.into(),
        stamp,
        machine,
        pool,
        avoid: vec![],
        attempt: 1,
        slot: CreateSlot::default(),
        jit: None,
    }
}
