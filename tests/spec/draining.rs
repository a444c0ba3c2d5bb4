//! What leaves: a drained or removed pool lets everyone finish, and a reload keeps what an
//! operator set.
//! A new shape replaces old machines a few at a time, and never faster than new ones come.

use ostler_actors::model::{PoolId, PoolSpec, Revision, State, WarrantKind};
use ostler_actors::testing::{Fate, Moment, Plan, Seen, Watched, pool};

use super::counts::{
    all_over, at_once, creates, ended_unmade, expect_served_once, in_state, is_idle, lives, runs,
    seen, view,
};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

/// Puts so many jobs of a pool to work, and two more runners beside them.
async fn under_load(world: &mut Watched, label: &str, count: usize) -> Vec<u64> {
    let jobs: Vec<u64> = (0..count).map(|_| world.queue(&[label], 60 * MINUTE)).collect();
    world
        .wait_for("jobs at work, and two idle", 30 * MINUTE, |world| {
            jobs.iter().all(|job| runs(world, *job)) && in_state(world, State::Idle) >= 2
        })
        .await;
    jobs
}

#[test]
fn f40_drain_under_load_lets_every_job_finish() {
    for provider in ["split", "witness", "blind"] {
        let mut spec = pool("linux", provider, 10);
        spec.min_idle = 2;
        story(Plan::quiet(vec![spec]), async |world| {
            let jobs = under_load(world, "linux", 6).await;
            world.drain(0, true);
            let since = world.now();
            let late = world.queue(&["linux"], MINUTE);
            world.wait_for("the idle to be gone", 15 * MINUTE, |it| it.rows().len() == 6).await;
            assert!(jobs.iter().all(|job| runs(world, *job)), "no working instance was disturbed");
            world.wait_for("an empty pool", 120 * MINUTE, |world| world.rows().is_empty()).await;
            expect_served_once(world, &jobs);
            assert_eq!(creates(world, since), 0, "no instance was created while it drained");
            assert!(!world.is_over(late));

            world.drain(0, false);
            world.wait_for("the late job over", 15 * MINUTE, |world| world.is_over(late)).await;
        });
    }
}

#[test]
fn f42_removed_pool_lets_its_busy_runners_finish() {
    let mut old = pool("old", "split", 10);
    old.min_idle = 2;
    story(Plan::quiet(vec![old, pool("kept", "split", 4)]), async |world| {
        let jobs = under_load(world, "old", 6).await;
        world.reload(vec![pool("new", "split", 10), pool("kept", "split", 4)]);
        world.wait_for("the idle to be gone", 15 * MINUTE, |it| it.rows().len() == 6).await;
        assert!(jobs.iter().all(|job| runs(world, *job)), "no working instance was disturbed");
        assert!(view(world, "old").draining, "the board shows it until it is empty");

        world.crash(5 * SECOND);
        world.run_for(MINUTE).await;
        assert_eq!(lives(world), 2);
        assert!(jobs.iter().all(|job| runs(world, *job)), "not by a restart either");

        world.wait_for("its jobs over", 120 * MINUTE, |world| all_over(world, &jobs)).await;
        expect_served_once(world, &jobs);
        world.wait_for("an empty pool", 30 * MINUTE, |world| world.rows().is_empty()).await;
        world.run_for(SECOND).await;
        let shown = world.registry().expect("a daemon").pools();
        assert!(shown.iter().all(|view| view.id != PoolId::new("old")), "{shown:?}");
        let forced = world.deletes().iter().any(|it| it.warrant == Some(WarrantKind::Operator));
        assert!(!forced);
    });
}

#[test]
fn f61_reload_keeps_what_an_operator_set_and_writes_nothing_back() {
    story(Plan::quiet(vec![pool("linux", "witness", 4)]), async |world| {
        world.run_for(SECOND).await;
        world.drain(0, true);
        world.run_for(SECOND).await;
        let written = |world: &Watched| seen(world, 0, |what| matches!(what, Seen::PoolSaved(_)));
        assert_eq!(written(world), 1, "the operator's word is durable");

        let mut edited = world.plan().pools.clone();
        edited[0].min_idle = 2;
        world.reload(edited);
        world.run_for(10 * MINUTE).await;
        world.crash(5 * SECOND);
        world.run_for(10 * MINUTE).await;
        assert_eq!(lives(world), 2);
        assert_eq!(written(world), 1, "neither a reload nor a restart writes a pool");
        assert!(view(world, "linux").draining, "it is still drained");
        assert_eq!((creates(world, 0), world.plan().pools[0].min_idle), (0, 2));

        world.drain(0, false);
        world.wait_for("the edit in force", 10 * MINUTE, |it| in_state(it, State::Idle) == 2).await;
    });
}

/// Returns a pool that keeps so many idle runners and may have so many.
fn warm(provider: &str, min_idle: u32, max: u32) -> PoolSpec {
    let mut spec = pool("linux", provider, max);
    spec.min_idle = min_idle;
    spec
}

/// Waits until all are idle, then gives the pool a new shape; returns when, and the shape.
async fn roll(world: &mut Watched, warm: usize) -> (Moment, Revision) {
    world.wait_for("a warm pool", 30 * MINUTE, |world| in_state(world, State::Idle) == warm).await;
    world.roll(0);
    (world.now(), world.plan().pools[0].revision.clone())
}

/// Returns how many runners of a shape are ready.
fn ready(world: &Watched, shape: &Revision) -> usize {
    world.rows().iter().filter(|row| is_idle(row) && row.revision == *shape).count()
}

#[test]
fn f28_machines_that_stop_fitting_in_the_middle_of_a_roll_do_not_empty_the_pool() {
    story(Plan::quiet(vec![warm("split", 6, 10)]), async |world| {
        let (since, shape) = roll(world, 6).await;
        world.wait_for("two of the new shape", 30 * MINUTE, |it| ready(it, &shape) >= 2).await;
        world.every_machine(Some(Fate::NeverBoots));
        world
            .wait_for("an open breaker", 60 * MINUTE, |it| view(it, "linux").breaker.is_some())
            .await;
        world.run_for(120 * MINUTE).await;
        let (least, _) = at_once(world, since, is_idle);
        assert!(least >= 5, "only {least} of six were ready while nothing new fitted");
        assert!(ready(world, &shape) < 6, "the roll was stopped half-way");

        world.every_machine(None);
        world.wait_for("the end of the roll", 120 * MINUTE, |it| ready(it, &shape) == 6).await;
        assert!(at_once(world, since, is_idle).0 >= 5);
    });
}

#[test]
fn f39_roll_with_slow_image_pulls_never_empties_the_pool() {
    let mut spec = warm("split", 6, 20);
    spec.policy.boot_timeout = 15 * MINUTE;
    story(Plan::quiet(vec![spec]), async |world| {
        world.wait_for("a warm pool", 30 * MINUTE, |world| in_state(world, State::Idle) == 6).await;
        world.outside().faults.machine.slow_boot = 10_000;
        let (since, shape) = roll(world, 6).await;
        world.wait_for("the end of the roll", 240 * MINUTE, |it| ready(it, &shape) == 6).await;
        let lasted = world.now() - since;
        assert!(lasted > 10 * 60_000, "pulls took minutes, the roll only {lasted} ms");
        let (least, _) = at_once(world, since, is_idle);
        assert!(least >= 5, "only {least} of six were ready");
    });
}

#[test]
fn f41_roll_without_spare_room_makes_progress() {
    story(Plan::quiet(vec![warm("witness", 4, 6)]), async |world| {
        world.leave_room(Some(4));
        let (since, shape) = roll(world, 4).await;
        world.wait_for("the end of the roll", 240 * MINUTE, |it| ready(it, &shape) == 4).await;
        assert!(seen(world, since, ended_unmade) > 0, "the provider never lacked room");
        assert!(at_once(world, since, is_idle).0 >= 3, "one at a time was given up for another");
        world.leave_room(None);
    });
}
