//! `ostler keeper`: the process that keeps one local runner. Started by the daemon, not by people.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::daemon::tools::keeper;

/// Keeps one local runner until nothing of it is left.
#[derive(Debug, Args)]
pub(super) struct Keeper {
    /// The machine's directory.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

impl Keeper {
    pub(super) fn run(&self) -> ExitCode {
        keeper::run(&self.dir)
    }
}
