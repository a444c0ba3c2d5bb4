//! Whole lives: the machine that comes too late, and fleets that are filled, left alone, restarted and
//! emptied.

use std::time::{Duration, Instant};

use super::measure::{Floors, LONG, Setting, number};
use super::part::{Figure, Part};
use super::stage::{Stage, StageSpec, until};

/// The daemon dies in the middle of a create; its machine appears 20 s later.
pub(crate) fn late(part: &mut Part, setting: &Setting) {
    let spec = StageSpec {
        late: Some(Duration::from_secs(20)),
        boot_ms: Some(21_000),
        work_ms: 1_000,
        ..setting.spec(1)
    };
    let mut stage = Stage::build(spec);
    stage.start();
    stage.queue(1, 0);
    until("the create is called", LONG, || stage.creates().len() == 1);
    stage.kill();
    let killed = Instant::now();
    stage.start();
    until("the machine appears", LONG, || stage.machines() == 1);
    let appeared = killed.elapsed().as_secs_f64();
    until("its job is done and nothing is left", LONG, || {
        stage.forge().completed == 1 && stage.machines() == 0 && stage.owned() == 0
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
        .remark(note),
    );
}

/// Ten times the instances at rest: rounds of the reaper come ten times as often, so that ten minutes
/// of both fleets fit into one.
pub(crate) fn growth(part: &mut Part, setting: &Setting) {
    let seconds = f64::from(number("BENCH_REST_SECONDS", 120));
    let cpu = [1_000, 10_000].map(|size| {
        let spec =
            StageSpec { min_idle: size, boot_ms: Some(100), tick: Some(6), ..setting.spec(size) };
        let mut stage = Stage::build(spec);
        stage.start();
        let want = usize::try_from(size).unwrap_or_default();
        until("all are idle", LONG, || stage.idle() >= want);
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
        .remark(format!(
            "reaper tick 6 s; {:.2} s and {:.2} s of CPU in {seconds} s",
            cpu[0], cpu[1]
        )),
    );
}

/// Holds what the daemon costs with no instance to look after: the floor of every fleet at rest.
struct Empty {
    cpu: f64,
    rss: f64,
    /// Milliseconds until it leads.
    restart: f64,
}

const EMPTY: &str = "the same daemon without an instance";

impl Empty {
    fn measure(setting: &Setting) -> Self {
        let mut stage = Stage::build(setting.spec(1));
        stage.start();
        let (cpu, rss, _) = rest(&stage);
        stage.kill();
        let began = Instant::now();
        stage.start();
        Self { cpu, rss, restart: began.elapsed().as_secs_f64() * 1e3 }
    }
}

/// Lets a daemon rest; returns seconds of CPU and forge calls a minute, and resident MiB.
fn rest(stage: &Stage) -> (f64, f64, f64) {
    // Whatever the last arrivals caused may come to rest.
    std::thread::sleep(Duration::from_secs(5));
    let minutes = f64::from(idle_seconds()) / 60.0;
    let (before, calls) = (stage.cost(), total(stage));
    std::thread::sleep(Duration::from_secs(u64::from(idle_seconds())));
    let (after, asked) = (stage.cost(), total(stage) - calls);
    ((after.cpu - before.cpu) / minutes, after.rss, asked as f64 / minutes)
}

fn idle_seconds() -> u32 {
    number("BENCH_IDLE_SECONDS", 120)
}

/// Fills a fleet and returns its CPU seconds a minute and resident MiB at rest.
pub(crate) fn resting_cost(setting: &Setting, size: u32) -> (f64, f64) {
    let spec = StageSpec { min_idle: size, boot_ms: Some(100), ..setting.spec(size) };
    let mut stage = Stage::build(spec);
    stage.start();
    let want = usize::try_from(size).unwrap_or_default();
    until("all are idle", LONG, || stage.idle() >= want);
    let (cpu, rss, _) = rest(&stage);
    (cpu, rss)
}

/// Fills, idles, restarts and drains fleets.
pub(crate) fn fleet_of(part: &mut Part, setting: &Setting, sizes: &[u32], floors: Floors) {
    let empty = Empty::measure(setting);
    let name = setting.name;
    part.take(Figure::new(format!("idle, 0 instances, {name}: CPU"), empty.cpu, "s a minute"));
    part.take(Figure::new(format!("idle, 0 instances, {name}: RSS"), empty.rss, "MiB"));
    for size in sizes {
        one_fleet(part, setting, *size, floors, &empty);
    }
}

fn one_fleet(part: &mut Part, setting: &Setting, size: u32, floors: Floors, empty: &Empty) {
    let name = setting.name;
    let spec = StageSpec { min_idle: size, boot_ms: Some(100), ..setting.spec(size) };
    let mut stage = Stage::build(spec);
    let (want, count) = (usize::try_from(size).unwrap_or_default(), f64::from(size));
    let began = Instant::now();
    stage.start();
    until("all are made", LONG, || stage.machines() >= want);
    let made = began.elapsed().as_secs_f64();
    let cost = stage.cost();
    part.take(
        Figure::new(format!("cold fill 0 to {size}, {name}"), made * 1e3, "ms")
            .floor("one round trip a machine, one after another", count * floors.ask)
            .remark(format!("CPU {:.2} ms an instance, start included", cost.cpu * 1e3 / count)),
    );
    until("all are idle", LONG, || stage.idle() >= want);
    let (cpu, rss, calls) = rest(&stage);
    let goal =
        |figure: Figure, most: f64| if size >= 10_000 { figure.at_most(most) } else { figure };
    let figure = Figure::new(format!("idle, {size} instances, {name}: CPU"), cpu, "s a minute");
    part.take(goal(figure.floor(EMPTY, empty.cpu), 0.6).remark(format!(
        "{:.2} % of a core, {calls:.1} forge calls a minute, over {} s",
        cpu / 0.6,
        idle_seconds()
    )));
    let figure = Figure::new(format!("idle, {size} instances, {name}: RSS"), rss, "MiB");
    let peak = format!("at most {:.0} MiB since it started", stage.cost().peak);
    part.take(goal(figure.floor(EMPTY, empty.rss), 256.0).remark(peak));
    restart(part, &mut stage, setting, size, empty);
    let began = Instant::now();
    stage.drain();
    until("all are gone", LONG, || stage.machines() == 0 && stage.owned() == 0);
    let took = began.elapsed().as_secs_f64();
    assert_eq!((stage.forge().runners, stage.violations()), (0, 0), "registrations, violations");
    part.take(
        Figure::new(format!("drain {size} to 0, {name}"), took * 1e3, "ms")
            .floor("one round trip a machine, one after another", count * floors.ask)
            .remark("idle_confirm = \"0s\"; nothing left at GitHub or at the provider"),
    );
}

fn restart(part: &mut Part, stage: &mut Stage, setting: &Setting, size: u32, empty: &Empty) {
    let want = usize::try_from(size).unwrap_or_default();
    stage.kill();
    let began = Instant::now();
    stage.start();
    let leads = began.elapsed().as_secs_f64();
    until("every row has an owner", LONG, || stage.owned() >= want && stage.idle() >= want);
    let owned = began.elapsed().as_secs_f64();
    let figure = Figure::new(
        format!("restart with {size} rows, every row owned, {}", setting.name),
        owned * 1e3,
        "ms",
    )
    .floor(EMPTY, empty.restart)
    .remark(format!(
        "after kill -9; it leads after {:.0} ms; {:.2} s CPU",
        leads * 1e3,
        stage.cost().cpu
    ));
    part.take(if size >= 10_000 { figure.at_most(5_000.0) } else { figure });
    // The owners' first looks.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(
        (stage.owned(), stage.machines()),
        (want, want),
        "no instance comes or goes at a restart"
    );
    let what = format!("after the restart with {size} rows, {}: RSS", setting.name);
    part.take(Figure::new(what, stage.cost().rss, "MiB").floor(EMPTY, empty.rss));
}

fn total(stage: &Stage) -> u64 {
    stage.forge().calls.values().sum()
}
