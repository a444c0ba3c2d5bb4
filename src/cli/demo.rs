//! `ostler demo`: the whole product on this machine, without an account, a cluster or a config.

use std::process::ExitCode;

use clap::Args;

use super::tell_error;
use crate::daemon::on_system;
use crate::demo::{self, Ending};
use crate::telemetry;

/// Shows the daemon at work: real processes, a simulated GitHub, jobs that die in interesting ways.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// How many jobs there are; with --exit, how many there are in all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    jobs: u32,
    /// Runs the jobs to the end, prints what became of them, and exits.
    #[arg(long)]
    exit: bool,
    /// What is logged, for instance `info` or `ostler=debug,warn`.
    #[arg(long, value_name = "FILTER", default_value = "off")]
    log: String,
}

impl Demo {
    pub(super) fn run(self) -> ExitCode {
        if let Err(error) = telemetry::begin(Some(&self.log)) {
            tell_error("demo", &error);
            return ExitCode::from(2);
        }
        let ending = if self.exit { Ending::AfterJobs } else { Ending::WhenAsked };
        match on_system(demo::show(self.jobs, ending)) {
            Ok(Ok(true)) => ExitCode::SUCCESS,
            Ok(Ok(false)) => ExitCode::FAILURE,
            Ok(Err(error)) => {
                tell_error("demo", &error);
                ExitCode::FAILURE
            }
            Err(error) => {
                tell_error("demo", &error);
                ExitCode::FAILURE
            }
        }
    }
}
