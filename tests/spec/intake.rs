//! News of jobs is taken once, in whatever order it comes, and never lost once it was accepted.

use ostler_actors::model::{Closure, JobFact, JobState, PoolSpec, Scope, What};
use ostler_actors::testing::{Faults, HookKind, Plan, Seen, Watched, pool};

use super::paperwork::Paperwork as _;
use super::story::Tell as _;
use super::{HOUR, MINUTE, SECOND, story};

/// Returns a quiet world in which the daemon never asks for open jobs once it has begun: only deliveries
/// bring them.
fn deliveries_only(pools: Vec<PoolSpec>) -> Plan {
    let mut plan = Plan::quiet(pools);
    plan.settings.poll_tick = 1_000 * HOUR;
    plan
}

fn creates(world: &Watched) -> usize {
    world.count(|seen| matches!(seen, Seen::CreateCalled { .. }))
}

#[test]
fn f19_queued_heard_after_completed_does_not_raise_the_job() {
    story(deliveries_only(vec![pool("linux", "witness", 2)]), async |world| {
        world.delay_hooks(HookKind::Queued, 10 * MINUTE);
        let job = world.queue(&["linux"], MINUTE);
        world.cancel(job);
        world.run_for(9 * MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Completed));
        assert!(world.is_buried(job));
        let heard = world.outside().records.accepted_count();
        world.run_for(2 * MINUTE).await;
        assert_eq!(world.outside().records.accepted_count(), heard + 1, "`queued` came last");
        world.run_for(MINUTE).await;
        assert_eq!(world.job_state(job), Some(JobState::Completed));
        // A tombstone is durable: another daemon does not fall for it either.
        world.crash(10 * SECOND);
        world.run_for(MINUTE).await;
        for fact in [JobFact::Waiting, JobFact::Queued, JobFact::InProgress] {
            world.tell_again(job, fact);
        }
        world.run_for(5 * MINUTE).await;
        assert_eq!(world.outside().records.accepted_count(), heard + 4);
        assert_eq!(world.job_state(job), Some(JobState::Completed));
        assert_eq!(creates(world), 0, "a machine was made for a job that is over");
    });
}

#[test]
fn f20_one_poisoned_job_does_not_hold_up_the_queue() {
    for provider in ["split", "witness"] {
        story(deliveries_only(vec![pool("linux", provider, 1)]), async |world| {
            // No runner will ever run the oldest of them; its labels fit every pool.
            let poisoned = world.queue_dead(&["linux"]);
            world.run_for(SECOND).await;
            let jobs: Vec<u64> = (0..5).map(|_| world.queue(&["linux"], 20 * SECOND)).collect();
            world.over(&jobs, 15 * MINUTE).await;
            assert!(world.started(poisoned).is_empty());
            let offers = world.reported_of(poisoned).into_iter();
            let offers = offers.filter(|what| matches!(what, What::OfferedTo(_))).count();
            assert!(offers >= usize::from(provider == "split"), "it was never the head");
            assert!(offers <= jobs.len() + 1, "it was offered {offers} times");
            let given_up = |world: &Watched| {
                world.reported_of(poisoned).contains(&What::Closed(Closure::RunOver))
            };
            world.wait_for("its closure", 90 * MINUTE, given_up).await;
        });
    }
}

#[test]
fn f46_slow_store_neither_loses_nor_doubles_a_delivery() {
    let mut faults = Faults::none();
    (faults.store.stalls, faults.store.inbox_fails) = (5_000, 4_000);
    faults.forge.hook_doubled = 3_000;
    let plan = deliveries_only(vec![pool("linux", "split", 20)]).with_faults(faults);
    story(plan, async |world| {
        world.run_for(5 * MINUTE).await;
        let jobs: Vec<u64> = (0..12).map(|_| world.queue(&["linux"], 30 * MINUTE)).collect();
        world.over(&jobs, 3 * HOUR).await;
        for fault in ["store stalls", "inbox fails", "inbox answer lost", "hook doubled"] {
            assert!(world.struck(fault) > 0, "{fault}: never");
        }
        for job in &jobs {
            let queued = What::JobReported(JobFact::Queued);
            let heard = world.reported_of(*job).into_iter().filter(|what| *what == queued).count();
            assert!(heard <= 1, "job {job} was heard of {heard} times");
            assert_eq!(world.at_forge(*job).starts, 1);
        }
        let handled = |world: &Watched| {
            let known = |job: &u64| world.job_state(*job) == Some(JobState::Completed);
            world.outside().records.unhandled_count() == 0 && jobs.iter().all(known)
        };
        world.wait_for("every delivery is handled", 3 * HOUR, handled).await;
        assert!(world.outside().records.accepted_count() > 3 * jobs.len(), "none came twice");
    });
}

#[test]
fn f48_job_is_routed_by_the_forges_owner_not_by_a_name_of_ours() {
    // Each pool is called what the other's organization is called.
    let named = |name: &str, owner: &str| PoolSpec {
        scope: Scope::Organization(owner.into()),
        ..pool(name, "split", 2)
    };
    let pools = vec![named("acme", "Globex-Inc"), named("globex-inc", "acme")];
    story(deliveries_only(pools), async |world| {
        world.run_for(SECOND).await;
        let ours = world.queue_at("globex-inc", "web", &["self-hosted"], MINUTE);
        let pool_of = |world: &Watched, job| world.job(job).and_then(|job| job.pool);
        world.over(&[ours], 10 * MINUTE).await;
        assert_eq!(pool_of(world, ours), Some("acme".into()));
        let theirs = world.queue_at("ACME", "api", &["self-hosted"], MINUTE);
        world.over(&[theirs], 10 * MINUTE).await;
        assert_eq!(pool_of(world, theirs), Some("globex-inc".into()));
        // An organization that no scope names belongs to no pool, whatever its name is.
        let strange = world.queue_at("globex", "web", &["self-hosted"], MINUTE);
        world.run_for(10 * MINUTE).await;
        assert_eq!(world.job(strange), None);
        assert_eq!(creates(world), 2);
        world.cancel(strange);
    });
}

#[test]
fn f51_stale_reading_never_lowers_a_newer_fact() {
    story(Plan::quiet(vec![pool("linux", "split", 2)]), async |world| {
        world.hold_assignments();
        let job = world.queue(&["linux"], 30 * MINUTE);
        let holder = world.delivered(job, 2 * MINUTE).await;
        world.read_late(job, 25 * SECOND);
        world.wait_for("a question", 7 * MINUTE, |world| !world.is_unread(job)).await;
        let asked = world.now();
        // The answer `queued` is under way when the job begins.
        world.free_assignments();
        assert_eq!(world.running(job, 20 * SECOND).await, holder);
        world.run_until(asked + 30_000).await;
        assert_eq!(world.executor(job), Some(holder.clone()));
        // From now on listings lag and call it queued as well.
        world.outside().faults.forge.list_lags = 10_000;
        world.run_for(10 * MINUTE).await;
        assert!(world.struck("job listing lags") > 5);
        assert_eq!(world.job_state(job), Some(JobState::Running));
        assert_eq!(world.executor(job), Some(holder));
        let ranks: Vec<u8> = world.saved(job).iter().map(|(_, row)| row.fact.rank()).collect();
        assert!(ranks.is_sorted(), "a fact sank: {ranks:?}");
        world.over(&[job], HOUR).await;
        assert_eq!(world.at_forge(job).starts, 1);
    });
}

#[test]
fn i28_delivery_survives_a_crash_right_after_it_was_accepted() {
    story(deliveries_only(vec![pool("linux", "split", 2)]), async |world| {
        world.run_for(SECOND).await;
        // The daemon does not learn of the job by asking, not even at the start.
        world.darken_forge(HOUR);
        world.crash_at_delivery();
        let job = world.queue(&["linux"], MINUTE);
        let struck = |world: &Watched| world.count(|seen| matches!(seen, Seen::Crashed(_))) == 1;
        world.wait_for("a crash", 10 * SECOND, struck).await;
        assert_eq!(world.outside().records.unhandled_count(), 1, "it is durable");
        assert_eq!(world.job(job), None, "and it was never heard of");
        world.over(&[job], 15 * MINUTE).await;
        assert_eq!(world.struck("delivery given up"), 0);
        assert!(world.now() < 3_600_000, "the forge was dark all the time");
        assert_eq!((world.at_forge(job).starts, creates(world)), (1, 1));
    });
}
