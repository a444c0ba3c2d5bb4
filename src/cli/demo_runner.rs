//! `ostler demo-runner`: the runner of the demo. Started by the daemon, not by people.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::demo::agent;

/// Serves one job of the simulated GitHub, as a runner would.
#[derive(Debug, Args)]
pub(super) struct DemoRunner {
    /// Where the simulated GitHub is, as `HOST:PORT`.
    #[arg(long, value_name = "ADDRESS")]
    github: String,
    /// The file with the JIT config.
    #[arg(long, value_name = "FILE")]
    jit: PathBuf,
}

impl DemoRunner {
    pub(super) fn run(&self) -> ExitCode {
        match agent::serve(&self.github, &self.jit) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("runner: {error}");
                ExitCode::FAILURE
            }
        }
    }
}
