//! Processes as the kernel shows them, known by number and start time.
//!
//! Numbers are used again. A process is the one we mean only if it also began at the same tick
//! of the same boot; a signal goes through a descriptor of the process that was checked.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Where the kernel tells which boot this is.
pub(super) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Names one process of one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Ticks since the boot (field 22 of `/proc/PID/stat`).
    pub(super) start: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) start: u64,
    /// Dead, and only its number is still taken.
    pub(super) zombie: bool,
    pub(super) name: String,
}

/// Shows all processes of one moment, more or less.
pub(super) type Snapshot = BTreeMap<i32, Process>;

pub(super) fn snapshot() -> io::Result<Snapshot> {
    let mut all = Snapshot::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(process) = look(pid)? {
            all.insert(pid, process);
        }
    }
    Ok(all)
}

/// Looks at one process; none if there is none of this number.
pub(super) fn look(pid: i32) -> io::Result<Option<Process>> {
    let gone = [Errno::NOENT.raw_os_error(), Errno::SRCH.raw_os_error()];
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(text) => parse(&String::from_utf8_lossy(&text))
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat cannot be understood"))),
        Err(error) if error.raw_os_error().is_some_and(|code| gone.contains(&code)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads `pid (name) state parent group session …`; the name may hold anything, `)` too.
fn parse(stat: &str) -> Option<Process> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    Some(Process {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

impl Process {
    pub(super) fn identity(&self) -> Identity {
        Identity { pid: self.pid, start: self.start }
    }

    /// Returns its arguments, or nothing where they cannot be read.
    pub(super) fn arguments(&self) -> Vec<String> {
        let raw = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let parts = raw.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
    }

    /// Returns whether its environment holds exactly this entry.
    pub(super) fn is_marked(&self, entry: &str) -> bool {
        let raw = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        raw.split(|byte| *byte == 0).any(|part| part == entry.as_bytes())
    }
}

impl Identity {
    /// Returns who has this number now.
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("no process {pid}"));
        look(pid)?.map(|process| process.identity()).ok_or_else(gone)
    }

    /// Returns whether this very process lives.
    pub(super) fn is_alive(self) -> io::Result<bool> {
        Ok(look(self.pid)?.is_some_and(|it| it.start == self.start && !it.zombie))
    }

    /// Sends a signal to this very process; returns whether it was there to get it.
    pub(super) fn signal(self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.pid > 1) else { return Ok(false) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The handle holds one process fast; only now is it certain which.
        if !self.is_alive()? {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 7 42 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987 1 1";
        let seen = parse(stat).unwrap();
        assert_eq!((seen.name.as_str(), seen.parent, seen.group), ("a) b (c", 7, 42));
        assert_eq!((seen.session, seen.start, seen.zombie), (40, 987, false));
        assert_eq!(parse("42 (a) S"), None);
    }

    #[test]
    fn a_process_that_merely_has_the_number_gets_no_signal() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let known = Identity::of(i32::try_from(child.id()).unwrap()).unwrap();
        let stranger = Identity { start: known.start + 1, ..known };
        assert!(!stranger.signal(Signal::KILL).unwrap());
        assert!(known.is_alive().unwrap() && child.try_wait().unwrap().is_none());
        assert!(known.signal(Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!known.is_alive().unwrap() && !known.signal(Signal::KILL).unwrap());
    }
}
