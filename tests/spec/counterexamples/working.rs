//! Whose job is over, and whether anything still works there.
//! Also: machines of ours that no record knows.

use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::model::{MachineName, MachineView, Observation, State, What};
use ostler_actors::ports::Inventory as _;
use ostler_actors::testing::{HookKind, Plan, SimProvider, Watched, pool};

use super::super::story::Tell as _;
use super::super::{MINUTE, SECOND, story};
use super::{ALWAYS, Retell as _, one_ready_world};

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

/// The offered job runs on a runner that is not ours; another runs here, and no report says so.
fn completion_of_the_offered_job() {
    story(one_ready_world("split"), async |world| {
        let row = world.an_idle_runner().await;
        let offered = world.queue(&["linux"], 3 * MINUTE);
        world
            .wait_for("a listening runner", 2 * MINUTE, |world| {
                let runner = world.row(&row.id).map(|row| row.runner_name(1)).expect("its row");
                let outside = world.outside();
                outside.forge.runner_named(&runner).is_some_and(|runner| runner.online)
            })
            .await;
        let holds = world.row(&row.id).and_then(|row| row.offer).map(|offer| offer.job.number);
        assert_eq!(holds, Some(offered));
        world.keep_in_the_dark(15 * MINUTE);
        let job = world.assign(&row.machine, 30 * MINUTE, SECOND).await;
        let runner = row.runner_name(1);
        world.be_nasty(&runner);
        world.run_elsewhere(offered);
        world.run_for(5 * MINUTE).await;
        let known =
            world.outside().records.jobs().any(|it| it.id.number == offered && it.fact.is_over());
        assert!(known && !world.is_over(job), "the offered one is over, the other runs here");
        assert_eq!(world.row(&row.id).and_then(|row| row.job_over), None, "nothing is over here");
        assert_eq!(world.removals(&runner), [], "so its removal was never requested");
        world.is_served(job, 40 * MINUTE).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&row.machine));
    });
}

/// Puts an orphan there and returns what a listing shows of it.
async fn an_orphan(world: &mut Watched, name: &str) -> MachineView {
    world.plant_orphan(0, name);
    let index = world.outside().machines.index_of(&"witness".into()).expect("the provider");
    let provider = SimProvider::new(world.shared().clone(), index);
    let Observation::Complete(mut views) = provider.list().await else { unreachable!("no faults") };
    assert_eq!(views.len(), 1, "one machine: {views:?}");
    views.remove(0)
}

fn owners(world: &Watched, machine: &MachineName) -> usize {
    world.outside().records.rows().filter(|row| row.machine == *machine).count()
}

#[test]
fn c8_two_adoptions_of_one_machine_leave_one_owner() {
    // The pool has not handled the first, or has forgotten it, when the second comes.
    for forgets in [false, true] {
        story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
            world.run_for(MINUTE).await;
            let view = an_orphan(world, "linux-lost").await;
            let machine = view.name.clone();
            world.outside().faults.store.stalls = ALWAYS;
            world.say(ToFleet::Orphan("witness".into(), view.clone()));
            if forgets {
                world.say(ToFleet::Panic(Victim::Pool("linux".into())));
            }
            world.say(ToFleet::Orphan("witness".into(), view));
            assert_eq!(owners(world, &machine), 0, "neither is handled yet");
            // The sweeps find it too, again and again, while the records are slow.
            world.run_for(5 * MINUTE).await;
            world.outside().faults.store.stalls = 0;
            world.wait_for("an owner", 10 * MINUTE, |world| owners(world, &machine) > 0).await;
            let owner =
                world.outside().records.rows().next().map(|row| row.id.clone()).expect("it");
            world.until(&owner, State::Deleted, 30 * MINUTE).await;
            assert_eq!(owners(world, &machine), 1);
            assert_eq!(world.orders(&machine), 0);
        });
    }
}
