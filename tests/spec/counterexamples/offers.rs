//! Offers that end, and JIT configs that are out.

use ostler_actors::model::{Instance, Offer, PoolSpec, State};
use ostler_actors::testing::{Plan, Point, Seen, Watched, pool};

use super::super::story::Tell as _;
use super::super::{MINUTE, SECOND, story};
use super::{Retell as _, one_ready, one_ready_world};

#[test]
fn c1_instance_whose_offer_ended_never_stays_reserved() {
    taken_elsewhere();
    queued_again();
    let untold: Vec<bool> = (1..=4).map(ended_by_a_ledger_that_crashed).collect();
    assert!(untold.contains(&true), "one crash came between the end and the telling: {untold:?}");
}

/// The offered job runs on a stranger's runner.
fn taken_elsewhere() {
    let other = PoolSpec { min_idle: 1, ..pool("other", "witness", 1) };
    let labels = ["self-hosted", "linux", "other"].into_iter().collect();
    let plan = Plan::quiet(vec![one_ready("split"), PoolSpec { labels, ..other }]);
    story(plan, async |world| {
        world.hold_assignments();
        let ready = |world: &Watched| {
            let rows = world.rows();
            rows.len() == 2 && rows.iter().all(|row| row.state == State::Idle)
        };
        world.wait_for("two idle runners", 5 * MINUTE, ready).await;
        let of = |world: &Watched, pool: &str| {
            world.rows().into_iter().find(|row| row.pool.as_str() == pool).expect("its instance")
        };
        let (offered, taker) = (of(world, "linux"), of(world, "other"));
        let job = world.queue(&["linux"], 20 * MINUTE);
        world.until(&offered.id, State::Reserved, MINUTE).await;
        world.pair(job, &taker.machine);
        world.wait_for("a worker", MINUTE, |world| world.began_on(job).is_some()).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&taker.machine));
        world.until(&offered.id, State::Idle, MINUTE).await;
        assert!(!world.is_over(job), "it left `reserved` while the job runs elsewhere");
    });
}

/// Waits for an instance that holds a delivered offer which the forge does not honour.
async fn reserved(world: &mut Watched) -> Instance {
    let row = world.an_idle_runner().await;
    world.queue(&["linux"], MINUTE);
    world
        .wait_for("a delivery", 2 * MINUTE, |world| {
            world.row(&row.id).and_then(|row| row.offer).is_some_and(|offer| offer.delivered)
        })
        .await;
    world.only()
}

/// The forge says that the job still waits.
fn queued_again() {
    story(one_ready_world("split"), async |world| {
        let row = reserved(world).await;
        assert_eq!(row.state, State::Reserved);
        world.wait_for("another state", 10 * MINUTE, |world| has_left(world, &row)).await;
        assert!(world.row(&row.id).is_some_and(|row| row.offer.is_none()));
        world.free_assignments();
    });
}

/// The ledger ended the offer and was gone before it could say so; returns whether it was.
fn ended_by_a_ledger_that_crashed(nth: u64) -> bool {
    let mut untold = false;
    story(one_ready_world("split"), async |world| {
        let row = reserved(world).await;
        world.run_for(4 * MINUTE).await;
        world.crash_at_save(nth, Point::After);
        world.wait_for("a crash", 10 * MINUTE, |world| world.registry().is_none()).await;
        let ended =
            world.outside().records.jobs().any(|job| matches!(job.offer, Offer::Ended { .. }));
        untold = ended && !has_left(world, &row);
        world.wait_for("another state", 15 * MINUTE, |world| has_left(world, &row)).await;
        world.free_assignments();
    });
    untold
}

fn has_left(world: &Watched, row: &Instance) -> bool {
    world.row(&row.id).is_some_and(|row| row.state != State::Reserved)
}

/// What a crash came between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    /// The JIT config is minted, its delivery is not durable.
    Minted,
    /// The delivery is durable, the JIT config is not out.
    Delivered,
    Elsewhere,
}

#[test]
fn p5_jit_is_handed_out_only_after_the_ledger_acknowledged_the_delivery() {
    let mut gaps = Vec::new();
    for nth in 1..=8 {
        gaps.push(crash_while_delivering(nth, Point::Before));
        gaps.push(crash_while_delivering(nth, Point::After));
    }
    assert!(gaps.contains(&Gap::Minted) && gaps.contains(&Gap::Delivered), "{gaps:?}");
}

/// Crashes at the n-th save after a job was queued, for so long that the offer lapses.
fn crash_while_delivering(nth: u64, point: Point) -> Gap {
    let mut gap = Gap::Elsewhere;
    story(one_ready_world("split"), async |world| {
        let row = world.an_idle_runner().await;
        world.free_assignments();
        world.crash_at_save(nth, point);
        let job = world.queue(&["linux"], MINUTE);
        world.wait_for("a crash", 10 * MINUTE, |world| world.registry().is_none()).await;
        let out = handed_out(world);
        let delivered = world.outside().records.was_delivered(&row.id);
        let minted = world.history().iter().any(|seen| matches!(seen.what, Seen::Minted { .. }));
        gap = match (minted, delivered, out) {
            (true, false, 0) => Gap::Minted,
            (true, true, 0) => Gap::Delivered,
            _ => Gap::Elsewhere,
        };
        assert!(out == 0 || delivered, "a JIT config is out that no record names");
        world.is_served(job, 40 * MINUTE).await;
        world.run_for(10 * SECOND).await;
    });
    gap
}

fn handed_out(world: &Watched) -> usize {
    world.history().iter().filter(|seen| matches!(seen.what, Seen::HandedOut { .. })).count()
}
