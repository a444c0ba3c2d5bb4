//! What an operator may say about local processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{self, Config};

/// The variables of the daemon that a runner may see; [`ProcessSettings::env`]
/// holds these and nothing else, because the daemon's environment holds its secrets.
pub const INHERITED: &[&str] = &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// The search path of a runner that is given none.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Describes one provider of local processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessSettings {
    /// An unpacked runner; each machine gets its files. None where the command brings its own.
    pub runner_dir: Option<PathBuf>,
    /// What is run in the machine's directory; `{jit_file}` becomes the path of the JIT config.
    pub command: Vec<String>,
    /// Where machines live; must survive the daemon and belong to this provider alone.
    pub work_dir: PathBuf,
    /// The file that remembers which work directories were used before; must be on another disk
    /// to notice that theirs is not mounted. None: nothing is remembered.
    pub memory: Option<PathBuf>,
    /// Whom runners run as: a name of `/etc/passwd`, or `uid:gid`. None: as the daemon.
    pub user: Option<String>,
    /// How much runners give way to others (0 to 19).
    pub nice: i32,
    /// How many machines may live at once. None: as many as the pools want.
    pub max_parallel: Option<usize>,
    /// What a runner may use, where the system has cgroups for us.
    pub limits: Limits,
    /// The whole environment of runners.
    pub env: BTreeMap<String, String>,
    /// How a job is seen on a machine. None: `Runner.Worker` for the official runner, else
    /// nothing (the forge is asked instead).
    pub witness: Option<Witness>,
    /// What the runner says when it is ready. None: only the forge tells.
    pub ready_line: Option<String>,
    /// Where machines without a registration ask this daemon for work. None: there can be none.
    pub public_url: Option<String>,
    /// How long a runner may take to stop by itself.
    pub grace: Duration,
    /// The program that is the keeper; this binary, unless a test says otherwise.
    pub keeper: PathBuf,
    /// Where the id of the running system is read.
    pub boot_id_file: PathBuf,
}

/// Bounds what one runner and all its processes may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory, swap included.
    pub memory: Option<u64>,
    pub pids: Option<u64>,
}

/// Tells how a job is seen on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// By a process of this name below the keeper.
    Process(String),
    /// By a file that the runner's command keeps in its directory while it works.
    Marker(String),
}

impl ProcessSettings {
    /// Returns the usual settings for the official runner, with machines under `work_dir`.
    pub fn new(work_dir: impl Into<PathBuf>) -> Self {
        Self {
            runner_dir: None,
            command: vec!["./run.sh".into()],
            work_dir: work_dir.into(),
            memory: None,
            user: None,
            nice: 0,
            max_parallel: None,
            limits: Limits::default(),
            env: BTreeMap::new(),
            witness: None,
            ready_line: Some("Listening for Jobs".into()),
            public_url: None,
            grace: Duration::from_secs(30),
            // Still this very binary when an upgrade has replaced the file it was started from.
            keeper: "/proc/self/exe".into(),
            boot_id_file: super::procs::BOOT_ID.into(),
        }
    }

    /// Returns the settings of a `[provider.NAME]`.
    pub fn from_config(process: &config::Process, config: &Config) -> Self {
        Self {
            memory: Some(config.daemon.state_dir.join("work_dirs")),
            runner_dir: process.runner_dir.clone(),
            command: process.command.clone(),
            user: process.user.clone(),
            nice: process.nice,
            max_parallel: process.max_parallel.and_then(|most| usize::try_from(most).ok()),
            limits: Limits {
                memory: process.limits.memory,
                pids: process.limits.pids.map(u64::from),
            },
            env: config::inherited(INHERITED),
            public_url: config.http.public_url.clone(),
            ..Self::new(&process.work_dir)
        }
    }

    /// Returns how a job is seen, if it can be.
    pub(super) fn witness(&self) -> Option<Witness> {
        let official = || self.command.first().is_some_and(|program| program.ends_with("run.sh"));
        self.witness
            .clone()
            .or_else(|| official().then(|| Witness::Process("Runner.Worker".into())))
    }
}
