//! The command line: one file a command.
//!
//! Commands that ask a running daemon (`status`, `explain`, `pool drain`, `top`, …) do so through
//! `remote`; the others work on files, stores and the simulation.

mod actions;
mod check;
mod deaths;
mod events;
mod explain;
mod hook;
mod import;
mod instances;
mod jobs;
mod keeper;
#[cfg(feature = "lab")]
mod lab;
mod live;
mod manual;
mod openapi;
mod plan;
mod poller;
mod pools;
mod remote;
mod run;
mod status;
mod store;
mod timeline;
mod top;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::errors::chain;

/// Fleet manager for self-hosted CI runners: every runner has one owner.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the daemon until it is told to stop.
    Run(run::Run),
    /// Checks the configuration: every problem at once, each with its place and the way out.
    Check(check::Check),
    /// Shows what a reload would do: pools added, removed and changed, and which of them roll.
    Plan(plan::Plan),
    /// Shows the fleet at a glance: what needs attention, the pools, the budget.
    Status(status::Status),
    /// Lists the pools.
    Pools(pools::Pools),
    /// Lists the instances.
    Instances(instances::Instances),
    /// Lists the jobs that are not over, and why they wait.
    Jobs(jobs::Jobs),
    /// Lists ends and their causes.
    Deaths(deaths::Deaths),
    /// Tells events; `--follow` as they happen.
    Events(events::Events),
    /// Explains why an instance, a job or a pool is as it is.
    Explain(explain::Explain),
    /// Shows all that happened to an instance, and how it ended.
    Timeline(timeline::Timeline),
    /// Drains a pool, or resumes it.
    Pool(actions::Pool),
    /// Asks an instance to go, or strikes it off.
    Instance(actions::Instance),
    /// Takes machines over that carry our stamp and another daemon's name.
    Adopt(actions::Adopt),
    /// Shows the fleet live in the terminal.
    Top(top::Top),
    /// Looks after the webhooks at the forges: install, status.
    Hook(hook::Hook),
    /// Takes over from others: `import garm` writes a GARM installation as configuration.
    Import(import::Import),
    /// Shows the daemon at work: real processes, a simulated GitHub, jobs that die.
    #[cfg(feature = "lab")]
    Demo(lab::Demo),
    /// Runs the fleet against a simulated world that lies, and checks every promise.
    #[cfg(feature = "lab")]
    Sim(lab::Sim),
    /// Shows the daemon at work; only in a build from source.
    #[cfg(not(feature = "lab"))]
    #[command(hide = true)]
    Demo(NotInThisBuild),
    /// Runs the simulation; only in a build from source.
    #[cfg(not(feature = "lab"))]
    #[command(hide = true)]
    Sim(NotInThisBuild),
    /// Looks after the store: backup, restore, vacuum, stats.
    Store(store::Store),
    /// Prints the completions of a shell.
    Completions(manual::Completions),
    /// Prints the manual page, or writes one for each command.
    Man(manual::Manual),
    /// Prints the description of the HTTP API (OpenAPI 3.1).
    Openapi(openapi::Openapi),
    /// Keeps one local runner; started by the daemon.
    #[command(hide = true)]
    Keeper(keeper::Keeper),
    /// Waits in a warm pod until there is work; started by the cluster.
    #[command(hide = true)]
    Poller(poller::Poller),
    /// Serves one job of the demo; started by the daemon.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    DemoRunner(lab::DemoRunner),
}

impl Cli {
    /// Runs the command and returns the exit code: 0 ok, 1 failed, 2 usage or
    /// configuration, 3 not found, 70 hopeless.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Check(check) => check.run(),
            Command::Plan(plan) => plan.run(),
            Command::Status(status) => status.run(),
            Command::Pools(pools) => pools.run(),
            Command::Instances(instances) => instances.run(),
            Command::Jobs(jobs) => jobs.run(),
            Command::Deaths(deaths) => deaths.run(),
            Command::Events(events) => events.run(),
            Command::Explain(explain) => explain.run(),
            Command::Timeline(timeline) => timeline.run(),
            Command::Pool(pool) => pool.run(),
            Command::Instance(instance) => instance.run(),
            Command::Adopt(adopt) => adopt.run(),
            Command::Top(top) => top.run(),
            Command::Completions(completions) => completions.run(),
            Command::Man(manual) => manual.run(),
            Command::Hook(hook) => hook.run(),
            Command::Import(import) => import.run(),
            #[cfg(feature = "lab")]
            Command::Demo(demo) => demo.run(),
            #[cfg(feature = "lab")]
            Command::Sim(sim) => sim.run(),
            #[cfg(not(feature = "lab"))]
            Command::Demo(absent) => absent.run("demo"),
            #[cfg(not(feature = "lab"))]
            Command::Sim(absent) => absent.run("sim"),
            Command::Store(store) => store.run(),
            Command::Openapi(openapi) => openapi.run(),
            Command::Keeper(keeper) => keeper.run(),
            Command::Poller(poller) => poller.run(),
            #[cfg(feature = "lab")]
            Command::DemoRunner(runner) => runner.run(),
        }
    }
}

/// Stands in for a command of the feature `lab`, whatever its arguments are.
#[cfg(not(feature = "lab"))]
#[derive(Debug, clap::Args)]
struct NotInThisBuild {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "lab"))]
impl NotInThisBuild {
    fn run(self, name: &str) -> ExitCode {
        drop(self.arguments);
        eprintln!(
            "ostler {name}: this build has no simulated world; in a checkout of the source, \
             run `cargo run --release -- {name}`"
        );
        ExitCode::from(2)
    }
}

/// Runs a command that writes to standard output; a reader that left early is no failure.
fn finish(name: &str, act: impl FnOnce(&mut dyn Write) -> io::Result<ExitCode>) -> ExitCode {
    match act(&mut io::stdout().lock()) {
        Ok(code) => code,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ostler {name}: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Tells a person what failed, and what led to it.
fn tell_error(name: &str, error: &(dyn Error + 'static)) {
    eprintln!("ostler {name}: {}", chain(error));
}
