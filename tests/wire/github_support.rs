//! A simulated GitHub, the adapter in front of it, and a runner of a few lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use ostler::demo::github::{JobPlan, Options, SimGitHub};
use ostler::github::{Credential, GitHub, Settings};
use ostler_actors::model::{ForgeId, JobId, Labels, Place, RunnerName, Scope};
use ostler_actors::ports::{Chance, Clock, Forge, Jit, MintGate, MintOrder, Minted};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The date of this machine, or a wrong one.
pub(super) struct Wall {
    pub(super) ahead: Duration,
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.ahead
    }
}

/// Chance that repeats from run to run.
#[derive(Default)]
pub(super) struct Counting(AtomicU64);

impl Chance for Counting {
    fn bits(&self) -> u64 {
        self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

pub(super) fn start(options: Options) -> SimGitHub {
    SimGitHub::start(options).expect("a port on loopback")
}

pub(super) fn token_of(sim: &SimGitHub) -> Credential {
    Credential::token(sim.token().into())
}

pub(super) fn app_of(sim: &SimGitHub) -> Credential {
    let (client_id, private_key) = sim.app();
    Credential::app(client_id, private_key.into())
}

pub(super) fn settings(sim: &SimGitHub, credential: Credential) -> Settings {
    let mut settings = Settings::new(ForgeId::new("github"), sim.api_url(), credential);
    settings.timeout = Duration::from_mins(1);
    settings
}

pub(super) fn adapter(settings: Settings) -> GitHub {
    let clock = Arc::new(Wall { ahead: Duration::ZERO });
    GitHub::new(settings, clock, Arc::new(Counting::default())).expect("good settings")
}

/// A simulated GitHub and the adapter that asks it as the App.
pub(super) fn pair() -> (SimGitHub, GitHub) {
    let sim = start(Options::default());
    let github = adapter(settings(&sim, app_of(&sim)));
    (sim, github)
}

pub(super) fn acme() -> Scope {
    Scope::Organization("acme".into())
}

pub(super) fn web() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

pub(super) fn labels(names: &[&str]) -> Labels {
    names.iter().collect()
}

pub(super) fn removal(names: &[&str]) -> JobPlan {
    JobPlan { labels: labels(names), ..JobPlan::default() }
}

pub(super) fn job_id(number: u64) -> JobId {
    JobId { forge: ForgeId::new("github"), number }
}

pub(super) fn order(scope: &Scope, name: &str) -> MintOrder {
    MintOrder {
        scope: scope.clone(),
        name: RunnerName::new(name),
        labels: labels(&["linux", "x64"]),
        group: "Default".into(),
        gate: MintGate::default(),
    }
}

pub(super) async fn mint(github: &GitHub, name: &str) -> Minted {
    github.mint(order(&acme(), name)).await.expect("a fresh name is registered")
}

/// Lets a runner take its next job and returns the job's number.
pub(super) async fn take_job(sim: &SimGitHub, jit: &Jit) -> u64 {
    loop {
        let (status, body) = agent(sim, "listen", jit, "").await;
        match status {
            200 => return body["id"].as_u64().expect("the job's number"),
            204 => {}
            other => panic!("the runner was sent away: {other}"),
        }
    }
}

/// Makes one call of a simulated runner.
pub(super) async fn agent(sim: &SimGitHub, step: &str, jit: &Jit, body: &str) -> (u16, Value) {
    let authority = sim.url().trim_start_matches("http://").to_owned();
    let head = format!(
        "POST /_sim/runners/{step} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        jit.reveal(),
        body.len(),
    );
    let mut stream = TcpStream::connect(&authority).await.expect("the server listens");
    stream.write_all(head.as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Counts the calls whose path ends so.
pub(super) fn count(sim: &SimGitHub, method: &str, ending: &str) -> usize {
    let calls = sim.calls();
    calls.iter().filter(|call| call.method == method && call.path.ends_with(ending)).count()
}
