//! What leaves: a drained or removed pool lets everyone finish, and a reload keeps what an
//! operator set.

use ostler_actors::model::{PoolId, State, WarrantKind};
use ostler_actors::testing::{Plan, Seen, Watched, pool};

use super::counts::{all_over, creates, expect_served_once, in_state, lives, runs, seen, view};
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
