//! How fast: starts are paced by host and by pool, failures hold creation back, and an instance that
//! comes to nothing gives its permit back.

use std::time::Duration;

use ostler_actors::model::{FailureClass, HostName, LifeStage, PoolSpec, State};
use ostler_actors::testing::{CreatePlan, Death, Fate, HookKind, Plan, Seen, Watched, pool};

use super::counts::{
    all_over, at_once, creates, in_state, registrations, runs, seen, starts, view,
};
use super::story::Tell as _;
use super::{MINUTE, SECOND, story};

/// Returns a pool in which so many machines may start at once.
fn paced(name: &str, max: u32, permits: u32) -> PoolSpec {
    let mut spec = pool(name, "witness", max);
    spec.policy.start_permits = permits;
    spec
}

/// Queues so many jobs of a pool.
fn queue(world: &Watched, label: &str, count: usize, runs: Duration) -> Vec<u64> {
    (0..count).map(|_| world.queue(&[label], runs)).collect()
}

#[test]
fn f05_create_that_fails_the_same_way_for_ever_opens_the_breaker_and_admits_one_probe() {
    story(Plan::quiet(vec![pool("linux", "witness", 10)]), async |world| {
        world.every_create(Some(CreatePlan::Refused));
        let jobs = queue(world, "linux", 10, MINUTE);
        world.run_for(SECOND).await;
        world.wait_for("an open breaker", MINUTE, |it| view(it, "linux").breaker.is_some()).await;
        world.run_for(MINUTE).await;
        let (held_at, since) = (world.now(), creates(world, 0));
        world.run_for(120 * MINUTE).await;
        let probes = creates(world, held_at);
        assert!((18..=24).contains(&probes), "{probes} probes in two hours after {since} creates");
        assert!(at_once(world, held_at, starts).1 <= 1, "more than one probe at a time");
        let failing = view(world, "linux").failing.clone().expect("how it fails");
        assert_eq!(failing.failure.stage, LifeStage::Create);
        assert_eq!(failing.failure.class, FailureClass::Provider);
        assert_eq!(&*failing.failure.error, "quota", "in the provider's own words");

        world.every_create(None);
        world.wait_for("all jobs over", 30 * MINUTE, |world| all_over(world, &jobs)).await;
        assert_eq!(view(world, "linux").breaker, None, "it works again");
        assert_eq!(view(world, "linux").failing, None);
    });
}

/// Lets a pool with work for a hundred runners make one after the other that leaves with this code
/// before it reaches the forge, and expects what that may cost.
fn costs_little(mut spec: PoolSpec, code: i32) {
    spec.policy.start_permits = 4;
    spec.min_idle = 2;
    story(Plan::quiet(vec![spec]), async |world| {
        world.every_machine(Some(Fate::Exits(code)));
        let jobs = queue(world, "linux", 100, MINUTE);
        for hour in 0..4 {
            world.run_for(60 * MINUTE).await;
            let (from, to) = (hour * 3_600_000, (hour + 1) * 3_600_000);
            let registered = registrations(world, from, to);
            let allowed = if hour == 0 { 4 + 15 } else { 10 };
            assert!(registered <= allowed, "exit {code}, hour {hour}: {registered} registrations");
            assert!(registered > 0, "exit {code}, hour {hour}: it is still tried");
        }
        let shown = view(world, "linux");
        assert!(shown.breaker.is_some(), "exit {code}: the pool is not well");
        let failure = shown.failing.clone().expect("how it fails").failure;
        assert!(failure.error.contains(&format!("exit code {code}")), "{failure:?}");

        world.every_machine(None);
        world.wait_for("all jobs over", 120 * MINUTE, |world| all_over(world, &jobs)).await;
        assert_eq!(view(world, "linux").breaker, None, "it works again");
    });
}

#[test]
fn runner_that_leaves_before_it_serves_costs_19_registrations_in_an_hour_whatever_its_exit_code() {
    for code in [0, 1, 127, 139] {
        costs_little(pool("linux", "witness", 60), code);
    }
}

#[test]
fn runner_that_leaves_with_its_jit_config_costs_no_more_in_late_binding() {
    for code in [0, 1, 127, 139] {
        costs_little(pool("linux", "split", 60), code);
    }
}

#[test]
fn notices_that_come_late_open_no_breaker() {
    story(Plan::quiet(vec![pool("linux", "blind", 8)]), async |world| {
        world.delay_hooks(HookKind::InProgress, 8 * SECOND);
        world.delay_hooks(HookKind::Completed, 8 * SECOND);
        let jobs = queue(world, "linux", 40, SECOND);
        let mut opened = 0;
        while !all_over(world, &jobs) {
            world.run_for(SECOND).await;
            opened += u32::from(view(world, "linux").breaker.is_some());
        }
        assert_eq!(opened, 0, "each runner left before the notice of its job came");
    });
}

#[test]
fn breaker_closes_on_work_alone_and_stays_as_it_was_across_a_restart() {
    let mut spec = pool("linux", "witness", 4);
    spec.min_idle = 2;
    story(Plan::quiet(vec![spec]), async |world| {
        world.every_machine(Some(Fate::Dies(3_000, Death::RunnerError)));
        world.run_for(SECOND).await;
        world
            .wait_for("an open breaker", 5 * MINUTE, |it| view(it, "linux").breaker.is_some())
            .await;
        let since = view(world, "linux").breaker;
        let flapped = |world: &Watched| view(world, "linux").breaker != since;
        let closed = world.comes(30 * MINUTE, flapped).await;
        assert!(!closed, "runners that are ready for a second prove nothing");
        let (before, from) = (creates(world, 0), world.now());
        for _ in 0..30 {
            world.crash(SECOND);
            world.run_for(20 * SECOND).await;
        }
        let more = creates(world, from);
        assert!(more <= 3, "{more} probes in ten minutes of restarts, {before} before");
        world.every_machine(None);
        let works = |world: &Watched| view(world, "linux").breaker.is_none();
        world.wait_for("ten healthy minutes", 30 * MINUTE, works).await;
    });
}

#[test]
fn f29_burst_of_demand_starts_no_more_machines_at_once_than_permitted() {
    story(Plan::quiet(vec![paced("linux", 50, 8)]), async |world| {
        let jobs = queue(world, "linux", 50, 30 * MINUTE);
        world.wait_for("all at work", 30 * MINUTE, |it| in_state(it, State::Busy) == 50).await;
        assert_eq!(at_once(world, 0, starts).1, 8, "the burst used its permits and no more");
        world.wait_for("all jobs over", 60 * MINUTE, |world| all_over(world, &jobs)).await;
    });
}

#[test]
fn f30_host_that_accepts_and_never_starts_holds_only_its_own_permits() {
    let mut spec = paced("linux", 60, 60);
    spec.policy.boot_timeout = 60 * MINUTE;
    story(Plan::quiet(vec![spec]), async |world| {
        know_hosts(world).await;
        let sick = HostName::new("host-1-0");
        world.sicken(&sick);
        let since = world.now();
        let jobs = queue(world, "linux", 50, MINUTE);
        world.wait_for("fifty machines", 20 * MINUTE, |it| creates(it, since) >= 50).await;
        let stuck = |world: &Watched| {
            let here = |row: &&_| starts(row) && row.host.as_ref() == Some(&sick);
            world.rows().iter().filter(here).count()
        };
        let all = stuck(world);
        assert!(all > 16, "{all} stuck starts are more than the shares of all four hosts");
        let over = |world: &Watched| jobs.iter().filter(|job| world.is_over(**job)).count();
        world.wait_for("the others' jobs over", 10 * MINUTE, |it| over(it) + stuck(it) >= 50).await;
        world.cure(&sick);
    });
}

/// Lets a pool see every host once, and come to rest again.
async fn know_hosts(world: &mut Watched) {
    let jobs = queue(world, "linux", 24, SECOND);
    world.wait_for("the first jobs over", 30 * MINUTE, |world| all_over(world, &jobs)).await;
    world.wait_for("an empty pool", 60 * MINUTE, |world| world.rows().is_empty()).await;
}

#[test]
fn f31_machines_no_host_can_take_give_their_permits_back() {
    let mut spec = pool("linux", "split", 10);
    spec.policy.start_permits = 2;
    story(Plan::quiet(vec![spec]), async |world| {
        world.next_machine(Fate::NeverBoots);
        world.next_machine(Fate::NeverBoots);
        let jobs = queue(world, "linux", 4, MINUTE);
        world.run_for(4 * MINUTE).await;
        assert_eq!(creates(world, 0), 2, "both permits are held by machines that cannot be taken");
        assert_eq!(in_state(world, State::Starting), 2);
        world.wait_for("all jobs over", 20 * MINUTE, |world| all_over(world, &jobs)).await;
        assert!(creates(world, 0) > 2);
    });
}

#[test]
fn f32_more_hosts_mean_more_starts_at_once() {
    let most = |hosts: u64| {
        let mut peak = 0;
        let plan = Plan { hosts, ..Plan::quiet(vec![paced("linux", 60, 60)]) };
        story(plan, async |world| {
            know_hosts(world).await;
            let since = world.now();
            let jobs = queue(world, "linux", 60, MINUTE);
            world.wait_for("all jobs over", 60 * MINUTE, |world| all_over(world, &jobs)).await;
            peak = at_once(world, since, starts).1;
        });
        peak
    };
    // The provider chooses the host, so that one host may hold more than its share; no host's
    // share is taken by another.
    let (one, two, five) = (most(1), most(2), most(5));
    assert_eq!(one, 4, "one host starts its share");
    assert!(two >= 8 && five >= 20 && five > two, "two hosts {two}, five hosts {five}");
}

#[test]
fn f33_one_hot_pool_does_not_starve_its_sibling() {
    let pools = vec![paced("hot", 40, 8), paced("cold", 4, 8)];
    story(Plan::quiet(pools), async |world| {
        for _ in 0..8 {
            world.next_machine(Fate::NeverBoots);
        }
        queue(world, "hot", 40, MINUTE);
        world
            .wait_for("a hot pool without permits", MINUTE, |it| in_state(it, State::Starting) == 8)
            .await;
        let cold = world.queue(&["cold"], MINUTE);
        world.wait_for("the sibling's job at work", 2 * MINUTE, |it| runs(it, cold)).await;
        assert_eq!(view(world, "hot").states.of(State::Starting), 8);
        assert_eq!(creates(world, 0), 9, "the hot pool had its share and no more");
    });
}

#[test]
fn i26_start_permits_are_per_host_and_include_machines_not_yet_seen() {
    let plan = Plan { hosts: 2, ..Plan::quiet(vec![paced("linux", 40, 40)]) };
    story(plan, async |world| {
        know_hosts(world).await;
        world.every_create(Some(CreatePlan::Hangs(Some(300_000))));
        let since = world.now();
        let jobs = queue(world, "linux", 30, MINUTE);
        world.run_for(4 * MINUTE).await;
        assert_eq!(creates(world, since), 8, "two hosts have four shares each");
        let appeared = |what: &Seen| matches!(what, Seen::Appeared { .. });
        assert_eq!(seen(world, since, appeared), 0, "and no machine was seen yet");
        world.every_create(None);
        world.wait_for("all jobs over", 60 * MINUTE, |world| all_over(world, &jobs)).await;
    });
}
