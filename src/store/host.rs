//! Which process we are, in a way that another process on the same host can check.

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Names one process for as long as its host is up. Numbers of processes are used again,
/// so the start time belongs to it; containers count their own, so the namespace does too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HolderProcess {
    boot: String,
    namespace: String,
    pid: i32,
    started: Option<u64>,
}

impl HolderProcess {
    pub(super) fn myself() -> Self {
        let pid = getpid().as_raw_nonzero().get();
        Self { boot: boot(), namespace: namespace(), pid, started: started(pid) }
    }

    /// Returns whether the process is certainly over: it ran under this very kernel, counted
    /// as we count, and its number is free or was given to another.
    pub(super) fn is_proven_dead(&self) -> bool {
        let comparable = !self.boot.is_empty()
            && !self.namespace.is_empty()
            && self.boot == boot()
            && self.namespace == namespace();
        if !comparable {
            return false;
        }
        // Asking by signal also sees processes that /proc hides from us.
        let free =
            Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        let another =
            self.started.is_some_and(|then| started(self.pid).is_some_and(|now| now != then));
        free || another
    }
}

/// Returns the time since the host came up, time asleep included.
pub(crate) fn uptime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or(Duration::ZERO)
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid");
    link.map(|link| link.display().to_string()).unwrap_or_default()
}

/// Returns the start time of a process: field 22 of its `stat`, counted behind the name,
/// which may hold anything.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_is_not_proven_dead() {
        assert!(!HolderProcess::myself().is_proven_dead());
    }

    #[test]
    fn a_number_that_was_given_to_another_process_proves_the_first_dead() {
        let mut earlier = HolderProcess::myself();
        earlier.started = earlier.started.map(|then| then + 1);
        assert!(earlier.is_proven_dead());
    }

    #[test]
    fn a_free_number_proves_death_on_this_host_only() {
        let mut gone = HolderProcess::myself();
        gone.pid = i32::MAX;
        assert!(gone.is_proven_dead());
        gone.boot = "another boot".into();
        assert!(!gone.is_proven_dead());
        let mut contained = HolderProcess::myself();
        contained.pid = i32::MAX;
        contained.namespace = "pid:[1]".into();
        assert!(!contained.is_proven_dead());
    }
}
