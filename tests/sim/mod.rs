//! Seeded worlds: the real actors under random trouble, every promise checked at every step.
//!
//! The corpus (`corpus.txt`, seeds that once failed) goes first, then the first seeds there are.
//! `OSTLER_SEEDS` says how many; `make sim SEEDS=…` runs them by the thousand.

mod faults;
mod liveness;
mod mutants;
mod replay;

use std::fmt::Write as _;

use ostler_actors::testing::sim::{self, Detail, Tally, Worlds};

/// How many seeds are run unless `OSTLER_SEEDS` says otherwise.
const SEEDS: u64 = 60;

fn seeds() -> u64 {
    match std::env::var("OSTLER_SEEDS") {
        Ok(count) => count.parse().expect("OSTLER_SEEDS is a number"),
        Err(_) => SEEDS,
    }
}

/// Returns the seeds that once failed: one a line, the rest of the line says why.
fn corpus() -> Vec<u64> {
    let seed = |line: &str| {
        let word = line.split_whitespace().next()?;
        (!word.starts_with('#')).then(|| word.parse().expect("a seed at the start of the line"))
    };
    include_str!("corpus.txt").lines().filter_map(seed).collect()
}

/// Returns what a person needs to begin: which seeds, what broke, and the end of the story.
fn report(tally: &Tally) -> String {
    let mut words = String::new();
    for failure in &tally.failures {
        let _ = writeln!(words, "seed {}: {}", failure.seed, failure.what);
        for line in &failure.story {
            let _ = writeln!(words, "    {line}");
        }
    }
    words
}

#[test]
fn seeds_that_once_failed_hold_every_promise_now() {
    for seed in corpus() {
        let outcome = sim::run_seed(seed, Detail::Nothing);
        assert!(outcome.broken.is_empty(), "seed {seed}: {:#?}", outcome.broken);
    }
}

/// Runs a quarter of the first seeds: four tests, so that they run side by side.
fn quarter(which: u64) {
    let (from, to) = (seeds() * which / 4, seeds() * (which + 1) / 4);
    let tally = sim::run(Worlds::StormAndHealing, from, to - from, 1);
    assert_eq!(tally.seeds, to - from);
    assert_eq!(tally.violations, 0, "{}", report(&tally));
    assert!(tally.lifetimes >= tally.seeds && tally.faults >= tally.seeds, "{tally:?}");
}

#[test]
fn the_first_seeds_hold_every_promise() {
    quarter(0);
}

#[test]
fn the_second_quarter_of_the_first_seeds_holds_every_promise() {
    quarter(1);
}

#[test]
fn the_third_quarter_of_the_first_seeds_holds_every_promise() {
    quarter(2);
}

#[test]
fn the_last_quarter_of_the_first_seeds_holds_every_promise() {
    quarter(3);
}
