//! `ostler sim` and `ostler demo`: the commands of the feature `lab`.
//!
//! Both need the simulated world of the core and its test clock, which a daemon for real work must not
//! contain. `cargo run` builds them by default; `make dist` and the container build do not, and there
//! the two names are hidden commands that say where to find the real ones.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use ostler_actors::testing::sim::{self, Tally, Worlds};
use ostler_actors::testing::{EpisodeKind, WaitTimes};

use super::print_error;
use crate::daemon::on_system;
use crate::demo::{self, Ending, agent};
use crate::telemetry;

/// The number of failing seeds that are printed with their story; the others get a line.
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
    /// Runs one of the two worlds of each seed: the storm, or the one whose faults heal.
    #[arg(long, value_name = "WORLD", value_parser = world, conflicts_with = "episode")]
    world: Option<Worlds>,
    /// Runs worlds with this one fault that begins and heals at a known time, and no others.
    #[arg(long, value_name = "EPISODE", value_parser = episode)]
    episode: Option<EpisodeKind>,
    /// How many worlds run at once; all cores by default.
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
}

impl Sim {
    pub(super) fn run(&self) -> ExitCode {
        let mut out = io::stdout().lock();
        match self.report(&mut out) {
            Ok(0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("ostler sim: cannot write the report: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs the worlds, writes the report and returns how many promises were broken.
    fn report(&self, out: &mut impl Write) -> io::Result<u64> {
        let worlds = self.episode.map(Worlds::Episode).or(self.world);
        let worlds = worlds.unwrap_or(Worlds::StormAndHealing);
        let tally = match self.replay {
            Some(seed) => {
                let (tally, story) = sim::replay(worlds, seed);
                for line in story {
                    writeln!(out, "{line}")?;
                }
                tally
            }
            None => sim::run(worlds, self.from, self.seeds, self.threads.unwrap_or_else(cores)),
        };
        for (at, failure) in tally.failures.iter().enumerate() {
            writeln!(out, "seed {}: {}", failure.seed, failure.what)?;
            if at < MAX_STORIES {
                for line in &failure.story {
                    writeln!(out, "    {line}")?;
                }
                writeln!(
                    out,
                    "    replay: ostler sim --replay {}{}",
                    failure.seed,
                    option(worlds)
                )?;
            }
        }
        for kind in EpisodeKind::NOT_YET_KEPT {
            writeln!(out, "not run, not kept yet: {}", kind.slug())?;
        }
        writeln!(out, "{}", wait_line("places", &tally.waits.places))?;
        writeln!(out, "{}", wait_line("leaving", &tally.waits.leaving))?;
        writeln!(out, "{}", wait_line("stranded", &tally.waits.stranded))?;
        writeln!(out, "{}", last_line(&tally))?;
        Ok(tally.violations)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the world of this name.
fn world(name: &str) -> Result<Worlds, String> {
    match name {
        "storm" => Ok(Worlds::Storm),
        "healing" => Ok(Worlds::Healing),
        _ => Err("there are storm and healing".into()),
    }
}

/// Returns the option that chooses these worlds.
fn option(worlds: Worlds) -> String {
    match worlds {
        Worlds::StormAndHealing => String::new(),
        Worlds::Storm => " --world storm".into(),
        Worlds::Healing => " --world healing".into(),
        Worlds::Episode(kind) => format!(" --episode {}", kind.slug()),
    }
}

/// Returns the episode of this name, or which there are.
fn episode(slug: &str) -> Result<EpisodeKind, String> {
    let found = EpisodeKind::ALL.into_iter().find(|kind| kind.slug() == slug);
    found.ok_or_else(|| {
        let all: Vec<String> = EpisodeKind::ALL.into_iter().map(EpisodeKind::slug).collect();
        format!("there are {}", all.join(", "))
    })
}

/// Returns the line about one kind of wait, in seconds.
fn wait_line(name: &str, waits: &WaitTimes) -> String {
    let (half, most) = (waits.percentile(50), waits.percentile(99));
    format!("{name} p50={half} p99={most} max={}", waits.max())
}

/// Returns the one line that programs read.
fn last_line(tally: &Tally) -> String {
    format!(
        "sim: seeds={} lifetimes={} faults={} violations={} years={:.2}",
        tally.seeds, tally.lifetimes, tally.faults, tally.violations, tally.years
    )
}

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
            print_error("demo", &error);
            return ExitCode::from(2);
        }
        let ending = if self.exit { Ending::AfterJobs } else { Ending::WhenAsked };
        match on_system(demo::show(self.jobs, ending)) {
            Ok(Ok(true)) => ExitCode::SUCCESS,
            Ok(Ok(false)) => ExitCode::FAILURE,
            Ok(Err(error)) => {
                print_error("demo", &error);
                ExitCode::FAILURE
            }
            Err(error) => {
                print_error("demo", &error);
                ExitCode::FAILURE
            }
        }
    }
}

/// Serves one job of the simulated GitHub, as a runner would.
#[derive(Debug, Args)]
pub(super) struct DemoRunner {
    /// The address of the simulated GitHub, as `HOST:PORT`.
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

#[cfg(test)]
mod tests {
    use ostler_actors::mutants::{Mutant, choose};

    use super::*;

    #[test]
    fn a_failing_run_prints_its_seed_what_broke_and_the_way_to_see_it_again() {
        choose(Some(Mutant::RecordAfterDelete));
        let mut out = Vec::new();
        let sim =
            Sim { seeds: 1, from: 0, replay: Some(1), world: None, episode: None, threads: None };
        let broken = sim.report(&mut out).unwrap();
        choose(None);
        let text = String::from_utf8(out).unwrap();
        assert!(broken > 0);
        let detail =
            text.split_once("\nseed 1: I14 is broken by `").expect("the seed, after its story");
        assert!(detail.0.lines().count() > 1_000, "the story comes first");
        assert!(detail.1.contains("\n    replay: ostler sim --replay 1\n"));
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("sim: seeds=1 ") && !last.contains("violations=0"), "{last}");
    }
}
