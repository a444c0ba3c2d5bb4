//! The command line: one file a command.

mod sim;
mod store;

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
    /// Runs the fleet against a simulated world that lies, and checks every promise.
    Sim(sim::Sim),
    /// Looks after the store: backup, restore, vacuum, stats.
    Store(store::Store),
}

impl Cli {
    /// Runs the command and returns the exit code: 0 ok, 1 failed, 2 usage.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Sim(sim) => sim.run(),
            Command::Store(store) => store.run(),
        }
    }
}
