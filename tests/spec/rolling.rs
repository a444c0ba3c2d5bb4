//! A new shape: old machines are replaced a few at a time, and never faster than new ones come.

use ostler_actors::model::{PoolSpec, Revision, State};
use ostler_actors::testing::{Fate, Moment, Plan, Watched, pool};

use super::counts::{at_once, ended_unmade, in_state, is_idle, seen, view};
use super::story::Tell as _;
use super::{MINUTE, story};

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
