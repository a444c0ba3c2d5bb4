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
#[cfg(feature = "lab")]
mod lab;
mod live;
mod machine;
mod manual;
mod plan;
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
    /// Runs the daemon until a signal stops it.
    Run(run::RunArgs),
    /// Checks the configuration and reports every problem with its place and a fix.
    Check(check::Check),
    /// Shows what a reload would change: pools added, removed, edited or rolled.
    Plan(plan::Plan),
    /// Shows the fleet: what needs attention, the pools, the API budget.
    Status(status::StatusArgs),
    /// Lists the pools.
    Pools(pools::PoolsArgs),
    /// Lists the instances.
    Instances(instances::InstancesArgs),
    /// Lists open jobs and why they wait.
    Jobs(jobs::JobsArgs),
    /// Lists ended instances and their causes.
    Deaths(deaths::DeathsArgs),
    /// Prints events; with `--follow` as they happen.
    Events(events::EventsArgs),
    /// Explains why an instance, a job or a pool is as it is.
    Explain(explain::ExplainArgs),
    /// Shows every event of an instance and how it ended.
    Timeline(timeline::TimelineArgs),
    /// Drains or resumes a pool.
    Pool(actions::PoolArgs),
    /// Deletes an instance, or forgets one that is out of reach.
    Instance(actions::InstanceArgs),
    /// Adopts machines that carry this fleet's stamp and the name of another daemon.
    Adopt(actions::AdoptArgs),
    /// Shows the fleet live in the terminal.
    Top(top::TopArgs),
    /// Installs and checks the webhooks at the forges.
    Hook(hook::HookArgs),
    /// Imports another runner manager: `import garm` writes a GARM installation as configuration.
    Import(import::ImportArgs),
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
    /// Manages the store: backup, restore, vacuum, stats.
    Store(store::StoreArgs),
    /// Prints shell completions.
    Completions(manual::CompletionsArgs),
    /// Prints the manual page, or writes one per command.
    Man(manual::ManualArgs),
    /// Prints the description of the HTTP API (OpenAPI 3.1).
    Openapi(manual::OpenapiArgs),
    /// Keeps one local runner; started by the daemon.
    #[command(hide = true)]
    Keeper(machine::KeeperArgs),
    /// Waits in a warm pod until there is work; started by the cluster.
    #[command(hide = true)]
    Poller(machine::PollerArgs),
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

/// Runs a command that writes to standard output. A closed pipe is no failure: `ostler jobs | head`.
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

/// Prints an error with its causes.
fn print_error(name: &str, error: &(dyn Error + 'static)) {
    eprintln!("ostler {name}: {}", chain(error));
}
