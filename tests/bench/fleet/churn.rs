//! Short jobs through few and through many slots, while a client reads the fleet's status.

use std::time::{Duration, Instant};

use super::floor::Bare;
use super::measure::{Floors, LONG, Setting, at};
use super::part::{Figure, Part};
use super::reader::{Kept, once};
use super::stage::{Cost, Stage, StageSpec};

const STATUS: &str = "/api/v1/fleet";
/// How long a runner takes to come online, and then for its job.
const BOOT_MS: u64 = 100;
const WORK_MS: u64 = 200;
/// What a slot is taken for by one job at the least.
const LIFE_MS: f64 = (BOOT_MS + WORK_MS) as f64;

pub(crate) fn churn(part: &mut Part, setting: &Setting, floors: Floors) {
    for slots in [60, 500] {
        let run = run_churn(setting, slots, 5_000, Reading::Yes);
        let name = setting.name;
        let (asking, working) = (5_000.0 * floors.ask * 5.0, LIFE_MS * 5_000.0 / f64::from(slots));
        part.take(
            Figure::new(
                format!("5,000 jobs of 0.2 s through {slots} slots, {name}"),
                run.took * 1e3,
                "ms",
            )
            .floor("the jobs' own time, or five round trips a job", asking.max(working))
            .remark(format!(
                "{:.0} jobs a second; CPU {:.2} ms a job, readers included; RSS {:.0} MiB",
                5_000.0 / run.took,
                run.cost.cpu / 5.0,
                run.cost.rss
            )),
        );
        for (how, seen) in [("kept connection", &run.kept), ("new connections", &run.new)] {
            let bare = "a server that does nothing else, asked in turn";
            part.take(
                Figure::new(
                    format!("status reads under that churn, {how}, {slots} slots, {name}, p99"),
                    at(&seen.status, 99),
                    "ms",
                )
                .at_most(5.0)
                .floor(bare, at(&seen.bare, 99))
                .remark(format!(
                    "{STATUS}; p50 {:.2} ms, {} reads; bare p50 {:.2} ms, p99 {:.2} ms",
                    at(&seen.status, 50),
                    seen.status.len(),
                    at(&seen.bare, 50),
                    at(&seen.bare, 99)
                )),
            );
        }
    }
    // The same work for each instance, ten times the instances.
    let few = run_churn(setting, 50, 500, Reading::No);
    let many = run_churn(setting, 500, 5_000, Reading::No);
    part.take(
        Figure::new(
            format!("CPU for ten times the instances, ten jobs each, {}", setting.name),
            many.cost.cpu / few.cost.cpu,
            "times",
        )
        .at_most(11.0)
        .remark(format!("{:.2} s for 50, {:.2} s for 500", few.cost.cpu, many.cost.cpu)),
    );
}

pub(crate) struct Churned {
    pub(crate) took: f64,
    cost: Cost,
    kept: Seen,
    new: Seen,
}

/// Holds how long reads took, in milliseconds: of the daemon, and of a server that does nothing.
#[derive(Default)]
struct Seen {
    status: Vec<f64>,
    bare: Vec<f64>,
}

impl Seen {
    fn sort(&mut self) {
        self.status.sort_by(f64::total_cmp);
        self.bare.sort_by(f64::total_cmp);
    }
}

/// Tells whether a client reads meanwhile: that costs by the second, not by the job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Yes,
    No,
}

pub(crate) fn run_churn(setting: &Setting, slots: u32, jobs: u64, reading: Reading) -> Churned {
    let mut stage =
        Stage::build(StageSpec { boot_ms: Some(BOOT_MS), work_ms: WORK_MS, ..setting.spec(slots) });
    stage.start();
    let daemon = stage.http().to_owned();
    let mut kept = Kept::open(&daemon);
    let bare = Bare::serve(kept.ask(STATUS).len());
    let mut kept_bare = Kept::open(bare.address());
    let (mut over_kept, mut over_new) = (Seen::default(), Seen::default());
    let (before, began) = (stage.cost(), Instant::now());
    stage.queue(jobs, 0);
    let want = usize::try_from(jobs).unwrap_or_default();
    let mut looked = Instant::now();
    loop {
        if reading == Reading::Yes {
            over_kept.status.push(timed(|| kept.ask(STATUS)));
            over_kept.bare.push(timed(|| kept_bare.ask(STATUS)));
            over_new.status.push(timed(|| once(&daemon, STATUS)));
            over_new.bare.push(timed(|| once(bare.address(), STATUS)));
        }
        std::thread::sleep(Duration::from_millis(5));
        if looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            if stage.owned() == 0 && stage.forge().completed >= want {
                break;
            }
            assert!(
                began.elapsed() < LONG,
                "the jobs do not end: {} owners {:?}",
                stage.owned(),
                stage.forge().calls
            );
        }
    }
    let took = began.elapsed().as_secs_f64();
    let after = stage.cost();
    assert_eq!(
        (stage.machines(), stage.forge().doubled, stage.violations()),
        (0, 0, 0),
        "left, doubled, violations"
    );
    over_kept.sort();
    over_new.sort();
    let cost = Cost { cpu: after.cpu - before.cpu, ..after };
    Churned { took, cost, kept: over_kept, new: over_new }
}

/// Returns how many milliseconds something took.
fn timed<T>(act: impl FnOnce() -> T) -> f64 {
    let began = Instant::now();
    drop(act());
    began.elapsed().as_secs_f64() * 1e3
}
