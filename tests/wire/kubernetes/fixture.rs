//! What the tests of pods share: a provider in a namespace of its own, orders, and statuses.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::providers::kubernetes::{Kubernetes, KubernetesSettings};
use ostler_actors::model::{
    Binding, Labels, MachineName, MachineSpec, MachineView, Policy, PoolSpec, Sighting, Stamp,
};
use ostler_actors::ports::{CreateOrder, Inventory as _, Jit, MachineRef, Provider as _};
use serde_json::{Value, json};

use crate::support::cluster::{Cluster, Place};

/// A provider of pods and the place they live in.
pub(super) struct Fixture {
    pub(super) place: Arc<Place>,
    pub(super) provider: Kubernetes,
}

impl Fixture {
    /// Opens a provider that may do everything, in a namespace of its own; nothing where there is
    /// no API server.
    pub(super) async fn open() -> Option<Self> {
        Some(Self::in_place(Cluster::shared().await?.place().await))
    }

    /// Opens a provider that may do everything in this place.
    pub(super) fn in_place(place: Arc<Place>) -> Self {
        let provider = Kubernetes::open(settings(&place, None)).unwrap();
        Self { place, provider }
    }

    pub(super) async fn create(&self, order: CreateOrder) -> MachineView {
        self.provider.create(order).await.unwrap()
    }

    /// Makes a late-bound pod, puts it on the node and says how it is.
    pub(super) async fn stand(&self, name: &str, status: Value) -> MachineView {
        self.create(order(name, Binding::Late)).await;
        self.place.bind(name).await;
        self.place.say(name, status).await;
        self.view(name).await
    }

    /// Looks at a pod.
    pub(super) async fn view(&self, name: &str) -> MachineView {
        match self.provider.read(&by_name(name)).await {
            Sighting::Seen(view) => view,
            other => panic!("`{name}`: {other:?}"),
        }
    }
}

/// Returns the settings of a provider in a place, with a token or as one who may do everything.
pub(super) fn settings(place: &Place, token: Option<&str>) -> KubernetesSettings {
    KubernetesSettings {
        namespace: Some(place.namespace.clone()),
        kubeconfig: Some(place.kubeconfig(token)),
        public_url: Some("http://127.0.0.1:1".into()),
        compare_every: Duration::from_secs(2),
        confirm_after: Duration::from_millis(200),
        ..KubernetesSettings::default()
    }
}

/// Returns an order for a pod of a pool.
pub(super) fn order(name: &str, binding: Binding) -> CreateOrder {
    let machine = MachineSpec {
        image: "runner:test".into(),
        flavor: String::new(),
        os: "linux".into(),
        arch: "x64".into(),
        extra: json!({ "pod": { "spec": { "serviceAccountName": "warm" } } }),
    };
    let pool = PoolSpec {
        id: "linux".into(),
        forge: "github".into(),
        scope: "acme".parse().unwrap(),
        provider: "k8s".into(),
        binding,
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
    CreateOrder {
        name: name.into(),
        stamp: Stamp {
            controller: Some("controller".into()),
            holder: Some("holder".into()),
            pool: Some("linux".into()),
            instance: Some(name.into()),
        },
        machine,
        pool: Arc::new(pool),
        avoid: vec![],
        attempt: 1,
        jit: (binding == Binding::Early).then(|| Jit::new("as it came")),
        slot: ostler_actors::ports::CreateSlot::default(),
    }
}

pub(super) fn by_name(name: &str) -> MachineRef {
    MachineRef { name: MachineName::new(name), uid: None }
}

pub(super) fn exact(view: &MachineView) -> MachineRef {
    MachineRef { name: view.name.clone(), uid: view.uid.clone() }
}

/// Returns a status of a pod whose runner stands so.
pub(super) fn runner(phase: &str, state: Value) -> Value {
    json!({ "phase": phase, "containerStatuses": [part("runner", state)] })
}

/// Returns the status of one container.
pub(super) fn part(name: &str, state: Value) -> Value {
    let started = state.get("running").is_some();
    json!({
        "name": name, "image": "i", "imageID": "", "ready": started, "started": started,
        "restartCount": 0, "state": state, "lastState": {},
    })
}

pub(super) fn running() -> Value {
    json!({ "running": { "startedAt": "2026-11-18T01:00:00Z" } })
}

pub(super) fn waiting(reason: &str) -> Value {
    json!({ "waiting": { "reason": reason } })
}

pub(super) fn ended(code: i32, reason: &str) -> Value {
    json!({ "terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": "2026-11-18T01:00:00Z", "finishedAt": "2026-11-18T01:05:00Z",
    } })
}

/// What is logged on this thread.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Begins to listen, until the guard goes.
    pub(super) fn listen() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let (writer, layer) = (log.clone(), tracing_subscriber::fmt().with_ansi(false));
        let subscriber = layer.with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Returns what was heard so far.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
