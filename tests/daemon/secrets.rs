//! A whole run at the loudest, and nothing secret in anything it says or starts.
//!
//! The daemon runs at debug level, its libraries louder still, against the simulated GitHub,
//! as an App and with a token; runners take jobs, one of which dies. Then everything is searched
//! for every secret there was: the log, the answers of its doors, and the arguments and
//! environment of every process it started.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ostler::demo::agent::{Script, Step};
use ostler::demo::github::{JobPlan, Options, SimGitHub, SimHookOwner, SimStage};
use ostler_actors::model::{Labels, Place, Scope};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::HANG_LIMIT;
use crate::support::daemon::LONG_JOB;

/// Everything at debug, and the libraries that see secrets louder still.
const LOUD: &str =
    "debug,octocrab=trace,hyper=trace,hyper_util=trace,sqlx=trace,actix_web=trace,actix_http=trace";
const WEBHOOK: &str = "canary-webhook-9c2f1e77ab";
const TOKEN_OF_OPS: &str = "canary-ops-token-51aa77bd90c3ee12";
/// 32 bytes as hex.
const SEAL: &str = "c0ffee11c0ffee22c0ffee33c0ffee44c0ffee55c0ffee66c0ffee77c0ffee88";

/// A daemon of its own for this test; it and what it started end with it.
struct Run {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    folder: tempfile::TempDir,
}

impl Run {
    fn start(sim: &SimGitHub) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::beside(sim, folder)
    }

    /// Starts one on the same store, which stands by while the other leads.
    fn start_standby(&self, sim: &SimGitHub) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::os::unix::fs::symlink(self.folder.path().join("state"), folder.path().join("state"))
            .expect("a link to the store");
        Self::beside(sim, folder)
    }

    fn beside(sim: &SimGitHub, folder: tempfile::TempDir) -> Self {
        let (client_id, key) = sim.app();
        write(folder.path(), "app.pem", &key);
        write(folder.path(), "token", &sim.token());
        write(folder.path(), "seal.key", SEAL);
        write(folder.path(), "ostler.toml", &config(folder.path(), sim, &client_id));
        let mut child = Command::new(env!("CARGO_BIN_EXE_ostler"))
            .args(["run", "--log", LOUD, "--config"])
            .arg(folder.path().join("ostler.toml"))
            .env("CANARY_WEBHOOK", WEBHOOK)
            .env("CANARY_OPS", TOKEN_OF_OPS)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ostler starts");
        let (tell, lines) = channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("piped")),
            Box::new(child.stderr.take().expect("piped")),
        ];
        for stream in streams {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    drop(tell.send(line));
                }
            });
        }
        Self { child, lines, heard: Vec::new(), folder }
    }

    /// Waits for a line and returns it.
    fn hear(&mut self, what: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(HANG_LIMIT);
            assert!(line.is_ok(), "never said `{what}`: {:#?}", self.heard);
            let line = line.unwrap_or_default();
            self.heard.push(line.clone());
            if line.contains(what) {
                return line;
            }
        }
    }

    fn address(&mut self) -> String {
        let line = self.hear("listening on http://");
        let rest = line.split("listening on http://").nth(1).expect("an address");
        rest.chars().take_while(|it| it.is_ascii_digit() || matches!(it, '.' | ':')).collect()
    }

    /// Ends it in the orderly way and returns everything it said.
    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(asked.success());
        let end = self.child.wait().expect("it is ours");
        assert_eq!(end.code(), Some(0), "an orderly end");
        let mut heard = std::mem::take(&mut self.heard);
        heard.extend(self.lines.iter());
        heard.join("\n")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        for pid in processes_of(self.folder.path(), self.child.id()).keys() {
            drop(Command::new("kill").args(["-KILL", &pid.to_string()]).status());
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("the file can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

fn config(folder: &Path, sim: &SimGitHub, client_id: &str) -> String {
    let (folder, api_url) = (folder.display(), sim.api_url());
    let host = sim.url().trim_start_matches("http://");
    format!(
        r#"
[daemon]
state_dir = "{folder}/state"
[store]
url = "sqlite://{folder}/state/ostler.db"
seal_key = {{ file = "seal.key" }}
[http]
listen = "127.0.0.1:0"
[[http.token]]
name = "ops"
role = "operator"
secret = {{ env = "CANARY_OPS" }}
[forge.github]
kind = "github"
api_url = "{api_url}"
webhook_secret = {{ env = "CANARY_WEBHOOK" }}
[[forge.github.credential]]
name = "app"
app = {{ client_id = "{client_id}", private_key = {{ file = "app.pem" }} }}
[[forge.github.credential]]
name = "token"
token = {{ file = "token" }}
[provider.local]
kind = "process"
command = ["/proc/self/exe", "demo-runner", "--github", "{host}", "--jit", "{{jit_file}}"]
work_dir = "{folder}/machines"
[[pool]]
name = "linux"
forge = "github"
scope = "acme"
provider = "local"
labels = ["linux"]
linger = "1s"
max = 3
"#
    )
}

/// Returns arguments and environment of every process that descends from the daemon or works in
/// its folder, the daemon itself left out.
fn processes_of(folder: &Path, daemon: u32) -> BTreeMap<u32, String> {
    let all = fs::read_dir("/proc").expect("Linux").filter_map(Result::ok);
    let pids: Vec<u32> =
        all.filter_map(|it| it.file_name().to_str().and_then(|it| it.parse().ok())).collect();
    let text = |pid: u32, name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', "\n")
    };
    let parent = |pid: u32| {
        let status = text(pid, "status");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:").map(str::to_owned));
        line.and_then(|it| it.trim().parse::<u32>().ok()).unwrap_or_default()
    };
    let is_ours = |pid: u32| {
        let folder = folder.to_string_lossy();
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let mut above = pid;
        while above > 1 && above != daemon {
            above = parent(above);
        }
        above == daemon || cwd.starts_with(&*folder) || text(pid, "cmdline").contains(&*folder)
    };
    let ours = pids.into_iter().filter(|pid| *pid != daemon && is_ours(*pid));
    ours.map(|pid| (pid, text(pid, "cmdline") + &text(pid, "environ"))).collect()
}

fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the door is open");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn post(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn job_plan(step: Step, millis: u64) -> JobPlan {
    let script = json!(Script { step, millis });
    JobPlan { labels: Labels::from_iter(["linux"]), script, ..JobPlan::default() }
}

/// Returns every secret there was, with a name for it.
fn canaries(sim: &SimGitHub) -> Vec<(&'static str, String)> {
    let mut canaries = vec![
        ("webhook secret", WEBHOOK.to_owned()),
        ("seal key", SEAL.to_owned()),
        ("token of the API", TOKEN_OF_OPS.to_owned()),
        ("token", sim.token()),
    ];
    let key = sim.app().1;
    canaries.extend(key.lines().filter(|it| it.len() == 64).map(|it| ("App key", it.to_owned())));
    for call in sim.calls() {
        if let Some(jit) = call.answer["encoded_jit_config"].as_str() {
            canaries.push(("JIT config", jit.to_owned()));
            canaries.push(("middle of a JIT config", jit[jit.len() / 2..][..60].to_owned()));
            canaries.push(("token in a JIT config", token_in(jit)));
        }
        if call.path.ends_with("/access_tokens") {
            let token = call.answer["token"].as_str().expect("a token");
            canaries.push(("token of an installation", token.to_owned()));
        }
    }
    canaries
}

fn token_in(jit: &str) -> String {
    use base64::Engine as _;
    let open = |text: &str| -> Value {
        let bytes = base64::prelude::BASE64_STANDARD.decode(text).expect("base64");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    let credentials = open(open(jit)[".credentials"].as_str().expect("a file"));
    credentials["data"]["token"].as_str().expect("a token").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_anything_the_daemon_says_or_starts() {
    let sim = SimGitHub::start(Options::default()).expect("a port on loopback");
    let mut run = Run::start(&sim);
    let (address, daemon) = (run.address(), run.child.id());
    let owner = SimHookOwner::Scope(Scope::Organization("acme".into()));
    sim.add_hook(owner, &format!("http://{address}/webhooks/github"), WEBHOOK);
    let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
    let jobs = [(Step::Succeed, LONG_JOB), (Step::Kill, 500), (Step::Abort, 500)];
    let jobs = jobs.map(|(step, millis)| sim.queue(&place, job_plan(step, millis)));
    let stage = |sim: &SimGitHub, job: u64| {
        sim.jobs().into_iter().find(|it| it.id == job).map(|it| it.stage).expect("it was queued")
    };
    let at_work = sim.until(|sim| stage(sim, jobs[0]) == SimStage::InProgress);
    if tokio::time::timeout(HANG_LIMIT, at_work).await.is_err() {
        let heard: Vec<String> = run.lines.try_iter().collect();
        panic!("no runner took the job: {heard:#?}");
    }
    let processes = processes_of(run.folder.path(), daemon);
    assert!(processes.len() >= 2, "a keeper and a runner at least: {processes:#?}");
    let mut answers = vec![
        ask(&address, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        ask(&address, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        ask(&address, "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ];
    let event = "X-GitHub-Event: workflow_job\r\nX-GitHub-Delivery: g\r\n";
    for (path, headers) in [
        ("/webhooks/unknown", event.to_owned()),
        ("/webhooks/github", event.to_owned()),
        ("/webhooks/github", format!("{event}X-Hub-Signature-256: sha256=00\r\n")),
        ("/webhooks/github", format!("{event}X-Hub-Signature-256: nonsense\r\n")),
    ] {
        answers.push(ask(&address, &post(path, &headers, "{\"action\":\"queued\"}")));
    }
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 ")), "{answers:#?}");
    let done = sim.until(|sim| matches!(stage(sim, jobs[0]), SimStage::Completed(_)));
    tokio::time::timeout(HANG_LIMIT, done).await.expect("the job ends");
    // The killed one has been explained, log tail and all, when it was called terminated.
    run.hear("runner terminated");
    let machines = run.folder.path().join("machines");
    let begun = Instant::now();
    let left = || fs::read_dir(&machines).is_ok_and(|it| it.flatten().any(|it| it.path().is_dir()));
    while left() && begun.elapsed() < HANG_LIMIT {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = run.stop();
    for target in ["hyper_util", "ostler_actors"] {
        assert!(log.contains(&format!("\"target\":\"{target}")), "`{target}` was not heard");
    }
    let canaries = canaries(&sim);
    for kind in ["JIT config", "App key", "token of an installation"] {
        assert!(canaries.iter().any(|(name, _)| *name == kind), "no {kind} was used");
    }
    for (name, secret) in &canaries {
        assert!(secret.len() >= 16, "{name} is too short to be looked for");
        if let Some(line) = log.lines().find(|line| line.contains(secret.as_str())) {
            panic!("the {name} is in the log: {line}");
        }
        assert!(!answers.iter().any(|it| it.contains(secret.as_str())), "{name} in an answer");
        for (pid, text) in &processes {
            assert!(!text.contains(secret.as_str()), "the {name} is in process {pid}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_stands_by_takes_webhooks_too() {
    let sim = SimGitHub::start(Options::default()).expect("a port on loopback");
    let mut leader = Run::start(&sim);
    leader.hear("became leader (epoch 1)");
    let mut standby = leader.start_standby(&sim);
    let address = standby.address();
    let owner = SimHookOwner::Scope(Scope::Organization("acme".into()));
    let hook = sim.add_hook(owner, &format!("http://{address}/webhooks/github"), WEBHOOK);
    let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
    sim.queue(&place, JobPlan { labels: Labels::from_iter(["gpu"]), ..JobPlan::default() });
    let answered = sim.until(|sim| sim.attempts(hook).iter().all(|it| it.status != 0));
    tokio::time::timeout(HANG_LIMIT, answered).await.expect("it answers");
    assert_eq!(sim.attempts(hook)[0].status, 202);
}
