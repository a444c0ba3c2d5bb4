//! The runner of the demo: registers with its JIT config, waits for one job, does what it says.
//!
//! It is a real process with real ends: it exits, aborts, is killed, runs out of memory, hangs or
//! takes its keeper with it, as the job's script asks, so that the daemon has something to explain.
//!
//! It has one thread and waits for each answer.

#![expect(
    clippy::disallowed_methods,
    reason = "a process of its own with one thread: no actor waits for it, no test pauses it"
)]

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use http::Request;
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

use crate::client::{CallLimits, HttpClient};
use crate::errors::chain;

/// How often a job says that it goes on.
const RENEWAL: Duration = Duration::from_millis(500);
/// How much memory a greedy job takes before it gives up.
const GREED: usize = 1 << 30;

/// Says what a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    Succeed,
    /// Ends badly, as tests do.
    Fail,
    Kill,
    /// Asks its runner to stop.
    Terminate,
    /// Makes its runner abort.
    Abort,
    /// Makes its runner crash.
    Crash,
    /// Takes all the memory there is.
    Devour,
    /// Makes its runner hang.
    Hang,
    /// Takes its runner and the runner's keeper with it.
    Vanish,
}

/// Holds the script of a job.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Script {
    pub step: Step,
    pub millis: u64,
}

#[derive(Deserialize)]
struct Job {
    name: String,
    script: Script,
}

/// Serves one job, or none if the forge lets it go.
pub fn serve(github: &str, jit: &Path) -> io::Result<()> {
    let jit = std::fs::read_to_string(jit)?;
    let github = Caller::new(github, jit.trim())?;
    println!("Listening for Jobs");
    loop {
        match github.post("/_sim/runners/listen", "")? {
            Answer { status: 200, body } => return work(&github, &body),
            Answer { status: 204, .. } => {}
            Answer { status: 410, .. } => {
                println!("The registration is gone; leaving");
                return Ok(());
            }
            Answer { status, .. } => {
                println!("GitHub answered {status}; asking again");
                sleep(Duration::from_secs(1));
            }
        }
    }
}

fn work(github: &Caller, body: &str) -> io::Result<()> {
    let job: Job = serde_json::from_str(body)?;
    println!("Running job: {}", job.name);
    let until = Instant::now() + Duration::from_millis(job.script.millis);
    while Instant::now() < until {
        github.post("/_sim/runners/renew", "")?;
        sleep(RENEWAL.min(until.saturating_duration_since(Instant::now())));
    }
    match job.script.step {
        Step::Succeed => finish(github, "success"),
        Step::Fail => finish(github, "failure"),
        Step::Kill => signal_self(Signal::KILL),
        Step::Terminate => signal_self(Signal::TERM),
        Step::Abort => {
            eprintln!("No space left on device");
            std::process::abort()
        }
        Step::Crash => signal_self(Signal::SEGV),
        Step::Devour => devour(),
        Step::Hang => loop {
            sleep(Duration::from_mins(1));
        },
        Step::Vanish => {
            if let Some(keeper) = getppid() {
                signal(keeper, Signal::KILL)?;
            }
            signal_self(Signal::KILL)
        }
    }
}

fn finish(github: &Caller, conclusion: &str) -> io::Result<()> {
    println!("Job completed with result: {conclusion}");
    let body = serde_json::json!({ "conclusion": conclusion }).to_string();
    github.post("/_sim/runners/done", &body).map(drop)
}

/// Takes memory and touches it until something stops it.
fn devour() -> io::Result<()> {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    while taken.len() << 20 < GREED {
        taken.push(vec![1; 1 << 20]);
    }
    Err(io::Error::other(format!("took {} MiB and was not stopped", taken.len())))
}

fn signal_self(what: Signal) -> io::Result<()> {
    loop {
        // Rust's own handler takes the first SIGSEGV and steps aside.
        signal(getpid(), what)?;
        sleep(Duration::from_millis(50));
    }
}

fn signal(whom: Pid, what: Signal) -> io::Result<()> {
    kill_process(whom, what).map_err(io::Error::from)
}

/// Longer than the server lets anyone wait.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// More than any job's description.
const MAX_JOB_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Calls the simulated GitHub as one runner.
pub(super) struct Caller {
    runtime: Runtime,
    client: HttpClient,
    host: String,
    bearer: String,
}

impl Caller {
    pub(super) fn new(host: &str, bearer: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let limits = CallLimits { timeout: CALL_TIMEOUT, body_bytes: MAX_JOB_BYTES };
        let client = HttpClient::plain(limits);
        Ok(Self { runtime, client, host: host.into(), bearer: format!("Bearer {bearer}") })
    }

    /// Posts a body as JSON.
    pub(super) fn post(&self, path: &str, body: &str) -> io::Result<Answer> {
        let request = Request::post(format!("http://{}{path}", self.host))
            .header("Authorization", &self.bearer)
            .header("Content-Type", "application/json")
            .body(body.as_bytes().to_vec())
            .map_err(io::Error::other)?;
        let answer = self.runtime.block_on(self.client.call(request));
        let answer = answer.map_err(|error| io::Error::other(chain(&error)))?;
        let body = String::from_utf8_lossy(answer.body()).into_owned();
        Ok(Answer { status: answer.status().as_u16(), body })
    }
}
