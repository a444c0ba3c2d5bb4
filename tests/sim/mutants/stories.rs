//! Coincidences that few seeds bring, told on purpose. Each returns the promises broken in it.

use std::time::Duration;

use ostler_actors::fleet::ToFleet;
use ostler_actors::invariants::Violation;
use ostler_actors::mail::Reply;
use ostler_actors::model::{Instance, PoolSpec, RequestedBy, State, Urgency};
use ostler_actors::testing::{
    Death, HookKind, MINUTE, Plan, SECOND, Watched, in_virtual_time, pool,
};

fn tell(provider: &str, runners: u32, told: impl AsyncFnOnce(&mut Watched)) -> Vec<Violation> {
    let pools = vec![PoolSpec { min_idle: runners, ..pool("linux", provider, runners) }];
    in_virtual_time(async {
        let mut world = Watched::new(Plan::quiet(pools)).remembering();
        world.hold_assignments();
        let ready = |world: &Watched| {
            let rows = world.rows();
            rows.len() == runners as usize && rows.iter().all(|row| row.state == State::Idle)
        };
        assert!(world.comes(5 * MINUTE, ready).await, "{:?}", world.states());
        told(&mut world).await;
        world.free_assignments();
        world.finish().await
    })
}

/// Waits for the instance that has a delivered offer.
async fn delivered(world: &mut Watched) -> Instance {
    let holds = |row: &Instance| row.offer.as_ref().is_some_and(|offer| offer.delivered);
    assert!(world.comes(2 * MINUTE, |world| world.rows().iter().any(holds)).await);
    world.rows().into_iter().find(holds).expect("it was just there")
}

/// A job runs here that no report names; the one offered here is over, run by a stranger.
pub(super) fn completion_of_the_offered_job() -> Vec<Violation> {
    tell("split", 1, async |world| {
        let offered = world.queue(&["linux"], MINUTE);
        let row = delivered(world).await;
        world.lose_hooks(HookKind::InProgress, 100);
        world.darken_forge(15 * MINUTE);
        let job = world.queue(&["linux"], 30 * MINUTE);
        world.pair(job, &row.machine);
        assert!(world.comes(2 * MINUTE, |world| has_worker(world, &row)).await);
        world.be_nasty(&row.runner_name(1));
        world.run_elsewhere(offered);
        world.run_for(20 * MINUTE).await;
    })
}

/// An answer about the first offer of a job comes when its second is delivered.
pub(super) fn answer_about_an_earlier_offer() -> Vec<Violation> {
    tell("split", 3, async |world| {
        let job = world.queue(&["linux"], MINUTE);
        let first = delivered(world).await;
        // The forge is asked about it, and takes its time.
        world.answer_late(job, 20 * SECOND);
        let asked = |world: &Watched| world.outside().script.late_readings.is_empty();
        assert!(world.comes(10 * MINUTE, asked).await);
        // Another job runs there meanwhile, so that the first is offered to another instance.
        let other = world.queue(&["linux"], MINUTE);
        world.pair(other, &first.machine);
        world.pick_up_after(&first.machine, Duration::ZERO);
        let again = |world: &Watched| {
            world.rows().iter().filter(|row| row.id != first.id).any(|row| {
                let offer = row.offer.as_ref().filter(|offer| offer.job.number == job);
                offer.is_some_and(|offer| offer.delivered)
            })
        };
        assert!(world.comes(20 * SECOND, again).await, "{:?}", world.states());
        world.run_for(MINUTE).await;
    })
}

/// A job was assigned to a runner that was removed all the same, and its witness is silent.
pub(super) fn silent_witness() -> Vec<Violation> {
    tell("witness", 1, async |world| {
        let row = world.rows().remove(0);
        world.lose_hooks(HookKind::InProgress, 100);
        world.darken_forge(15 * MINUTE);
        world.silence(&row.machine, 15 * MINUTE);
        world.pick_up_after(&row.machine, 50 * SECOND);
        let job = world.queue(&["linux"], 30 * MINUTE);
        world.pair(job, &row.machine);
        world.run_for(5 * SECOND).await;
        world.be_nasty(&row.runner_name(1));
        world.say(ToFleet::Retire {
            instance: row.id.clone(),
            urgency: Urgency::Delete,
            by: RequestedBy { who: "tester".into(), why: "the story wants it".into() },
            reply: Reply::discard(),
        });
        world.run_for(20 * MINUTE).await;
    })
}

/// The machine of the only place is gone, and its registration is refused: the place is free.
pub(super) fn registration_of_a_gone_machine() -> Vec<Violation> {
    let mut waited = false;
    let mut broken = tell("witness", 1, async |world| {
        let row = world.rows().remove(0);
        world.lie_422(&row.runner_name(1), u32::MAX);
        world.kill(&row.machine, Death::Crashed);
        let job = world.queue(&["linux"], MINUTE);
        let next = |it: &Instance| it.id != row.id && it.state == State::Idle;
        let replaced = |world: &Watched| world.rows().iter().any(next);
        waited = !world.comes(15 * MINUTE, replaced).await;
        world.lie_422(&row.runner_name(1), 0);
        world.free_assignments();
        assert!(world.comes(60 * MINUTE, |world| world.is_over(job)).await);
    });
    if waited {
        let text = "held a place for a quarter of an hour without a machine".into();
        broken.push(Violation { number: 21, about: "linux".into(), text });
    }
    broken
}

fn has_worker(world: &Watched, row: &Instance) -> bool {
    let outside = world.outside();
    outside.machines.anywhere(&row.machine).is_some_and(|machine| machine.worker.is_some())
}

/// The row of a free runner cannot be decoded after a crash; of two jobs that come then it takes one, as
/// any registered runner does, and the other needs a machine that only a fleet can create.
pub(super) fn row_that_cannot_be_decoded() -> Vec<Violation> {
    in_virtual_time(async {
        let pools = vec![PoolSpec { min_idle: 1, ..pool("linux", "witness", 3) }];
        let mut world = Watched::new(Plan::quiet(pools)).remembering();
        let idle = |world: &Watched| world.rows().iter().any(|row| row.state == State::Idle);
        assert!(world.comes(5 * MINUTE, idle).await, "{:?}", world.states());
        let broken = world.rows().remove(0);
        world.break_row(&broken.id);
        let jobs = [world.queue(&["linux"], MINUTE), world.queue(&["linux"], MINUTE)];
        let served =
            |world: &Watched| jobs.iter().all(|job| world.outside().forge.jobs[job].is_over());
        if !world.comes(20 * MINUTE, served).await {
            let text = "waits for a row that cannot be decoded".into();
            return vec![Violation { number: 13, about: format!("{jobs:?}"), text }];
        }
        let row = world.row(&broken.id).expect("its row stays");
        assert_eq!(row, broken, "it was not written");
        assert!(world.outside().machines.anywhere(&broken.machine).is_some(), "nor touched it");
        world.finish().await
    })
}
