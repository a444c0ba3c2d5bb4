//! Deletion is verified, for as long as it takes, and costs only the instance that goes.

use std::time::Duration;

use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::model::{Instance, JobFact, MachineName, State, VerdictClass, What};
use ostler_actors::testing::{DeletePlan, HookKind, Plan, Resists, Seen, Watched, pool};

use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

#[test]
fn f09_slot_is_given_back_once_however_late_the_end_is_heard() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.next_delete(DeletePlan::Good(60_000));
        let first = world.queue(&["linux"], MINUTE);
        let row = world.first().await;
        world.until_working(&row.machine, first).await;
        // Its machine ends, is deleted and replaced before anybody hears that its job is over.
        world.delay_hooks(HookKind::Completed, 20 * MINUTE);
        world.darken_forge(19 * MINUTE);
        let second = world.queue(&["linux"], 60 * MINUTE);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        assert!(!heard_the_end(world, first), "the end is on its way");
        world.wait_for("a successor", 5 * MINUTE, |world| !world.rows().is_empty()).await;
        let successor = world.only();
        world.until_working(&successor.machine, second).await;
        // The late end must not give the successor's place away.
        let third = world.queue(&["linux"], MINUTE);
        world.wait_for("the end is heard", 30 * MINUTE, |world| heard_the_end(world, first)).await;
        world.run_for(10 * MINUTE).await;
        assert_eq!(world.working(&successor.machine), Some(second));
        assert_eq!(world.only().id, successor.id);
        world
            .wait_for("all are served", 90 * MINUTE, |world| {
                [first, second, third].iter().all(|job| world.was_spared(*job))
            })
            .await;
        assert_eq!(most_at_once(world), 1, "the pool may have one machine");
    });
}

#[test]
fn f22_machine_whose_host_disappeared_is_deleted_until_it_is_gone() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        let job = world.queue(&["linux"], 60 * MINUTE);
        let row = world.first().await;
        world.until_working(&row.machine, job).await;
        // The host takes the one along that could have let the machine go.
        world.take_host_of(&row.machine);
        world.resist_deletion(&row.machine, Resists::Lingers);
        world.until(&row.id, State::Deleting, 30 * MINUTE).await;
        world.run_for(30 * MINUTE).await;
        let leaving = world.outside().machines.anywhere(&row.machine).map(|it| it.leaving);
        assert_eq!(leaving, Some(true), "it leaves for ever");
        let tries = world.injected("deletion resisted");
        assert!(tries >= 8, "it was asked to go only {tries} times in half an hour");
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Deleting));
        assert_eq!(world.shown("linux").stuck, 1, "it is reported");
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        assert!(!world.exists(&row.machine));
    });
}

#[test]
fn f23_deletion_that_never_completes_keeps_its_place_against_max() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        let row = lasting_end(world, Resists::Lingers).await;
        let jobs = [world.queue(&["linux"], 30 * MINUTE), world.queue(&["linux"], MINUTE)];
        world.run_for(20 * MINUTE).await;
        // One of them runs in the place that is left; the other waits for the one that is not.
        let view = world.shown("linux");
        assert_eq!(view.states.of(State::Deleting), 1, "{view:?}");
        assert_eq!((world.rows().len(), view.stuck, view.max), (2, 1, 2));
        assert!(world.row(&row.id).is_some_and(|row| row.occupies()));
        assert!(world.exists(&row.machine));
        assert!(jobs.iter().any(|job| !world.is_over(*job)));
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        world
            .wait_for("both jobs are served", 60 * MINUTE, |world| {
                jobs.iter().all(|job| world.was_spared(*job))
            })
            .await;
        assert_eq!(most_at_once(world), 2, "the pool may have two machines");
    });
}

#[test]
fn f24_delete_that_succeeds_without_effect_counts_one_stuck_instance() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        let row = lasting_end(world, Resists::Lies).await;
        let mut most = 0;
        for _ in 0..30 {
            world.run_for(MINUTE).await;
            most = most.max(world.shown("linux").stuck);
        }
        let tries = world.injected("deletion resisted");
        assert!((8..=18).contains(&tries), "{tries} deletes in half an hour");
        let stuck = world.reported(&row.id, |what| *what == What::Stuck);
        assert_eq!(stuck.iter().map(|event| event.count).sum::<u32>(), 1, "{stuck:?}");
        assert_eq!(most, 1, "one instance is stuck, however often it is tried");
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Deleting));
        assert!(world.exists(&row.machine), "accepted is not gone");
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
    });
}

#[test]
fn f62_owner_that_dies_while_deleting_is_replaced_until_nothing_is_left() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        let row = lasting_end(world, Resists::Lingers).await;
        let pool = world.plan().pools[0].id.clone();
        let victims = [
            Victim::Instance(row.id.clone()),
            Victim::Instance(row.id.clone()),
            Victim::Pool(pool),
            Victim::Fleet,
        ];
        for victim in victims {
            // The last delete is long ago and the next far off: only a new owner deletes now.
            owned_for(world, &row, 8 * MINUTE).await;
            let tries = world.injected("deletion resisted");
            world.say(ToFleet::Panic(victim.clone()));
            world.run_for(20 * SECOND).await;
            assert!(world.injected("deletion resisted") > tries, "no deletion after {victim:?}");
        }
        // The whole daemon dies in the middle of it as well.
        world.crash(30 * SECOND);
        world.run_for(MINUTE).await;
        let tries = world.injected("deletion resisted");
        owned_for(world, &row, 10 * MINUTE).await;
        assert!(world.injected("deletion resisted") > tries, "an owner goes on deleting");
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
        world.run_for(SECOND).await;
        assert!(world.registry().is_some_and(|board| !board.holds(&row.id)));
        assert!(!world.exists(&row.machine));
    });
}

#[test]
fn f64_provider_that_never_answers_delays_only_its_own_instances() {
    let pools = vec![pool("dark", "witness", 3), pool("light", "blind", 3)];
    story(Plan::quiet(pools), async |world| {
        let working = world.queue(&["dark"], 30 * MINUTE);
        let row = world.first().await;
        world.until_working(&row.machine, working).await;
        // No instance is left over that could take the next job.
        world.wait_for("it is alone", 15 * MINUTE, |world| world.rows().len() == 1).await;
        let provider = row.provider.clone();
        world.swallow_calls(&provider, 40 * MINUTE);
        let waiting = world.queue(&["dark"], MINUTE);
        world.plant_orphan(1, "stray");
        let served: Vec<u64> = (0..6).map(|_| world.queue(&["light"], MINUTE)).collect();
        world
            .wait_for("the other provider's jobs are served", 10 * MINUTE, |world| {
                served.iter().all(|job| world.was_spared(*job))
            })
            .await;
        // Its own sweeps go on too: what has no owner is found and taken apart.
        let stray = MachineName::new("stray");
        world.wait_for("the stray is gone", 10 * MINUTE, |world| !world.exists(&stray)).await;
        world.wait_for("the job is over", 30 * MINUTE, |world| world.was_spared(working)).await;
        assert!(world.injected("provider call swallowed") > 3);
        assert!(!world.is_over(waiting), "no instance could be created for it");
        assert_eq!(world.shown("light").stuck, 0);
        assert!(world.shown("dark").stuck > 0, "{:?}", world.shown("dark"));
        world.wait_for("it answers again", 60 * MINUTE, |world| world.was_spared(waiting)).await;
    });
}

#[test]
fn i20_one_hanging_delete_does_not_stop_its_pool_from_refilling() {
    let mut spec = pool("linux", "split", 3);
    spec.min_idle = 1;
    story(Plan::quiet(vec![spec]), async |world| {
        world.wait_for("a warm one", 5 * MINUTE, |world| idle(world) == 1).await;
        let row = world.only();
        world.resist_deletion(&row.machine, Resists::Hangs);
        let first = world.queue(&["linux"], MINUTE);
        world.wait_for("it was chosen", 5 * MINUTE, |world| world.is_over(first)).await;
        world.until(&row.id, State::Deleting, 5 * MINUTE).await;
        world.wait_for("the pool refills", 2 * MINUTE, |world| idle(world) == 1).await;
        for _ in 0..3 {
            let job = world.queue(&["linux"], MINUTE);
            world.wait_for("a job is served", 5 * MINUTE, |world| world.was_spared(job)).await;
            world.wait_for("and its place refilled", 5 * MINUTE, |world| idle(world) >= 1).await;
        }
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Deleting));
        assert!(world.exists(&row.machine) && world.injected("deletion resisted") > 0);
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 20 * MINUTE).await;
    });
}

#[test]
fn pool_refills_after_a_restart_though_a_delete_hangs() {
    story(Plan::quiet(vec![pool("linux", "witness", 3)]), async |world| {
        let row = lasting_end(world, Resists::Hangs).await;
        world.crash(SECOND);
        world.run_for(2 * MINUTE).await;
        let job = world.queue(&["linux"], MINUTE);
        world.wait_for("a job is served", 5 * MINUTE, |world| world.was_spared(job)).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Deleting));
        world.allow_deletion(&row.machine);
        world.until(&row.id, State::Deleted, 20 * MINUTE).await;
    });
}

/// Lets an instance serve a job and then outlive its deletion; it has been `deleting` for a minute.
async fn lasting_end(world: &mut Watched, how: Resists) -> Instance {
    world.queue(&["linux"], MINUTE);
    let row = world.first().await;
    world.resist_deletion(&row.machine, how);
    world.until(&row.id, State::Deleting, 10 * MINUTE).await;
    world.run_for(MINUTE).await;
    assert!(world.injected("deletion resisted") > 0, "the delete was really asked for");
    let row = world.row(&row.id).expect("its row");
    assert_eq!((row.state, row.verdict), (State::Deleting, Some(VerdictClass::Clean)));
    row
}

/// Lets time pass and demands that a row that is not over has its entry on the board.
async fn owned_for(world: &mut Watched, row: &Instance, time: Duration) {
    let until = world.now() + ostler_actors::testing::millis(time);
    while world.now() < until {
        world.run_for(10 * SECOND).await;
        let board = world.registry().expect("a living daemon");
        assert!(board.holds(&row.id), "`{}` is not on the board", row.id);
        assert!(!board.is_ownerless(&row.id), "no owner took `{}` over", row.id);
    }
}

/// Returns whether the ledger knows that a job is over.
fn heard_the_end(world: &Watched, job: u64) -> bool {
    let outside = world.outside();
    let id = outside.forge.job_id(job);
    outside.records.job(&id).is_some_and(|job| matches!(job.fact, JobFact::Completed(_)))
}

/// Returns how many machines there were at the same time, at most.
fn most_at_once(world: &Watched) -> i32 {
    let (mut now, mut most) = (0, 0);
    for seen in world.history() {
        now += i32::from(matches!(seen.what, Seen::Appeared { .. }));
        now -= i32::from(matches!(seen.what, Seen::MachineGone { .. }));
        most = most.max(now);
    }
    most
}

fn idle(world: &Watched) -> usize {
    world.rows().iter().filter(|row| row.state == State::Idle).count()
}
