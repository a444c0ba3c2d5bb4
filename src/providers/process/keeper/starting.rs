//! Starting a runner: its files, its cgroup, its group, its user, its environment and no other.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::process::Pid;

use super::Ears;
use super::ending::End;
use super::output::OutputReader;
use super::waiting::wait_for_work;
use crate::providers::process::cgroup::Cgroup;
use crate::providers::process::copy;
use crate::providers::process::files::{self, Home, Keeping, Plan};
use crate::providers::process::procs::Identity;

/// What a job expects of new files: readable by others, writable by their owner alone.
const USUAL: Mode = Mode::from_raw_mode(0o022);
/// What a shell says for a command that is there and cannot be run.
const CANNOT_RUN: i32 = 126;
/// What a shell says for a command that is not there.
const NOT_THERE: i32 = 127;

/// Starts the runner, or says how its life ended before it began.
pub(super) async fn start(
    home: &Home,
    plan: &mut Plan,
    keeping: &mut Keeping,
    ears: &mut Ears,
    output: &mut OutputReader,
) -> Result<Pid, End> {
    fill(home, plan, ears, output).await?;
    if let Some(waiting) = &plan.waiting {
        plan.secrets = wait_for_work(home, waiting, plan.user, ears, output).await?;
    }
    if plan.cgroup {
        match Cgroup::create(&Cgroup::name(&plan.uid), plan.limits) {
            Ok(made) => keeping.cgroup = Some(made),
            Err(why) => output.log(&format!("no cgroup, so no limits: {why}")),
        }
    }
    let spawned = spawn(home, plan, keeping, output).and_then(|pid| {
        keeping.runner = Some(Identity::of(pid.as_raw_nonzero().get())?);
        files::write(&home.keeper(), keeping)?;
        Ok(pid)
    });
    spawned.map_err(|error| {
        let program = plan.command.first().map_or("", String::as_str);
        output.log(&format!("cannot run `{program}`: {error}"));
        let missing = error.kind() == io::ErrorKind::NotFound;
        End::unbegun(Some(if missing { NOT_THERE } else { CANNOT_RUN }))
    })
}

/// Fills the machine's directory; a request to stop is noticed meanwhile.
async fn fill(
    home: &Home,
    plan: &Plan,
    ears: &mut Ears,
    output: &mut OutputReader,
) -> Result<(), End> {
    let Some(from) = plan.runner_dir.clone() else { return Ok(()) };
    let (work, user) = (home.work(), plan.user);
    let filling = tokio::task::spawn_blocking(move || copy::fill(&from, &work, user));
    tokio::select! {
        filled = filling => match filled {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                output.log(&error.to_string());
                Err(End::unbegun(None))
            }
            Err(error) => {
                output.log(&format!("the runner's files: {error}"));
                Err(End::unbegun(None))
            }
        },
        _ = ears.stop.recv() => {
            output.log("told to stop before the runner began");
            Err(End::stopped())
        }
    }
}

fn spawn(
    home: &Home,
    plan: &Plan,
    keeping: &Keeping,
    output: &mut OutputReader,
) -> io::Result<Pid> {
    let Some((program, arguments)) = plan.command.split_first() else {
        return Err(io::Error::other("the command is empty"));
    };
    if plan.nice != 0 {
        // Inherited by the runner; the keeper itself has nothing to hurry for.
        rustix::process::setpriority_process(None, plan.nice)?;
    }
    let pipe = output.pipe()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(home.work())
        .env_clear()
        .envs(&plan.env)
        .stdin(Stdio::null())
        .stdout(pipe.try_clone()?)
        .stderr(pipe)
        .process_group(0);
    if let Some(user) = plan.user {
        command.gid(user.gid).uid(user.uid);
    }
    // A child begins in the cgroup of its parent, so the keeper steps in and out around it.
    if let Some(cgroup) = &keeping.cgroup {
        cgroup.enter()?;
    }
    // The same with what its files are allowed to others: that is the job's business.
    let private = rustix::process::umask(USUAL);
    let spawned = command.spawn();
    rustix::process::umask(private);
    if let Some(cgroup) = &keeping.cgroup
        && let Err(error) = cgroup.leave()
    {
        output.log(&format!("the keeper stays in its runner's cgroup: {error}"));
    }
    let pid = i32::try_from(spawned?.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without a number"))
}
