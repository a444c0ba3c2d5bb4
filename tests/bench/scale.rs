//! Ten thousand idle instances: how long a restart takes, and how much memory they cost.
//!
//! The rows are stored before the daemon starts, and the doubles' own truth (machines, runners,
//! rows) is weighed before it, so that what is measured is the fleet. Time is virtual, so that only
//! work counts; the store, forge and provider answer from memory. A floor is measured in the same
//! process: bare rows in a map, and bare tasks with a channel each.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ostler_actors::model::{Instance, InstanceId, PoolSpec};
use ostler_actors::testing::{Plan, World, in_virtual_time, pool, start_fleet};

const ALL: usize = 10_000;

fn main() {
    let began = resident();
    in_virtual_time(memory_and_time(began));
    in_virtual_time(async {
        let mut world = stored(1);
        let took = restart(&mut world).await;
        println!("scale: 1 pool of {ALL}");
        println!("  restart, every row owned     {took:>10.1?}   (goal 5 s)");
    });
    println!("  floor: bare tasks started    {:>10.1?}", floor_of_start());
}

async fn memory_and_time(began: u64) {
    println!("scale: 10 pools of {} idle instances, early binding, doubles in memory", ALL / 10);
    let mut world = stored(10);
    let before = resident();
    // Kept to the end: memory that is given back would be used again, and weigh nothing.
    let rows = bare_rows(&world);
    let stored = resident();
    let floor = stored.saturating_sub(before);
    let took = restart(&mut world).await;
    let settled = settle(&mut world).await;
    let lives = resident();
    let idle = idle_cost(&mut world).await;
    assert_eq!(
        world.outside().records.live_rows().count(),
        rows.len(),
        "no instance may come or go"
    );
    let whole = lives.saturating_sub(floor) / 1024;
    let each = kib(lives.saturating_sub(stored));
    println!("  restart, every row owned     {took:>10.1?}   (goal 5 s)");
    println!("  until every row is looked at {settled:>10.1?}");
    println!(
        "  idle, share of a core        {:>8.2} %   (goal 1 %, doubles included)",
        idle * 100.0
    );
    println!("  resident, whole process      {whole:>6} MiB   (goal 256 MiB, doubles included)");
    println!("  of these the program         {:>6} MiB", began / 1024);
    println!("  and the doubles              {:>6} MiB", before.saturating_sub(began) / 1024);
    println!("  each instance of the fleet   {each:>6.1} KiB");
    println!("  floor: a bare row in a map   {:>6.1} KiB", kib(floor));
}

/// Makes a world in which all rows are stored and no daemon runs.
fn stored(pools: usize) -> World {
    let each = u32::try_from(ALL / pools).unwrap_or(u32::MAX);
    let spec = |index| PoolSpec { min_idle: each, ..pool(&format!("p{index}"), "witness", each) };
    let mut world = World::new(Plan::quiet((0..pools).map(spec).collect()), start_fleet);
    world.crash(Duration::from_secs(1));
    for index in 0..pools {
        world.plant_idle(index, each);
    }
    world
}

/// Starts a daemon on the stored rows; returns how long it took until every row had an owner.
async fn restart(world: &mut World) -> Duration {
    world.run_for(Duration::from_millis(999)).await;
    let start = Instant::now();
    while world.registry().map_or(0, |registry| registry.len()) < ALL {
        world.run_for(Duration::from_millis(1)).await;
        assert!(start.elapsed() < Duration::from_mins(5), "the restart does not come to an end");
    }
    start.elapsed()
}

/// Lets the first looks of all owners come home.
async fn settle(world: &mut World) -> Duration {
    let start = Instant::now();
    world.run_for(Duration::from_secs(50)).await;
    start.elapsed()
}

/// Returns the share of a core that ten quiet minutes take.
async fn idle_cost(world: &mut World) -> f64 {
    let start = Instant::now();
    world.run_for(Duration::from_mins(10)).await;
    start.elapsed().as_secs_f64() / 600.0
}

/// Returns bare copies of all rows.
fn bare_rows(world: &World) -> BTreeMap<InstanceId, Box<Instance>> {
    let outside = world.outside();
    let rows = outside.records.live_rows();
    rows.map(|row| (row.id.clone(), Box::new(Instance::clone(row)))).collect()
}

/// Returns how long bare tasks take to start and answer one message each.
fn floor_of_start() -> Duration {
    let start = Instant::now();
    in_virtual_time(async {
        let (home, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let senders: Vec<_> = (0..ALL)
            .map(|number| {
                let home = home.clone();
                let (sender, mut inbox) = tokio::sync::mpsc::unbounded_channel::<usize>();
                tokio::spawn(async move {
                    while let Some(word) = inbox.recv().await {
                        home.send(number + word).ok();
                    }
                });
                sender
            })
            .collect();
        for sender in &senders {
            sender.send(1).ok();
        }
        for _ in 0..ALL {
            answers.recv().await;
        }
    });
    start.elapsed()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn kib(total: u64) -> f64 {
    total as f64 / ALL as f64
}

/// Returns the resident memory of this process in KiB, or 0 where that cannot be read.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
