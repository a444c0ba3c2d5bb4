//! How many: demand is what can be served, blocked work is worth one instance, clocks belong
//! to those who stay, and no sweep takes more than its budget.

use ostler_actors::invariants::check_budget;
use ostler_actors::model::{Labels, Place, PoolId, Reason, State};
use ostler_actors::testing::{CreatePlan, Fate, Plan, Seen, Watched, date, pool};

use super::counts::{all_over, at_once, creates, in_state, runs, seen, view};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

#[test]
fn f34_age_of_a_waiting_job_survives_the_recycling_of_instances() {
    story(Plan::quiet(vec![pool("large", "split", 4)]), async |world| {
        world.every_machine(Some(Fate::NeverBoots));
        let queued_at = date(world.now());
        let job = world.queue(&["large"], MINUTE);
        let recycled = |world: &Watched| world.outside().records.lifetimes() >= 3;
        world.wait_for("three machines in vain", 60 * MINUTE, recycled).await;
        assert!(world.now() > 10 * 60_000, "they were recycled over many minutes");
        assert_eq!(view(world, "large").oldest, Some(queued_at));

        let younger = world.queue(&["large"], 60 * MINUTE);
        world.every_machine(None);
        world.wait_for("its job at work", 30 * MINUTE, |world| world.is_over(job)).await;
        assert!(!world.is_over(younger));
    });
}

#[test]
fn f36_jobs_that_cannot_be_served_are_no_demand() {
    let mut small = pool("small", "witness", 1);
    small.labels = Labels::from_iter(["self-hosted", "capped"]);
    story(Plan::quiet(vec![small, pool("linux", "witness", 20)]), async |world| {
        let at_work = world.queue(&["capped"], 60 * MINUTE);
        world.wait_for("a full pool", 5 * MINUTE, |world| runs(world, at_work)).await;
        for _ in 0..100 {
            world.queue(&["capped"], SECOND);
            world.queue(&["linux", "gpu"], SECOND);
        }
        let served = world.queue(&["linux"], MINUTE);
        world.wait_for("the job that can be served", 5 * MINUTE, |it| it.is_over(served)).await;
        world.run_for(5 * MINUTE).await;
        assert_eq!(creates(world, 0), 2, "one each for the two that could be served");
        assert_eq!((view(world, "small").demand, view(world, "small").want), (0, 1));
        assert_eq!((view(world, "linux").demand, view(world, "linux").want), (0, 0));
        assert_eq!(world.outside().forge.jobs.values().filter(|job| !job.is_over()).count(), 201);
        world.cancel_all(|labels| labels.len() == 1 || labels.iter().any(|it| it == "gpu"));
    });
}

#[test]
fn f37_blocked_demand_is_worth_exactly_one_instance() {
    story(Plan::quiet(vec![pool("linux", "witness", 20)]), async |world| {
        world.every_create(Some(CreatePlan::Refused));
        let jobs: Vec<u64> = (0..20).map(|_| world.queue(&["linux"], MINUTE)).collect();
        let blocked = |world: &Watched| {
            let view = view(world, "linux");
            view.breaker.is_some() && view.demand == 0
        };
        world.run_for(SECOND).await;
        world.wait_for("work that no instance takes", 5 * MINUTE, blocked).await;
        world.run_for(10 * MINUTE).await;
        let since = world.now();
        world.run_for(20 * MINUTE).await;
        assert_eq!(view(world, "linux").want, 1);
        let alive = at_once(world, since, |row| !row.state.is_over());
        assert_eq!(alive.1, 1, "one at a time was made for all of them");
        assert!(creates(world, since) > 0, "and one was");

        world.every_create(None);
        world.wait_for("all jobs over", 30 * MINUTE, |world| all_over(world, &jobs)).await;
    });
}

#[test]
fn f63_age_of_the_oldest_job_counts_only_jobs_that_can_be_served() {
    story(Plan::quiet(vec![pool("linux", "witness", 1)]), async |world| {
        let long = world.queue(&["linux"], 120 * MINUTE);
        world.wait_for("a full pool", 5 * MINUTE, |world| runs(world, long)).await;
        let withheld = world.queue(&["linux"], MINUTE);
        let nobodys = world.queue(&["linux", "gpu"], MINUTE);
        world.run_for(60 * MINUTE).await;
        assert_eq!(in_state(world, State::Busy), 1);
        assert!(!world.is_over(withheld), "it was withheld for an hour");
        assert_eq!(view(world, "linux").oldest, None, "and no alert is raised for that");
        world.wait_for("its turn", 120 * MINUTE, |world| world.is_over(withheld)).await;
        assert_eq!(view(world, "linux").oldest, None);
        world.cancel(nobodys);
    });
}

#[test]
fn i19_sweep_that_believes_everything_is_orphaned_spends_only_its_budget() {
    let mut spec = pool("linux", "witness", 20);
    spec.policy.retire_budget = 3;
    spec.min_idle = 6;
    story(Plan::quiet(vec![spec]), async |world| {
        let jobs: Vec<u64> = (0..6).map(|_| world.queue(&["linux"], 60 * MINUTE)).collect();
        let standing = |world: &Watched| {
            (in_state(world, State::Busy), in_state(world, State::Idle)) == (6, 6)
        };
        world.wait_for("six at work and six idle", 10 * MINUTE, standing).await;

        world.blank_records_for(10 * MINUTE);
        world.run_for(10 * MINUTE).await;
        assert!(standing(world) && world.deletes().is_empty(), "owners know better");

        for number in 0..20 {
            world.plant_orphan(0, &format!("lost-{number}"));
        }
        let gone = |world: &Watched| {
            let outside = world.outside();
            outside.records.rows().filter(|it| it.adopted && it.state == State::Deleted).count()
        };
        world.wait_for("the lost to be gone", 60 * MINUTE, |world| gone(world) == 20).await;
        let mut taken = Vec::new();
        for seen in world.history() {
            if let Seen::Saved { before: None, after, .. } = &seen.what
                && after.adopted
            {
                taken.push(after.since);
            }
        }
        assert_eq!(taken.len(), 20, "each found its owner");
        let over = check_budget(&PoolId::new("linux"), &taken, 3);
        assert!(over.is_empty(), "{over:?}");
        assert!(jobs.iter().all(|job| runs(world, *job)), "and no working instance was disturbed");
        let requested_row = |what: &Seen| {
            matches!(what, Seen::Saved { after, .. } if !after.adopted
                && after.removal.as_ref().is_some_and(|removal| removal.reason == Reason::Orphan))
        };
        assert_eq!(seen(world, 0, requested_row), 0);
    });
}

#[test]
fn i27_demand_leaves_out_what_cannot_be_served() {
    story(Plan::quiet(vec![pool("linux", "witness", 20)]), async |world| {
        let place =
            |owner: &str| Place { owner: owner.into(), repository: "web".into(), enterprise: None };
        let linux = || Labels::from_iter(["linux"]);
        world.hold_assignments();
        let others = {
            let mut outside = world.outside();
            let held = outside.hold_job(place("acme"), linux(), 60_000, 1_800_000);
            let elsewhere = outside.queue_job(place("globex"), linux(), 60_000);
            let unlabelled = outside.queue_job(place("acme"), Labels::default(), 60_000);
            let unfit = outside.queue_job(place("acme"), Labels::from_iter(["linux", "gpu"]), 1);
            let cancelled = outside.queue_job(place("acme"), linux(), 60_000);
            (held, [elsewhere, unlabelled, unfit], cancelled)
        };
        let (held, nobodys, cancelled) = others;
        world.cancel(cancelled);
        world.run_for(20 * MINUTE).await;
        assert_eq!((view(world, "linux").demand, view(world, "linux").want), (0, 0));
        let wanted = creates(world, 0);
        assert!(wanted <= 1, "at most for the one that was cancelled after it was heard of");
        for job in nobodys {
            assert!(!world.is_over(job));
            world.cancel(job);
        }

        world.free_assignments();
        let since = world.now();
        world.wait_for("the held job over", 30 * MINUTE, |world| world.is_over(held)).await;
        assert_eq!(creates(world, since), 1, "it was demand once it was let go");
    });
}
