//! A daemon, a namespace and a GitHub; and warm pods whose containers are processes of the test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use ostler::store::SqlStore;
use ostler_actors::model::{State, What};
use ostler_actors::ports::Records as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::cluster::{Cluster, Keeping, Place};
use crate::support::daemon::{Daemon, Stage, until};
use ostler::providers::kubernetes::AUDIENCE;

/// What a daemon says when it has applied an edit.
const RELOADED: &str = "the configuration is reloaded";

/// Holds everything of one test.
pub(super) struct Farm {
    pub(super) stage: Stage,
    pub(super) place: Arc<Place>,
    pub(super) daemon: Daemon,
    keeping: Keeping,
    /// Pods that were handed out.
    known: Mutex<BTreeSet<String>>,
    records: SqlStore,
}

/// A warm pod: its poller is a process of this test.
pub(super) struct Warm {
    pub(super) name: String,
    folder: TempDir,
    poller: Mutex<Child>,
}

/// Returns a pool of pods.
pub(super) fn pool(min_idle: u32, max: u32) -> String {
    format!(
        "[[pool]]\nname = \"linux\"\nlabels = [\"self-hosted\", \"linux\"]\nmin_idle = {min_idle}\nmax = {max}\n\
         [pool.pod.spec]\nserviceAccountName = \"warm\"\n"
    )
}

/// A boot deadline that has passed for every pod that exists.
pub(super) const DUE: &str = "boot_timeout = \"1s\"";

/// Returns a pool with more keys than the usual ones.
pub(super) fn pool_with(more: &str, min_idle: u32, max: u32) -> String {
    pool(min_idle, max).replace("[pool.pod.spec]", &format!("{more}\n[pool.pod.spec]"))
}

/// Returns the status of a pod whose poller runs.
pub(super) fn polling() -> Value {
    json!({ "phase": "Pending", "initContainerStatuses": [{
        "name": "poller", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "running": { "startedAt": "2026-11-18T01:00:00Z" } }, "lastState": {},
    }] })
}

impl Farm {
    /// Starts a daemon with this pool; its pods come up with a poller.
    pub(super) async fn start(pool: &str) -> Option<Self> {
        Self::start_with(pool, polling()).await
    }

    /// Starts a daemon with this pool; its pods come up like this.
    pub(super) async fn start_with(pool: &str, up: Value) -> Option<Self> {
        Some(Self::start_in(Cluster::shared().await?.place().await, pool, up).await)
    }

    /// Starts a daemon with this pool in this place; its pods come up like this.
    pub(super) async fn start_in(place: Arc<Place>, pool: &str, up: Value) -> Self {
        place.add_account("warm").await;
        let keeping = place.keep_pods(up);
        let stage = Stage::on_sqlite("");
        stage.write_config(&whole(&stage, &place, None, pool));
        let daemon = stage.lead().await;
        let records = stage.records().await;
        Self { stage, place, daemon, keeping, known: Mutex::default(), records }
    }

    /// Starts a daemon of another build with this pool; its port stays the same for the next daemon.
    pub(super) async fn start_program(program: PathBuf, pool: &str) -> Option<Self> {
        let place = Cluster::shared().await?.place().await;
        place.add_account("warm").await;
        let keeping = place.keep_pods(polling());
        let mut stage = Stage::on_sqlite("");
        stage.be_asked_for_work();
        stage.program = program;
        stage.write_config(&whole(&stage, &place, None, pool));
        let daemon = stage.lead().await;
        let records = stage.records().await;
        Some(Self { stage, place, daemon, keeping, known: Mutex::default(), records })
    }

    /// Stops the daemon and starts one of this build on the same store.
    pub(super) async fn upgrade(&mut self) {
        self.daemon.signal(rustix::process::Signal::TERM);
        assert_eq!(self.daemon.ended().await.code(), Some(0), "{}", self.daemon.log());
        self.stage.program = env!("CARGO_BIN_EXE_ostler").into();
        self.daemon = self.stage.lead().await;
        self.records = self.stage.records().await;
    }

    /// Returns the ids of all pods that are not being deleted, by name.
    pub(super) async fn pods(&self) -> BTreeMap<String, String> {
        let pods = self.place.pods().list(&Default::default()).await.unwrap();
        let staying = pods.items.into_iter().map(|pod| pod.metadata);
        let staying = staying.filter(|pod| pod.deletion_timestamp.is_none());
        staying.filter_map(|pod| pod.name.zip(pod.uid)).collect()
    }

    /// Returns the configuration beyond what the stage writes by itself.
    pub(super) fn reconfigure(&self, pool: &str) {
        self.stage.write_config(&whole(&self.stage, &self.place, None, pool));
    }

    pub(super) fn records(&self) -> &SqlStore {
        &self.records
    }

    /// Waits for a pod that was not handed out yet.
    pub(super) async fn next_pod(&self) -> String {
        let mut found = None;
        until("there is another pod", async || {
            let pods = self.place.pods().list(&Default::default()).await.unwrap();
            let fresh = pods.items.into_iter().filter(|pod| {
                let ours = pod.metadata.labels.as_ref();
                ours.is_some_and(|labels| labels.contains_key("ostler.dev/instance"))
                    && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            });
            let mut known = self.known.lock().unwrap();
            found =
                fresh.filter_map(|pod| pod.metadata.name).find(|name| known.insert(name.clone()));
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// Waits for another pod, and starts its poller.
    pub(super) async fn warm_pod(&self) -> Warm {
        let name = self.next_pod().await;
        let folder = tempfile::Builder::new().prefix("ostler-pod-").tempdir().unwrap();
        let token = self.place.token("warm", Some(AUDIENCE), Some(&name)).await;
        std::fs::write(folder.path().join("token"), token).unwrap();
        std::fs::create_dir(folder.path().join("jit")).unwrap();
        // With the arguments the cluster would start it with, but for places.
        let poller = Command::new(&self.stage.program)
            .arg("poller")
            .arg(format!("--server=http://{}", self.daemon_address()))
            .arg(format!("--instance={name}"))
            .arg(format!("--token-file={}", folder.path().join("token").display()))
            .arg(format!("--out={}", folder.path().join("jit").display()))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Warm { name, folder, poller: Mutex::new(poller) }
    }

    fn daemon_address(&self) -> std::net::SocketAddr {
        self.daemon.address_now().expect("it listens")
    }

    /// Starts the runner of a pod whose config is staged, as its container would.
    pub(super) async fn run_runner(&self, warm: &Warm) -> Child {
        self.run(&warm.name, &warm.staged()).await
    }

    /// Starts the runner of a pod with a JIT config, as its container would.
    pub(super) async fn run(&self, name: &str, jit: &Path) -> Child {
        self.place.say(name, container("Running", running())).await;
        let host = self.stage.github.url().trim_start_matches("http://").to_owned();
        Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["demo-runner", "--github", &host, "--jit"])
            .arg(jit)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Waits for the end of a runner, and says it as its kubelet would.
    pub(super) async fn end_runner(&self, warm: &Warm, mut runner: Child) {
        let mut code = None;
        until("the runner ends", async || {
            code = runner.try_wait().unwrap();
            code.is_some()
        })
        .await;
        let code = code.and_then(|status| status.code()).unwrap_or(137);
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let ended = json!({ "terminated": {
            "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
            "startedAt": "2026-11-18T01:00:00Z", "finishedAt": "2026-11-18T01:05:00Z",
        } });
        self.place.say(&warm.name, container(phase, ended)).await;
    }

    /// Asks for work with a token; returns the status and the answer. Gives up before the turn ends.
    pub(super) async fn ask(&self, token: &str, body: &str) -> (u16, Value) {
        let address = self.daemon_address();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /runner/v1/dispatch HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Puts another pod in the place of one, under the same name.
    pub(super) async fn replace_pod(&self, name: &str) {
        let mut pod = self.place.pods().get(name).await.unwrap();
        let at_once =
            kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
        self.place.pods().delete(name, &at_once).await.unwrap();
        pod.metadata = kube::core::ObjectMeta { name: Some(name.into()), ..Default::default() };
        pod.status = None;
        pod.spec.as_mut().unwrap().node_name = None;
        self.place.pods().create(&Default::default(), &pod).await.unwrap();
    }

    /// Returns what a pod says about its work.
    pub(super) async fn label(&self, name: &str) -> String {
        let pod = self.place.pods().get(name).await.unwrap();
        pod.metadata.labels.unwrap_or_default().get("ostler.dev/state").cloned().unwrap_or_default()
    }

    pub(super) async fn until_state(&self, name: &str, state: State) {
        until(&format!("`{name}` is {state}"), async || {
            let row = self.records.instance(&name.into()).await.unwrap();
            row.is_some_and(|row| row.state == state)
        })
        .await;
    }

    pub(super) async fn until_gone(&self, name: &str) {
        self.until_state(name, State::Deleted).await;
        assert!(self.place.pods().get_opt(name).await.unwrap().is_none());
    }

    pub(super) async fn timeline(&self, name: &str) -> Vec<What> {
        super::reported(self, name).await
    }

    pub(super) async fn until_reported(&self, name: &str, wanted: impl Fn(&What) -> bool) {
        until("the timeline tells", async || self.timeline(name).await.iter().any(&wanted)).await;
    }

    /// Runs `ostler check --live`, with another token if one is given.
    pub(super) fn check_live(&self, token: Option<&str>) -> (i32, String) {
        let path = self.stage.path("check.toml");
        std::fs::write(&path, whole(&self.stage, &self.place, token, &pool(0, 1))).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["check", "--live", "--config"])
            .arg(path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        (out.status.code().unwrap(), format!("{text}{}", String::from_utf8_lossy(&out.stderr)))
    }

    /// Runs `ostler instance delete`; returns what it says.
    pub(super) fn delete(&self, name: &str, how: &[&str]) -> String {
        let out = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["instance", "delete", name, "--server"])
            .arg(format!("http://{}", self.daemon_address()))
            .args(how)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        format!("{text}{}", String::from_utf8_lossy(&out.stderr))
    }

    /// Ends the test: everything goes in order.
    pub(super) async fn finish(mut self) {
        self.reconfigure(&pool(0, 1).replace("linux", "other"));
        self.daemon.signal(rustix::process::Signal::HUP);
        // The cluster may refuse an edit; without this the test would wait for pods that stay.
        until("the pool is removed", async || self.daemon.log().contains(RELOADED)).await;
        until("everyone is gone", async || {
            self.daemon.must_live();
            self.records.live_instances(None).await.is_ok_and(|rows| rows.is_empty())
        })
        .await;
        self.stage.check_logs(&[]);
        drop(self.keeping);
    }

    /// Ends the test and leaves what is there: the namespace goes with the server.
    pub(super) fn leave(mut self) {
        self.stage.check_logs(&[]);
        self.stage.leave();
    }
}

impl Warm {
    /// Returns the file with the JIT config.
    pub(super) fn staged(&self) -> PathBuf {
        self.folder.path().join("jit/jitconfig")
    }

    /// Waits until the poller has staged its work and ended with 0; returns the JIT config.
    pub(super) async fn until_staged(&self) -> String {
        let mut status = None;
        until("the poller ends", async || {
            status = self.poller.lock().unwrap().try_wait().unwrap();
            status.is_some()
        })
        .await;
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        assert!(status.unwrap().success(), "{status:?}: {log}");
        let jit = std::fs::read_to_string(self.staged()).unwrap();
        assert!(!log.contains(&jit), "a poller never says what it got");
        jit
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        let poller = self.poller.get_mut().unwrap();
        // It may be gone already.
        drop(poller.kill());
        drop(poller.wait());
    }
}

fn container(phase: &str, state: Value) -> Value {
    let mut status = polling();
    status["phase"] = json!(phase);
    status["initContainerStatuses"][0]["state"] =
        json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    let started = state.get("running").is_some();
    status["containerStatuses"] = json!([{
        "name": "runner", "image": "i", "imageID": "", "ready": started, "started": started,
        "restartCount": 0, "state": state, "lastState": {},
    }]);
    status
}

fn running() -> Value {
    json!({ "running": { "startedAt": "2026-11-18T01:00:00Z" } })
}

/// Returns the configuration of a daemon of pods.
fn whole(stage: &Stage, place: &Place, token: Option<&str>, pool: &str) -> String {
    let mut base = stage.base();
    if !base.contains("public_url") {
        base = base.replace("[http]\n", "[http]\npublic_url = \"http://127.0.0.1:9\"\n");
    }
    let base = base
        .replace("provider = \"local\"\n", "provider = \"k8s\"\nimage = \"runner:test\"\n")
        .replace("tick = \"2s\"", "tick = \"1s\"")
        .replace("scale_down_after = \"60s\"", "scale_down_after = \"5s\"");
    let kubeconfig = place.kubeconfig(token);
    format!(
        "{base}\n[provider.k8s]\nkind = \"kubernetes\"\nnamespace = \"{}\"\nkubeconfig = \"{}\"\n\n{pool}",
        place.namespace,
        kubeconfig.display()
    )
}
