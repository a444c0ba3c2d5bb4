//! How fast the two great decisions are: a step of an instance, a plan of a pool.
//!
//! Both are plain functions, so nothing but thinking is measured. The floor of a step is a copy of
//! the row it begins with and one of the row it ends with; the floor of a plan is one walk over the
//! reports' states.

#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ostler_actors::model::{Instance, PoolSpec};
use ostler_actors::testing::decide::{PlanBench, live_one_life};
use ostler_actors::testing::{Plan, World, in_virtual_time, pool, start_fleet};

/// How long each figure is measured.
const TIME: Duration = Duration::from_secs(2);

fn main() {
    println!("decide: pure functions, one thread, {TIME:?} each");
    let spec = pool("linux", "witness", 10);
    let steps = rate(|| live_one_life(&spec));
    let copies = {
        let row = a_row();
        rate(|| {
            black_box((black_box(&row).clone(), black_box(&row).clone()));
            1
        })
    };
    println!("  steps of an instance     {steps:>14.0} a second");
    println!("  floor: two copies of it  {copies:>14.0} a second");
    for size in [10, 100, 1_000, 10_000] {
        let spec = PoolSpec { max: size * 2, ..pool("linux", "witness", size) };
        let standing = PlanBench::of(spec, size);
        let plans = rate(|| {
            black_box(standing.plan(black_box(5)));
            1
        });
        let states: Vec<u64> = (0..u64::from(size)).collect();
        let walks = rate(|| {
            black_box(black_box(&states).iter().filter(|state| **state % 2 == 0).count());
            1
        });
        println!("  plans for {size:>6}         {plans:>14.0} a second");
        println!("  floor: one walk          {walks:>14.0} a second");
    }
}

/// Returns how many of what `work` counts are done in a second.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(mut work: impl FnMut() -> u64) -> f64 {
    let (start, mut done) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..16 {
            done += work();
        }
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// Returns a row as it is stored.
fn a_row() -> Instance {
    in_virtual_time(async {
        let mut world = World::new(Plan::quiet(vec![pool("linux", "witness", 1)]), start_fleet);
        world.crash(Duration::from_secs(1));
        world.plant_idle(0, 1);
        let outside = world.outside();
        outside.records.live_rows().next().map(|row| Instance::clone(row)).expect("the one row")
    })
}
