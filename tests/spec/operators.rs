//! What operators may do, and what the fleet does about it.

use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::Reply;
use ostler_actors::model::{InstanceId, RequestedBy, State, Subject, Urgency, What};
use ostler_actors::testing::{Death, DeletePlan, Plan, Watched, pool};

use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

fn ask(world: &Watched, id: &InstanceId, urgency: Urgency) {
    let by = RequestedBy { who: "ada".into(), why: "the rack is gone".into() };
    let reply = Reply::discard();
    world.say(ToFleet::Retire { instance: id.clone(), urgency, by, reply });
}

fn warm(max: u32) -> Plan {
    let mut spec = pool("linux", "witness", max);
    spec.min_idle = 1;
    Plan::quiet(vec![spec])
}

async fn one_idle(world: &mut Watched) -> InstanceId {
    world.wait_for("an instance", MINUTE, |world| !world.rows().is_empty()).await;
    let id = world.only().id;
    world.until(&id, State::Idle, 5 * MINUTE).await;
    id
}

#[test]
fn a_forgotten_instance_leaves_the_records_and_what_comes_back_gets_a_new_owner() {
    story(warm(2), async |world| {
        let id = one_idle(world).await;
        for _ in 0..3 {
            world.next_delete(DeletePlan::Lies);
        }
        ask(world, &id, Urgency::Delete);
        world.until(&id, State::Deleting, 10 * MINUTE).await;
        world.wait_for("a delete", MINUTE, |world| !world.deletes().is_empty()).await;
        let calls = world.deletes().len();
        ask(world, &id, Urgency::Forget);
        world.until(&id, State::Deleted, 5 * SECOND).await;
        assert_eq!(world.deletes().len(), calls, "a forgotten machine is asked nothing");
        let told: Vec<What> = world.timeline(&id).into_iter().map(|event| event.what).collect();
        assert!(told.contains(&What::Forgotten), "{told:?}");
        assert!(world.outside().records.has_exit(&id), "its end is on record");

        // The machine was not out of reach after all: the reaper finds it, a new owner ends it.
        let adopted = |world: &Watched| world.rows().iter().any(|row| row.adopted);
        world.wait_for("a new owner", 10 * MINUTE, adopted).await;
    });
}

#[test]
fn a_fleet_that_lost_its_lease_stops_and_touches_no_machine() {
    story(warm(2), async |world| {
        let id = one_idle(world).await;
        let saves = world.outside().records.saves();
        world.say(ToFleet::Fenced);
        world.run_for(30 * MINUTE).await;
        assert_eq!(world.outside().records.saves(), saves, "nothing is written any more");
        assert!(world.deletes().is_empty());
        assert_eq!(world.row(&id).expect("its row").state, State::Idle);
        world.crash(SECOND);
        world.run_for(MINUTE).await;
        assert_eq!(world.only().id, id, "the next leader takes it up");
    });
}

#[test]
fn the_timeline_of_a_pool_goes_on_after_a_restart() {
    story(warm(2), async |world| {
        one_idle(world).await;
        for (turn, drained) in [true, false, true, false].into_iter().enumerate() {
            world.say(ToFleet::Drain {
                pool: "linux".into(),
                drained,
                who: "ada".into(),
                reply: Reply::discard(),
            });
            world.run_for(SECOND).await;
            if turn == 1 {
                world.crash(SECOND);
                world.run_for(MINUTE).await;
            }
        }
        let outside = world.outside();
        let told = outside.records.timeline(&Subject::Pool("linux".into())).count();
        assert_eq!(told, 4, "nothing that was told is replaced");
    });
}

#[test]
fn a_foreign_machine_is_left_alone_until_an_operator_adopts_it() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.plant_foreign(0, "copied-1");
        world.run_for(30 * MINUTE).await;
        assert!(world.rows().is_empty(), "it has no owner");
        assert!(world.deletes().is_empty());
        let shown = world.registry().expect("a board").foreign();
        let holder = shown.values().next().and_then(|machine| machine.holder.clone());
        assert_eq!(holder, Some("stranger".into()));

        let by = RequestedBy { who: "ada".into(), why: "restored from backup".into() };
        world.say(ToFleet::AdoptForeign { by, reply: Reply::discard() });
        let gone = |world: &Watched| !world.deletes().is_empty() && world.rows().is_empty();
        world.wait_for("the machine to go", 30 * MINUTE, gone).await;
        world.run_for(2 * MINUTE).await;
        assert!(world.registry().expect("a board").foreign().is_empty());
    });
}

#[test]
fn an_orderly_stop_begins_no_deletion() {
    let mut spec = pool("linux", "witness", 8);
    spec.min_idle = 4;
    story(Plan::quiet(vec![spec]), async |world| {
        let warm = |world: &Watched| world.states().iter().all(|(_, state)| *state == State::Idle);
        world
            .wait_for("four idle", 5 * MINUTE, |world| world.rows().len() == 4 && warm(world))
            .await;
        // Their ends come while the daemon is shutting down: on record, but not taken further.
        world.say(ToFleet::Shutdown(Reply::discard()));
        for row in world.rows() {
            world.kill(&row.machine, Death::RunnerError);
        }
        world.run_for(5 * SECOND).await;
        assert!(world.deletes().is_empty(), "a process that ends touches no machine");
        world.crash(SECOND);
        world.wait_for("their ends", 10 * MINUTE, |world| world.deletes().len() >= 4).await;
    });
}

#[test]
fn an_orphan_is_adopted_only_by_a_pool_of_its_own_provider() {
    let plan = Plan::quiet(vec![pool("linux", "witness", 2), pool("other", "blind", 2)]);
    story(plan, async |world| {
        world.run_for(SECOND).await;
        world.plant_orphan(0, "late-1");
        // Its pool has moved to another provider meanwhile; the other pool took its old one.
        let pools = vec![pool("linux", "blind", 2), pool("other", "witness", 2)];
        world.reload(pools);
        world.wait_for("an owner", 10 * MINUTE, |world| !world.rows().is_empty()).await;
        let row = world.only();
        assert_eq!((row.pool.as_str(), row.provider.as_str()), ("other", "witness"));
        world.wait_for("its end", 30 * MINUTE, |world| world.rows().is_empty()).await;
    });
}
