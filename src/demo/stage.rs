//! The stage of the demo: a temporary folder, a simulated GitHub, a configuration like yours, and the
//! jobs, of which most end well and the rest dies in every interesting way.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_actors::model::{Labels, Place, Scope};
use tempfile::TempDir;

use super::agent::{Script, Step};
use super::config_template::ConfigTemplate;
use super::github::{JobPlan, Options, SimGitHub, SimHookOwner};
use crate::config::{Loaded, Outside, Problems, load};

/// How long a job lives without a word from its runner; ten minutes at the real GitHub.
const LEASE: Duration = Duration::from_secs(5);
/// What webhooks are signed with.
const WEBHOOK_SECRET: &str = "a secret of the demo";

/// Everything around the daemon; all of it goes away when this is dropped.
pub(super) struct Stage {
    folder: TempDir,
    pub(super) github: SimGitHub,
    /// Where the daemon is to listen: its warm runners are told before it does.
    port: u16,
}

impl Stage {
    pub(super) fn build() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("ostler-demo-").tempdir()?;
        let github = SimGitHub::start(Options { lease: LEASE, ..Options::default() })?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let stage = Self { folder, github, port };
        stage.write("token", &stage.github.token())?;
        stage.write("hook.secret", WEBHOOK_SECRET)?;
        stage.write("demo.toml", &stage.config())?;
        Ok(stage)
    }

    /// Loads the configuration, as `ostler run` would.
    pub(super) fn load(&self) -> Result<Loaded, Problems> {
        load(&self.folder.path().join("demo.toml"), &Outside::real())
    }

    /// Lets the simulated GitHub tell the daemon of jobs; returns its hook.
    pub(super) fn connect(&self, daemon: std::net::SocketAddr) -> u64 {
        let url = format!("http://{daemon}/webhooks/github");
        self.github.add_hook(
            SimHookOwner::Scope(Scope::Organization("acme".into())),
            &url,
            WEBHOOK_SECRET,
        )
    }

    /// Returns the folder of the daemon and its machines.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the machines whose folders exist.
    pub(super) fn machines(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.folder.path().join("machines")) else {
            return Vec::new();
        };
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        paths.filter(|path| path.is_dir()).collect()
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.folder.path().join(name);
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    /// Returns the configuration: yours, but in a hurry.
    ///
    /// One pool binds late, so that jobs are offered to runners and GitHub can shuffle them; the
    /// others are registered first.
    ///
    /// `idle_confirm` is far below what `check` advises for the real GitHub, where a job may be
    /// assigned a minute before its first process runs. The simulated one assigns in the very
    /// answer that starts the job, so a few seconds prove as much.
    fn config(&self) -> String {
        let folder = self.folder.path();
        let store = format!("sqlite://{}/state/ostler.db", folder.display());
        let port = Some(self.port);
        let around = ConfigTemplate { name: "demo", folder, store: &store, store_more: "", port };
        let pools = r#"
limits = { memory = "256MiB" }

[reaper]
tick = "5s"

[requeue]
tick = "5s"
orphan_after = "10s"

[defaults]
forge = "github"
scope = "acme"
provider = "local"
boot_timeout = "20s"
idle_confirm = "3s"
linger = "1s"
zombie_after = "10s"
absence_confirm = "5s"
scale_down_after = "60s"

[[pool]]
name = "small"
binding = "late"
labels = ["self-hosted", "small"]
min_idle = 1
max = 6

[[pool]]
name = "large"
labels = ["self-hosted", "large"]
max = 3

[[pool]]
name = "gpu"
labels = ["self-hosted", "gpu"]
max = 1
"#;
        around.config(&self.github) + pools.trim_start()
    }
}

/// The job that alone wants its kind of runner: no other can bring one along by chance.
pub(super) const RARE: u32 = 1;

/// Returns where all jobs come from.
pub(super) fn place() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

/// Returns the n-th job.
pub(super) fn plan(number: u32) -> JobPlan {
    let step = match number % 20 {
        3 => Step::Kill,
        5 | 13 => Step::Fail,
        7 => Step::Abort,
        9 => Step::Devour,
        11 => Step::Hang,
        14 => Step::Crash,
        16 => Step::Vanish,
        18 => Step::Terminate,
        _ => Step::Succeed,
    };
    let size = match number {
        RARE => "gpu",
        number if number % 4 == 1 => "large",
        _ => "small",
    };
    let script = Script { step, millis: 300 + u64::from(number % 7) * 250 };
    JobPlan {
        name: format!("{} {number}", name(step)),
        labels: Labels::from_iter(["self-hosted", size]),
        script: serde_json::json!(script),
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Succeed => "build",
        Step::Fail => "test that fails",
        Step::Kill => "job whose runner is killed",
        Step::Terminate => "job whose runner is told to stop",
        Step::Abort => "job that fills the disk",
        Step::Crash => "job whose runner crashes",
        Step::Devour => "job that takes all memory",
        Step::Hang => "job whose runner hangs",
        Step::Vanish => "job whose runner vanishes",
    }
}
