//! The files of a machine: where they are, what is in them, and how they are written.
//!
//! A file is there whole or not at all: written beside, flushed, then renamed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use ostler_actors::model::{MachineName, Stamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cgroup::Cgroup;
use super::jit::Form;
use super::procs::{self, Identity};
use super::settings::Limits;
use super::user::User;

/// Points at the directory of one machine.
#[derive(Clone, Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn stamp(&self) -> PathBuf {
        self.0.join("stamp.json")
    }

    pub(super) fn plan(&self) -> PathBuf {
        self.0.join("plan.json")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub(super) fn ticket(&self) -> PathBuf {
        self.0.join("ticket")
    }

    pub(super) fn keeper(&self) -> PathBuf {
        self.0.join("keeper.json")
    }

    pub(super) fn ready(&self) -> PathBuf {
        self.0.join("ready")
    }

    pub(super) fn output(&self) -> PathBuf {
        self.0.join("output")
    }

    pub(super) fn old_output(&self) -> PathBuf {
        self.0.join("output.old")
    }

    pub(super) fn stop(&self) -> PathBuf {
        self.0.join("stop.json")
    }

    pub(super) fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    pub(super) fn work(&self) -> PathBuf {
        self.0.join("work")
    }
}

/// Says whose machine a directory is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Label {
    pub(super) name: MachineName,
    /// Differs from that of every other machine, of the same name too.
    pub(super) uid: String,
    pub(super) stamp: Stamp,
    pub(super) made_at: Timestamp,
}

/// Says what a keeper is to run. Holds no secret.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) uid: String,
    pub(super) command: Vec<String>,
    pub(super) runner_dir: Option<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) user: Option<User>,
    pub(super) nice: i32,
    pub(super) limits: Limits,
    /// Whether a cgroup is worth trying.
    pub(super) cgroup: bool,
    pub(super) ready_line: Option<String>,
    /// Files below `work` that are wiped when the runner is over.
    pub(super) secrets: Vec<String>,
    /// Whom to ask for work first, where the machine has no registration yet.
    #[serde(default)]
    pub(super) waiting: Option<Waiting>,
}

/// Says where a machine without a registration asks for work, and what it does with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub(super) server: String,
    /// The instance the machine was made for.
    pub(super) instance: String,
    /// How the command wants its JIT config.
    pub(super) form: Form,
}

/// Says who keeps a machine and what he started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Keeping {
    pub(super) keeper: Identity,
    /// The running system these numbers belong to.
    pub(super) boot: String,
    /// None while the runner's directory is being filled.
    pub(super) runner: Option<Identity>,
    pub(super) cgroup: Option<Cgroup>,
}

impl Keeping {
    /// Returns whether the keeper lives: the very process, and one that keeps this directory.
    pub(super) fn is_alive(&self, home: &Home) -> io::Result<bool> {
        let Some(process) = procs::look(self.keeper.pid)? else { return Ok(false) };
        let directory = home.path().display().to_string();
        Ok(process.identity() == self.keeper
            && !process.zombie
            && process.arguments().contains(&directory))
    }

    /// Returns the machine's cgroup, if it is one that a keeper made for this machine.
    pub(super) fn cgroup_of(&self, uid: &str) -> Option<&Cgroup> {
        self.cgroup.as_ref().filter(|cgroup| cgroup.is_of(uid))
    }
}

/// Says how a runner ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    /// The exit code; 128 and the signal where a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) oom: Oom,
    /// Whether the runner's command was ever started.
    pub(super) began: bool,
    /// How many processes could not be killed yet.
    pub(super) left: usize,
    pub(super) ended_at: Timestamp,
}

/// Tells whether memory was the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Oom {
    /// The kernel killed a process of this machine for memory.
    Killed,
    No,
    /// Not counted: there is no cgroup.
    Unknown,
}

/// Asks a keeper to stop its runner.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Stop {
    pub(super) grace_ms: u64,
}

/// Writes a file of ours: beside, flushed, renamed.
pub(super) fn write<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(content)?;
    let beside = path.with_extension("new");
    let mut file = create_private(&beside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// Reads a file of ours; none is none, also where its directory is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if is_nothing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Makes a file that only its owner can read.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_readable_by_its_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("stop.json");
        assert!(read::<Stop>(&path).unwrap().is_none());
        for grace_ms in [30_000, 0] {
            write(&path, &Stop { grace_ms }).unwrap();
            assert_eq!(read::<Stop>(&path).unwrap().unwrap().grace_ms, grace_ms);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
        fs::write(&path, "{").unwrap();
        read::<Stop>(&path).unwrap_err();
    }
}
