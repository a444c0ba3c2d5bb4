//! A job that no runner serves is found by asking the forge, and no other job is touched.

use std::time::Duration;

use ostler_actors::model::{
    Closure, JobFact, JobState, OfferEnd, OfferStage, PoolSpec, Registration, State, What,
};
use ostler_actors::settings::Settings;
use ostler_actors::testing::{
    Death, Fate, HookKind, JobStage, MintPlan, Plan, Seen, Watched, millis, pool,
};

use super::paperwork::{Paperwork as _, machine};
use super::story::Tell as _;
use super::{HOUR, MINUTE, SECOND, story};

/// Returns a pool that binds late and keeps so many free.
fn late(max: u32, min_idle: u32) -> PoolSpec {
    PoolSpec { min_idle, ..pool("linux", "split", max) }
}

#[test]
fn f03_runner_that_never_registers_gets_its_job_requeued() {
    for provider in ["split", "witness"] {
        story(Plan::quiet(vec![pool("linux", provider, 2)]), async |world| {
            world.next_machine(Fate::NeverConnects);
            let job = world.queue(&["linux"], MINUTE);
            world.wait_for("an instance", 10 * SECOND, |world| !world.rows().is_empty()).await;
            let deaf = world.only().id;
            world.over(&[job], 15 * MINUTE).await;
            let (begun, place) = world.started(job).remove(0);
            assert_ne!(place, machine(&deaf), "the first machine is up and has no runner");
            assert!(world.outside().machines.appeared.contains_key(&machine(&deaf)));
            let said = world.saved(job).into_iter().find(|(_, row)| row.fact.rank() > 1);
            assert!(said.is_some_and(|(at, _)| at >= begun), "it was called running too early");
            world.wait_for("the end of both", HOUR, |world| world.rows().is_empty()).await;
        });
    }
}

#[test]
fn f15_end_of_an_instance_requeues_its_job_at_once() {
    story(Plan::quiet(vec![late(2, 0)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        let first = world.delivered(job, 2 * MINUTE).await;
        world.run_for(67 * SECOND).await;
        assert_eq!(world.offer(job).map(|offer| offer.instance), Some(first.clone()));
        world.kill(&machine(&first), Death::GuestKilled);
        let stopped = world.now();
        let stranded = What::Unoffered { instance: first, why: OfferEnd::Requeued };
        let found = |world: &Watched| world.reported_of(job).contains(&stranded);
        world.wait_for("the job is in line again", 5 * MINUTE, found).await;
        let took = world.now() - stopped;
        assert!(
            took <= 15_000,
            "it was stranded for {took} ms: the forge was not asked before the sweep"
        );
        world.free_assignments();
        world.over(&[job], 5 * MINUTE).await;
        assert_eq!(world.at_forge(job).starts, 1);
    });
}

#[test]
fn f16_stranded_job_is_found_though_its_offer_was_ended_first() {
    story(Plan::quiet(vec![late(1, 0)]), async |world| {
        world.hold_assignments();
        let stranded = world.queue(&["linux"], MINUTE);
        let first = world.delivered(stranded, 2 * MINUTE).await;
        let sibling = world.queue(&["linux"], HOUR);
        world.pair(sibling, &machine(&first));
        assert_eq!(world.running(sibling, MINUTE).await, first);
        let released = What::Unoffered { instance: first.clone(), why: OfferEnd::Displaced };
        assert!(world.reported_of(stranded).contains(&released), "the sibling released it first");
        assert_eq!(world.offer(stranded), None);
        world.kill(&machine(&first), Death::GuestKilled);
        let stopped = world.now();
        world.free_assignments();
        world.over(&[stranded], 10 * MINUTE).await;
        let (begun, place) = world.started(stranded).remove(0);
        assert_ne!(place, machine(&first));
        assert!(begun - stopped < millis(3 * MINUTE), "it waited for {} ms", begun - stopped);
    });
}

#[test]
fn f17_late_finding_never_releases_the_replacements_offer() {
    story(Plan::quiet(vec![late(5, 2)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        let first = world.delivered(job, 2 * MINUTE).await;
        world.read_late(job, 25 * SECOND);
        world.wait_for("a question", 7 * MINUTE, |world| !world.is_unread(job)).await;
        let asked = world.now();
        // The forge has answered `queued` and the answer is under way; another job takes the
        // runner, and the first one gets a new attempt before it arrives.
        let other = world.queue(&["linux"], 10 * MINUTE);
        world.pick_up_after(&machine(&first), SECOND);
        world.pair(other, &machine(&first));
        world
            .wait_for("a new attempt", 20 * SECOND, |world| {
                let offer = world.offer(job).filter(|offer| offer.stage == OfferStage::Delivered);
                offer.is_some_and(|offer| offer.instance != first)
            })
            .await;
        let second = world.offer(job).expect("the attempt that was just seen");
        world.run_until(asked + 30_000).await;
        assert_eq!(world.offer(job), Some(second), "the late answer was about another attempt");
        assert!(!world.reported_of(job).iter().any(|what| matches!(what, What::Asked { .. })));
        world.free_assignments();
        world.over(&[job, other], 20 * MINUTE).await;
    });
}

#[test]
fn f18_late_mint_never_names_the_winner() {
    // One answers after its offer lapsed, the other long after its owner gave it up.
    for late_by in [50 * SECOND, 6 * MINUTE] {
        lose_by_a_late_mint(late_by);
    }
}

fn lose_by_a_late_mint(late_by: Duration) {
    let mut plan = Plan::quiet(vec![late(3, 2)]);
    // An owner waits a minute for a mint; offers lapse sooner here, so that it may answer late.
    let Settings { requeue, .. } = &mut plan.settings;
    (requeue.offer_stale, requeue.tick) = (20 * SECOND, 5 * SECOND);
    story(plan, async |world| {
        world.hold_assignments();
        let free = |world: &Watched| {
            let rows = world.rows();
            rows.iter().filter(|row| row.is_offerable()).count() == 2
        };
        world.wait_for("two that are free", 2 * MINUTE, free).await;
        world.next_mint(MintPlan::Slow(millis(late_by)));
        let job = world.queue(&["linux"], 10 * MINUTE);
        world.wait_for("an offer", 10 * SECOND, |world| world.offer(job).is_some()).await;
        let loser = world.offer(job).expect("an offer that was just seen").instance;
        let winner = world.delivered(job, 45 * SECOND).await;
        assert_ne!(winner, loser);
        let attempt = world.offer(job);
        let minting = world.row(&loser).expect("a row").registration;
        assert!(matches!(minting, Registration::Uncertain(_)), "{minting:?}: its mint is not late");
        world.run_for(30 * SECOND).await;
        assert_eq!(world.offer(job), attempt, "the late mint changed the winner's offer");
        world.free_assignments();
        assert_eq!(world.running(job, MINUTE).await, winner);
        let handed =
            |seen: &Seen| matches!(seen, Seen::HandedOut { instance, .. } if *instance == loser);
        assert_eq!(world.count(handed), 0, "the loser was handed a JIT config");
        world.over(&[job], 20 * MINUTE).await;
        assert_eq!(world.started(job).len(), 1);
        assert_eq!(world.started(job)[0].1, machine(&winner));
    });
}

#[test]
fn f53_queued_job_under_a_finished_run_is_closed() {
    for (provider, wait_limit) in [("split", 10 * MINUTE), ("witness", 65 * MINUTE)] {
        story(Plan::quiet(vec![pool("linux", provider, 2)]), async |world| {
            let job = world.queue_dead(&["linux"]);
            let closed = |world: &Watched| world.job_state(job) == Some(JobState::Closed);
            world.wait_for("its closure", wait_limit, closed).await;
            assert!(world.reported_of(job).contains(&What::Closed(Closure::RunOver)));
            assert_eq!(world.at_forge(job).stage, JobStage::Queued, "the forge still calls it so");
            world.wait_for("no machine for it", HOUR, |world| world.rows().is_empty()).await;
            // The forge goes on listing it as queued; that starts no instance.
            let creates = world.count(|seen| matches!(seen, Seen::CreateCalled { .. }));
            world.run_for(2 * HOUR).await;
            assert_eq!(world.job_state(job), Some(JobState::Closed));
            let later = world.count(|seen| matches!(seen, Seen::CreateCalled { .. }));
            assert_eq!(creates, later);
        });
    }
}

#[test]
fn f54_job_queued_for_more_than_a_day_is_closed_as_stale() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        world.run_for(23 * HOUR + 55 * MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Queued), "a day is not over");
        assert_eq!(world.rows().len(), 1, "a runner waits for it all day");
        world.run_for(10 * MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Closed));
        assert!(world.reported_of(job).contains(&What::Closed(Closure::Stale)));
        assert_eq!(world.at_forge(job).fact(), JobFact::Queued, "no word came from the forge");
        world.wait_for("no machine for it", HOUR, |world| world.rows().is_empty()).await;
        world.cancel(job);
        world.free_assignments();
    });
}

/// Loads a config in which no pool serves `linux` any more.
fn take_the_pool_away(world: &mut Watched) {
    world.reload(vec![pool("other", "witness", 1)]);
}

#[test]
fn a_job_that_lost_its_pool_and_ended_unheard_is_asked_about_and_buried() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        world.wait_for("its row", MINUTE, |world| world.job(job).is_some()).await;
        // It ran on a stranger's runner, and every word of it was lost.
        world.lose_hooks(HookKind::InProgress, 1);
        world.lose_hooks(HookKind::Completed, 1);
        world.run_elsewhere(job);
        take_the_pool_away(world);
        let lost = |world: &Watched| world.job(job).is_some_and(|job| job.pool.is_none());
        world.wait_for("its pool to be gone", MINUTE, lost).await;
        world.wait_for("its tombstone", 3 * MINUTE, |world| world.is_buried(job)).await;
    });
}

#[test]
fn a_job_that_runs_on_after_its_pool_was_taken_away_is_known_to_end() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        let job = world.queue(&["linux"], 10 * MINUTE);
        world.running(job, 5 * MINUTE).await;
        world.lose_hooks(HookKind::Completed, 1);
        take_the_pool_away(world);
        world.over(&[job], 20 * MINUTE).await;
        world.wait_for("its tombstone", 10 * MINUTE, |world| world.is_buried(job)).await;
        assert!(world.was_spared(job), "taking its pool away touched no machine");
    });
}

#[test]
fn a_job_that_lost_its_pool_and_waits_for_more_than_a_day_is_closed_as_stale() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], MINUTE);
        world.wait_for("its row", MINUTE, |world| world.job(job).is_some()).await;
        take_the_pool_away(world);
        world.run_for(23 * HOUR + 55 * MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Queued), "a day is not over");
        let answers = |what: &&What| matches!(what, What::Asked { .. });
        assert!(
            world.reported_of(job).iter().any(|what| answers(&what)),
            "the forge was not asked about it"
        );
        world.run_for(10 * MINUTE).await;
        assert!(world.reported_of(job).contains(&What::Closed(Closure::Stale)));
        world.cancel(job);
    });
}

#[test]
fn a_job_that_never_was_ours_is_never_asked_about() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        let job = world.queue(&["windows"], MINUTE);
        world.read_late(job, SECOND);
        world.run_for(3 * HOUR).await;
        assert_eq!(world.job(job), None, "it has no row");
        assert!(world.is_unread(job), "the forge was asked about a stranger's job");
        world.cancel(job);
    });
}

#[test]
fn a_job_whose_start_and_end_were_never_heard_of_is_demand_for_minutes_and_not_for_an_hour() {
    for provider in ["witness", "blind"] {
        let mut plan = Plan::quiet(vec![pool("linux", provider, 4)]);
        plan.settings.poll_tick = 48 * HOUR;
        story(plan, async |world| {
            world.lose_hooks(HookKind::InProgress, 1);
            world.lose_hooks(HookKind::Completed, 1);
            let job = world.queue(&["linux"], MINUTE);
            world.wait_for("its end", 30 * MINUTE, |world| world.is_over(job)).await;
            // One machine may be made for it before the forge has answered; that one leaves.
            let empty = |world: &Watched| world.rows().is_empty();
            world.wait_for("nothing that waits for it", 20 * MINUTE, empty).await;
        });
    }
}

#[test]
fn a_registration_that_was_not_sent_yet_is_given_up_with_its_offer_and_costs_no_instance() {
    story(Plan::quiet(vec![late(40, 40)]), async |world| {
        let idle =
            |world: &Watched| world.rows().iter().filter(|row| row.state == State::Idle).count();
        world.wait_for("warm machines", 5 * MINUTE, |world| idle(world) == 40).await;
        // A queue of registrations that is longer than an offer may wait.
        world.pace_mints(3);
        let jobs: Vec<u64> = (0..30).map(|_| world.queue(&["linux"], MINUTE)).collect();
        world.over(&jobs, 60 * MINUTE).await;
        let minted = world.minted().len();
        println!("{minted} registrations for {} jobs", jobs.len());
        assert_eq!(minted, jobs.len());
    });
}
