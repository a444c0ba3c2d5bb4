//! Seeded worlds by the thousand: run, check, count; or one of them told step by step.
//!
//! Each seed is two worlds. In the *storm* anything may fail at any call. The *healing* world is calm but
//! for a few faults that begin and heal at known times ([`Episode`](super::Episode)); there waits are
//! measured without excuse. Both hold every promise, those about waiting included.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{EpisodeKind, Plan, Waits, Watched, in_virtual_time, millis};
use crate::invariants::Violation;

/// How many jobs come to each storm.
const JOBS_PER_WORLD: u32 = 60;
/// How many jobs come to each healing world: before its episodes, during and after them.
const JOBS_PER_HEALING_WORLD: u32 = 40;
/// How long the storm goes on after the last job came.
const AFTERMATH: Duration = Duration::from_mins(30);
/// How many failures of a thread are told with their story.
const STORIES: usize = 5;

/// Holds what many worlds brought.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub seeds: u64,
    /// Instances that came to their end.
    pub lifetimes: u64,
    pub faults: u64,
    pub violations: u64,
    pub years: f64,
    /// How long jobs, instances and places waited.
    pub waits: Waits,
    /// The worlds that broke one.
    pub failures: Vec<Failure>,
}

/// Tells of a world that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    /// The first promise it broke.
    pub what: String,
    /// The end of its story.
    pub story: Vec<String>,
}

/// Holds what one world brought.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Instances that came to their end.
    pub lifetimes: u64,
    pub faults: u64,
    pub broken: Vec<Violation>,
    /// Virtual time lived, in milliseconds.
    pub lived: u64,
    pub waits: Waits,
    /// The hash of everything that happened.
    pub hash: u64,
    /// The story, if it was to be told.
    pub story: Vec<String>,
}

/// Tells which worlds of a seed are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worlds {
    /// Both, one after the other.
    StormAndHealing,
    /// Anything may fail at any call.
    Storm,
    /// Calm but for faults that heal.
    Healing,
    /// One with a single episode of a kind.
    Episode(EpisodeKind),
}

impl Worlds {
    fn run(self, seed: u64, detail: Detail) -> Outcome {
        match self {
            Self::StormAndHealing => run_seed(seed, detail),
            Self::Storm => run_plan(Plan::random(seed, JOBS_PER_WORLD), detail),
            Self::Healing => run_plan(Plan::healing(seed, JOBS_PER_HEALING_WORLD), detail),
            Self::Episode(kind) => run_episode(kind, seed, detail),
        }
    }
}

/// Runs the worlds of so many seeds on so many threads.
pub fn run(worlds: Worlds, from: u64, seeds: u64, threads: usize) -> Tally {
    let next = AtomicU64::new(from);
    let end = from.saturating_add(seeds);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                scope.spawn(|| {
                    let mut tally = Tally::default();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            return tally;
                        }
                        tally.add(worlds, seed, &worlds.run(seed, Detail::Nothing));
                    }
                })
            })
            .collect();
        for worker in workers {
            if let Ok(part) = worker.join() {
                tally.merge(part);
            }
        }
    });
    tally.failures.sort_by_key(|failure| failure.seed);
    tally
}

/// Runs the worlds of one seed and returns their whole story.
pub fn replay(worlds: Worlds, seed: u64) -> (Tally, Vec<String>) {
    let mut outcome = worlds.run(seed, Detail::Everything);
    let story = std::mem::take(&mut outcome.story);
    let mut tally = Tally::default();
    tally.add(worlds, seed, &outcome);
    (tally, story)
}

/// Tells how much of a story is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nothing but the hash.
    Nothing,
    Everything,
}

/// Runs both worlds of a seed.
pub fn run_seed(seed: u64, detail: Detail) -> Outcome {
    Worlds::Storm.run(seed, detail).and(Worlds::Healing.run(seed, detail))
}

/// Runs a world of a seed with one episode of a kind.
pub fn run_episode(kind: EpisodeKind, seed: u64, detail: Detail) -> Outcome {
    run_plan(Plan::with_episode(kind, seed, JOBS_PER_HEALING_WORLD), detail)
}

/// Runs a world: storm, calm, and then nothing may be left.
pub fn run_plan(plan: Plan, detail: Detail) -> Outcome {
    in_virtual_time(async move {
        let mut world = Watched::new(plan).measuring();
        if detail == Detail::Everything {
            world = world.telling_stories();
        }
        world.storm(AFTERMATH).await;
        let broken = world.finish().await;
        let waits = world.waits();
        let outside = world.outside();
        Outcome {
            lifetimes: outside.records.lifetimes(),
            faults: outside.injected.values().sum(),
            broken,
            lived: outside.now(),
            waits,
            hash: outside.trace.hash(),
            story: outside.trace.lines().to_vec(),
        }
    })
}

impl Outcome {
    /// Adds the other world of a seed.
    fn and(mut self, other: Self) -> Self {
        self.lifetimes += other.lifetimes;
        self.faults += other.faults;
        self.broken.extend(other.broken);
        self.lived += other.lived;
        self.waits.merge(&other.waits);
        self.hash = self.hash.rotate_left(1) ^ other.hash;
        self.story.extend(other.story);
        self
    }
}

impl Tally {
    fn add(&mut self, worlds: Worlds, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.lifetimes += outcome.lifetimes;
        self.faults += outcome.faults;
        self.violations += u64::try_from(outcome.broken.len()).unwrap_or(u64::MAX);
        self.years += years(outcome.lived);
        self.waits.merge(&outcome.waits);
        if let Some(first) = outcome.broken.first() {
            let what = first.to_string();
            let story = if self.failures.len() < STORIES {
                last_events(worlds, seed, first)
            } else {
                vec![]
            };
            self.failures.push(Failure { seed, what, story });
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.lifetimes += other.lifetimes;
        self.faults += other.faults;
        self.violations += other.violations;
        self.years += other.years;
        self.waits.merge(&other.waits);
        self.failures.extend(other.failures);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn years(lived: u64) -> f64 {
    lived as f64 / millis(Duration::from_hours(24 * 365)) as f64
}

/// Returns the last steps that concern the instance or job that broke the promise: the world is run again, and
/// tells the same story because it has the same seed.
fn last_events(worlds: Worlds, seed: u64, broken: &Violation) -> Vec<String> {
    let story = worlds.run(seed, Detail::Everything).story;
    let mut lines: Vec<String> =
        story.into_iter().filter(|line| line.contains(&broken.about)).collect();
    lines.split_off(lines.len().saturating_sub(40))
}
