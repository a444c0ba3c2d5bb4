use super::*;
use crate::jobs::Accepts;

fn two() -> TestLedger {
    let mut first = pool("first", &["linux"]);
    first.max = 2;
    TestLedger::with(vec![first, pool("second", &["linux", "x64"])])
}

fn set_status(test: &mut TestLedger, pool: &str, accepts: Accepts) -> Vec<Act> {
    test.handle(LedgerInput::PoolStatus { pool: pool.into(), accepts })
}

fn demand(test: &TestLedger, pool: &str) -> (u32, bool) {
    let demand = test.ledger.demand(&pool.into());
    (demand.queued, demand.blocked)
}

#[test]
fn jobs_beyond_the_maximum_of_their_first_choice_move_on() {
    let mut test = two();
    for job in 1..=3 {
        test.notice(job, QUEUED, None);
    }
    assert_eq!(demand(&test, "first"), (2, false));
    assert_eq!(demand(&test, "second"), (1, false));
    // Full by its own machines, it keeps the jobs these were made for.
    set_status(&mut test, "first", Accepts::Full);
    assert_eq!(demand(&test, "first"), (2, false));
    test.notice(4, QUEUED, None);
    assert_eq!(demand(&test, "second"), (2, false));
}

#[test]
fn the_jobs_of_a_draining_or_broken_pool_move_on_and_stay_there() {
    for refusal in [Accepts::Draining, Accepts::Broken] {
        let mut test = two();
        test.notice(1, QUEUED, None);
        set_status(&mut test, "first", refusal);
        assert_eq!(demand(&test, "first"), (0, false));
        assert_eq!(demand(&test, "second"), (1, false));
        set_status(&mut test, "first", Accepts::Work);
        assert_eq!(demand(&test, "second"), (1, false));
    }
}

#[test]
fn when_all_refuse_the_job_is_blocked_demand_of_its_first_choice_until_one_takes_it() {
    let mut test = two();
    set_status(&mut test, "first", Accepts::Broken);
    set_status(&mut test, "second", Accepts::Draining);
    test.notice(1, QUEUED, None);
    test.notice(2, QUEUED, None);
    assert_eq!(demand(&test, "first"), (0, true));
    assert!(matches!(test.timeline(1).last(), Some(What::Held { .. })));
    set_status(&mut test, "second", Accepts::Work);
    assert_eq!(demand(&test, "first"), (0, false));
    assert_eq!(demand(&test, "second"), (2, false));
}

#[test]
fn a_freed_place_takes_the_oldest_job_that_waits_for_one() {
    let mut only = pool("linux", &["linux"]);
    (only.max, only.binding) = (1, Binding::Early);
    let mut test = TestLedger::with(vec![only]);
    test.instance("a", InstanceChange::Answers(home(), vec!["a".into()]));
    for job in 1..=3 {
        test.notice(job, QUEUED, None);
        test.pass(Duration::from_secs(1));
    }
    assert_eq!(demand(&test, "linux"), (1, true));
    test.notice(1, RUNS, Some("a"));
    assert_eq!(demand(&test, "linux"), (0, true));
    test.notice(1, OVER, Some("a"));
    assert_eq!(demand(&test, "linux"), (1, true));
    assert_eq!(test.timeline(2).last(), Some(&What::Routed("linux".into())));
}

#[test]
fn a_runner_that_waits_is_offered_work_though_its_pool_can_create_no_more() {
    let mut test = TestLedger::new();
    set_status(&mut test, "linux", Accepts::Broken);
    test.notice(1, QUEUED, None);
    assert_eq!(demand(&test, "linux"), (0, true));
    let acts = test.waits("a");
    assert_eq!(sent_to(&acts, "a"), [&offered("a", 1, 1)]);
}

#[test]
fn a_draining_pool_is_offered_nothing() {
    let mut test = TestLedger::new();
    set_status(&mut test, "linux", Accepts::Draining);
    test.notice(1, QUEUED, None);
    assert_eq!(sent_to(&test.waits("a"), "a"), Vec::<&Act>::new());
}

#[test]
fn the_jobs_of_a_removed_pool_go_to_another_or_are_unserved() {
    let mut test = two();
    test.notice(1, QUEUED, None);
    test.pools.remove(0);
    test.know_pools();
    assert_eq!(test.job(1).pool, Some("second".into()));
    test.pools.clear();
    test.know_pools();
    assert_eq!(test.job(1).pool, None);
    assert!(matches!(test.timeline(1).last(), Some(What::Unserved(_))));
    test.pools = vec![Arc::new(pool("linux", &["linux"]))];
    test.know_pools();
    assert_eq!(test.job(1).pool, Some(linux()));
}

#[test]
fn a_pool_gets_its_demand_when_that_changes_and_when_the_pool_reports() {
    let mut test = TestLedger::new();
    let wanted = Demand { queued: 1, blocked: false, oldest: Some(T0) };
    assert_eq!(test.notice(1, QUEUED, None), [Act::Demand { pool: linux(), demand: wanted }]);
    assert_eq!(test.notice(1, QUEUED, None), []);
    let acts = set_status(&mut test, "linux", Accepts::Work);
    assert_eq!(acts, [Act::Demand { pool: linux(), demand: wanted }]);
}

#[test]
fn a_reload_that_changes_nothing_writes_nothing() {
    let mut test = two();
    for job in 1..=4 {
        test.notice(job, QUEUED, None);
    }
    let change = test.ledger.handle(LedgerInput::Pools(test.pools.clone()), test.now);
    assert!(change.save.is_empty(), "{:?}", change.save);
    test.save(change);
}
