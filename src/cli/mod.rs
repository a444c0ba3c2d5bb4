//! The command line: one file a command.

mod check;
mod keeper;
mod plan;
mod sim;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Fleet manager for self-hosted CI runners: every runner has one owner.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks the configuration: every problem at once, each with its place and the way out.
    Check(check::Check),
    /// Shows what a reload would do: pools added, removed and changed, and which of them roll.
    Plan(plan::Plan),
    /// Runs the fleet against a simulated world that lies, and checks every promise.
    Sim(sim::Sim),
    /// Keeps one local runner; started by the daemon.
    #[command(hide = true)]
    Keeper(keeper::Keeper),
}

impl Cli {
    /// Runs the command and returns the exit code: 0 ok, 1 failed, 2 usage or
    /// configuration.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Check(check) => check.run(),
            Command::Plan(plan) => plan.run(),
            Command::Sim(sim) => sim.run(),
            Command::Keeper(keeper) => keeper.run(),
        }
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
