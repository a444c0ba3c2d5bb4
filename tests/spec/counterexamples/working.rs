//! Whose job is over, and whether anything still works there.

use ostler_actors::fleet::ToFleet;
use ostler_actors::model::{PoolSpec, State, What};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{HookKind, Plan, Watched, pool};

use super::super::story::Tell as _;
use super::super::{MINUTE, SECOND, story};
use super::{Retell as _, one_ready, one_ready_world};

#[test]
fn c7_runner_of_a_job_cancelled_before_pickup_may_take_another() {
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        let runner = row.runner_name(1);
        world.delay_hooks(HookKind::Completed, 10 * SECOND);
        let cancelled = world.assign(&row.machine, 10 * MINUTE, 50 * SECOND).await;
        world.cancel(cancelled);
        assert!(world.is_over(cancelled) && world.began_on(cancelled).is_none());
        let job = world.assign(&row.machine, 30 * MINUTE, 50 * SECOND).await;
        world.lose_hooks(HookKind::InProgress, 100);
        world.darken_forge(20 * MINUTE);
        world.be_nasty(&runner);
        world.is_removed_under(job).await;
        let over = world.row(&row.id).and_then(|row| row.job_over).expect("the end of a job");
        assert!(over.names_us && over.job.number == cancelled, "it is credited to us: {over:?}");
        assert_eq!(world.began_on(job), None, "the worker of the other has not started");
        world.is_served(job, 60 * MINUTE).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&row.machine));
    });
}

#[test]
fn p4_one_lying_404_and_the_completion_of_the_offered_job_prove_nothing() {
    one_lying_read();
    completion_of_the_offered_job();
}

fn one_lying_read() {
    story(one_ready_world("witness"), async |world| {
        let row = world.an_idle_runner().await;
        let job = world.assign(&row.machine, 20 * MINUTE, SECOND).await;
        world.until(&row.id, State::Busy, MINUTE).await;
        world.hide_machine(&row.machine);
        world.say(ToFleet::Missed("witness".into(), row.machine.clone()));
        let lied = |world: &Watched| world.outside().script.hidden_machines.is_empty();
        world.wait_for("a lying read", 10 * MINUTE, lied).await;
        world.run_for(10 * SECOND).await;
        assert!(!world.is_over(job), "it lied about a machine at work");
        let noted = |what: &What| matches!(what, What::FirstAbsence);
        assert!(world.timeline(&row.id).iter().any(|event| noted(&event.what)), "and was heard");
        world.is_served(job, 30 * MINUTE).await;
    });
}

/// A is offered to `linux` and runs on the other; B runs there instead, and nobody says so.
fn completion_of_the_offered_job() {
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
        let (here, there) = (of(world, "linux"), of(world, "other"));
        let offered = world.queue(&["linux"], 3 * MINUTE);
        world.until(&here.id, State::Reserved, MINUTE).await;
        let holds = world.row(&here.id).and_then(|row| row.offer).map(|offer| offer.job.number);
        assert_eq!(holds, Some(offered));
        world.lose_hooks(HookKind::InProgress, 100);
        world.darken_forge(15 * MINUTE);
        world.pair(offered, &there.machine);
        let job = world.assign(&here.machine, 30 * MINUTE, SECOND).await;
        let runner = world.row(&here.id).map(|row| row.runner_name(1)).expect("its runner");
        world.be_nasty(&runner);
        world.until(&here.id, State::Busy, MINUTE).await;
        world.is_served(offered, 10 * MINUTE).await;
        assert_eq!(world.began_on(offered).as_ref(), Some(&there.machine));
        world.run_for(5 * MINUTE).await;
        assert!(!world.is_over(job), "the other still runs here");
        assert_eq!(world.row(&here.id).and_then(|row| row.job_over), None, "nothing is over here");
        world.is_served(job, 40 * MINUTE).await;
        assert!(!world.removals(&runner).contains(&(Some(job), Deregistered::Removed)));
    });
}
