//! One `ostler run` as a child process, and the processes that machines consist of.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::daemon::until;

/// What the daemons of tests log.
pub(crate) const DEBUG: &str = "warn,ostler=debug,ostler_actors=debug,octocrab=off";
/// How long to wait for `/readyz`: a daemon that a test has stopped with SIGSTOP never answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Is one daemon. Dropping it kills it, and touches no machine.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    address: Option<SocketAddr>,
}

/// Holds what a daemon says about itself.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Ready {
    /// Returns where the daemon is in its life.
    pub(crate) fn stage(&self) -> &str {
        self.body["stage"].as_str().unwrap_or_default()
    }

    /// Returns what is wrong with the last edit of the configuration, or `ok`.
    pub(crate) fn config(&self) -> &str {
        self.body["config"].as_str().unwrap_or_default()
    }
}

impl Daemon {
    /// Starts a daemon of this or another build; it logs as much as the filter lets through.
    pub(crate) fn spawn(
        program: &Path,
        config: &Path,
        log: &Path,
        filter: &str,
        environment: &[(String, String)],
    ) -> Self {
        let child = Command::new(program)
            .arg("run")
            .arg("--config")
            .arg(config)
            .args(["--log", filter])
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log).expect("our folder"))
            .spawn()
            .expect("the program starts");
        Self { child, log: log.to_owned(), address: None }
    }

    /// Returns what it wrote so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns where it listens, once it does.
    pub(crate) fn address(&mut self) -> Option<SocketAddr> {
        if self.address.is_none() {
            let log = self.log();
            let (_, rest) = log.split_once("listening on http://")?;
            let end = rest.find('"')?;
            self.address = rest[..end].parse().ok();
        }
        self.address
    }

    /// Returns where it listens, if that was heard already.
    pub(crate) fn address_now(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Asks whether it leads and is ready; nothing if it does not answer.
    pub(crate) fn ready(&mut self) -> Option<Ready> {
        self.ask_ready("?leader")
    }

    /// Asks whether it may be sent webhooks; nothing if it does not answer.
    pub(crate) fn takes_webhooks(&mut self) -> Option<Ready> {
        self.ask_ready("")
    }

    fn ask_ready(&mut self, query: &str) -> Option<Ready> {
        let address = self.address()?;
        let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT).ok()?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
        write!(stream, "GET /readyz{query} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Ready { status, body: serde_json::from_str(body).ok()? })
    }

    /// Returns where the daemon says it is in its life; nothing if it does not answer.
    pub(crate) fn stage(&mut self) -> String {
        self.ready().map(|ready| ready.stage().to_owned()).unwrap_or_default()
    }

    /// Fails if it has ended.
    pub(crate) fn must_live(&mut self) {
        let ended = self.child.try_wait().expect("our child");
        assert!(ended.is_none(), "the daemon ended with {ended:?}:\n{}", self.log());
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("our child takes signals");
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("a daemon ends", async || {
            status = self.child.try_wait().expect("our child");
            status.is_some()
        })
        .await;
        status.expect("it ended")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the living processes of the machines in a folder: their keepers by their arguments,
/// and all others by the mark that each machine's processes carry.
pub(crate) fn marked(machines: &Path) -> Vec<i32> {
    let folder = machines.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").expect("a system with /proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_of(*pid, folder.as_bytes())).collect()
}

fn is_of(pid: i32, folder: &[u8]) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    let holds = |text: &[u8]| text.windows(folder.len()).any(|part| part == folder);
    let marked = || {
        let environ = read("environ");
        environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"OSTLER_MACHINE="))
            && (holds(&environ)
                || fs::read_link(format!("/proc/{pid}/cwd"))
                    .is_ok_and(|cwd| holds(cwd.as_os_str().as_encoded_bytes())))
    };
    let keeper = || {
        let arguments = read("cmdline");
        arguments.split(|byte| *byte == 0).any(|word| word == b"keeper") && holds(&arguments)
    };
    let zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
    !zombie && (marked() || keeper())
}

/// Counts the runners that live: the simulated ones, without their keepers and what they started.
pub(crate) fn living_runners(machines: &Path) -> usize {
    let folder = machines.to_string_lossy().into_owned();
    let entries = fs::read_dir("/proc").expect("a system with /proc");
    let lines = entries.filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok());
    let is_runner = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0).any(|word| word == b"demo-runner")
            && line.windows(folder.len()).any(|part| part == folder.as_bytes())
    };
    lines.filter(is_runner).count()
}

/// Kills the processes of all machines in a folder, until none is left.
pub(crate) fn kill_all(machines: &Path) {
    for _ in 0..50 {
        let left = marked(machines);
        if left.is_empty() {
            return;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // It may be gone already.
            let _gone = kill_process(pid, Signal::KILL);
        }
        std::thread::yield_now();
    }
}
