//! Creates that were not answered, and machines that came all the same.

use ostler_actors::fleet::{ToFleet, Victim};
use ostler_actors::model::{End, State, VerdictClass, What};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{CreatePlan, Machine, Plan, Seen, Watched, pool};

use super::super::story::Tell as _;
use super::super::{MINUTE, SECOND, story};
use super::{ALWAYS, Retell as _};

fn one_at_most() -> Plan {
    Plan::quiet(vec![pool("linux", "witness", 1)])
}

fn absent_reads(world: &Watched) -> usize {
    let outside = world.outside();
    outside.trace.lines().iter().filter(|line| line.contains("read machine")).count()
}

#[test]
fn c3_machine_that_appears_after_an_unanswered_create_is_not_killed_at_work() {
    story(one_at_most(), async |world| {
        world.hold_assignments();
        world.next_create(CreatePlan::RefusedComes(540_000));
        let job = world.queue(&["linux"], 20 * MINUTE);
        let row = world.an_instance().await;
        world.run_for(8 * MINUTE).await;
        assert!(absent_reads(world) >= 2, "the machine was truly absent, and looked for");
        world.keep_in_the_dark(10 * MINUTE);
        world.outside().faults.provider.read_fails = ALWAYS;
        world.pair(job, &row.machine);
        world.be_nasty(&row.runner_name(1));
        world.is_removed_under(job).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&row.machine));
        world.outside().faults.provider.read_fails = 0;
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.is_served(job, 30 * MINUTE).await;
    });
    // Later still it finds no registration, and goes without ever having worked.
    story(one_at_most(), async |world| {
        world.next_create(CreatePlan::RefusedComes(1_800_000));
        let job = world.queue(&["linux"], MINUTE);
        let row = world.an_instance().await;
        world.until(&row.id, State::Deleted, 20 * MINUTE).await;
        world
            .wait_for("the late machine", 30 * MINUTE, |world| {
                world.outside().machines.anywhere(&row.machine).is_some_and(Machine::exists)
            })
            .await;
        world.is_served(job, 10 * MINUTE).await;
        assert_ne!(world.began_on(job).as_ref(), Some(&row.machine));
    });
}

#[test]
fn c4_lies_about_a_machine_that_was_never_seen_prove_no_end() {
    story(one_at_most(), async |world| {
        world.hold_assignments();
        world.next_create(CreatePlan::RefusedComes(630_000));
        let job = world.queue(&["linux"], 30 * MINUTE);
        let row = world.an_instance().await;
        let runner = row.runner_name(1);
        world.lie_422(&runner, 3);
        world.run_for(9 * MINUTE).await;
        world.keep_in_the_dark(20 * MINUTE);
        world.outside().faults.provider.read_fails = ALWAYS;
        world.pair(job, &row.machine);
        world.wait_for("a worker", 5 * MINUTE, |world| world.began_on(job).is_some()).await;
        let lies = world.removals(&runner);
        assert!(lies.contains(&(None, Deregistered::Working)), "422 without work: {lies:?}");
        assert_eq!(world.only().state, State::Creating, "nothing was seen that could be busy");
        world.hide_machine(&row.machine);
        world.outside().faults.provider.read_fails = 0;
        world
            .wait_for("a lying read", 5 * MINUTE, |world| {
                world.outside().script.hidden_machines.is_empty()
            })
            .await;
        assert!(!world.is_over(job), "it lied about a machine at work");
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.is_served(job, 40 * MINUTE).await;
    });
}

#[test]
fn c5_refused_create_that_made_a_machine_anyway_is_treated_as_unanswered() {
    story(one_at_most(), async |world| {
        world.next_create(CreatePlan::RefusedComes(90_000));
        let job = world.queue(&["linux"], 10 * MINUTE);
        let row = world.an_instance().await;
        let refused = |world: &Watched| {
            world
                .timeline(&row.id)
                .iter()
                .any(|event| matches!(event.what, What::CreateUnanswered(_)))
        };
        world.wait_for("an error", MINUTE, refused).await;
        assert_eq!(world.only().state, State::Creating, "an error vouches for nothing");
        world.is_served(job, 20 * MINUTE).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&row.machine), "its registration was kept");
        assert_eq!(world.orders(&row.machine), 1);
    });
}

#[test]
fn create_that_was_refused_is_settled_in_seconds_and_its_place_is_free() {
    story(one_at_most(), async |world| {
        world.next_create(CreatePlan::Failed);
        let job = world.queue(&["linux"], MINUTE);
        let row = world.an_instance().await;
        let successor = |world: &Watched| world.rows().iter().any(|it| it.id != row.id);
        world.wait_for("the next attempt", 25 * SECOND, successor).await;
        world.until(&row.id, State::Deleted, MINUTE).await;
        let ended = world.row(&row.id).expect("its row");
        assert_eq!(ended.verdict, Some(VerdictClass::CreateFailed));
        let words = End::NotCreated { why: "no such flavor".into() };
        assert_eq!(ended.end, Some(words), "the provider's own words");
        world.is_served(job, 10 * MINUTE).await;
    });
}

#[test]
fn create_that_was_refused_survives_a_crash_without_waiting_for_an_answer() {
    story(one_at_most(), async |world| {
        world.next_create(CreatePlan::Failed);
        let job = world.queue(&["linux"], MINUTE);
        let row = world.an_instance().await;
        let refused =
            |world: &Watched| world.row(&row.id).is_some_and(|row| row.create_refused.is_some());
        world.wait_for("its refusal on record", MINUTE, refused).await;
        world.crash(5 * SECOND);
        world.until(&row.id, State::Deleted, 40 * SECOND).await;
        world.is_served(job, 10 * MINUTE).await;
    });
}

#[test]
fn machine_that_comes_after_its_create_was_refused_is_found_and_never_works() {
    // While its two reads are awaited, and long after.
    for comes in [4_000, 240_000] {
        story(one_at_most(), async |world| {
            world.next_create(CreatePlan::FailedComes(comes));
            let job = world.queue(&["linux"], MINUTE);
            let row = world.an_instance().await;
            let made = |world: &Watched| world.outside().machines.anywhere(&row.machine).is_some();
            world.wait_for("the late machine", 10 * MINUTE, made).await;
            world.is_served(job, 20 * MINUTE).await;
            // One that came before its registration was removed is as good as any other.
            let worked = world.began_on(job).as_ref() == Some(&row.machine);
            assert!(comes == 4_000 || !worked, "it had no registration");
            let gone = |world: &Watched| !world.exists(&row.machine);
            world.wait_for("it is deleted", 30 * MINUTE, gone).await;
        });
    }
}

/// Ways an owner ends in the middle of things.
#[derive(Clone, Copy)]
enum Interruption {
    Panic,
    Crash,
}

impl Interruption {
    fn strike(self, world: &mut Watched) {
        match self {
            Self::Panic => {
                let id = world.only().id;
                world.say(ToFleet::Panic(Victim::Instance(id)));
            }
            Self::Crash => world.crash(11 * MINUTE),
        }
    }
}

#[test]
fn c6_calls_of_a_dead_owner_are_never_sent() {
    for how in [Interruption::Panic, Interruption::Crash] {
        while_the_mint_waits(how);
        while_the_create_waits(how);
    }
}

/// The mint reached the forge; its owner is gone before the answer comes.
fn while_the_mint_waits(how: Interruption) {
    story(one_at_most(), async |world| {
        world.outside().faults.forge.slow = ALWAYS;
        let job = world.queue(&["linux"], MINUTE);
        let minted = |world: &Watched| {
            world.history().iter().filter(|seen| matches!(seen.what, Seen::Minted { .. })).count()
        };
        world.wait_for("a mint", MINUTE, |world| minted(world) == 1).await;
        let row = world.only();
        assert!(world.orders(&row.machine) == 0 && row.create_called_at.is_none());
        how.strike(world);
        // Long enough for the old answer to come, had it anybody to come to.
        world.run_for(26 * SECOND).await;
        assert_eq!(world.orders(&row.machine), 0, "only a new owner may order now");
        world.outside().faults.forge.slow = 0;
        world.is_served(job, 30 * MINUTE).await;
        assert!(minted(world) >= 2, "the mint without its answer serves no machine");
        assert_eq!(world.removals(&row.runner_name(1)), [(None, Deregistered::Removed)]);
        assert!(world.orders(&row.machine) <= 1);
    });
}

/// The create reached the provider; its owner is gone before the answer comes.
fn while_the_create_waits(how: Interruption) {
    story(one_at_most(), async |world| {
        world.next_create(CreatePlan::Hangs(Some(60_000)));
        let job = world.queue(&["linux"], MINUTE);
        let row = world.an_instance().await;
        world.wait_for("an order", MINUTE, |world| world.orders(&row.machine) == 1).await;
        how.strike(world);
        world.is_served(job, 30 * MINUTE).await;
        assert_eq!(world.began_on(job).as_ref(), Some(&row.machine), "it was found by its name");
        assert_eq!(world.orders(&row.machine), 1);
    });
}
