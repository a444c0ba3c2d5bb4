//! What is measured, in which order, and on what.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::churn::churn;
use super::compare::compare;
use super::floor;
use super::lives::{fleet_of, growth, late};
use super::part::{Figure, Part};
use super::postgres::Postgres;
use super::speed::{bursts, latency};
use super::stage::{Machines, Stage, StageSpec};

/// How long anything may take that is waited for.
pub(crate) const LONG: Duration = Duration::from_mins(5);

/// Holds the floors of this run.
#[derive(Clone, Copy)]
pub(crate) struct Floors {
    /// Milliseconds of one commit.
    pub(crate) commit: f64,
    /// Milliseconds of one process.
    pub(crate) spawn: f64,
    /// Milliseconds of one question.
    pub(crate) ask: f64,
}

/// Says which store and which machines a group of figures is about.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) machines: Machines,
    server: Option<std::sync::Arc<Postgres>>,
    /// Another build of this bench, whose daemon is measured instead of ours.
    pub(crate) house: Option<PathBuf>,
}

impl Setting {
    pub(crate) fn spec(&self, max: u32) -> StageSpec {
        let store = self.server.as_ref().map(|server| server.database());
        StageSpec { store, house: self.house.clone(), ..StageSpec::new(self.machines, max) }
    }
}

pub(crate) fn all() {
    let mut part = Part::new("fleet");
    part.condition("real daemon as a child process, GitHub played over HTTP by another process");
    part.condition(Stage::settings());
    let floors = floors(&mut part);
    let simulated = Machines::Simulated;
    let sqlite = Setting { name: "SQLite", machines: simulated, server: None, house: None };
    if let Some(other) = std::env::var_os("BENCH_AGAINST") {
        return compare(&mut part, &sqlite, Path::new(&other));
    }
    let processes = Setting {
        name: "SQLite, processes",
        machines: Machines::Processes,
        server: None,
        house: None,
    };
    let external = Setting {
        name: "SQLite, external no-op",
        machines: Machines::External,
        server: None,
        house: None,
    };
    let server = Postgres::start_with("fsync=on").map(std::sync::Arc::new);
    let postgres = server.map(|server| Setting {
        name: "PostgreSQL",
        machines: simulated,
        server: Some(server),
        house: None,
    });
    let both: Vec<&Setting> = std::iter::once(&sqlite).chain(postgres.as_ref()).collect();
    if wanted("latency") {
        for setting in &both {
            for rate in [10, 50, 200] {
                latency(&mut part, setting, rate, floors);
            }
        }
        for setting in [&processes, &external] {
            for rate in [10, 50] {
                latency(&mut part, setting, rate, floors);
            }
        }
    }
    if wanted("burst") {
        for setting in &both {
            bursts(&mut part, setting, &[50, 200, 1_000, 5_000], floors);
        }
        for setting in [&processes, &external] {
            bursts(&mut part, setting, &[50, 200], floors);
        }
    }
    if wanted("churn") {
        for setting in &both {
            churn(&mut part, setting, floors);
        }
    }
    if wanted("late") {
        late(&mut part, &sqlite);
    }
    if wanted("growth") {
        growth(&mut part, &sqlite);
    }
    if wanted("idle") {
        let large = number("BENCH_LARGE", 10_000);
        fleet_of(&mut part, &sqlite, &[100, 1_000, large], floors);
        if let Some(setting) = &postgres {
            fleet_of(&mut part, setting, &[large], floors);
        }
    }
}

fn wanted(name: &str) -> bool {
    std::env::var("BENCH_ONLY").map_or(true, |only| only.split(',').any(|it| it == name))
}

/// Returns a number that a client asked for.
pub(crate) fn number(name: &str, or: u32) -> u32 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(or)
}

fn floors(part: &mut Part) -> Floors {
    let stage = Stage::build(StageSpec::new(Machines::Simulated, 1));
    let (commits, spawns) = (floor::commits(stage.path()), floor::spawns());
    let asks = floor::round_trips(stage.forge_at());
    part.take(Figure::new("floor: fsync of 4 KiB", commits, "a second"));
    part.take(Figure::new("floor: fork, exec, wait of /bin/true", spawns, "a second"));
    part.take(Figure::new("floor: HTTP round trip on one connection", asks, "a second"));
    Floors { commit: 1e3 / commits, spawn: 1e3 / spawns, ask: 1e3 / asks }
}

/// Returns the value below which so many in a hundred lie.
pub(crate) fn at(sorted: &[f64], share: usize) -> f64 {
    sorted.get((sorted.len().saturating_sub(1)) * share / 100).copied().unwrap_or_default()
}
