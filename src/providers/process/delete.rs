//! Deleting a machine: its runner is asked, then told, then its directory goes.
//!
//! ```text
//!  stop.json + SIGTERM to the keeper ──grace──▶ the keeper kills all that is left, and ends
//!        no keeper, or one that hangs ────────▶ we kill all that is left
//!                                               then the cgroup and the directory are removed
//! ```
//! Every signal goes to a process that was checked by start time. The call is bounded; what it
//! could not do is said, and done by the next one. Files are touched by the provider's hands for
//! the disk alone; what is done here in passing asks the kernel, which answers at once.

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::ports::{Deletion, Grace, MachineRef};
use rustix::process::Signal;
use tokio::time::Instant;

use super::files::{self, Keeping, Stop};
use super::look::Found;
use super::machine_status::MachineStatus;
use super::procs::{self, Identity};
use super::state::ProviderState;
use super::{remove, tree};

/// How long beyond the grace a keeper may take to end everything.
const KEEPER_ENDS: Duration = Duration::from_secs(15);
/// How long killed processes may take to be gone.
const KILLED: Duration = Duration::from_secs(10);
/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Deletes a machine, or says what is in the way.
pub(super) async fn delete(
    state: &Arc<ProviderState>,
    machine: &MachineRef,
    grace: Grace,
) -> Result<Deletion, String> {
    let Some(found) = find(state, machine).await? else { return Ok(Deletion::NotFound) };
    let grace = match grace {
        Grace::Usual => state.settings.grace,
        Grace::Zero => Duration::ZERO,
    };
    ask_keeper(state, &found, grace).await?;
    end_rest(state, &found).await?;
    let keeping = with_files(state, &found, |_, found| read_keeping(found)).await?;
    if let Some(cgroup) = keeping.as_ref().and_then(|it| it.cgroup_of(&found.label.uid)) {
        let removed = cgroup.remove_soon().await;
        removed.map_err(|error| format!("its cgroup cannot be removed: {error}"))?;
    }
    let (place, home, uid) = (state.settings.work_dir.clone(), found.home, found.label.uid);
    let removed = state.disk.remove(move || remove::machine(&place, &home, &uid));
    removed.await?.map_err(|error| format!("its directory cannot be removed: {error}"))?;
    Ok(Deletion::Accepted)
}

async fn find(state: &Arc<ProviderState>, machine: &MachineRef) -> Result<Option<Found>, String> {
    let (looking, machine) = (Arc::clone(state), machine.clone());
    let look = move || {
        looking.check()?;
        looking.find(&machine).map_err(reason)
    };
    state.disk.brief(look).await?
}

/// Changes a machine's files where waiting for them holds up no one else.
async fn with_files<R: Send + 'static>(
    state: &Arc<ProviderState>,
    found: &Found,
    work: impl FnOnce(&ProviderState, &Found) -> Result<R, String> + Send + 'static,
) -> Result<R, String> {
    let (of, found) = (Arc::clone(state), found.clone());
    state.disk.brief(move || work(&of, &found)).await?
}

fn read_keeping(found: &Found) -> Result<Option<Keeping>, String> {
    files::read::<Keeping>(&found.home.keeper()).map_err(reason)
}

/// Lets a living keeper end its runner, within the grace and a little more.
async fn ask_keeper(
    state: &Arc<ProviderState>,
    found: &Found,
    grace: Duration,
) -> Result<(), String> {
    let asked = with_files(state, found, move |state, found| ask(state, found, grace)).await?;
    let Some(keeping) = asked else { return Ok(()) };
    if !is_gone(keeping.keeper, grace + KEEPER_ENDS).await? {
        // It hangs. Its runner goes first, so that no process is handed over to another parent.
        kill_below(state, &keeping, &found.label.uid).await?;
        keeping.keeper.signal(Signal::KILL).map_err(reason)?;
        is_gone(keeping.keeper, KILLED).await?;
    }
    Ok(())
}

/// Asks the keeper to stop, if it lives here; returns whom was asked.
fn ask(state: &ProviderState, found: &Found, grace: Duration) -> Result<Option<Keeping>, String> {
    let Some(keeping) = read_keeping(found)? else { return Ok(None) };
    let is_ours = keeping.boot == state.boot().map_err(reason)?;
    if !is_ours || !keeping.is_alive(&found.home).map_err(reason)? {
        return Ok(None);
    }
    let stop = Stop { grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) };
    files::write(&found.home.stop(), &stop).map_err(reason)?;
    let asked = keeping.keeper.signal(Signal::TERM).map_err(reason)?;
    Ok(asked.then_some(keeping))
}

/// Makes sure that nothing lives, whether or not the keeper saw to it.
async fn end_rest(state: &Arc<ProviderState>, found: &Found) -> Result<(), String> {
    let until = Instant::now() + KILLED;
    loop {
        let machine_status = stand(state, found).await?;
        let why = match machine_status {
            MachineStatus::Unborn | MachineStatus::Lost | MachineStatus::Silent(_) => return Ok(()),
            MachineStatus::Over(exit) => {
                match with_files(state, found, |_, it| over_but_kept(it)).await? {
                    None => return Ok(()),
                    Some(keeper) => {
                        let left = exit.left;
                        format!("its keeper (process {}) still ends {left} processes", keeper.pid)
                    }
                }
            }
            MachineStatus::Orphaned(keeping, left) => {
                if let Some(cgroup) = keeping.cgroup_of(&found.label.uid) {
                    cgroup.kill();
                }
                for process in &left {
                    process.signal(Signal::KILL).map_err(reason)?;
                }
                format!("{} of its processes do not die", left.len())
            }
            MachineStatus::Making => "it is still being made".to_owned(),
            MachineStatus::Kept(keeping) => {
                format!("its keeper (process {}) does not end", keeping.keeper.pid)
            }
            MachineStatus::Hidden => {
                "its keeper lives in another container or on another host".into()
            }
        };
        if Instant::now() > until {
            return Err(why);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the keeper of a runner that is over, while it still lives.
fn over_but_kept(found: &Found) -> Result<Option<Identity>, String> {
    let Some(keeping) = read_keeping(found)? else { return Ok(None) };
    let lives = keeping.is_alive(&found.home).map_err(reason)?;
    Ok(lives.then_some(keeping.keeper))
}

async fn stand(state: &Arc<ProviderState>, found: &Found) -> Result<MachineStatus, String> {
    with_files(state, found, |state, found| state.stand(found).map_err(reason)).await
}

async fn kill_below(state: &ProviderState, keeping: &Keeping, uid: &str) -> Result<(), String> {
    let keeper = keeping.keeper;
    let cgroup = keeping.cgroup_of(uid).cloned();
    let killed = state.disk.brief(move || -> std::io::Result<()> {
        if let Some(cgroup) = cgroup {
            cgroup.kill();
        }
        let all = procs::snapshot()?;
        // In this very snapshot the keeper must still be itself, or the tree is another process's.
        if all.get(&keeper.pid).is_some_and(|now| keeper.pid > 1 && now.identity() == keeper) {
            for process in tree::below(&all, keeper.pid) {
                process.identity().signal(Signal::KILL)?;
            }
        }
        Ok(())
    });
    killed.await?.map_err(reason)
}

/// Waits until a process is gone; returns whether it is.
async fn is_gone(process: Identity, timeout: Duration) -> Result<bool, String> {
    let until = Instant::now() + timeout;
    while process.is_alive().map_err(reason)? {
        if Instant::now() > until {
            return Ok(false);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(true)
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where an error is mapped")]
fn reason(error: std::io::Error) -> String {
    error.to_string()
}
