//! An actor panics: its parent starts another from what is stored, and outside nothing shows it. A call
//! to an adapter panics: its owner gets no answer, which is an answer.

use std::time::Duration;

use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::model::{Event, InstanceId, PoolId, PoolSpec, State, What};
use ostler_actors::testing::{Death, Plan, Seen, Watched, pool};

use super::counts::{all_over, expect_served_once, in_state, reported, runs, seen};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

/// Names the reads by which each kind of actor begins a life.
const FLEET_BEGINS: &str = "store read             pools";
const LEDGER_BEGINS: &str = "store read             tombstones";

/// Returns a pool with one idle runner beside its work.
fn warm(provider: &str) -> PoolSpec {
    let mut spec = pool("linux", provider, 6);
    spec.min_idle = 1;
    spec
}

/// Lets an actor panic while the store is slow, and watches the board all through the recovery:
/// a live row is never without an entry, and in the end every entry has an owner again.
/// Returns how many times an entry was seen without one.
async fn panics(world: &mut Watched, victim: Victim) -> usize {
    world.outside().faults.store.stalls = 10_000;
    world.say(ToFleet::Panic(victim));
    let (mut orphaned, mut waits) = (0, 0);
    for _ in 0..4_000 {
        world.run_for(Duration::from_millis(50)).await;
        let registry = world.registry().expect("a daemon");
        for row in world.rows() {
            assert!(registry.holds(&row.id), "`{}` is {} and has no entry", row.id, row.state);
        }
        waits = world.rows().iter().filter(|row| registry.is_ownerless(&row.id)).count();
        orphaned += waits;
        if orphaned > 0 && waits == 0 {
            break;
        }
    }
    assert_eq!(waits, 0, "some owners did not come back");
    world.outside().faults.store.stalls = 0;
    orphaned
}

/// Puts two jobs to work and leaves one runner idle.
async fn in_full_swing(world: &mut Watched) -> [u64; 2] {
    let jobs = [world.queue(&["linux"], 60 * MINUTE), world.queue(&["linux"], 60 * MINUTE)];
    let swing = |world: &Watched| {
        jobs.iter().all(|job| runs(world, *job))
            && in_state(world, State::Busy) == 2
            && in_state(world, State::Idle) >= 1
    };
    world.wait_for("two at work, one idle", 30 * MINUTE, swing).await;
    jobs
}

/// Demands that the work goes on to its end, and that new work finds its runner.
async fn goes_on(world: &mut Watched, jobs: &[u64]) {
    assert!(jobs.iter().all(|job| runs(world, *job)), "no working instance was disturbed");
    assert!(world.deletes().iter().all(|call| call.over), "no living machine was deleted");
    let next = world.queue(&["linux"], MINUTE);
    world.wait_for("new work over", 15 * MINUTE, |world| world.is_over(next)).await;
    world.wait_for("jobs over", 120 * MINUTE, |world| all_over(world, jobs)).await;
    expect_served_once(world, jobs);
    expect_served_once(world, &[next]);
}

#[test]
fn panic_of_the_fleet_is_survived() {
    for provider in ["split", "witness", "blind"] {
        story(Plan::quiet(vec![warm(provider)]), async |world| {
            let jobs = in_full_swing(world).await;
            let before = reported(world, FLEET_BEGINS);
            let orphaned = panics(world, Victim::Fleet).await;
            assert_eq!(reported(world, FLEET_BEGINS), before + 1, "one fleet after the other");
            assert!(orphaned > 0, "its instances went with it");
            goes_on(world, &jobs).await;
        });
    }
}

#[test]
fn panic_of_the_ledger_is_survived() {
    for provider in ["split", "witness", "blind"] {
        story(Plan::quiet(vec![warm(provider)]), async |world| {
            let jobs = in_full_swing(world).await;
            let before = reported(world, LEDGER_BEGINS);
            let orphaned = panics(world, Victim::Ledger).await;
            assert_eq!(reported(world, LEDGER_BEGINS), before + 1, "one ledger after the other");
            assert_eq!(orphaned, 0, "instances have nothing to do with it");
            goes_on(world, &jobs).await;
        });
    }
}

#[test]
fn panic_of_a_pool_is_survived() {
    for provider in ["split", "witness", "blind"] {
        story(Plan::quiet(vec![warm(provider)]), async |world| {
            let jobs = in_full_swing(world).await;
            let orphaned = panics(world, Victim::Pool(PoolId::new("linux"))).await;
            assert!(orphaned > 0, "its instances went with it");
            goes_on(world, &jobs).await;
        });
    }
}

#[test]
fn panic_of_an_instance_is_survived_in_every_state() {
    let mut met = Vec::new();
    for (provider, kept_warm) in [("split", 0), ("witness", 0), ("blind", 0), ("witness", 1)] {
        let mut spec = pool("linux", provider, 2);
        spec.min_idle = kept_warm;
        story(Plan::quiet(vec![spec]), async |world| {
            let queue = |world: &Watched| world.queue(&["linux"], 2 * MINUTE);
            let mut job = (kept_warm == 0).then(|| queue(world));
            world.wait_for("an instance", MINUTE, |world| !world.rows().is_empty()).await;
            let id = world.only().id;
            let mut last = None;
            while let Some(row) = world.row(&id).filter(|row| row.state != State::Deleted) {
                if last != Some(row.state) {
                    last = Some(row.state);
                    met.push(row.state);
                    let orphaned = panics(world, Victim::Instance(id.clone())).await;
                    let gone = world.row(&id).is_none_or(|row| row.state == State::Deleted);
                    assert!(orphaned > 0 || gone, "its owner in {} did not panic", row.state);
                    if row.state == State::Idle && job.is_none() {
                        job = Some(queue(world));
                    }
                }
                world.run_for(Duration::from_millis(20)).await;
            }
            expect_served_once(world, &job.into_iter().collect::<Vec<_>>());
            assert_eq!(machines_made(world, &id), 1, "its machine was made once");
        });
    }
    let all = [State::Creating, State::Starting, State::Idle, State::Busy, State::Deleting];
    assert!(all.iter().all(|state| met.contains(state)), "met only {met:?}");
}

fn machines_made(world: &Watched, id: &InstanceId) -> usize {
    seen(
        world,
        0,
        |what| matches!(what, Seen::Appeared { machine, .. } if machine.as_str() == id.as_str()),
    )
}

#[test]
fn instance_that_panics_again_and_again_is_not_given_up() {
    story(Plan::quiet(vec![warm("witness")]), async |world| {
        let jobs = in_full_swing(world).await;
        let id = world.rows().into_iter().find(|row| row.state == State::Busy).expect("one").id;
        for _ in 0..8 {
            panics(world, Victim::Instance(id.clone())).await;
        }
        world.run_for(30 * SECOND).await;
        let told = world.timeline(&id);
        let respawned = |event: &Event| matches!(event.what, What::Respawned { panicked: true });
        assert!(told.iter().any(respawned), "its timeline tells of the new owners: {told:?}");
        goes_on(world, &jobs).await;
    });
}

/// Every call that an owner makes to a provider or a forge.
const CALLS: [&str; 11] = [
    "mint",
    "await slot",
    "create",
    "read machine",
    "exit report",
    "delete",
    "deregister",
    "read runner",
    "find runner",
    "find work",
    "read job",
];

#[test]
fn adapter_that_panics_in_any_call_leaves_no_owner_waiting() {
    story(Plan::quiet(vec![pool("linux", "blind", 3)]), async |world| {
        for call in CALLS {
            world.panic_in(call, 2);
        }
        // One is served, one dies under its job, one is not needed any more, one has no record.
        let served = world.queue(&["linux"], MINUTE);
        world.wait_for("its job is served", 30 * MINUTE, |world| world.is_over(served)).await;
        let lost = world.queue(&["linux"], 60 * MINUTE);
        world.wait_for("a second at work", 30 * MINUTE, |world| runs(world, lost)).await;
        let busy = world.rows().into_iter().find(|row| row.state == State::Busy).expect("one");
        world.kill(&busy.machine, Death::Crashed);
        world.hold_assignments();
        let moot = world.queue(&["linux"], MINUTE);
        let idle = |world: &Watched| in_state(world, State::Idle) == 1;
        world.wait_for("a third is idle", 30 * MINUTE, idle).await;
        // Its agent does not notice that it is not registered any more: the forge is asked for work.
        let unneeded = world.rows().into_iter().find(|row| row.state == State::Idle).expect("one");
        world.unregister(&unneeded.runner_name(1));
        world.run_elsewhere(moot);
        world.plant_orphan(0, "linux-orphan");
        let gone = |world: &Watched| world.rows().is_empty();
        world.wait_for("no instance waits for what does not come", 60 * MINUTE, gone).await;
        let unspent = world.outside().script.panicking.clone();
        assert!(unspent.values().all(|left| *left == 0), "not every call was made: {unspent:?}");
    });
}
