//! Who lets a runner go must be sure that it is free, and must let go of those that are.

mod staging;

use ostler_actors::instance::explain_instance;
use ostler_actors::model::{OfferEnd, State, VerdictClass, WarrantKind, What, elapsed};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{
    CreatePlan, Death, DeletePlan, Fate, HookKind, Plan, Watched, millis, pool,
};

use super::story::Tell as _;
use super::{MINUTE, SECOND, story};
use staging::{
    NEVER, about_to_retire, assign_unheard, busy, deleted, is_assigned, is_gone, listening, orders,
    promised, removals, runner, unheard, was_asked,
};

#[test]
fn f01_claim_released_mid_job_never_kills_the_runner() {
    let mut spec = pool("linux", "split", 2);
    spec.policy.scale_down_after = 12 * MINUTE;
    let mut plan = Plan::quiet(vec![spec]);
    plan.settings.requeue.tick = SECOND;
    plan.settings.requeue.orphan_after = 46 * SECOND;
    plan.settings.poll_tick = NEVER;
    story(plan, async |world| {
        world.hold_assignments();
        let claimed = world.queue(&["linux"], 5 * MINUTE);
        let row = world.first().await;
        world.until(&row.id, State::Reserved, 2 * MINUTE).await;
        // The forge gives the runner another job, and no report of it ever arrives.
        world.silence(&row.machine, NEVER);
        world.lose_hooks(HookKind::Queued, 1);
        world.lose_hooks(HookKind::InProgress, 1);
        let taken = world.queue(&["linux"], 40 * MINUTE);
        world.pair(taken, &row.machine);
        world.until_working(&row.machine, taken).await;
        // The claim on the runner is released in the middle of that job.
        world.until(&row.id, State::Idle, 2 * MINUTE).await;
        let released = |what: &What| matches!(what, What::OfferEnded(_, OfferEnd::Requeued));
        assert_eq!(world.reported(&row.id, released).len(), 1);
        assert_eq!(world.working(&row.machine), Some(taken));
        // The reaper ticks, and finds a started runner that no instance claims.
        world.run_for(8 * MINUTE).await;
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Idle));
        assert_eq!(world.working(&row.machine), Some(taken));
        // Then the pool wants it gone, and the forge even removes its runner.
        world.be_nasty(&runner(&row));
        world.until(&row.id, State::Retiring, 10 * MINUTE).await;
        world.run_for(5 * MINUTE).await;
        assert!(removals(world).contains(&(Some(taken), Some(Deregistered::Removed))));
        assert_eq!(world.working(&row.machine), Some(taken), "nothing proves that it is free");
        world.free_assignments();
        world.wait_for("the job is over", 30 * MINUTE, |world| world.is_over(taken)).await;
        assert!(world.was_spared(taken));
        world.wait_for("so is the other", 30 * MINUTE, |world| world.was_spared(claimed)).await;
    });
}

#[test]
fn f13_registered_runner_whose_job_ran_elsewhere_does_not_wait_for_ever() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        world.hold_assignments();
        let (a, b) = (world.queue(&["linux"], 60 * MINUTE), world.queue(&["linux"], MINUTE));
        world.wait_for("both are delivered", 5 * MINUTE, |world| listening(world) == 2).await;
        let (left, sibling) = (promised(world, a), promised(world, b));
        world.pair(a, &sibling.machine);
        world.until_working(&sibling.machine, a).await;
        world.cancel(b);
        world.until(&left.id, State::Idle, 2 * MINUTE).await;
        let row = world.row(&left.id).expect("its row");
        assert!(
            row.registration.may_exist(),
            "registered, and no job will ever be assigned: {row:?}"
        );
        world.until(&left.id, State::Deleted, 12 * MINUTE).await;
        assert_eq!(world.row(&left.id).and_then(|row| row.executing), None);
        // Its place is free again, while the sibling still works.
        world.free_assignments();
        let c = world.queue(&["linux"], MINUTE);
        world.wait_for("the next job is served", 5 * MINUTE, |world| world.was_spared(c)).await;
        assert_eq!(world.working(&sibling.machine), Some(a));
    });
}

#[test]
fn f14_job_assigned_in_the_last_second_before_retirement_survives() {
    for nasty in [false, true] {
        story(unheard(), async |world| {
            let row = about_to_retire(world).await;
            let job = assign_unheard(world, &row, 10 * MINUTE);
            if nasty {
                world.be_nasty(&runner(&row));
            }
            world.wait_for("it is asked to go", 10 * SECOND, |world| was_asked(world, &row)).await;
            assert!(is_assigned(world, job), "assigned before it was asked to go");
            world.until_working(&row.machine, job).await;
            world.until(&row.id, State::Busy, 3 * MINUTE).await;
            let answer = if nasty { Deregistered::Removed } else { Deregistered::Working };
            assert_eq!(removals(world).last(), Some(&(Some(job), Some(answer))));
            world.wait_for("the job is over", 15 * MINUTE, |world| world.is_over(job)).await;
            assert!(world.was_spared(job));
        });
    }
}

#[test]
fn f25_dead_runner_in_a_living_machine_is_a_zombie_once_its_job_is_over() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.next_machine(Fate::DiesWorking(30_000, Death::Hung));
        let job = world.queue(&["linux"], 60 * MINUTE);
        world.end_nameless(job);
        let row = world.first().await;
        world.until(&row.id, State::Busy, 5 * MINUTE).await;
        world.run_for(9 * MINUTE).await;
        // Dead inside and alive outside; while the forge calls its job running, nothing touches it.
        assert_eq!((world.working(&row.machine), world.is_over(job)), (None, false));
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Busy));
        world.until(&row.id, State::Deleted, 40 * MINUTE).await;
        let row = world.row(&row.id).expect("its row");
        let (warrant, over) = (row.warrant.expect("a warrant"), row.job_over.expect("its end"));
        assert_eq!((warrant.kind, row.verdict), (WarrantKind::Zombie, Some(VerdictClass::Zombie)));
        let held = elapsed(over.at, warrant.at);
        assert!(held >= 15 * MINUTE + 90 * SECOND, "held only {held:?}");
        let deletes = world.deletes();
        let alive = deletes.first().is_some_and(|call| call.exists && !call.over);
        assert!(alive, "its machine never ended by itself: {deletes:?}");
    });
}

#[test]
fn f35_fresh_instance_is_not_retired_in_the_second_it_became_ready() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.hold_assignments();
        let gone = world.queue(&["linux"], MINUTE);
        let row = world.first().await;
        world.until(&row.id, State::Starting, MINUTE).await;
        // What it was made for goes away before it is ready: it is surplus from its first second.
        world.cancel(gone);
        world.until(&row.id, State::Idle, 2 * MINUTE).await;
        assert_eq!(world.shown("linux").want, 0, "no demand is left");
        world.run_for(4 * MINUTE).await;
        let seated = world.row(&row.id).expect("its row");
        assert_eq!((seated.state, seated.removal), (State::Idle, None));
        world.free_assignments();
        let next = world.queue(&["linux"], MINUTE);
        world.until_working(&row.machine, next).await;
        assert_eq!(orders(world).len(), 1, "no other instance was created for it");
    });
}

#[test]
fn f38_machine_still_uploading_after_its_job_keeps_its_place() {
    let mut spec = pool("linux", "witness", 1);
    spec.policy.linger = 20 * MINUTE;
    story(Plan::quiet(vec![spec]), async |world| {
        world.next_machine(Fate::EndsAfter(millis(8 * MINUTE), Death::Clean));
        world.next_delete(DeletePlan::Good(120_000));
        let first = world.queue(&["linux"], MINUTE);
        let row = world.first().await;
        world.wait_for("its job is over", 5 * MINUTE, |world| world.is_over(first)).await;
        let next = world.queue(&["linux"], MINUTE);
        world.run_for(7 * MINUTE + 30 * SECOND).await;
        assert_eq!(world.only().id, row.id, "it uploads, and its place is taken");
        assert!(world.exists(&row.machine) && !deleted(world, &row));
        world.wait_for("the next is served", 20 * MINUTE, |world| world.was_spared(next)).await;
        assert_eq!(world.row(&row.id).and_then(|row| row.verdict), Some(VerdictClass::Clean));
        let seen = world.history();
        let gone = seen.iter().position(|seen| is_gone(&seen.what, &row)).expect("it went");
        let order = orders(world)[1];
        assert!(gone < order, "its place was given away at {order}, and it went at {gone}");
    });
}

#[test]
fn f47_failed_listing_is_not_an_empty_one() {
    let mut plan = Plan::quiet(vec![pool("linux", "witness", 6)]);
    plan.settings.reaper.tick = 10 * SECOND;
    story(plan, async |world| {
        let mut jobs: Vec<u64> = (0..3).map(|_| world.queue(&["linux"], 90 * MINUTE)).collect();
        let only_busy = |world: &Watched| (busy(world), world.rows().len()) == (3, 3);
        world.wait_for("three, all of them busy", 20 * MINUTE, only_busy).await;
        let before = (world.states(), world.deletes().len(), orders(world).len());
        // Listings that fail; then listings that are empty and call themselves complete.
        world.outside().faults.provider.list_fails = 10_000;
        world.outside().faults.forge.list_fails = 10_000;
        world.run_for(5 * MINUTE).await;
        world.outside().faults.calm();
        world.outside().faults.provider.list_empty = 10_000;
        world.run_for(5 * MINUTE).await;
        world.outside().faults.calm();
        assert!(world.injected("machine listing fails") >= 10);
        assert!(world.injected("forge listing fails") >= 5);
        assert!(world.injected("machine listing empty") >= 10);
        let after = (world.states(), world.deletes().len(), orders(world).len());
        assert_eq!(after, before, "nothing was concluded from it");
        // Listings that miss the young.
        jobs.push(world.queue(&["linux"], 5 * MINUTE));
        world.outside().faults.provider.list_lags = 10_000;
        world.wait_for("the young one is busy", 10 * MINUTE, |world| busy(world) == 4).await;
        let a_minute_ago = world.now() - 60_000;
        let young = world.outside().machines.existing().any(|it| it.since > a_minute_ago);
        world.run_for(3 * MINUTE).await;
        world.outside().faults.calm();
        assert!(young && world.injected("machine listing lags") >= 10);
        assert_eq!((busy(world), world.deletes().len()), (4, before.1), "nor from a partial one");
        let all_spared = |world: &Watched| jobs.iter().all(|job| world.was_spared(*job));
        world.wait_for("every job is spared", 90 * MINUTE, all_spared).await;
    });
}

#[test]
fn f56_probe_that_fails_never_deletes_a_machine() {
    story(unheard(), async |world| {
        let row = about_to_retire(world).await;
        let job = assign_unheard(world, &row, 15 * MINUTE);
        world.be_nasty(&runner(&row));
        {
            let faults = &mut world.outside().faults.provider;
            (faults.read_fails, faults.list_fails, faults.watch_lost) = (10_000, 10_000, 10_000);
        }
        world.until(&row.id, State::Retiring, 10 * SECOND).await;
        world.until_working(&row.machine, job).await;
        world.run_for(10 * MINUTE).await;
        assert!(world.injected("machine read fails") >= 5);
        assert_eq!(
            removals(world).last().map(|(_, answer)| *answer),
            Some(Some(Deregistered::Removed))
        );
        assert_eq!(world.row(&row.id).map(|row| row.state), Some(State::Retiring));
        assert!(!deleted(world, &row), "a probe that fails means alive");
        world.wait_for("the job is over", 15 * MINUTE, |world| world.is_over(job)).await;
        assert!(world.was_spared(job));
        world.outside().faults.calm();
    });
}

#[test]
fn f60_create_that_never_returns_is_shown_as_stuck() {
    story(Plan::quiet(vec![pool("linux", "witness", 2)]), async |world| {
        world.next_create(CreatePlan::Hangs(None));
        let job = world.queue(&["linux"], MINUTE);
        let row = world.first().await;
        world.until(&row.id, State::Creating, MINUTE).await;
        world.run_for(4 * MINUTE).await;
        assert_eq!(world.shown("linux").stuck, 0, "it is not stuck yet");
        world.run_for(2 * MINUTE).await;
        assert_eq!((world.shown("linux").stuck, orders(world).len()), (1, 1));
        assert_eq!(world.reported(&row.id, |what| *what == What::Stuck).len(), 1);
        let policy = world.plan().pools[0].policy.clone();
        let now = world.outside().date();
        let stalled = world.row(&row.id).expect("its row");
        let lines = explain_instance(&stalled, &world.timeline(&row.id), &policy, now);
        assert!(lines.iter().any(|line| line.starts_with("Stuck: creating")), "{lines:#?}");
        // It counts, is not ordered again, and its job is served by another in the end.
        assert!(stalled.occupies());
        world.until(&row.id, State::Deleted, 20 * MINUTE).await;
        world.wait_for("the job is served", 10 * MINUTE, |world| world.was_spared(job)).await;
        assert_eq!(world.shown("linux").stuck, 0);
        assert_eq!(orders(world).len(), 2);
    });
}

#[test]
fn job_whose_worker_is_seen_before_its_name_is_not_served_twice() {
    for provider in ["witness", "split", "blind"] {
        for seed in 0..10 {
            let plan = Plan::quiet(vec![pool("linux", provider, 8)]).seeded(seed);
            story(plan, async |world| {
                let job = world.queue(&["linux"], 3 * MINUTE);
                world.wait_for("it is served", 10 * MINUTE, |world| world.was_spared(job)).await;
                assert_eq!(orders(world).len(), 1, "machines for one job");
            });
        }
    }
}
