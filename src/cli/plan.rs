//! `ostler plan`: what a reload would do.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::config::{self, Config, PlannedChange};

/// Shows what a reload would do: pools added, removed and changed, and which of them roll.
#[derive(Debug, Args)]
pub(super) struct Plan {
    /// The new configuration.
    #[arg(long, value_name = "NEW")]
    config: PathBuf,
    /// The configuration it would replace; an empty fleet when left out.
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// Prints the changes as JSON.
    #[arg(long)]
    json: bool,
}

impl Plan {
    pub(super) fn run(&self) -> ExitCode {
        super::finish("plan", |out| self.plan(out))
    }

    fn plan(&self, out: &mut dyn Write) -> io::Result<ExitCode> {
        let place = self.against.as_deref().unwrap_or(&self.config);
        let new = read(&self.config, place);
        let old =
            self.against.as_deref().map_or_else(|| Some(Config::empty()), |old| read(old, place));
        let (Some(old), Some(new)) = (old, new) else { return Ok(ExitCode::from(2)) };
        let changes = config::plan(&old, &new);
        if self.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&changes)?)?;
        } else if changes.is_empty() {
            writeln!(out, "nothing changes")?;
        } else {
            for change in &changes {
                writeln!(out, "{change}")?;
            }
        }
        let refused = changes.iter().any(PlannedChange::is_refused);
        Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Reads the text alone: a plan is made on any machine, and the fleet's secrets are not there.
fn read(path: &Path, place: &Path) -> Option<Config> {
    match config::load_draft(path, place) {
        Ok(loaded) => Some(loaded.config),
        Err(problems) => {
            eprint!("{problems}\n{}\n", super::check::count(&problems));
            None
        }
    }
}
