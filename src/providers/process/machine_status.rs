//! What the files and the processes of a machine say together.

use std::fs::File;
use std::io;

use ostler_actors::model::{ExitFacts, MachinePhase};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::files::{self, Exit, Home, Keeping, Oom};
use super::procs::{Identity, Snapshot};
use super::tree;

/// Tells how a machine stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MachineStatus {
    /// It is being created; there is no keeper yet.
    Making,
    /// Its maker died before there was a keeper: nothing will come of it.
    Unborn,
    Kept(Keeping),
    /// Its keeper lives where we cannot see it.
    Hidden,
    /// Its runner is over and the keeper said how.
    Over(Exit),
    /// The system it lived on was started anew.
    Lost,
    /// Its keeper is dead, and these of its processes live on.
    Orphaned(Keeping, Vec<Identity>),
    /// Its keeper is dead, nothing lives, and its end is not on record.
    Silent(Keeping),
}

impl MachineStatus {
    /// Looks at a machine.
    pub(super) fn of(home: &Home, uid: &str, boot: &str, all: &Snapshot) -> io::Result<Self> {
        if let Some(exit) = files::read(&home.exit())? {
            return Ok(Self::Over(exit));
        }
        let keeping: Option<Keeping> = files::read(&home.keeper())?;
        if let Some(keeping) = &keeping
            && keeping.boot == boot
            && keeping.is_alive(home)?
        {
            return Ok(Self::Kept(keeping.clone()));
        }
        if is_locked(home)? {
            return Ok(if keeping.is_some() { Self::Hidden } else { Self::Making });
        }
        // No process writes any more; what was written since the first look counts.
        if let Some(exit) = files::read(&home.exit())? {
            return Ok(Self::Over(exit));
        }
        Ok(match files::read::<Keeping>(&home.keeper())? {
            None => Self::Unborn,
            Some(keeping) if keeping.boot != boot => Self::Lost,
            Some(keeping) => {
                let left = tree::left_behind(all, &keeping, uid);
                if left.is_empty() { Self::Silent(keeping) } else { Self::Orphaned(keeping, left) }
            }
        })
    }

    /// Returns the phase a provider shows.
    pub(super) fn phase(&self) -> MachinePhase {
        match self {
            Self::Making => MachinePhase::Booting,
            Self::Kept(keeping) if keeping.runner.is_none() => MachinePhase::Booting,
            Self::Kept(_) => MachinePhase::Running,
            Self::Hidden => MachinePhase::Doubt(
                "its keeper lives in another container or on another host".into(),
            ),
            Self::Orphaned(_, left) => MachinePhase::Doubt(format!(
                "its keeper is dead and {} of its processes live on",
                left.len()
            )),
            Self::Over(exit) => MachinePhase::Over(facts(exit)),
            Self::Unborn | Self::Lost | Self::Silent(_) => {
                MachinePhase::Over(self.facts().unwrap_or_default())
            }
        }
    }

    /// Returns how it ended, as far as is known.
    pub(super) fn facts(&self) -> Option<ExitFacts> {
        match self {
            Self::Over(exit) => Some(facts(exit)),
            Self::Unborn => Some(ExitFacts { part: Some("keeper".into()), ..ExitFacts::default() }),
            Self::Lost => {
                Some(ExitFacts { machine_reason: Some("NodeLost".into()), ..ExitFacts::default() })
            }
            Self::Making | Self::Kept(_) | Self::Hidden | Self::Orphaned(..) | Self::Silent(_) => {
                None
            }
        }
    }
}

/// Returns an exit in the words a verdict is found by.
fn facts(exit: &Exit) -> ExitFacts {
    let reason = match (exit.oom, exit.code) {
        (Oom::Killed, _) => Some("OOMKilled"),
        (Oom::No | Oom::Unknown, Some(0)) => Some("Completed"),
        (Oom::No, Some(_)) => Some("Error"),
        // Not counted, so the kernel's killer is not excluded: no report is better than a wrong one.
        (Oom::Unknown, _) | (Oom::No, None) => None,
    };
    let spoken = exit.began || exit.code == Some(126) || exit.code == Some(127);
    ExitFacts {
        code: exit.code,
        signal: exit.signal,
        reason: reason.filter(|_| spoken).map(Into::into),
        machine_reason: None,
        part: (!spoken).then(|| "keeper".into()),
        ended_at: Some(exit.ended_at),
    }
}

/// Returns whether a process creates or keeps the machine.
fn is_locked(home: &Home) -> io::Result<bool> {
    let file = match File::open(home.lock()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn exit(code: i32, oom: Oom, began: bool) -> Exit {
        let ended_at = Timestamp::UNIX_EPOCH;
        Exit { code: Some(code), signal: None, oom, began, left: 0, ended_at }
    }

    #[test]
    fn without_a_count_nothing_is_reported_about_memory() {
        let word = |code, oom| facts(&exit(code, oom, true)).reason;
        assert_eq!(word(137, Oom::Killed).as_deref(), Some("OOMKilled"));
        assert_eq!(word(137, Oom::No).as_deref(), Some("Error"));
        assert_eq!(word(137, Oom::Unknown), None);
        assert_eq!(word(0, Oom::Unknown).as_deref(), Some("Completed"));
    }

    #[test]
    fn an_end_before_the_runner_began_is_the_keepers() {
        assert_eq!(facts(&exit(143, Oom::Unknown, false)).part.as_deref(), Some("keeper"));
        assert_eq!(facts(&exit(127, Oom::Unknown, false)).part, None);
        assert_eq!(facts(&exit(7, Oom::No, true)).part, None);
    }
}
