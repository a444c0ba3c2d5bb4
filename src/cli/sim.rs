//! `ostler sim`: seeded worlds by the thousand, or one of them step by step.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use ostler_actors::testing::sim::{self, Tally};

/// How many failing seeds are told with their story; the others get a line.
const MAX_STORIES: usize = 5;

/// Runs the deterministic simulation.
#[derive(Debug, Args)]
pub(super) struct Sim {
    /// How many worlds to run.
    #[arg(long, default_value_t = 200, value_name = "N")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "S")]
    from: u64,
    /// Runs one seed and shows its story step by step.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "from"])]
    replay: Option<u64>,
    /// How many worlds run at once; all cores by default.
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
}

impl Sim {
    pub(super) fn run(&self) -> ExitCode {
        let mut out = io::stdout().lock();
        match self.tell(&mut out) {
            Ok(0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ostler sim: cannot write the report: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs and tells; returns how many promises were broken.
    fn tell(&self, out: &mut impl Write) -> io::Result<u64> {
        let tally = match self.replay {
            Some(seed) => {
                let (tally, story) = sim::replay(seed);
                for line in story {
                    writeln!(out, "{line}")?;
                }
                tally
            }
            None => sim::run(self.from, self.seeds, self.threads.unwrap_or_else(cores)),
        };
        for (at, failure) in tally.failures.iter().enumerate() {
            writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
            if at < MAX_STORIES {
                for line in &failure.story {
                    writeln!(out, "    {line}")?;
                }
                writeln!(out, "    replay: ostler sim --replay {}", failure.seed)?;
            }
        }
        writeln!(out, "{}", last_line(&tally))?;
        Ok(tally.violations)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the one line that programs read.
fn last_line(tally: &Tally) -> String {
    format!(
        "sim: seeds={} lifetimes={} faults={} violations={} years={:.2}",
        tally.seeds, tally.lifetimes, tally.faults, tally.violations, tally.years
    )
}

#[cfg(test)]
mod tests {
    use ostler_actors::mutants::{Mutant, choose};

    use super::*;

    #[test]
    fn a_failing_run_prints_its_seed_what_broke_and_the_way_to_see_it_again() {
        choose(Some(Mutant::RecordAfterDelete));
        let mut out = Vec::new();
        let sim = Sim { seeds: 1, from: 0, replay: Some(1), threads: None };
        let broken = sim.tell(&mut out).unwrap();
        choose(None);
        let words = String::from_utf8(out).unwrap();
        assert!(broken > 0);
        let detail =
            words.split_once("\nseed 1: I14 is broken by `").expect("the seed, after its story");
        assert!(detail.0.lines().count() > 1_000, "the story comes first");
        assert!(detail.1.contains("\n    replay: ostler sim --replay 1\n"));
        let last = words.lines().last().unwrap();
        assert!(last.starts_with("sim: seeds=1 ") && !last.contains("violations=0"), "{last}");
    }
}
