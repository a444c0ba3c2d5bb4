//! A real API server and etcd for tests, and a node that is played.
//!
//! The server takes ten seconds to start, so all tests of a run share one: the first of them
//! starts it, and a warden stops it when no test has used it for twenty seconds. Each test has a
//! namespace and a node of its own. A test that kills the server starts one for itself
//! ([`Cluster::alone`]).
//!
//! Without the programs (`make kube` builds them) a test says that it is skipped.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise, in its helpers too"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures_util::StreamExt as _;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ResourceQuota, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::kubelet::Kubelet;
use super::skip;

/// Marks a pod that the played kubelet does not take away.
const DETAINED: &str = "tests/detained";

/// A running API server.
pub(crate) struct Cluster {
    home: PathBuf,
    client: Client,
    /// Whether it is this test's alone, and goes with it.
    alone: bool,
}

impl Cluster {
    /// Joins the server of this run, starting it if need be; nothing where there is none to start.
    pub(crate) async fn shared() -> Option<Arc<Self>> {
        let programs = programs()?;
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kube");
        let server = home.join("server");
        // Beside the runtime: it may take a while, and others wait for the lock.
        let place = home.clone();
        tokio::task::spawn_blocking(move || join(&place, &programs)).await.expect("it joins");
        Some(Arc::new(Self { client: client(&server, "admin").await, home: server, alone: false }))
    }

    /// Starts a server for this test alone.
    pub(crate) async fn alone() -> Option<Arc<Self>> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("ostler-kube-").tempdir().expect("a folder");
        let home = folder.keep().join("server");
        let place = home.clone();
        tokio::task::spawn_blocking(move || run("start", &place, &programs))
            .await
            .expect("it starts");
        Some(Arc::new(Self { client: client(&home, "admin").await, home, alone: true }))
    }

    /// Returns a client that may do everything.
    pub(crate) fn admin(&self) -> Client {
        self.client.clone()
    }

    /// Returns the folder of the server's certificates.
    pub(crate) fn pki(&self) -> PathBuf {
        self.home.join("pki")
    }

    /// Kills the server; what it knew stays.
    pub(crate) async fn down(&self) {
        let (home, programs) = (self.home.clone(), programs().expect("it was started"));
        tokio::task::spawn_blocking(move || run("api-down", &home, &programs))
            .await
            .expect("it goes");
    }

    /// Starts the server again, at the same address.
    pub(crate) async fn up(&self) {
        let (home, programs) = (self.home.clone(), programs().expect("it was started"));
        tokio::task::spawn_blocking(move || run("api-up", &home, &programs))
            .await
            .expect("it comes");
    }

    /// Lets etcd forget everything but the present.
    pub(crate) fn forget_the_past(&self) {
        let env = fs::read_to_string(self.home.join("env")).unwrap();
        let etcd = env.lines().find_map(|line| line.strip_prefix("export KUBE_ETCD=")).unwrap();
        let ask = |path: &str, body: Value| -> Value {
            let out = Command::new("curl")
                .args(["-sS", "--fail", "-d", &body.to_string(), &format!("{etcd}/v3/kv/{path}")])
                .output()
                .expect("curl starts");
            assert!(out.status.success(), "etcd: {}", String::from_utf8_lossy(&out.stderr));
            serde_json::from_slice(&out.stdout).expect("JSON")
        };
        let present = ask("range", json!({ "key": "AA==" }))["header"]["revision"].clone();
        ask("compaction", json!({ "revision": present, "physical": true }));
    }

    /// Returns how many calls of a kind the server has answered for pods of a namespace since it
    /// was started: `LIST`, `DELETE`.
    pub(crate) async fn calls(&self, verb: &str) -> u64 {
        self.all_calls().await.get(&format!("{verb} pods")).copied().unwrap_or_default()
    }

    /// Returns how many calls of each kind the server has answered about things in namespaces, and
    /// about tokens, since it was started; watches do not count.
    pub(crate) async fn all_calls(&self) -> BTreeMap<String, u64> {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.expect("its metrics");
        let mut calls = BTreeMap::new();
        for line in text.lines() {
            let Some(line) = line.strip_prefix("apiserver_request_total{") else { continue };
            let Some((labels, count)) = line.rsplit_once("} ") else { continue };
            let label = |key: &str| {
                let found = labels.split(',').find_map(|pair| pair.strip_prefix(key));
                found.map(|value| value.trim_matches(['=', '"'])).unwrap_or_default()
            };
            let (verb, resource, part) = (label("verb"), label("resource"), label("subresource"));
            // What it asks itself is of the whole cluster.
            let ours = label("scope") != "cluster" || resource == "tokenreviews";
            if !ours || verb == "WATCH" {
                continue;
            }
            let kind = if part.is_empty() {
                format!("{verb} {resource}")
            } else {
                format!("{verb} {resource}/{part}")
            };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let count = count.parse::<f64>().unwrap_or_default() as u64;
            *calls.entry(kind).or_default() += count;
        }
        calls
    }

    /// Makes a namespace with a node of its own.
    pub(crate) async fn place(self: &Arc<Self>) -> Arc<Place> {
        // The server outlives a test process, and process ids are used again.
        let name = format!("t{}", uuid::Uuid::new_v4().simple());
        let namespaces: Api<Namespace> = Api::all(self.admin());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace");
        let kubelet = Kubelet::start(&self.pki()).await;
        let place = Place { cluster: Arc::clone(self), namespace: name, kubelet };
        place.add_node().await;
        Arc::new(place)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.alone
            && let Some(programs) = programs()
        {
            run("stop", &self.home, &programs);
            drop(self.home.parent().map(fs::remove_dir_all));
        }
    }
}

/// A namespace and a node.
pub(crate) struct Place {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) namespace: String,
    pub(crate) kubelet: Kubelet,
}

impl Place {
    /// Returns the pods of the namespace, for one who may do everything.
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.admin(), &self.namespace)
    }

    /// Returns the name of the node.
    pub(crate) fn node(&self) -> String {
        format!("node-{}", self.namespace)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.admin())
    }

    async fn add_node(&self) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": self.node(), "labels": { "kubernetes.io/hostname": self.node() } },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        self.nodes().create(&PostParams::default(), &node).await.expect("a node");
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.kubelet.port() } },
            "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
        } });
        let params = PatchParams::default();
        self.nodes().patch_status(&self.node(), &params, &Patch::Merge(&status)).await.unwrap();
    }

    /// Puts a pod on the node.
    pub(crate) async fn bind(&self, pod: &str) {
        self.try_bind(pod, None).await.expect("it is bound");
    }

    /// Puts a pod on the node, if the pod of that name is still this one.
    async fn try_bind(&self, pod: &str, uid: Option<&str>) -> kube::Result<Value> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod, "uid": uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": self.node() },
        });
        self.pods().create_subresource("binding", pod, &PostParams::default(), &binding).await
    }

    /// Says how a pod is, as its kubelet would.
    pub(crate) async fn say(&self, pod: &str, status: Value) {
        let patch = json!({ "status": status });
        let params = PatchParams::default();
        self.pods().patch_status(pod, &params, &Patch::Strategic(&patch)).await.expect("a status");
    }

    /// Plays the scheduler and the kubelet: every pod comes up with this status, and a pod that is
    /// deleted goes at once. Ends when the handle is dropped.
    pub(crate) fn keep_pods(self: &Arc<Self>, up: Value) -> Keeping {
        let place = Arc::clone(self);
        Keeping(tokio::spawn(async move {
            let events = watcher(place.pods(), watcher::Config::default()).default_backoff();
            let mut events = Box::pin(events);
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) = event else {
                    continue;
                };
                place.look_after(&pod, &up).await;
            }
        }))
    }

    /// Lets the played kubelet take its time with a pod that is deleted.
    pub(crate) async fn detain(&self, pod: &str) {
        let patch = json!({ "metadata": { "annotations": { DETAINED: "yes" } } });
        let params = PatchParams::default();
        self.pods().patch(pod, &params, &Patch::Merge(&patch)).await.expect("the pod");
    }

    /// Lets a deleted pod go.
    pub(crate) async fn dismiss(&self, pod: &str) {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
        self.pods().delete(pod, &at_once).await.expect("the pod");
    }

    async fn look_after(&self, pod: &Pod, up: &Value) {
        let name = pod.metadata.name.as_deref().expect("a name");
        // The event may be old, and another pod may have this name by now.
        let uid = pod.metadata.uid.as_deref();
        let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let detained =
            pod.metadata.annotations.as_ref().is_some_and(|remarks| remarks.contains_key(DETAINED));
        if pod.metadata.deletion_timestamp.is_some() && !detained {
            let this = Preconditions { uid: uid.map(str::to_owned), resource_version: None };
            let at_once = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(this),
                ..Default::default()
            };
            drop(self.pods().delete(name, &at_once).await);
        } else if !bound && pod.metadata.deletion_timestamp.is_none() {
            // It may have been deleted meanwhile.
            if self.try_bind(name, uid).await.is_ok() && !up.is_null() {
                let patch = Patch::Strategic(json!({ "metadata": { "uid": uid }, "status": up }));
                drop(self.pods().patch_status(name, &PatchParams::default(), &patch).await);
            }
        }
    }

    /// Applies a manifest of `config/kubernetes`, with our namespace in the place of its own.
    pub(crate) async fn apply(&self, file: &str) {
        for object in self.read(file) {
            self.apply_object(object).await;
        }
    }

    /// Reads a manifest of `config/kubernetes`, with our namespace in the place of its own.
    pub(crate) fn read(&self, file: &str) -> Vec<Value> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/kubernetes").join(file);
        let text = fs::read_to_string(path).expect("a manifest");
        let text = text.replace("namespace: ostler", &format!("namespace: {}", self.namespace));
        // What is of the whole cluster must not meet what another test applies.
        let text =
            text.replace("name: ostler-cluster", &format!("name: ostler-{}", self.namespace));
        documents(&text)
    }

    pub(crate) async fn apply_object(&self, object: Value) {
        let text = |key: &str| object[key].as_str().expect("an object says what it is").to_owned();
        let (group, version) = match text("apiVersion").split_once('/') {
            Some((group, version)) => (group.to_owned(), version.to_owned()),
            None => (String::new(), text("apiVersion")),
        };
        let kind = GroupVersionKind::gvk(&group, &version, &text("kind"));
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.cluster.admin(), namespace, &kind),
            None => Api::all_with(self.cluster.admin(), &kind),
        };
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let params = PatchParams::apply("tests").force();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Lets the namespace hold so many pods; without a controller the quota counts from here on.
    pub(crate) async fn limit_pods(&self, most: usize) {
        let used = self.pods().list(&ListParams::default()).await.unwrap().items.len();
        self.apply_object(json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "few", "namespace": self.namespace },
            "spec": { "hard": { "pods": most.to_string() } },
        }))
        .await;
        let quotas: Api<ResourceQuota> = Api::namespaced(self.cluster.admin(), &self.namespace);
        let status = json!({ "status": {
            "hard": { "pods": most.to_string() }, "used": { "pods": used.to_string() },
        } });
        quotas.patch_status("few", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }

    /// Makes a service account.
    pub(crate) async fn add_account(&self, name: &str) {
        let account: ServiceAccount =
            serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.admin(), &self.namespace);
        accounts.create(&PostParams::default(), &account).await.expect("an account");
    }

    /// Mints a token of a service account, bound to a pod if one is named.
    pub(crate) async fn token(
        &self,
        account: &str,
        audience: Option<&str>,
        pod: Option<&str>,
    ) -> String {
        let mut spec = json!({ "audiences": audience.into_iter().collect::<Vec<_>>(), "expirationSeconds": 3600 });
        if let Some(pod) = pod {
            let uid = self.pods().get(pod).await.expect("the pod").metadata.uid;
            spec["boundObjectRef"] =
                json!({ "apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid });
        }
        let request: TokenRequest =
            serde_json::from_value(json!({ "metadata": {}, "spec": spec })).unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.cluster.admin(), &self.namespace);
        let minted = accounts.create_token_request(account, &PostParams::default(), &request).await;
        minted.expect("a token").status.expect("a token").token
    }

    /// Returns the same token as it would be if it had been good until yesterday, signed as the
    /// server signs.
    pub(crate) fn outdated(&self, token: &str) -> String {
        use base64::Engine as _;
        use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
        use rustls::pki_types::PrivateKeyDer;
        use rustls::pki_types::pem::PemObject as _;

        let [head, claims, _] = token.splitn(3, '.').collect::<Vec<_>>()[..] else {
            panic!("a token")
        };
        let mut claims: Value = serde_json::from_slice(&BASE64.decode(claims).unwrap()).unwrap();
        for key in ["exp", "iat", "nbf"] {
            claims[key] = json!(claims[key].as_i64().unwrap() - 24 * 3600);
        }
        let text = format!("{head}.{}", BASE64.encode(claims.to_string()));
        let key = PrivateKeyDer::from_pem_file(self.cluster.pki().join("sa.key")).unwrap();
        let pair = if let PrivateKeyDer::Pkcs1(key) = &key {
            aws_lc_rs::rsa::KeyPair::from_der(key.secret_pkcs1_der()).unwrap()
        } else {
            aws_lc_rs::rsa::KeyPair::from_pkcs8(key.secret_der()).unwrap()
        };
        let mut signature = vec![0; pair.public_modulus_len()];
        let chance = aws_lc_rs::rand::SystemRandom::new();
        let how = &aws_lc_rs::signature::RSA_PKCS1_SHA256;
        pair.sign(how, &chance, text.as_bytes(), &mut signature).unwrap();
        format!("{text}.{}", BASE64.encode(signature))
    }

    /// Writes a kubeconfig for one who has this token; `admin` for one who may do everything.
    pub(crate) fn kubeconfig(&self, token: Option<&str>) -> PathBuf {
        let path = self.cluster.home.join("admin.kubeconfig");
        let mut config: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        config["contexts"][0]["context"]["namespace"] = json!(self.namespace);
        if let Some(token) = token {
            config["users"][0]["user"] = json!({ "token": token });
        }
        // The same for the same token: a provider that is reached by another file is another one.
        let end = token.map_or("admin", |token| &token[token.len().saturating_sub(12)..]);
        let made = self.cluster.home.join(format!("{}-{end}.kubeconfig", self.namespace));
        fs::write(&made, config.to_string()).unwrap();
        made
    }
}

/// Keeps a played kubelet going; it ends with this.
pub(crate) struct Keeping(JoinHandle<()>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the documents of a YAML file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("\n---").map(str::trim).filter(|part| {
        part.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#') && line != "---")
    });
    parts.map(|part| serde_saphyr::from_str(part).expect("YAML")).collect()
}

/// Returns the folder of the scripts, if the programs they start are here.
fn programs() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let bin = cache.map(|cache| cache.join("ostler/kube-test/bin")).unwrap_or_default();
    if ["kube-apiserver", "etcd"].iter().all(|program| bin.join(program).exists()) {
        return Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kube"));
    }
    skip::say(&format!("no API server in {} (make kube builds it)", bin.display()));
    None
}

fn join(home: &Path, programs: &Path) {
    let server = home.join("server");
    fs::create_dir_all(home).expect("a folder for tests");
    let lock = File::create(home.join("lock")).expect("a lock file");
    lock.lock().expect("the lock");
    let users = home.join("users");
    fs::create_dir_all(&users).expect("a folder for tests");
    File::create(users.join(std::process::id().to_string())).expect("a file");
    if lives(&server) {
        return;
    }
    if server.exists() {
        run("stop", &server, programs);
    }
    run("start", &server, programs);
    // In the background of a shell that ends at once: this process could not wait for it.
    let started = Command::new("sh")
        .args(["-c", "setsid \"$0\" \"$1\" >/dev/null 2>&1 </dev/null &"])
        .arg(programs.join("warden.sh"))
        .arg(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(started.is_ok_and(|status| status.success()), "the warden starts");
}

/// Returns whether the server that was started here still runs.
fn lives(server: &Path) -> bool {
    server.join("env").exists()
        && ["apiserver.pid", "etcd.pid"].iter().all(|file| {
            let pid = fs::read_to_string(server.join(file)).unwrap_or_default();
            let name = fs::read_to_string(format!("/proc/{}/comm", pid.trim())).unwrap_or_default();
            name.starts_with("kube-apiserver") || name.starts_with("etcd")
        })
}

fn run(command: &str, home: &Path, programs: &Path) {
    fs::create_dir_all(home.parent().expect("a folder")).expect("a folder");
    let log = home.with_extension("log");
    let out = File::options().create(true).append(true).open(&log).expect("a log file");
    let status = Command::new(programs.join("start.sh"))
        .arg(command)
        .arg(home)
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a file"))
        .stderr(out)
        .status()
        .expect("the script starts");
    let told = || fs::read_to_string(&log).unwrap_or_default();
    assert!(status.success(), "{command} of the API server failed: {}", told());
}

async fn client(home: &Path, who: &str) -> Client {
    let kubeconfig = Kubeconfig::read_from(home.join(format!("{who}.kubeconfig"))).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}
