//! Pods through the provider beside the same calls by a bare client, on a real API server.
//!
//! Prints the rate of whole lives (created, seen running, ended, examined, deleted, proven gone) of
//! both in one run, their ratio, our processor time and memory, and what a watch over many pods
//! costs. `OSTLER_PODS=2000` lives, `OSTLER_VIEWS=10000` pods under the watch.

#![expect(clippy::unwrap_used, reason = "a program of its own that stops at the first surprise")]

#[path = "../support"]
mod support {
    #![expect(dead_code, reason = "the tests use the rest")]

    pub(crate) mod cluster;
    pub(crate) mod kubelet;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::watcher;
use ostler::providers::kubernetes::{Kubernetes, KubernetesSettings};
use ostler_actors::model::{
    Binding, Labels, MachineName, MachineSpec, MachineView, Policy, PoolSpec, Sighting, Stamp,
};
use ostler_actors::ports::{
    CreateOrder, Grace, Inventory as _, MachineRef, MachineSink, Provider as _,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use support::cluster::{Cluster, Place};

/// How many lives run side by side.
const ABREAST: usize = 50;

#[tokio::main]
async fn main() {
    let Some(cluster) = Cluster::shared().await else { return };
    let pods = number("OSTLER_PODS", 2000);
    let place = cluster.place().await;
    let provider = open(&place);
    // The first lives of both warm caches and connections up.
    bare(&place, "w0", 50).await;
    ours(&place, &provider, "w1", 50).await;
    let theirs = Box::pin(measure("bare client", pods, bare(&place, "b", pods))).await;
    let rate = measure("provider", pods, ours(&place, &provider, "o", pods)).await;
    println!("kubernetes: provider/bare = {:.0} %", 100.0 * rate / theirs);
    views(&cluster.place().await, number("OSTLER_VIEWS", 10_000)).await;
}

async fn measure(what: &str, pods: usize, lives: impl Future<Output = ()>) -> f64 {
    let (began, cpu) = (Instant::now(), cpu());
    lives.await;
    let took = began.elapsed();
    let rate = per_second(pods, took);
    println!(
        "kubernetes: {what}: {pods} pods in {took:.1?}, {rate:.0} lives/s, {:.1} s of processor time, {} MiB resident",
        self::cpu().saturating_sub(cpu).as_secs_f64(),
        resident() >> 10,
    );
    rate
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Whole lives through the provider, under its watch.
async fn ours(place: &Arc<Place>, provider: &Kubernetes, prefix: &str, pods: usize) {
    let ear = Arc::new(Ear::default());
    let watching = provider.watch(Arc::<Ear>::clone(&ear));
    let life = |at: usize| async move {
        let made = provider.create(order(&format!("{prefix}{at}"))).await.unwrap();
        let name = made.name.to_string();
        play(place, &name).await;
        let machine = MachineRef { name: made.name, uid: made.uid };
        let remains = provider.remains(&machine, false).await;
        assert_eq!(remains.exit.unwrap().code, Some(0));
        provider.delete(&machine, Grace::Usual).await.unwrap();
        assert_eq!(provider.read(&machine).await, Sighting::Absent);
    };
    futures_util::stream::iter(0..pods).for_each_concurrent(ABREAST, life).await;
    drop(watching);
}

/// The same calls by a bare client, under a bare watch.
async fn bare(place: &Arc<Place>, prefix: &str, pods: usize) {
    let api: Api<Pod> = place.pods();
    let watched = api.clone();
    let watching = tokio::spawn(async move {
        let config = watcher::Config::default().labels("app.kubernetes.io/managed-by=ostler");
        watcher(watched, config).for_each(|_| async {}).await;
    });
    let body = template(place).await;
    let (api, body) = (&api, &body);
    let life = |at: usize| async move {
        let name = format!("{prefix}{at}");
        let mut pod = body.clone();
        pod.metadata.name = Some(name.clone());
        let made = api.create(&PostParams::default(), &pod).await.unwrap();
        play(place, &name).await;
        api.get(&name).await.unwrap();
        let preconditions = Preconditions { uid: made.metadata.uid, resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        api.delete(&name, &params).await.unwrap();
        assert!(api.get_opt(&name).await.unwrap().is_none());
    };
    futures_util::stream::iter(0..pods).for_each_concurrent(ABREAST, life).await;
    watching.abort();
}

/// What scheduler and kubelet do in both cases. A pod that is over goes as soon as it is deleted.
async fn play(place: &Place, name: &str) {
    place.bind(name).await;
    place.say(name, status("Running", json!({ "running": {} }))).await;
    let ended = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    place.say(name, status("Succeeded", ended)).await;
}

/// Lets a watch see many pods, and prints what that costs.
async fn views(place: &Arc<Place>, pods: usize) {
    let body = template(place).await;
    let (api, body) = (&place.pods(), &body);
    let make = |at: usize| async move {
        let mut pod = body.clone();
        pod.metadata.name = Some(format!("v{at}"));
        api.create(&PostParams::default(), &pod).await.unwrap();
    };
    futures_util::stream::iter(0..pods).for_each_concurrent(ABREAST, make).await;
    let (ear, provider) = (Arc::new(Ear::default()), open(place));
    let (began, before, cpu) = (Instant::now(), resident(), cpu());
    let watching = provider.watch(Arc::<Ear>::clone(&ear));
    while ear.0.load(Ordering::Relaxed) < pods {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "kubernetes: {pods} pods seen in {:.1?}, {:.1} s of processor time, {} MiB more resident",
        began.elapsed(),
        self::cpu().saturating_sub(cpu).as_secs_f64(),
        resident().saturating_sub(before) >> 10,
    );
    drop(watching);
}

/// Counts what it is told.
#[derive(Default)]
struct Ear(AtomicUsize);

impl MachineSink for Ear {
    fn seen(&self, _: MachineView) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn missed(&self, _: MachineName) {}
}

fn open(place: &Place) -> Kubernetes {
    Kubernetes::open(KubernetesSettings {
        namespace: Some(place.namespace.clone()),
        kubeconfig: Some(place.kubeconfig(None)),
        public_url: Some("http://127.0.0.1:1".into()),
        ..KubernetesSettings::default()
    })
    .unwrap()
}

/// Returns a pod exactly as the provider would make it, without its name.
async fn template(place: &Arc<Place>) -> Pod {
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
    CreateOrder { name: name.into(), stamp, machine, pool, avoid: vec![], attempt: 1, jit: None }
}

fn status(phase: &str, state: Value) -> Value {
    let mut part = json!({
        "name": "runner", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "lastState": {},
    });
    part["state"] = state;
    json!({ "phase": phase, "containerStatuses": [part] })
}

fn number(key: &str, usual: usize) -> usize {
    std::env::var(key).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Returns the processor time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
