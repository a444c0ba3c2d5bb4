//! The keeper of one runner: starts it, listens to it, ends it, and says how it ended.
//!
//! ```text
//!  keeper.json ─▶ fill work/ ─▶ (wait for work) ─▶ cgroup ─▶ start ─▶ keeper.json ─▶ … ─▶ kill the rest ─▶ exit.json
//!                                                                 │
//!                        output → ring · SIGCHLD → reap · SIGTERM → the runner's group, grace
//! ```
//! It is a process of its own, in a session of its own, and outlives the daemon. As the reaper of
//! its tree it inherits every process whose parent dies, so nothing can leave the tree, and it does
//! not go before all of them have gone.

mod ending;
mod output;
mod starting;
mod waiting;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::Instant;

use super::files::{self, Home, Keeping, Plan, Stop};
use super::procs::{BOOT_ID, Identity};
use ending::End;
use output::OutputReader;

/// What a keeper's own files are not: readable by others.
const PRIVATE: Mode = Mode::from_raw_mode(0o077);

/// The grace of a keeper that is told to stop and not how: the usual one.
const GRACE: Duration = Duration::from_secs(30);

/// Keeps the runner of one machine until nothing of it is left.
pub fn run(directory: &Path) -> ExitCode {
    // A terminal's signals are for the daemon; our files are readable by no other user.
    let _ = rustix::process::setsid();
    rustix::process::umask(PRIVATE);
    let home = Home::new(directory);
    let kept = rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(io::Error::from)
        .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build())
        .and_then(|runtime| {
            let kept = runtime.block_on(keep(&home));
            // Files may still be copied for a runner that was stopped before it began.
            runtime.shutdown_background();
            kept
        });
    match kept {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ostler keeper: cannot keep `{}`: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// What a keeper hears of besides its runner's output.
struct Ears {
    stop: Stream,
    child: Stream,
    /// Held so that these do not end us.
    _deaf: [Stream; 3],
}

impl Ears {
    fn open() -> io::Result<Self> {
        let deaf = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()];
        let [hangup, interrupt, quit] = deaf.map(signal);
        Ok(Self {
            stop: signal(SignalKind::terminate())?,
            child: signal(SignalKind::child())?,
            _deaf: [hangup?, interrupt?, quit?],
        })
    }
}

async fn keep(home: &Home) -> io::Result<()> {
    let mut ears = Ears::open()?;
    let missing = || io::Error::other("there is no plan");
    let mut plan: Plan = files::read(&home.plan())?.ok_or_else(missing)?;
    let mut keeping = Keeping {
        keeper: Identity::of(rustix::process::getpid().as_raw_nonzero().get())?,
        boot: std::fs::read_to_string(BOOT_ID)?.trim().to_owned(),
        runner: None,
        cgroup: None,
    };
    // The ring first: a keeper that is found has a log.
    let mut output = OutputReader::open(home, plan.ready_line.as_deref())?;
    files::write(&home.keeper(), &keeping)?;
    let end = match starting::start(home, &mut plan, &mut keeping, &mut ears, &mut output).await {
        Ok(runner) => {
            let watched = watch(home, runner, &mut ears, &mut output).await;
            // Whatever went wrong, nothing may live on unwatched.
            watched.unwrap_or_else(|error| {
                output.log(&format!("the runner cannot be watched: {error}"));
                End::unknown()
            })
        }
        Err(end) => end,
    };
    ending::end(home, &plan, &keeping, end, &mut output).await
}

/// Watches the runner to its end.
async fn watch(
    home: &Home,
    runner: Pid,
    ears: &mut Ears,
    output: &mut OutputReader,
) -> io::Result<End> {
    let mut deadline: Option<Instant> = None;
    loop {
        tokio::select! {
            _ = ears.child.recv() => {}
            _ = ears.stop.recv() => {
                let until = Instant::now() + grace(home);
                deadline = Some(deadline.map_or(until, |earlier| earlier.min(until)));
                // Not reaped yet, so its number belongs to no other process.
                let _ = rustix::process::kill_process_group(runner, Signal::TERM);
            }
            () = passed(deadline) => {
                deadline = None;
                ending::kill_below()?;
            }
            () = output.hear() => continue,
        }
        if let Some(end) = reap(runner)? {
            return Ok(end);
        }
    }
}

/// Takes the exits of all dead children; returns the runner's.
fn reap(runner: Pid) -> io::Result<Option<End>> {
    // First without taking it: while the runner is unreaped, its group is its own.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    if rustix::process::waitid(WaitId::Pid(runner), look)?.is_some() {
        let _ = rustix::process::kill_process_group(runner, Signal::KILL);
    }
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == runner => return Ok(Some(End::of(status))),
            Ok(Some(_)) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns how much time the runner has to stop.
fn grace(home: &Home) -> Duration {
    let stop = files::read::<Stop>(&home.stop()).ok().flatten();
    stop.map_or(GRACE, |stop| Duration::from_millis(stop.grace_ms))
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
