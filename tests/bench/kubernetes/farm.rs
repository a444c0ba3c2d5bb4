//! `ostler run` with a GitHub played by another process; scheduler, kubelet and pollers are played
//! here.
//!
//! ```text
//!   job queued ─▶ pod created ─▶ bound, poller asks for work ─▶ JIT ─▶ runner runs, takes the job,
//!   job completed ─▶ pod succeeds ─▶ examined, recorded, deleted, proven gone
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::runtime::watcher;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::Instant;

use super::forge::WEBHOOK_SECRET;
use super::support::cluster::Place;
use super::{cpu, played, resident};

const FINISH_TIMEOUT: Duration = Duration::from_mins(10);

type Bytes = Full<actix_web::web::Bytes>;

/// Holds everything around one daemon.
pub(crate) struct Farm {
    folder: TempDir,
    daemon: Child,
    forge: Child,
    world: World,
    /// How many pods are gone.
    gone: watch::Receiver<usize>,
}

/// Leads to those who are asked over HTTP.
#[derive(Clone)]
struct World {
    place: Arc<Place>,
    http: Client<HttpConnector, Bytes>,
    daemon: String,
    forge: String,
}

impl Farm {
    /// Starts a daemon that may have so many pods.
    pub(crate) async fn start(place: Arc<Place>, max: usize) -> Self {
        place.add_account("warm").await;
        let mut forge = Command::new(std::env::current_exe().unwrap())
            .arg("forge")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(forge.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let forge_at = format!("127.0.0.1:{}", port.trim());
        // On the disk: a file system in memory would make a commit free.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (name, text) in [
            ("token", "a token".to_owned()),
            ("hook.secret", WEBHOOK_SECRET.to_owned()),
            ("seal.key", "5a".repeat(32)),
            ("ostler.toml", config(&folder, &forge_at, &place, max)),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
            let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(folder.path().join(name), own).unwrap();
        }
        let daemon = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["run", "--log", "warn,ostler::cli=info", "--config"])
            .arg(folder.path().join("ostler.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let http = Client::builder(TokioExecutor::new()).build_http();
        let world = World { place, http, daemon: String::new(), forge: forge_at };
        let (tell, gone) = watch::channel(0);
        let mut farm = Self { folder, daemon, forge, world, gone };
        farm.world.daemon = farm.address().await;
        let hook = format!("http://{}/webhooks/github", farm.world.daemon);
        let setup = json!({ "hook": hook, "boot_ms": null, "work_ms": null });
        farm.world.tell("/_bench/setup", &setup).await;
        tokio::spawn(keep(farm.world.clone(), tell));
        farm
    }

    /// Waits until the daemon leads; returns where it listens.
    async fn address(&mut self) -> String {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            assert!(Instant::now() < until, "no daemon: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
            let log = self.log();
            let Some((_, rest)) = log.split_once("listening on http://") else { continue };
            let is_part = |it: &char| it.is_ascii_digit() || matches!(it, '.' | ':');
            self.world.daemon = rest.chars().take_while(is_part).collect();
            let ready = format!("http://{}/readyz?leader", self.world.daemon);
            if self.world.ask(Method::GET, &ready, None, "").await.is_some_and(|it| it.0 == 200) {
                return self.world.daemon.clone();
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Lets so many jobs come, and waits until the pods of all are gone.
    pub(crate) async fn live(&mut self, pods: usize) {
        let goal = *self.gone.borrow() + pods;
        let queue = json!({ "count": pods, "per_second": 0 });
        self.world.tell("/_bench/queue", &queue).await;
        let all = self.gone.wait_for(|gone| *gone >= goal);
        let told =
            tokio::time::timeout(FINISH_TIMEOUT, all).await.map(|told| told.map(|gone| *gone));
        if !matches!(told, Ok(Ok(_))) {
            let state = format!("http://{}/_bench/state", self.world.forge);
            let state = self.world.ask(Method::GET, &state, None, "").await;
            panic!("{} of {goal} pods: {state:?}\n{}", *self.gone.borrow(), self.log());
        }
    }

    /// Returns the daemon's processor time and its resident KiB.
    pub(crate) fn cost(&self) -> (Duration, u64) {
        (cpu(self.daemon.id()), resident(self.daemon.id()))
    }

    /// Fails if the daemon complained.
    pub(crate) fn check(&self) {
        let log = self.log();
        let complaints: Vec<&str> =
            log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        println!("kubernetes: the daemon: {} warnings", complaints.len());
        for line in complaints.iter().take(5) {
            println!("kubernetes:   {line}");
        }
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        for child in [&mut self.daemon, &mut self.forge] {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Plays scheduler and kubelet for every pod; says how many are gone.
async fn keep(world: World, gone: watch::Sender<usize>) {
    let mut events = Box::pin(watcher(world.place.pods(), watcher::Config::default()));
    let mut known = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                let name = pod.metadata.name.unwrap();
                if known.insert(name.clone()) {
                    tokio::spawn(life(world.clone(), name));
                }
            }
            Ok(watcher::Event::Delete(_)) => gone.send_modify(|gone| *gone += 1),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Err(error) => panic!("the watch of the players: {error}"),
        }
    }
}

async fn life(world: World, name: String) {
    let token = played::warm_up(&world.place, &name).await;
    let dispatch = format!("http://{}/runner/v1/dispatch", world.daemon);
    let body = json!({ "instance": name }).to_string();
    loop {
        match world.ask(Method::POST, &dispatch, Some(&token), &body).await {
            Some((200, answer)) if answer["jit_config"].is_string() => break,
            Some((204 | 503, _)) | None => {}
            // One too many: its pool takes it back.
            Some((410, _)) => return,
            Some(other) => panic!("{name}: {other:?}"),
        }
    }
    played::run(&world.place, &name).await;
    let named = json!({ "name": name });
    world.tell("/_bench/up", &named).await;
    world.tell("/_bench/end", &named).await;
    played::end(&world.place, &name).await;
}

impl World {
    async fn tell(&self, path: &str, what: &Value) {
        let url = format!("http://{}{path}", self.forge);
        let answer = self.ask(Method::POST, &url, None, &what.to_string()).await;
        assert_eq!(answer.as_ref().map(|it| it.0), Some(204), "{path}: {what} {answer:?}");
    }

    async fn ask(
        &self,
        method: Method,
        url: &str,
        token: Option<&str>,
        body: &str,
    ) -> Option<(u16, Value)> {
        let mut request = Request::builder().method(method).uri(url);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let body = Full::new(actix_web::web::Bytes::copy_from_slice(body.as_bytes()));
        let request = request.header("content-type", "application/json").body(body).unwrap();
        let answer = self.http.request(request).await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

fn config(folder: &TempDir, forge: &str, place: &Place, max: usize) -> String {
    let folder = folder.path().display();
    let (namespace, kubeconfig) = (&place.namespace, place.kubeconfig(None));
    format!(
        r#"
[daemon]
name = "bench"
state_dir = "{folder}/state"

[store]
url = "sqlite://{folder}/ostler.db"
seal_key = {{ file = "seal.key" }}

[http]
listen = "127.0.0.1:0"
public_url = "http://127.0.0.1:9"

[forge.github]
kind = "github"
api_url = "http://{forge}"
token = {{ file = "token" }}
webhook_secret = {{ file = "hook.secret" }}
jit_per_minute = 0

[provider.k8s]
kind = "kubernetes"
namespace = "{namespace}"
kubeconfig = "{}"

[[pool]]
name = "linux"
forge = "github"
scope = "acme"
provider = "k8s"
labels = ["self-hosted", "linux"]
image = "runner:bench"
max = {max}
start_permits = 10000
start_permits_per_host = 10000
[pool.pod.spec]
serviceAccountName = "warm"
"#,
        kubeconfig.display()
    )
}
