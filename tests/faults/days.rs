//! Three days in virtual time (part of `make campaign NAME=soak`): the real actors in a world of lies, one daemon from
//! the first hour to the last, and nothing that grows.
//!
//! The records, the machines and GitHub's memory of jobs are the world's and grow with history. What the
//! fleet itself holds is weighed by letting it go: a crash frees all that is the daemon's and nothing that
//! is the world's. So it is weighed after an hour, and again after three days of the next daemon's life.

use std::time::Duration;

use ostler_actors::testing::{
    Dice, Faults, Plan, StoreFaults, Watched, Weather, Workload, in_virtual_time, pool,
};

use super::herd::asked;
use super::table::{Losses, Row};
use super::weight::held;

const AN_HOUR: Duration = Duration::from_hours(1);
/// How far apart jobs come on average, in milliseconds.
const GAP: u64 = 20_000;
/// What three days may add to an hour, in KiB: finished jobs are remembered for eight days, and of those
/// that no pool serves the last thousand, with all that is known of them.
const MORE: usize = 4096;

pub(crate) fn three_days(row: &mut Row) {
    let (hours, seed) = (asked("HOURS", 72), asked("SEED", 1));
    row.load = format!("two pools of 50, a job every {} s, one daemon", GAP / 1000);
    in_virtual_time(async {
        let mut world = Watched::new(plan(u64::from(seed)));
        world.run_for(AN_HOUR).await;
        let early = weigh(&mut world).await;
        let mut board = Vec::new();
        for _ in 0..hours {
            world.run_for(AN_HOUR).await;
            board.push(world.registry().map_or(0, |registry| registry.len()));
        }
        let remembered = world.registry().map_or(0, |registry| registry.jobs().len());
        let late = weigh(&mut world).await;
        world.outside().workload.left = 0;
        let broken = world.finish().await;
        let outside = world.outside();
        let faults: u64 = outside.injected.values().sum();
        row.injected = format!(
            "{faults} faults of every kind but crashes and panics, {hours} h in virtual time"
        );
        row.jobs = outside.forge.jobs.len();
        row.remark = format!(
            "{} lifetimes; the fleet held {early} KiB after an hour and {late} KiB after {hours} h, {remembered} jobs on the board included; instances there: {} after the first hour, {} after the last, at most {}",
            outside.records.lifetimes(),
            board.first().copied().unwrap_or_default(),
            board.last().copied().unwrap_or_default(),
            board.iter().max().copied().unwrap_or_default(),
        );
        assert!(broken.is_empty(), "{} promises were broken, first {:?}", broken.len(), broken[0]);
        assert!(late <= early + MORE, "the fleet grows: {early} KiB, then {late} KiB");
        // Every instance lost, doubled, left or touched is a broken promise (I13, I17, I3 and I22, I5).
        row.losses = Some(Losses::default());
    });
}

/// Everything lies, and the daemon lives on: what it gathers it keeps.
fn plan(seed: u64) -> Plan {
    let mut faults = Faults::draw(Weather::Everything, false, &mut Dice::new(seed, 1));
    let alive = StoreFaults {
        crash_before: 0,
        crash_after: 0,
        crash_reading: 0,
        crash_effect: 0,
        panics: 0,
        ..faults.store
    };
    faults.store = alive;
    faults.people.restarts = 0;
    let pools = vec![pool("late", "split", 50), pool("early", "witness", 50)];
    let workload = Workload { left: u32::MAX, gap: GAP };
    Plan { weather: Weather::Everything, workload, ..Plan::quiet(pools) }
        .seeded(seed)
        .with_faults(faults)
}

/// Returns how many KiB the daemon held, by letting it crash.
async fn weigh(world: &mut Watched) -> usize {
    let with = held();
    world.crash(Duration::from_secs(1));
    let without = held();
    world.run_for(Duration::from_secs(2)).await;
    with.saturating_sub(without)
}
