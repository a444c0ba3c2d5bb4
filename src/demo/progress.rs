//! What a person sees while the demo runs: one line that changes on a terminal, else a line now
//! and then.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use ostler_actors::model::State;
use ostler_actors::registry::Registry;
use tokio::time::Instant;

use super::github::{SimJob, SimStage};

/// How far apart lines are where they cannot be overwritten.
const BREATH: Duration = Duration::from_secs(1);

/// Holds the line that was shown last.
#[derive(Default)]
pub(super) struct Progress {
    shown: String,
    since: Option<Instant>,
}

impl Progress {
    /// Shows where things stand, if that changed.
    pub(super) fn show(&mut self, jobs: &[SimJob], registry: &Registry) {
        let terminal = io::stdout().is_terminal();
        let line = line(jobs, registry);
        let breathless = self.since.is_some_and(|since| since.elapsed() < BREATH);
        if line == self.shown || (!terminal && breathless) {
            return;
        }
        if terminal {
            print!("\r\x1b[2K{line}");
            drop(io::stdout().flush());
        } else {
            println!("{line}");
        }
        self.shown = line;
        self.since = Some(Instant::now());
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, text: &str) {
        if io::stdout().is_terminal() && !self.shown.is_empty() {
            println!();
        }
        self.shown.clear();
        println!("{text}");
    }
}

fn line(jobs: &[SimJob], registry: &Registry) -> String {
    let over = jobs.iter().filter(|job| matches!(job.stage, SimStage::Completed(_))).count();
    let rows = registry.instances();
    let count = |state: &State| rows.iter().filter(|row| row.state == *state).count();
    let states = State::ALL.iter().map(|state| (count(state), state));
    let parts: Vec<String> = states
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    let runners = if parts.is_empty() { "none".into() } else { parts.join(", ") };
    format!("jobs {over}/{} over · runners: {runners}", jobs.len())
}
