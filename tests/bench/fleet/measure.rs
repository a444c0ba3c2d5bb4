//! What is measured, one function a figure.

use std::time::{Duration, Instant};

use super::floor;
use super::part::{Figure, Part};
use super::postgres::Postgres;
use super::stage::{Cost, Machines, Stage, Wish, exchange, until};

const LONG: Duration = Duration::from_mins(5);

/// Holds the floors of this run.
#[derive(Clone, Copy)]
struct Floors {
    /// Milliseconds of one commit.
    commit: f64,
    /// Milliseconds of one process.
    spawn: f64,
    /// Milliseconds of one question.
    ask: f64,
}

/// Says which store and which machines a group of figures is about.
#[derive(Clone)]
struct Setting {
    name: &'static str,
    machines: Machines,
    server: Option<std::sync::Arc<Postgres>>,
}

impl Setting {
    fn wish(&self, max: u32) -> Wish {
        let store = self.server.as_ref().map(|server| server.database());
        Wish { store, ..Wish::new(self.machines, max) }
    }
}

pub(crate) fn all() {
    let mut part = Part::new("fleet");
    part.condition("real daemon as a child process, GitHub played over HTTP by another process");
    part.condition(Stage::settings());
    let floors = floors(&mut part);
    let simulated = Machines::Simulated;
    let sqlite = Setting { name: "SQLite", machines: simulated, server: None };
    let processes =
        Setting { name: "SQLite, processes", machines: Machines::Processes, server: None };
    let external =
        Setting { name: "SQLite, external no-op", machines: Machines::External, server: None };
    let server = Postgres::start_with("fsync=on").map(std::sync::Arc::new);
    let postgres = server.map(|server| Setting {
        name: "PostgreSQL",
        machines: simulated,
        server: Some(server),
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
        for size in [100, 1_000, large] {
            fleet_of(&mut part, &sqlite, size, floors);
        }
        if let Some(setting) = &postgres {
            fleet_of(&mut part, setting, large, floors);
        }
    }
}

/// Ten times the instances at rest: rounds of the reaper come ten times as often, so that ten minutes
/// of both fleets fit into one.
fn growth(part: &mut Part, setting: &Setting) {
    let seconds = f64::from(number("BENCH_REST_SECONDS", 180));
    let cpu = [1_000, 10_000].map(|size| {
        let wish = Wish { min_idle: size, boot_ms: Some(100), tick: Some(6), ..setting.wish(size) };
        let mut stage = Stage::build(wish);
        stage.start();
        let want = usize::try_from(size).unwrap_or_default();
        until("all are idle", LONG, || stage.board().1 >= want);
        // The last arrivals are told of; then one more round finds everybody at rest.
        std::thread::sleep(Duration::from_secs(20));
        let before = stage.cost();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stage.cost().cpu - before.cpu
    });
    part.take(
        Figure::new(
            format!("idle CPU, 10,000 instances against 1,000, {}", setting.name),
            cpu[1] / cpu[0],
            "times",
        )
        .at_most(1.5)
        .note(format!(
            "reaper tick 6 s; {:.2} s and {:.2} s of CPU in {seconds} s",
            cpu[0], cpu[1]
        )),
    );
}

fn wanted(name: &str) -> bool {
    std::env::var("BENCH_ONLY").map_or(true, |only| only.split(',').any(|it| it == name))
}

fn number(name: &str, or: u32) -> u32 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(or)
}

fn floors(part: &mut Part) -> Floors {
    let stage = Stage::build(Wish::new(Machines::Simulated, 1));
    let (commits, spawns) = (floor::commits(stage.path()), floor::spawns());
    let asks = floor::round_trips(stage.forge_at());
    part.take(Figure::new("floor: fsync of 4 KiB", commits, "a second"));
    part.take(Figure::new("floor: fork, exec, wait of /bin/true", spawns, "a second"));
    part.take(Figure::new("floor: HTTP round trip on one connection", asks, "a second"));
    Floors { commit: 1e3 / commits, spawn: 1e3 / spawns, ask: 1e3 / asks }
}

/// From the moment GitHub sends a webhook to the moment the provider is called.
fn latency(part: &mut Part, setting: &Setting, rate: u32, floors: Floors) {
    let count = (rate * 10).clamp(100, 2_000);
    let mut stage = Stage::build(setting.wish(10_000));
    stage.start();
    stage.queue(u64::from(count), u64::from(rate));
    let want = usize::try_from(count).unwrap_or_default();
    until("every job has its create", LONG, || stage.creates().len() >= want);
    let (creates, shown) = (stage.creates(), stage.forge());
    assert_eq!(creates.len(), want, "one create a job");
    // One job, one create, both in order: the n-th answers the n-th.
    let after = |from: &[u64]| -> Vec<f64> {
        let mut times: Vec<f64> = creates
            .iter()
            .zip(from)
            .map(|(at, since)| (*at as f64 - *since as f64) / 1e6)
            .collect();
        times.sort_by(f64::total_cmp);
        times
    };
    let sent: Vec<u64> = shown.sent.iter().map(|it| it.0).collect();
    let mut answered: Vec<u64> = shown.sent.iter().map(|it| it.1).collect();
    answered.sort_unstable();
    let (from_sent, from_answer) = (after(&sent), after(&answered));
    let floor = floors.commit * 5.0 + floors.ask * 2.0 + spawns(setting.machines) * floors.spawn;
    let what = |which: &str| format!("webhook sent to create, {rate}/s, {}, {which}", setting.name);
    let floor_is = "five commits and two round trips, one after another";
    let goal = |figure: Figure, most: f64| if rate == 200 { figure.at_most(most) } else { figure };
    part.take(goal(
        Figure::new(what("p50"), at(&from_sent, 50), "ms").floor(floor_is, floor),
        20.0,
    ));
    let note = format!(
        "after the 202: p50 {:.1} ms, p99 {:.1} ms",
        at(&from_answer, 50),
        at(&from_answer, 99)
    );
    part.take(
        goal(Figure::new(what("p99"), at(&from_sent, 99), "ms").floor(floor_is, floor), 100.0)
            .note(note),
    );
}

/// So many jobs at once: when is the last create called?
fn bursts(part: &mut Part, setting: &Setting, sizes: &[u32], floors: Floors) {
    let mut each = Vec::new();
    for size in sizes {
        let mut stage = Stage::build(setting.wish(10_000));
        stage.start();
        stage.queue(u64::from(*size), 0);
        let want = usize::try_from(*size).unwrap_or_default();
        until("every job has its create", LONG, || stage.creates().len() >= want);
        let (creates, shown) = (stage.creates(), stage.forge());
        assert_eq!(creates.len(), want, "one create a job");
        let began = shown.sent.first().map_or(0, |it| it.0);
        let took = (creates.last().copied().unwrap_or_default() as f64 - began as f64) / 1e6;
        let answered = shown.sent.iter().map(|it| it.1).max().unwrap_or_default();
        let accepted = (answered as f64 - began as f64) / 1e6;
        each.push(took / f64::from(*size));
        let floor = f64::from(*size) * (floors.ask * 2.0 + spawns(setting.machines) * floors.spawn);
        part.take(
            Figure::new(
                format!("burst of {size} jobs to the last create, {}", setting.name),
                took,
                "ms",
            )
            .floor("two round trips a job, one after another", floor)
            .note(format!(
                "last webhook answered after {accepted:.0} ms; CPU {:.2} s",
                stage.cost().cpu
            )),
        );
    }
    if let (Some(first), Some(last)) = (each.iter().copied().reduce(f64::min), each.last()) {
        part.take(
            Figure::new(
                format!(
                    "growth: a job of the largest burst against the cheapest, {}",
                    setting.name
                ),
                last / first,
                "times",
            )
            .at_most(1.5),
        );
    }
}

/// Short jobs through few and through many slots, while somebody reads.
fn churn(part: &mut Part, setting: &Setting, floors: Floors) {
    for slots in [60, 500] {
        let run = run_churn(setting, slots, 5_000);
        let name = setting.name;
        let floor = 5_000.0 * (floors.ask * 5.0);
        part.take(
            Figure::new(
                format!("5,000 jobs of 0.2 s through {slots} slots, {name}"),
                run.took * 1e3,
                "ms",
            )
            .floor("five round trips a job, one after another", floor)
            .note(format!(
                "{:.0} jobs a second; CPU {:.2} ms a job; RSS {:.0} MiB",
                5_000.0 / run.took,
                run.cost.cpu / 5.0,
                run.cost.rss
            )),
        );
        part.take(
            Figure::new(
                format!("status reads under that churn, {slots} slots, {name}, p99"),
                at(&run.reads, 99),
                "ms",
            )
            .at_most(5.0)
            .floor("one round trip", floors.ask)
            .note(format!(
                "{}; p50 {:.2} ms, {} reads",
                run.path,
                at(&run.reads, 50),
                run.reads.len()
            )),
        );
    }
    // The same work for each instance, ten times the instances.
    let (few, many) = (run_churn(setting, 50, 500), run_churn(setting, 500, 5_000));
    part.take(
        Figure::new(
            format!("CPU for ten times the instances, ten jobs each, {}", setting.name),
            many.cost.cpu / few.cost.cpu,
            "times",
        )
        .at_most(11.0)
        .note(format!("{:.2} s for 50, {:.2} s for 500", few.cost.cpu, many.cost.cpu)),
    );
}

struct Churned {
    took: f64,
    cost: Cost,
    reads: Vec<f64>,
    path: &'static str,
}

fn run_churn(setting: &Setting, slots: u32, jobs: u64) -> Churned {
    let mut stage = Stage::build(Wish { boot_ms: Some(100), work_ms: 200, ..setting.wish(slots) });
    stage.start();
    let path = if stage.get("/api/v1/fleet").is_some_and(|it| it.0 == 200) {
        "/api/v1/fleet"
    } else {
        "/readyz"
    };
    let (before, began) = (stage.cost(), Instant::now());
    stage.queue(jobs, 0);
    let mut reads = Vec::new();
    let want = usize::try_from(jobs).unwrap_or_default();
    let mut looked = Instant::now();
    loop {
        let asked = Instant::now();
        let answer = exchange(stage.http(), "GET", path, "").expect("the daemon answers");
        assert_eq!(answer.0, 200, "{}", answer.1);
        reads.push(asked.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(10));
        if looked.elapsed() > Duration::from_millis(100) {
            looked = Instant::now();
            if stage.forge().completed >= want && stage.board().0 == 0 {
                break;
            }
            assert!(
                began.elapsed() < LONG,
                "the jobs do not end: {:?} {:?}",
                stage.board(),
                stage.forge().calls
            );
        }
    }
    let took = began.elapsed().as_secs_f64();
    let after = stage.cost();
    assert_eq!(
        (stage.machines(), stage.forge().doubled, stage.board().2),
        (0, 0, 0),
        "left, doubled, violations"
    );
    reads.sort_by(f64::total_cmp);
    Churned { took, cost: Cost { cpu: after.cpu - before.cpu, rss: after.rss }, reads, path }
}

/// The daemon dies in the middle of a create; its machine appears 20 s later.
fn late(part: &mut Part, setting: &Setting) {
    let wish = Wish {
        late: Some(Duration::from_secs(20)),
        boot_ms: Some(21_000),
        work_ms: 1_000,
        ..setting.wish(1)
    };
    let mut stage = Stage::build(wish);
    stage.start();
    stage.queue(1, 0);
    until("the create is called", LONG, || stage.creates().len() == 1);
    stage.kill();
    let killed = Instant::now();
    stage.start();
    until("the machine appears", LONG, || stage.machines() == 1);
    let appeared = killed.elapsed().as_secs_f64();
    until("its job is done and nothing is left", LONG, || {
        stage.forge().completed == 1 && stage.machines() == 0 && stage.board().0 == 0
    });
    let over = killed.elapsed().as_secs_f64();
    assert_eq!(stage.creates().len(), 1, "no second machine was made");
    let note = format!(
        "it appeared {appeared:.1} s after the kill, served its job and was gone after {over:.1} s; creates 1"
    );
    part.take(
        Figure::new(
            "machines left by a kill in the middle of a create",
            stage.machines() as f64,
            "machines",
        )
        .at_most(0.0)
        .note(note),
    );
}

/// Fills, idles, restarts and drains a fleet.
fn fleet_of(part: &mut Part, setting: &Setting, size: u32, floors: Floors) {
    let name = setting.name;
    let wish = Wish { min_idle: size, boot_ms: Some(100), ..setting.wish(size) };
    let mut stage = Stage::build(wish);
    let (want, count) = (usize::try_from(size).unwrap_or_default(), f64::from(size));
    let began = Instant::now();
    stage.start();
    until("all are made", LONG, || stage.machines() >= want);
    let made = began.elapsed().as_secs_f64();
    let cost = stage.cost();
    part.take(
        Figure::new(format!("cold fill 0 to {size}, {name}"), made * 1e3, "ms")
            .floor("one round trip a machine, one after another", count * floors.ask)
            .note(format!("CPU {:.2} ms an instance, start included", cost.cpu * 1e3 / count)),
    );
    until("all are idle", LONG, || stage.board().1 >= want);
    // Whatever the last arrivals caused may come to rest.
    std::thread::sleep(Duration::from_secs(5));
    let seconds = f64::from(number("BENCH_IDLE_SECONDS", 120));
    let (before, calls) = (stage.cost(), total(&stage));
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let (after, asked) = (stage.cost(), total(&stage) - calls);
    let cpu = (after.cpu - before.cpu) * 60.0 / seconds;
    let large = size >= 10_000;
    let figure = Figure::new(format!("idle, {size} instances, {name}: CPU"), cpu, "s a minute")
        .note(format!(
            "{:.2} % of a core, {:.1} forge calls a minute, over {seconds} s",
            cpu / 0.6,
            asked as f64 * 60.0 / seconds
        ));
    part.take(if large { figure.at_most(0.6) } else { figure });
    let figure = Figure::new(format!("idle, {size} instances, {name}: RSS"), after.rss, "MiB");
    part.take(if large { figure.at_most(256.0) } else { figure });
    restart(part, &mut stage, setting, size);
    let began = Instant::now();
    stage.drain();
    until("all are gone", LONG, || stage.machines() == 0 && stage.board().0 == 0);
    let took = began.elapsed().as_secs_f64();
    assert_eq!((stage.forge().runners, stage.board().2), (0, 0), "registrations, violations");
    part.take(
        Figure::new(format!("drain {size} to 0, {name}"), took * 1e3, "ms")
            .floor("one round trip a machine, one after another", count * floors.ask)
            .note("idle_confirm = \"0s\"; nothing left at GitHub or at the provider"),
    );
}

fn restart(part: &mut Part, stage: &mut Stage, setting: &Setting, size: u32) {
    let want = usize::try_from(size).unwrap_or_default();
    stage.kill();
    let began = Instant::now();
    stage.start();
    let leads = began.elapsed().as_secs_f64();
    until("every row has an owner", LONG, || stage.board().0 >= want);
    let owned = began.elapsed().as_secs_f64();
    let figure = Figure::new(
        format!("restart with {size} rows, every row owned, {}", setting.name),
        owned * 1e3,
        "ms",
    )
    .note(format!(
        "after kill -9; it leads after {:.0} ms; {:.2} s CPU",
        leads * 1e3,
        stage.cost().cpu
    ));
    part.take(if size >= 10_000 { figure.at_most(5_000.0) } else { figure });
    // The owners' first looks.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        (stage.board().0, stage.machines()),
        (want, want),
        "nobody comes or goes at a restart"
    );
    let rss = stage.cost().rss;
    part.take(Figure::new(
        format!("after the restart with {size} rows, {}: RSS", setting.name),
        rss,
        "MiB",
    ));
}

/// Returns how many processes a create starts before it counts: keeper and runner, or the provider.
fn spawns(machines: Machines) -> f64 {
    match machines {
        Machines::Simulated => 0.0,
        Machines::Processes => 2.0,
        Machines::External => 1.0,
    }
}

fn total(stage: &Stage) -> u64 {
    stage.forge().calls.values().sum()
}

/// Returns the value below which so many in a hundred lie.
fn at(sorted: &[f64], share: usize) -> f64 {
    sorted.get((sorted.len().saturating_sub(1)) * share / 100).copied().unwrap_or_default()
}
