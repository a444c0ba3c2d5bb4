//! The daemon crashes, restarts, and its store fails: no machine is touched, nothing is forgotten.

use std::time::Duration;

use ostler_actors::model::{
    Event, Instance, InstanceId, Job, JobState, OfferStage, Phase, PoolSpec, Reason,
    RemovalRequest, RequestedBy, State, Subject, Urgency, What,
};
use ostler_actors::testing::{CreatePlan, Death, Plan, Point, Refused, Seen, Watched, date, pool};

use super::counts::{
    all_over, at_once, creates, expect_served_once, in_state, lives, runs, seen, view,
};
use super::story::Tell as _;
use super::{HOUR, MINUTE, SECOND, story};

/// Returns a pool with so many idle runners.
fn warm(name: &str, provider: &str, min_idle: u32, max: u32) -> PoolSpec {
    let mut spec = pool(name, provider, max);
    spec.min_idle = min_idle;
    spec
}

#[test]
fn f02_crash_between_offer_and_delivery_leaves_no_instance_reserved() {
    let mut between = 0;
    for nth in 1..=6 {
        for point in [Point::Before, Point::After] {
            for ends in [JobEnds::AfterItRan, JobEnds::WhileTheDaemonIsDown] {
                between += usize::from(crash_while_offering(nth, point, ends));
            }
        }
    }
    assert!(between >= 4, "only {between} crashes struck between offer and delivery");
}

/// Tells when the offered job ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JobEnds {
    AfterItRan,
    WhileTheDaemonIsDown,
}

/// Crashes at a save of an offer to the only runner there may be, which must serve on. Returns
/// whether that was between offer and delivery.
fn crash_while_offering(nth: u64, point: Point, ends: JobEnds) -> bool {
    let mut between = false;
    story(Plan::quiet(vec![warm("linux", "split", 1, 1)]), async |world| {
        world.wait_for("an idle runner", 10 * MINUTE, |it| in_state(it, State::Idle) == 1).await;
        let job = world.queue(&["linux"], MINUTE);
        world.crash_at_save(nth, point);
        let crashed = |what: &Seen| matches!(what, Seen::Crashed(_));
        world.wait_for("a crash", 5 * MINUTE, |it| seen(it, 0, crashed) == 1).await;
        between = world.outside().records.jobs().any(|job| is_offered(job));
        if ends == JobEnds::WhileTheDaemonIsDown {
            world.cancel(job);
        }
        world.wait_for("the job over", 30 * MINUTE, |world| world.is_over(job)).await;
        let next = world.queue(&["linux"], MINUTE);
        world.wait_for("the next job over", 60 * MINUTE, |world| world.is_over(next)).await;
        world
            .wait_for("no instance reserved", MINUTE, |it| in_state(it, State::Reserved) == 0)
            .await;
        expect_served_once(world, &[next]);
        assert!(world.outside().forge.jobs[&job].starts <= 1);
    });
    between
}

/// Returns whether a job is offered and its offer not delivered.
fn is_offered(job: &Job) -> bool {
    job.open_offer().is_some_and(|offer| offer.stage == OfferStage::Offered)
}

#[test]
fn a_crash_while_deleting_does_not_keep_the_pool_from_creating() {
    for nth in 1..=4 {
        story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
            let job = world.queue(&["linux"], MINUTE);
            world.wait_for("the job over", 30 * MINUTE, |world| world.is_over(job)).await;
            world.crash_at_save(nth, Point::Before);
            let crashed = |what: &Seen| matches!(what, Seen::Crashed(_));
            world.wait_for("a crash", 5 * MINUTE, |it| seen(it, 0, crashed) == 1).await;
            let since = world.now();
            world.queue(&["linux"], MINUTE);
            world.wait_for("another life", 10 * MINUTE, |world| lives(world) == 2).await;
            // Proving that the old machine is gone takes a minute; no job waits for that.
            world.wait_for("a new machine", 30 * SECOND, |it| creates(it, since) > 0).await;
        });
    }
}

#[test]
fn f43_restart_of_the_daemon_in_the_middle_of_a_job_touches_no_machine() {
    for provider in ["split", "witness", "blind"] {
        story(Plan::quiet(vec![warm("linux", provider, 1, 4)]), async |world| {
            let jobs = [world.queue(&["linux"], 60 * MINUTE), world.queue(&["linux"], 60 * MINUTE)];
            at_work(world, &jobs).await;
            let since = world.now();
            world.restart();
            world.wait_for("another life", 10 * MINUTE, |world| lives(world) == 2).await;
            world.crash(MINUTE);
            world.wait_for("a third life", 10 * MINUTE, |world| lives(world) == 3).await;
            world.run_for(10 * MINUTE).await;
            assert!(jobs.iter().all(|job| runs(world, *job)), "both work on");
            let removed = |what: &Seen| {
                matches!(what, Seen::Deregister { working, assigned, .. }
                    if working.or(*assigned).is_some())
            };
            let touched = |what: &Seen| matches!(what, Seen::DeleteCalled(_)) || removed(what);
            assert_eq!(seen(world, since, touched), 0, "a machine was touched");
            world.wait_for("jobs over", 90 * MINUTE, |world| all_over(world, &jobs)).await;
            expect_served_once(world, &jobs);
        });
    }
}

/// Waits until all jobs run.
async fn at_work(world: &mut Watched, jobs: &[u64]) {
    world.wait_for("jobs at work", 30 * MINUTE, |it| jobs.iter().all(|job| runs(it, *job))).await;
}

#[test]
fn f52_save_that_failed_is_repeated_whole_or_not_at_all() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        let jobs = [world.queue(&["linux"], 10 * MINUTE), world.queue(&["linux"], 20 * MINUTE)];
        at_work(world, &jobs).await;
        // The first is over: its save fails again and again, and must not be half done.
        world.outside().faults.store.save_fails = 10_000;
        world.wait_for("the first over", 20 * MINUTE, |it| it.is_over(jobs[0])).await;
        world.run_for(MINUTE).await;
        assert_eq!(closed(world, jobs[0]), (false, false, false), "nothing of it is done");
        assert!(world.outside().injected["save fails"] > 1, "it was tried again");
        world.outside().faults.store.save_fails = 0;
        world.run_for(MINUTE).await;
        assert_eq!(closed(world, jobs[0]), (true, true, true), "all of it is done");

        // The second is over: its save is done, and the answer lost again and again.
        world.outside().faults.store.save_lost = 8_000;
        world.wait_for("the second over", 20 * MINUTE, |it| it.is_over(jobs[1])).await;
        world.run_for(MINUTE).await;
        assert!(world.outside().injected["save answer lost"] > 0);
        assert_eq!(closed(world, jobs[1]), (true, true, true));
        world.outside().faults.store.save_lost = 0;
        world.wait_for("no rows left", 30 * MINUTE, |world| world.rows().is_empty()).await;
    });
}

/// Returns whether the row of a job, its tombstone and its timeline say that it is over.
fn closed(world: &Watched, job: u64) -> (bool, bool, bool) {
    let outside = world.outside();
    let row = outside.records.jobs().find(|row| row.id.number == job).expect("a row");
    let says = |event: &Event| event.what.to_string().contains("Completed");
    let told = outside.records.timeline(&Subject::Job(row.id.clone())).any(says);
    (row.state() == JobState::Completed, outside.records.is_tombstone(&row.id), told)
}

#[test]
fn f57_restart_takes_up_every_living_machine_before_it_makes_one() {
    story(Plan::quiet(vec![warm("linux", "witness", 4, 12)]), async |world| {
        let jobs: Vec<u64> = (0..4).map(|_| world.queue(&["linux"], 90 * MINUTE)).collect();
        at_work(world, &jobs).await;
        world.wait_for("four idle", 10 * MINUTE, |it| in_state(it, State::Idle) == 4).await;
        world.run_for(10 * MINUTE).await;
        let before: Vec<_> = world.rows().into_iter().map(|row| row.id).collect();
        let machines = world.outside().machines.existing().count();
        assert_eq!((before.len(), machines), (8, 8));

        world.outside().faults.provider.slow = 10_000;
        world.crash(MINUTE);
        let since = world.now();
        world.run_for(20 * MINUTE).await;
        assert_eq!(lives(world), 2);
        let after: Vec<_> = world.rows().into_iter().map(|row| row.id).collect();
        assert_eq!(after, before, "everyone was taken up");
        assert_eq!(creates(world, since), 0, "and no instance was created in their place");
        world.outside().faults.provider.slow = 0;
        world.wait_for("jobs over", 120 * MINUTE, |world| all_over(world, &jobs)).await;
        expect_served_once(world, &jobs);
    });
}

#[test]
fn f59_save_over_a_newer_row_is_refused_and_its_writer_stops() {
    story(Plan::quiet(vec![warm("linux", "split", 1, 1)]), async |world| {
        world.wait_for("an idle runner", 10 * MINUTE, |it| in_state(it, State::Idle) == 1).await;
        let id = world.only().id;
        let by = Some(RequestedBy { who: "another writer".into(), why: "newer".into() });
        let at = date(world.now());
        let removal = RemovalRequest { urgency: Urgency::Delete, reason: Reason::Operator, by, at };
        world.overwrite(&id, |row| row.removal = Some(removal.clone()));
        // The old owner has not heard of it, and takes an offer.
        let job = world.queue(&["linux"], MINUTE);
        let conflict = |what: &Seen| matches!(what, Seen::SaveRefused { why: Refused::Conflict, id: of } if of == id.as_str());
        world.wait_for("a refused save", 10 * MINUTE, |it| seen(it, 0, conflict) > 0).await;
        assert_eq!(seen(world, 0, conflict), 1, "its writer stopped, and did not insist");
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        assert_eq!(
            world.row(&id).and_then(|row| row.removal),
            Some(removal),
            "the newer row stood"
        );
        world.wait_for("the job over", 30 * MINUTE, |world| world.is_over(job)).await;
    });
}

#[test]
fn f59_writer_of_an_old_epoch_changes_nothing() {
    story(Plan::quiet(vec![warm("linux", "split", 2, 4)]), async |world| {
        world.wait_for("idle runners", 10 * MINUTE, |it| in_state(it, State::Idle) == 2).await;
        world.outside().records.begin_lease();
        let (before, since) = (world.rows(), world.now());
        let job = world.queue(&["linux"], MINUTE);
        world.ask_to_go(before[0].id.clone(), Urgency::Delete);
        world.run_for(10 * MINUTE).await;
        let fenced = |what: &Seen| matches!(what, Seen::SaveRefused { why: Refused::Fenced, .. });
        assert!(seen(world, since, fenced) > 0, "it tried");
        assert_eq!(world.rows(), before, "and changed nothing");
        assert_eq!((creates(world, since), world.deletes().len()), (0, 0));
        world.crash(SECOND);
        world.wait_for("the job over", 30 * MINUTE, |world| world.is_over(job)).await;
    });
}

#[test]
fn i03_save_that_fails_is_repeated_until_it_is_done() {
    story(Plan::quiet(vec![warm("linux", "split", 1, 1)]), async |world| {
        world.wait_for("an instance", MINUTE, |world| !world.rows().is_empty()).await;
        let id = world.only().id;
        store_away(world, &id).await;
        world.until(&id, State::Idle, 10 * MINUTE).await;
        let job = world.queue(&["linux"], 2 * MINUTE);
        store_away(world, &id).await;
        world.until(&id, State::Busy, 10 * MINUTE).await;
        store_away(world, &id).await;
        assert!(world.is_over(job), "its end met no store");
        world.until(&id, State::Deleted, 30 * MINUTE).await;
        assert!(world.outside().injected["save fails"] >= 9, "each was tried again and again");
        expect_served_once(world, &[job]);
    });
}

/// Lets the store take nothing for longer than any call takes; the owner waits.
async fn store_away(world: &mut Watched, id: &InstanceId) {
    world.outside().faults.store.save_fails = 10_000;
    let version = world.row(id).map(|row| row.version);
    world.run_for(3 * MINUTE).await;
    assert_eq!(world.row(id).map(|row| row.version), version, "nothing was saved");
    let registry = world.registry().expect("a daemon");
    assert!(registry.holds(id) && !registry.is_ownerless(id), "its owner is there");
    world.outside().faults.store.save_fails = 0;
}

#[test]
fn i06_offer_and_retirement_in_any_order_never_delete_a_promised_instance() {
    let (mut taken, mut refused) = (0, 0);
    for seed in 0..4 {
        for lead in [0, 20, 60, 100, 140, 180, 250, 400, 800] {
            for rank in [Urgency::Retire, Urgency::Delete] {
                let plan = Plan::quiet(vec![warm("linux", "split", 1, 2)]).seeded(seed);
                story(plan, async |world| {
                    world
                        .wait_for("an idle runner", 10 * MINUTE, |it| {
                            in_state(it, State::Idle) == 1
                        })
                        .await;
                    let id = world.only().id;
                    let job = world.queue(&["linux"], 30 * MINUTE);
                    world.run_for(Duration::from_millis(lead)).await;
                    world.ask_to_go(id.clone(), rank);
                    world.wait_for("the job at work", 30 * MINUTE, |it| runs(it, job)).await;
                    let promised = |what: &Seen| matches!(what, Seen::HandedOut { instance, .. } if *instance == id);
                    let kept = seen(world, 0, promised) > 0;
                    *if kept { &mut taken } else { &mut refused } += 1;
                    if kept {
                        let at_work = |world: &Watched| {
                            let row = world.row(&id).expect("a row");
                            row.state == State::Busy && row.executing.is_some()
                        };
                        world.wait_for("the promise kept", MINUTE, at_work).await;
                    }
                    world.wait_for("the job over", 60 * MINUTE, |it| it.is_over(job)).await;
                    expect_served_once(world, &[job]);
                });
            }
        }
    }
    assert!(taken > 5 && refused > 5, "both orders happened: {taken} kept, {refused} let go");
}

#[test]
fn i23_nothing_is_created_before_every_row_was_looked_at_or_had_two_minutes() {
    story(Plan::quiet(vec![warm("linux", "witness", 3, 12)]), async |world| {
        world.wait_for("three idle", 10 * MINUTE, |it| in_state(it, State::Idle) == 3).await;
        // After the restart no machine can be read or listed, and more work waits than before.
        {
            let mut outside = world.outside();
            outside.faults.provider.read_fails = 10_000;
            outside.faults.provider.list_fails = 10_000;
        }
        world.crash(10 * SECOND);
        world.run_for(MINUTE).await;
        world.hold_assignments();
        let since = world.now();
        let jobs: Vec<u64> = (0..6).map(|_| world.queue(&["linux"], MINUTE)).collect();
        world.run_for(45 * SECOND).await;
        assert_eq!((lives(world), creates(world, since)), (2, 0), "it waits for a look");
        assert_eq!(world.rows().len(), 3);
        assert!(!view(world, "linux").settled);

        // No row holds the pool up for longer than two minutes, and none gives its place away.
        let more = |world: &Watched| creates(world, since) > 0;
        world.wait_for("more runners", 2 * MINUTE, more).await;
        assert!(view(world, "linux").settled);
        assert!(at_once(world, since, Instance::occupies).1 <= 12);
        {
            let mut outside = world.outside();
            outside.faults.provider.read_fails = 0;
            outside.faults.provider.list_fails = 0;
        }
        world.free_assignments();
        world.wait_for("jobs over", 60 * MINUTE, |world| all_over(world, &jobs)).await;
    });
}

#[test]
fn registration_that_is_refused_after_a_restart_holds_neither_its_place_nor_its_pool() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.hold_assignments();
        let moot = world.queue(&["linux"], MINUTE);
        world.wait_for("an idle runner", 10 * MINUTE, |it| in_state(it, State::Idle) == 1).await;
        world.run_elsewhere(moot);
        world.run_for(5 * SECOND).await;
        world.free_assignments();
        let row = world.only();
        world.lie_422(&row.runner_name(1), u32::MAX);
        world.kill(&row.machine, Death::Crashed);
        let gone = |world: &Watched| world.row(&row.id).is_some_and(|row| row.phase().is_some());
        world.wait_for("only its registration is left", 10 * MINUTE, gone).await;
        world.crash(10 * SECOND);
        let (since, job) = (world.now(), world.queue(&["linux"], MINUTE));
        let created = |world: &Watched| creates(world, since) > 0;
        world.wait_for("a successor", 15 * SECOND, created).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Deleting));
        assert!(view(world, "linux").settled);
        world.wait_for("the job over", 10 * MINUTE, |world| world.is_over(job)).await;
        world.lie_422(&row.runner_name(1), 0);
        world.until(&row.id, State::Deleted, 10 * MINUTE).await;
    });
}

#[test]
fn instances_whose_create_was_never_called_go_on_at_once_after_a_restart() {
    story(Plan::quiet(vec![pool("linux", "blind", 8)]), async |world| {
        // Four creates run at once, and hang; four wait for a slot.
        world.every_create(Some(CreatePlan::Hangs(None)));
        let jobs: Vec<u64> = (0..8).map(|_| world.queue(&["linux"], MINUTE)).collect();
        let registered = |world: &Watched| {
            let minted = |row: &&Instance| row.registration.may_exist() && row.mints == 1;
            world.rows().iter().filter(minted).count() == 8
        };
        world.wait_for("eight registrations", MINUTE, registered).await;
        world.run_for(20 * SECOND).await;
        let uncalled = |world: &Watched| {
            world.rows().iter().filter(|row| row.create_called_at.is_none()).count()
        };
        assert_eq!(uncalled(world), 4);
        world.crash(5 * SECOND);
        world.every_create(None);
        let since = world.now();
        world.wait_for("all were called", 10 * SECOND, |world| uncalled(world) == 0).await;
        assert_eq!(creates(world, since), 4, "and none a second time");
        assert!(world.rows().iter().all(|row| row.mints == 1), "with the JIT config they held");
        world.wait_for("jobs over", 60 * MINUTE, |world| all_over(world, &jobs)).await;
        expect_served_once(world, &jobs);
    });
}

#[test]
fn registration_that_is_refused_for_a_day_is_written_off() {
    story(Plan::quiet(vec![warm("linux", "witness", 1, 1)]), async |world| {
        world.wait_for("an idle runner", 10 * MINUTE, |it| in_state(it, State::Idle) == 1).await;
        let row = world.only();
        world.lie_422(&row.runner_name(1), u32::MAX);
        world.kill(&row.machine, Death::Crashed);
        world.run_for(23 * HOUR).await;
        assert_eq!(world.row(&row.id).and_then(|row| row.phase()), Some(Phase::Finishing));
        world.until(&row.id, State::Deleted, 2 * HOUR).await;
        let written_off = |event: &Event| event.what == What::WrittenOff;
        assert!(world.timeline(&row.id).iter().any(written_off), "its timeline says so");
    });
}

#[test]
fn i29_rolling_restart_under_load_kills_no_job() {
    let pools = vec![
        warm("split", "split", 2, 10),
        warm("witness", "witness", 2, 10),
        warm("blind", "blind", 2, 10),
    ];
    story(Plan::quiet(pools), async |world| {
        let mut jobs = Vec::new();
        for round in 0..8 {
            for label in ["split", "witness", "blind"] {
                jobs.push(world.queue(&[label], (5 + 4 * round) * MINUTE));
                jobs.push(world.queue(&[label], 30 * SECOND));
            }
            world.run_for(90 * SECOND).await;
            if round % 2 == 0 {
                world.restart();
            } else {
                world.crash(20 * SECOND);
            }
            world.run_for(5 * MINUTE).await;
        }
        assert!(lives(world) >= 9, "only {} lives", lives(world));
        world.wait_for("all jobs over", 240 * MINUTE, |world| all_over(world, &jobs)).await;
        expect_served_once(world, &jobs);
    });
}
