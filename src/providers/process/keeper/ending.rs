//! The end of a machine: nothing lives on, and what is known of the end is written down.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Signal, WaitOptions, WaitStatus};
use tokio::time::Instant;

use super::output::OutputReader;
use crate::providers::process::cgroup::Cgroup;
use crate::providers::process::files::{self, Exit, Home, Keeping, Oom, Plan};
use crate::providers::process::procs;
use crate::providers::process::{jit, tree};

/// How long killed processes are waited for before the end is told without them.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// How often is looked meanwhile, and afterwards.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const LATER: Duration = Duration::from_secs(1);
/// What a shell adds to a signal.
const SIGNALLED: i32 = 128;

/// How the runner itself ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    code: Option<i32>,
    signal: Option<i32>,
    began: bool,
}

impl End {
    /// Reads what the kernel says.
    pub(super) fn of(status: WaitStatus) -> Self {
        let signal = status.terminating_signal();
        let code = status.exit_status().or_else(|| signal.map(|signal| SIGNALLED + signal));
        Self { code, signal, began: true }
    }

    /// The end of a runner that could not be followed to its end.
    pub(super) fn unknown() -> Self {
        Self { code: None, signal: None, began: true }
    }

    /// The end of a runner that never began.
    pub(super) fn unbegun(code: Option<i32>) -> Self {
        Self { code, signal: None, began: false }
    }

    /// The end of a runner that was stopped before it began.
    pub(super) fn stopped() -> Self {
        let signal = Signal::TERM.as_raw();
        Self { code: Some(SIGNALLED + signal), signal: Some(signal), began: false }
    }
}

/// Ends everything and tells.
pub(super) async fn end(
    home: &Home,
    plan: &Plan,
    keeping: &Keeping,
    end: End,
    output: &mut OutputReader,
) -> io::Result<()> {
    let left = kill_all(output).await?;
    output.hear_out().await;
    for secret in &plan.secrets {
        if let Err(error) = jit::wipe(&home.work().join(secret)) {
            output.log(&format!("cannot wipe `{secret}`: {error}"));
        }
    }
    let exit = Exit {
        code: end.code,
        signal: end.signal,
        oom: keeping.cgroup.as_ref().map_or(Oom::Unknown, Cgroup::oom),
        began: end.began,
        left,
        ended_at: Timestamp::now(),
    };
    files::write(&home.exit(), &exit)?;
    while kill_below()? > 0 {
        reap_all();
        tokio::time::sleep(LATER).await;
    }
    if let Some(cgroup) = &keeping.cgroup {
        // What resists is removed with the machine.
        drop(cgroup.remove_soon().await);
    }
    Ok(())
}

/// Kills until nothing is left, or patience ends; returns how many are left. The output is
/// heard meanwhile: a process that waits for a reader cannot be hurried by anything else.
async fn kill_all(output: &mut OutputReader) -> io::Result<usize> {
    let until = Instant::now() + KILL_TIMEOUT;
    loop {
        let left = kill_below()?;
        reap_all();
        if left == 0 || Instant::now() > until {
            return Ok(left);
        }
        drop(tokio::time::timeout(POLL_INTERVAL, output.hear()).await);
    }
}

/// Kills everything below the keeper; returns how many lived until now.
///
/// Whatever a process does to get away (fork twice, a session of its own), its children fall to
/// the keeper when it dies, so every round finds what the one before has left.
pub(super) fn kill_below() -> io::Result<usize> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let all = procs::snapshot()?;
    let living = tree::below(&all, me);
    for process in &living {
        match process.identity().signal(Signal::KILL) {
            // Not ours to kill (it changed its user): told as left, tried again.
            Ok(_) | Err(_) => {}
        }
    }
    Ok(living.len())
}

/// Takes the exits of dead children, so that none stays a zombie.
fn reap_all() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}
