//! The forge: assignment, reassignment, removal, and its lies.

use std::time::Duration;

use super::naive;
use crate::model::{Conclusion, JobFact, RunnerName, Scope, Sighting};
use crate::ports::{
    Deregistered, Forge as _, MintError, MintGate, MintOrder, Roster as _, RunnerRef,
};
use crate::testing::{
    JobStage, MINUTE, MintPlan, Plan, Seen, SimForge, World, in_virtual_time, pool,
};

fn acme() -> Scope {
    Scope::Organization("acme".into())
}

fn quiet() -> World {
    let mut pool = pool("linux", "witness", 4);
    pool.policy.boot_timeout = MINUTE;
    naive::world(Plan::quiet(vec![pool])).remembering()
}

fn forge(world: &World) -> SimForge {
    SimForge::new(world.shared().clone())
}

/// Makes a registered, listening machine that no job was queued for.
async fn runner(world: &mut World, name: &str) -> RunnerRef {
    let (shared, spec) = (world.shared().clone(), world.plan().pools[0].clone());
    let text = name.to_owned();
    world.spawn(async move { naive::create_registered(&shared, &spec, &text).await });
    world.run_for(MINUTE).await;
    let outside = world.outside();
    let it = outside.forge.runner_named(&RunnerName::new(name)).expect("a registered runner");
    assert!(it.online);
    RunnerRef { name: it.name.clone(), id: Some(it.id) }
}

#[test]
fn a_job_runs_on_any_matching_runner_and_its_ephemeral_registration_goes_with_it() {
    in_virtual_time(async {
        let mut world = quiet();
        let job = world.queue(&["linux"], MINUTE);
        world.run_for(10 * MINUTE).await;
        assert!(world.is_over(job));
        let outside = world.outside();
        assert_eq!(outside.forge.jobs[&job].starts, 1);
        assert_eq!(outside.leftovers().registrations, []);
        assert_eq!(outside.leftovers().machines, []);
    });
}

#[test]
fn a_runner_made_for_one_job_takes_another_when_paired() {
    in_virtual_time(async {
        let mut world = quiet();
        world.hold_assignments();
        let (a, b) = (world.queue(&["linux"], MINUTE), world.queue(&["linux"], MINUTE));
        world.run_for(MINUTE).await;
        let made_for_a = world
            .outside()
            .machines
            .existing()
            .find(|machine| machine.name.as_str().starts_with(&format!("m{a}-")))
            .map(|machine| machine.name.clone())
            .expect("a machine for job a");
        world.pair(b, &made_for_a);
        world.run_for(5 * MINUTE).await;
        assert!(world.is_over(b) && !world.is_over(a));
    });
}

#[test]
fn an_assignment_that_no_runner_picks_up_lapses_after_a_minute() {
    in_virtual_time(async {
        let mut world = quiet();
        let who = runner(&mut world, "m1").await;
        world.outside().faults.forge.missed_assignment = 10_000;
        world.lose_hooks(crate::testing::HookKind::Queued, 1);
        let job = world.queue(&["linux"], MINUTE);
        world.run_for(Duration::from_secs(30)).await;
        let stage = world.outside().forge.jobs[&job].stage.clone();
        assert!(matches!(stage, JobStage::Assigned { runner, .. } if Some(runner) == who.id));
        assert_eq!(world.outside().forge.jobs[&job].fact(), JobFact::Queued);
        world.outside().faults.calm();
        world.run_for(5 * MINUTE).await;
        assert!(world.is_over(job));
        assert_eq!(world.outside().forge.jobs[&job].attempt, 2);
    });
}

#[test]
fn a_false_404_never_comes_twice_running() {
    in_virtual_time(async {
        let mut world = quiet();
        let who = runner(&mut world, "m1").await;
        world.outside().faults.forge.runner_false_404 = 9_000;
        world.outside().faults.forge.deregister_false_404 = 9_000;
        let forge = forge(&world);
        let mut lies = 0;
        let mut last = false;
        for _ in 0..200 {
            let absent = forge.runner(&acme(), &who).await == Sighting::Absent;
            assert!(!(absent && last), "two lies running");
            lies += u32::from(absent);
            last = absent;
        }
        assert!(lies > 50);
        if !last {
            assert_eq!(forge.runner(&acme(), &who).await, Sighting::Absent);
        }
        let id = who.id.expect("its number");
        let removed = forge.deregister(&acme(), id).await.expect("an answer");
        assert_eq!(removed, Deregistered::Removed, "a read and a removal share the lie");
    });
}

#[test]
fn a_mint_whose_answer_was_lost_takes_the_name() {
    in_virtual_time(async {
        let world = quiet();
        world.next_mint(MintPlan::Lost);
        let order = MintOrder {
            scope: acme(),
            name: RunnerName::new("m1"),
            labels: world.plan().pools[0].labels.clone(),
            group: String::new(),
            gate: MintGate::default(),
        };
        let forge = forge(&world);
        let lost = forge.mint(order.clone()).await;
        assert!(matches!(lost, Err(MintError::Unanswered { .. })), "{lost:?}");
        let taken = forge.mint(order.clone()).await;
        assert!(matches!(taken, Err(MintError::Taken(_))), "{taken:?}");
        let who = RunnerRef { name: order.name, id: None };
        let Sighting::Seen(view) = forge.runner(&acme(), &who).await else { panic!("not seen") };
        assert!(!view.online);
    });
}

#[test]
fn a_busy_runner_is_removed_only_by_a_nasty_forge_and_its_job_goes_on() {
    in_virtual_time(async {
        let mut world = quiet();
        let who = runner(&mut world, "m1").await;
        world.lose_hooks(crate::testing::HookKind::Queued, 1);
        let job = world.queue(&["linux"], 5 * MINUTE);
        world.run_for(MINUTE).await;
        let (forge, id) = (forge(&world), who.id.expect("its number"));
        assert_eq!(forge.deregister(&acme(), id).await.expect("an answer"), Deregistered::Working);
        world.be_nasty(&who.name);
        assert_eq!(forge.deregister(&acme(), id).await.expect("an answer"), Deregistered::Removed);
        assert_eq!(forge.runner(&acme(), &who).await, Sighting::Absent);
        let works = forge.work_of(&acme(), &who).await;
        assert!(matches!(works, Sighting::Seen(at) if at.number == job));
        world.run_for(10 * MINUTE).await;
        assert!(world.is_over(job));
        assert!(!world.outside().forge.jobs[&job].lost);
    });
}

#[test]
fn a_job_cancelled_before_pick_up_names_the_runner_which_takes_the_next() {
    in_virtual_time(async {
        let mut world = quiet();
        let who = runner(&mut world, "m1").await;
        world.pick_up_after(&"m1".into(), Duration::from_secs(40));
        world.lose_hooks(crate::testing::HookKind::Queued, 2);
        let a = world.queue(&["linux"], MINUTE);
        world.run_for(Duration::from_secs(20)).await;
        world.cancel(a);
        let b = world.queue(&["linux"], MINUTE);
        world.run_for(5 * MINUTE).await;
        let outside = world.outside();
        assert_eq!(outside.forge.jobs[&a].stage, JobStage::Over(Conclusion::Cancelled));
        let runner = outside.forge.jobs[&a].runner.as_ref();
        assert_eq!(runner.map(|runner| &runner.name), Some(&who.name));
        assert_eq!((outside.forge.jobs[&a].starts, outside.forge.jobs[&b].starts), (0, 1));
    });
}

#[test]
fn a_job_whose_machine_dies_is_lost_ten_minutes_later() {
    in_virtual_time(async {
        let mut world = quiet();
        let job = world.queue(&["linux"], 30 * MINUTE);
        world.run_for(2 * MINUTE).await;
        let machine = world
            .outside()
            .machines
            .existing()
            .next()
            .map(|it| it.name.clone())
            .expect("a machine");
        world.kill(&machine, crate::testing::Death::Crashed);
        world.run_for(9 * MINUTE).await;
        assert!(!world.is_over(job));
        world.run_for(3 * MINUTE).await;
        let stage = world.outside().forge.jobs[&job].stage.clone();
        assert_eq!(stage, JobStage::Over(Conclusion::Failure));
        let over = world.history().iter().any(|seen| {
            matches!(seen.what, Seen::JobOver { job: over, killed_by_us: false, .. } if over == job)
        });
        assert!(over);
    });
}

#[test]
fn a_run_that_failed_at_start_up_leaves_its_job_queued_and_says_so_when_asked() {
    in_virtual_time(async {
        let mut world = quiet();
        let job = world.queue_dead(&["linux"]);
        world.run_for(30 * MINUTE).await;
        let id = world.outside().forge.job_id(job);
        let place = world.outside().forge.jobs[&job].place.clone();
        let Sighting::Seen(reading) = forge(&world).job(&id, &place, job).await else {
            panic!("not seen")
        };
        assert!(reading.run_over && reading.fact == JobFact::Queued);
    });
}
