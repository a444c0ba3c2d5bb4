//! Waiting is measured from the end of a fault, and has limits.
//!
//! Each kind of fault that begins and heals at a known time has worlds of its own. What the fleet does not
//! keep its promises under yet is listed in `EpisodeKind::NOT_YET_KEPT`, and must really break there: who
//! mends the last seed of a kind takes it off the list.

use std::time::Duration;

use ostler_actors::invariants::Violation;
use ostler_actors::model::{Instance, PoolSpec};
use ostler_actors::testing::sim::{self, Detail};
use ostler_actors::testing::{
    EpisodeKind, HOUR, MINUTE, Plan, SECOND, Watched, in_virtual_time, pool,
};

/// How many worlds each kind of episode has here.
const SEEDS: u64 = 6;
/// Within how many worlds a kind that is not kept yet shows it.
const SEEDS_OF_THE_UNKEPT: u64 = 40;

fn broken_by(kind: EpisodeKind, seed: u64) -> Vec<Violation> {
    sim::run_episode(kind, seed, Detail::Nothing).broken
}

fn is_kept(kind: EpisodeKind) -> bool {
    !EpisodeKind::NOT_YET_KEPT.contains(&kind)
}

#[test]
fn nothing_is_stranded_after_a_fault_that_healed() {
    for kind in EpisodeKind::ALL.into_iter().filter(|kind| is_kept(*kind)) {
        for seed in 0..SEEDS {
            let broken = broken_by(kind, seed);
            assert!(broken.is_empty(), "{} seed {seed}: {broken:#?}", kind.slug());
        }
    }
}

#[test]
fn what_is_not_kept_yet_is_really_broken() {
    for kind in EpisodeKind::NOT_YET_KEPT {
        let breaks = (0..SEEDS_OF_THE_UNKEPT).any(|seed| !broken_by(*kind, seed).is_empty());
        assert!(breaks, "{} holds now: take it off the list", kind.slug());
    }
}

#[test]
fn measuring_changes_no_story() {
    let hash_of = |measured: bool| {
        in_virtual_time(async {
            let world = Watched::new(Plan::healing(3, 10));
            let mut world = if measured { world.measuring() } else { world };
            world.storm(30 * MINUTE).await;
            world.outside().trace.hash()
        })
    };
    assert_eq!(hash_of(true), hash_of(false));
}

#[test]
fn a_job_that_waits_beside_a_free_place_is_stranded_and_one_in_line_is_not() {
    let pools = vec![PoolSpec { min_idle: 0, ..pool("linux", "witness", 1) }];
    let story = |held: bool| {
        in_virtual_time(async {
            let mut world = Watched::new(Plan::quiet(pools.clone())).measuring();
            if held {
                world.hold_assignments();
            }
            // The second stands in line for an hour: there is one place.
            world.queue(&["linux"], HOUR);
            world.queue(&["linux"], MINUTE);
            world.run_for(40 * MINUTE).await;
            world.free_assignments();
            world.run_for(2 * HOUR).await;
            (world.broken(), world.waits().stranded)
        })
    };
    let (broken, stranded) = story(false);
    assert!(broken.is_empty(), "{broken:#?}");
    assert_eq!(stranded.count(), 2);
    assert!(stranded.max() < 120, "{} s", stranded.max());
    let (broken, stranded) = story(true);
    assert!(broken.iter().any(|it| it.number == 38), "{broken:#?}");
    assert!(stranded.max() >= 39 * 60, "{} s", stranded.max());
}

/// The budget of registrations is what a burst waits for, and it must not be spent on nothing.
#[test]
fn five_hundred_jobs_on_five_hundred_warm_instances_run_at_the_pace_of_the_mints() {
    const JOBS: u32 = 500;
    const MINTS_PER_MINUTE: u64 = 166;
    let warm = PoolSpec { min_idle: JOBS, ..pool("linux", "split", JOBS) };
    let (left, minted, last, broken) = in_virtual_time(async {
        let mut world = Watched::new(Plan::quiet(vec![warm])).measuring();
        let ready = |world: &Watched| {
            world.outside().machines.existing().count() == JOBS as usize
                && world.rows().iter().all(Instance::is_offerable)
        };
        assert!(world.comes(2 * HOUR, ready).await, "the pool never became warm");
        world.pace_mints(MINTS_PER_MINUTE);
        let began = world.now();
        for _ in 0..JOBS {
            world.queue(&["linux"], 2 * HOUR);
        }
        let open = |world: &Watched| {
            world.outside().forge.jobs.values().filter(|job| job.starts == 0).count()
        };
        world.comes(HOUR, |world| open(world) == 0).await;
        let last = world.now() - began;
        let minted = world.outside().forge.minted();
        (open(&world), minted, Duration::from_millis(last), world.broken())
    });
    println!("{minted} mints for {JOBS} jobs, the last ran after {} s", last.as_secs());
    assert_eq!(left, 0, "jobs that never ran; {minted} mints");
    assert!(broken.is_empty(), "{broken:#?}");
    // Three minutes of mints, and what an offer takes besides; few of them are spent on nothing.
    assert!(minted <= u64::from(JOBS) * 6 / 5, "{minted} mints for {JOBS} jobs");
    assert!(last < 10 * MINUTE + SECOND, "the last job ran after {last:?}; {minted} mints");
}
