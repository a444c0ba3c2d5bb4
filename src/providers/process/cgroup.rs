//! A cgroup for one machine: limits, and the kernel's word on memory.
//!
//! It is made beside or below the one we live in ourselves, by plain files: cgroup v2 where the
//! memory controller is delegated to us, else the v1 controllers `memory` and `pids`. Where
//! neither can be had, a machine has no limits and it is unknown whether memory killed it.

mod mounts;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::files::Oom;
use super::settings::Limits;
use mounts::Place;

/// How often a cgroup that is still busy is tried, and how far apart.
const MAX_TRIES: u32 = 100;
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Points at the cgroup of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cgroup {
    version: Version,
    /// Where `memory` is counted.
    memory: PathBuf,
    /// Where `pids` is counted, if that is another place (v1).
    pids: Option<PathBuf>,
    /// Where we came from, to go back to: the same order.
    outside: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    V1,
    V2,
}

/// Tells whether machines can have cgroups, by making one and removing it.
pub(super) fn probe(name: &str) -> Result<(), String> {
    let made = Cgroup::create(name, Limits::default())?;
    made.remove().map_err(|error| format!("a cgroup could be made and not removed: {error}"))
}

impl Cgroup {
    /// Makes a cgroup with limits, or tells why there is none.
    pub(super) fn create(name: &str, limits: Limits) -> Result<Self, String> {
        let places = mounts::read().map_err(|error| format!("cgroups cannot be read: {error}"))?;
        let mut why = vec!["no memory controller".to_owned()];
        for place in &places.unified {
            match Self::create_v2(place, name) {
                Ok(made) => return made.limited(limits),
                Err(error) => why.push(format!("{}: {error}", place.path.display())),
            }
        }
        match places.memory {
            Some(memory) => Self::create_v1(&memory, places.pids.as_ref(), name)
                .map_err(|error| format!("{}: {error}", memory.path.display()))?
                .limited(limits),
            None => Err(why.join("; ")),
        }
    }

    fn create_v2(place: &Place, name: &str) -> io::Result<Self> {
        // Refused where processes live in it already, unless it was delegated so before.
        drop(fs::write(place.path.join("cgroup.subtree_control"), "+memory +pids"));
        let memory = place.path.join(name);
        create(&memory)?;
        let made =
            Self { version: Version::V2, memory, pids: None, outside: vec![place.own.clone()] };
        if made.memory.join("memory.max").exists() {
            return Ok(made);
        }
        made.remove()?;
        Err(io::Error::other("the memory controller is not delegated"))
    }

    fn create_v1(memory: &Place, pids: Option<&Place>, name: &str) -> io::Result<Self> {
        let directory = memory.path.join(name);
        create(&directory)?;
        let mut outside = vec![memory.own.clone()];
        // A limit on processes is welcome; memory is what a verdict needs.
        let pids = pids.filter(|place| create(&place.path.join(name)).is_ok());
        outside.extend(pids.map(|place| place.own.clone()));
        let pids = pids.map(|place| place.path.join(name));
        Ok(Self { version: Version::V1, memory: directory, pids, outside })
    }

    fn limited(self, limits: Limits) -> Result<Self, String> {
        let result = self.limit(limits);
        result.map_err(|error| {
            drop(self.remove());
            format!("limits cannot be set: {error}")
        })?;
        Ok(self)
    }

    fn limit(&self, limits: Limits) -> io::Result<()> {
        if let Some(bytes) = limits.memory {
            let text = bytes.to_string();
            match self.version {
                Version::V2 => {
                    fs::write(self.memory.join("memory.max"), &text)?;
                    write_if_there(&self.memory.join("memory.swap.max"), "0")?;
                }
                Version::V1 => {
                    fs::write(self.memory.join("memory.limit_in_bytes"), &text)?;
                    write_if_there(&self.memory.join("memory.memsw.limit_in_bytes"), &text)?;
                }
            }
        }
        if let Some(count) = limits.pids {
            let place = self.pids.as_ref().unwrap_or(&self.memory).join("pids.max");
            fs::write(place, count.to_string())?;
        }
        Ok(())
    }

    /// Returns the name of a machine's cgroup.
    pub(super) fn name(uid: &str) -> String {
        format!("ostler-{uid}")
    }

    /// Returns whether it can be this machine's: a wrong path must not end another process.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        let name = Self::name(uid);
        !uid.is_empty() && self.places().all(|place| place.ends_with(&name))
    }

    /// Puts the calling process in, so that what it starts begins there.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.places().try_for_each(join)
    }

    /// Takes the calling process out again.
    pub(super) fn leave(&self) -> io::Result<()> {
        self.outside.iter().try_for_each(|place| join(place))
    }

    /// Returns the numbers of the processes in it.
    pub(super) fn members(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.memory.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Kills everything in it at once, where the kernel can.
    pub(super) fn kill(&self) {
        drop(write_if_there(&self.memory.join("cgroup.kill"), "1"));
    }

    /// Says whether the kernel killed a process in it for memory.
    pub(super) fn oom(&self) -> Oom {
        let count = match self.version {
            Version::V2 => read_counter(&self.memory.join("memory.events"), "oom_kill"),
            Version::V1 => read_counter(&self.memory.join("memory.oom_control"), "oom_kill")
                .or_else(|| {
                    fs::read_to_string(self.memory.join("memory.failcnt")).ok()?.trim().parse().ok()
                }),
        };
        match count {
            Some(0) => Oom::No,
            Some(_) => Oom::Killed,
            None => Oom::Unknown,
        }
    }

    /// Removes it, waiting a moment for the kernel to forget the dead in it.
    pub(super) async fn remove_soon(&self) -> io::Result<()> {
        for _ in 0..MAX_TRIES {
            match self.remove() {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                other => return other,
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        self.remove()
    }

    /// Removes it; fails while a process is in it.
    fn remove(&self) -> io::Result<()> {
        for place in self.places() {
            match fs::remove_dir(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn places(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.memory.as_path()).chain(self.pids.as_deref())
    }
}

fn create(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn join(place: &Path) -> io::Result<()> {
    fs::write(place.join("cgroup.procs"), "0")
}

fn write_if_there(path: &Path, text: &str) -> io::Result<()> {
    if path.exists() { fs::write(path, text) } else { Ok(()) }
}

fn read_counter(path: &Path, word: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

#[cfg(test)]
mod tests;
