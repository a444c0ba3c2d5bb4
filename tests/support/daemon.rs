//! The whole program as its operators run it: a folder, a configuration, a child process.
//!
//! A [`Stage`] holds what outlives the daemon: the folder, the simulated GitHub (which runs in the
//! test), the machines. A [`Daemon`] is one `ostler run`; it can be killed, stopped, frozen and
//! started again on the same stage. When the stage goes, everything it started is killed, and the
//! test fails if a machine, a process or a registration was left without having been told so
//! ([`Stage::leave`]).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ostler::demo::agent::{Script, Step};
use ostler::demo::config_template::ConfigTemplate;
use ostler::demo::github::{JobPlan, Options, SimGitHub, SimHookOwner, SimJob, SimStage};
use ostler::store::{self, SqlStore};
use ostler_actors::model::{Labels, Place, Scope};
use ostler_actors::ports::Records as _;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::Instant;

use super::HANG_LIMIT;
use super::port::Port;
pub(crate) use super::process::Daemon;
use super::process::{DEBUG, kill_all, living_runners, marked};

/// How long the simulated GitHub waits for a renewal before it fails the job. Runners renew every half
/// second, and on a busy machine a renewal may be seconds late.
const LEASE: Duration = Duration::from_secs(15);
/// From so many runners on a machine is crowded.
pub(crate) const CROWD: u32 = 20;
/// What webhooks are signed with.
pub(crate) const WEBHOOK_SECRET: &str = "a secret of the tests";
/// Milliseconds of a job that must run until the test has seen it, and must end within the test.
pub(crate) const LONG_JOB: u64 = 45_000;
/// Milliseconds of a job that runs longer than its test.
pub(crate) const ENDLESS_JOB: u64 = 3_600_000;
/// How often a condition is looked at.
const DAEMON_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Holds everything around the daemons of one test.
pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) github: SimGitHub,
    hook: u64,
    store: String,
    /// The program that the next daemon is started from.
    pub(crate) program: PathBuf,
    starts: AtomicU32,
    /// Whether leftovers are the test's business.
    left: bool,
    /// The port of every daemon, where machines ask it for work; none: any.
    port: Option<Port>,
    /// What the daemons find in their environment.
    pub(crate) environment: Vec<(String, String)>,
}

impl Stage {
    /// Builds a stage on an SQLite file of its own.
    pub(crate) fn on_sqlite(pools: &str) -> Self {
        Self::with_lease(None, pools, LEASE)
    }

    /// Builds a stage on an SQLite file, whose daemons all listen where warm machines ask for work.
    pub(crate) fn with_port(pools: &str) -> Self {
        let mut stage = Self::on_sqlite("");
        stage.be_asked_for_work();
        stage.configure(pools);
        stage
    }

    /// Chooses one port for all daemons of this stage, where machines reach them.
    pub(crate) fn be_asked_for_work(&mut self) {
        self.port = Some(Port::choose());
    }

    /// Builds a stage with a GitHub that limits calls and says so.
    pub(crate) fn limited(pools: &str, calls: u32) -> Self {
        let folder = folder();
        let store = format!("sqlite://{}/ostler.db", folder.path().display());
        Self::build(folder, store, pools, Some(calls), LEASE)
    }

    /// Builds a stage on a database of a server.
    pub(crate) fn on(store: String, pools: &str) -> Self {
        Self::with_lease(Some(store), pools, LEASE)
    }

    /// Builds a stage whose runners may be silent for so long; on SQLite if no store is named.
    pub(crate) fn with_lease(store: Option<String>, pools: &str, lease: Duration) -> Self {
        let folder = folder();
        let own = || format!("sqlite://{}/ostler.db", folder.path().display());
        let store = store.unwrap_or_else(own);
        Self::build(folder, store, pools, None, lease)
    }

    fn build(
        folder: TempDir,
        store: String,
        pools: &str,
        rate_limit: Option<u32>,
        lease: Duration,
    ) -> Self {
        let options = Options { lease, rate_limit, ..Options::default() };
        let github = SimGitHub::start(options).expect("a simulated GitHub");
        let owner = SimHookOwner::Scope(Scope::Organization("acme".into()));
        let hook = github.add_hook(owner, "http://127.0.0.1:9/nowhere", WEBHOOK_SECRET);
        let stage = Self {
            folder,
            github,
            hook,
            store,
            program: env!("CARGO_BIN_EXE_ostler").into(),
            starts: AtomicU32::new(0),
            left: false,
            port: None,
            environment: Vec::new(),
        };
        stage.write("token", &stage.github.token());
        stage.write("hook.secret", WEBHOOK_SECRET);
        stage.write("seal.key", &"5a".repeat(32));
        stage.configure(pools);
        stage
    }

    /// Writes the configuration with these pools.
    pub(crate) fn configure(&self, pools: &str) {
        self.write_config(&format!("{}\n{pools}", self.base()));
    }

    /// Replaces the configuration in one move, as a careful editor does.
    pub(crate) fn write_config(&self, text: &str) {
        self.write("ostler.toml.new", text);
        let (from, to) = (self.path("ostler.toml.new"), self.path("ostler.toml"));
        fs::rename(from, to).expect("our folder");
    }

    /// Returns the configuration without pools: yours, but in a hurry.
    pub(crate) fn base(&self) -> String {
        let around = ConfigTemplate {
            name: "tested",
            folder: self.folder.path(),
            store: &self.store,
            // A daemon on a busy machine may get no CPU time for seconds.
            store_more: "lease = \"15s\"\nseal_key = { file = \"seal.key\" }",
            port: self.port.as_ref().map(|port| port.number),
        };
        let hurry = r#"
[reaper]
tick = "2s"
retire_budget = 1000

[requeue]
tick = "2s"
orphan_after = "5s"

[defaults]
forge = "github"
scope = "acme"
provider = "local"
boot_timeout = "5m"
idle_confirm = "2s"
linger = "1s"
zombie_after = "5s"
absence_confirm = "2s"
scale_down_after = "60s"
stuck_after = "5m"
start_permits_per_host = 64
"#;
        // Runners are of this build even under an older daemon: they speak to this build's simulated GitHub.
        let ours = format!("\"{}\", \"demo-runner\"", env!("CARGO_BIN_EXE_ostler"));
        let config = around.config(&self.github);
        config.replace("\"/proc/self/exe\", \"demo-runner\"", &ours) + hurry
    }

    /// Returns the path of something in the stage's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that only we can read.
    pub(crate) fn write(&self, name: &str, text: &str) {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(self.path(name)).expect("our folder");
        file.write_all(text.as_bytes()).expect("our folder");
    }

    /// Starts a daemon and does not wait for anything.
    pub(crate) fn spawn(&self) -> Daemon {
        let number = self.starts.fetch_add(1, Ordering::Relaxed) + 1;
        let (config, log) = (self.path("ostler.toml"), self.path(&format!("log-{number:04}")));
        Daemon::spawn(&self.program, &config, &log, DEBUG, &self.environment)
    }

    /// Starts a daemon, waits until it leads, and lets GitHub tell it of jobs.
    pub(crate) async fn lead(&self) -> Daemon {
        let mut daemon = self.spawn();
        self.until_it_leads(&mut daemon).await;
        daemon
    }

    /// Waits until a daemon leads, and lets GitHub tell it of jobs.
    pub(crate) async fn until_it_leads(&self, daemon: &mut Daemon) {
        until("a daemon leads", async || {
            daemon.must_live();
            daemon.ready().is_some_and(|ready| ready.status == 200)
        })
        .await;
        self.point_hook_at(daemon.address().expect("it listens"));
    }

    /// Lets GitHub tell a daemon of jobs.
    pub(crate) fn point_hook_at(&self, daemon: SocketAddr) {
        self.github.move_hook(self.hook, &format!("http://{daemon}/webhooks/github"));
    }

    /// Returns how many daemons were started.
    pub(crate) fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }

    /// Queues a job that does something after so many milliseconds.
    pub(crate) fn queue(&self, step: Step, millis: u64) -> u64 {
        self.queue_as(&format!("{step:?}"), &["self-hosted", "linux"], step, millis)
    }

    /// Queues a job of any name and labels.
    pub(crate) fn queue_as(&self, name: &str, labels: &[&str], step: Step, millis: u64) -> u64 {
        let removal = JobPlan {
            name: name.to_owned(),
            labels: labels.iter().copied().collect::<Labels>(),
            script: serde_json::json!(Script { step, millis }),
        };
        let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
        self.github.queue(&place, removal)
    }

    pub(crate) fn job(&self, id: u64) -> SimJob {
        self.github.jobs().into_iter().find(|job| job.id == id).expect("a job we queued")
    }

    /// Returns whether a job is over.
    pub(crate) fn is_over(&self, id: u64) -> bool {
        matches!(self.job(id).stage, SimStage::Completed(_))
    }

    /// Waits until jobs have started; a short one may have ended by then.
    pub(crate) async fn until_at_work(&self, jobs: &[u64]) {
        let runs = |id: &u64| self.job(*id).starts > 0;
        until("jobs run", async || jobs.iter().all(runs)).await;
    }

    /// Waits until all jobs are over.
    pub(crate) async fn until_all_jobs_are_over(&self, daemon: &mut Daemon) {
        let is_over = |job: &SimJob| matches!(job.stage, SimStage::Completed(_));
        until("all jobs are over", async || {
            daemon.must_live();
            self.github.jobs().iter().all(is_over)
        })
        .await;
    }

    /// Fails unless every job ran once and ended as its script says.
    pub(crate) fn check_jobs(&self) {
        for job in self.github.jobs() {
            // Asked of no pool of ours.
            if job.plan.name == "elsewhere" {
                assert_eq!(job.starts, 0, "{job:?}");
                continue;
            }
            assert_eq!(job.starts, 1, "{job:?}");
            // A job that dies with its runner fails; only a machine touched by us fails the others.
            let expected = if job.plan.name == "Succeed" { "success" } else { "failure" };
            assert_eq!(job.stage, SimStage::Completed(expected.into()), "{job:?}");
        }
    }

    /// Removes all pools from the configuration and waits until no instance is left.
    pub(crate) async fn drain(&self, daemon: &mut Daemon) {
        let other = "[[pool]]\nname = \"other\"\nlabels = [\"other\"]\nmax = 1\n";
        self.drain_to(daemon, other).await;
    }

    /// Leaves only what is written here and waits until no instance is left.
    pub(crate) async fn drain_to(&self, daemon: &mut Daemon, pools: &str) {
        self.configure(pools);
        daemon.signal(Signal::HUP);
        let records = self.records().await;
        until("everyone is gone", async || {
            daemon.must_live();
            records.live_instances(None).await.is_ok_and(|rows| rows.is_empty())
        })
        .await;
        // Also of a job that began and ended while the daemon was down, all its deliveries lost: it
        // lost its pool, so it is asked about.
        until("GitHub's last word is heard", async || {
            records.open_jobs().await.is_ok_and(|jobs| jobs.is_empty())
        })
        .await;
        records.close().await;
    }

    /// Fails if a daemon wrote something that it never should.
    pub(crate) fn check_logs(&self, never: &[&str]) {
        let logs = self.logs();
        for bad in ["is broken by", "panicked at", "\"panicked\":true"].iter().chain(never) {
            let line = logs.lines().find(|line| line.contains(bad));
            assert!(line.is_none(), "{}", line.unwrap_or_default());
        }
    }

    /// Returns what was sent to our hook, each with the answer.
    pub(crate) fn answers(&self) -> Vec<u16> {
        self.github.attempts(self.hook).into_iter().map(|attempt| attempt.status).collect()
    }

    /// Returns the names of the machines that exist.
    pub(crate) fn machines(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("machines")) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    /// Returns the processes of all machines.
    pub(crate) fn processes(&self) -> Vec<i32> {
        marked(&self.path("machines"))
    }

    /// Returns how many runners live.
    pub(crate) fn living_runners(&self) -> usize {
        living_runners(&self.path("machines"))
    }

    /// Returns the URL of the store.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// Opens the records, to read.
    pub(crate) async fn records(&self) -> SqlStore {
        SqlStore::open(&self.store, store::Options::default()).await.expect("the store opens")
    }

    /// Returns what all daemons wrote, oldest first.
    pub(crate) fn logs(&self) -> String {
        let number = |number| fs::read_to_string(self.path(&format!("log-{number:04}")));
        (1..=self.starts()).map(|at| number(at).unwrap_or_default()).collect()
    }

    /// Says that machines may be left behind; they are killed without a word.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let (machines, processes) = (self.machines(), self.processes());
        let registered = self.github.runners().len();
        kill_all(&self.path("machines"));
        if std::thread::panicking() {
            keep(self.folder.path());
        } else if !self.left {
            assert!(machines.is_empty(), "machines were left: {machines:?}");
            assert!(processes.is_empty(), "processes were left: {processes:?}");
            assert_eq!(registered, 0, "registrations were left");
        }
    }
}

/// Keeps what a failed test leaves for its reader: configuration, store and logs.
fn keep(folder: &Path) {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    let name = folder.file_name().unwrap_or_default();
    let copied = fs::create_dir_all(&place).is_ok()
        && std::process::Command::new("cp")
            .arg("-r")
            .arg(folder)
            .arg(place.join(name))
            .status()
            .is_ok_and(|status| status.success());
    if copied {
        eprintln!("what the daemons left is kept in {}", place.join(name).display());
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("ostler-daemon-").tempdir().expect("a folder")
}

/// Returns a pool of the usual labels.
pub(crate) fn pool(min_idle: u32, max: u32) -> String {
    format!(
        "[[pool]]\nname = \"linux\"\nlabels = [\"self-hosted\", \"linux\"]\nmin_idle = {min_idle}\nmax = {max}\n"
    )
}

/// Waits until something is true, and fails with its name after [`HANG_LIMIT`].
pub(crate) async fn until(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + HANG_LIMIT;
    while !is_true().await {
        assert!(Instant::now() < deadline, "waited {HANG_LIMIT:?} in vain until {what}");
        tokio::time::sleep(DAEMON_POLL_INTERVAL).await;
    }
}
