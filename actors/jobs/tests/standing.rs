use super::*;
use crate::jobs::Accepts;

fn two() -> Desk {
    let mut first = pool("first", &["linux"]);
    first.max = 2;
    Desk::with(vec![first, pool("second", &["linux", "x64"])])
}

fn stand(desk: &mut Desk, pool: &str, accepts: Accepts) -> Vec<Act> {
    let change = desk.ledger.standing_changed(&pool.into(), accepts, desk.now);
    desk.save(change)
}

fn demand(desk: &Desk, pool: &str) -> (u32, bool) {
    let demand = desk.ledger.demand(&pool.into());
    (demand.queued, demand.blocked)
}

#[test]
fn jobs_beyond_the_maximum_of_their_first_choice_move_on() {
    let mut desk = two();
    for job in 1..=3 {
        desk.hear(job, QUEUED, None);
    }
    assert_eq!(demand(&desk, "first"), (2, false));
    assert_eq!(demand(&desk, "second"), (1, false));
    // Full by its own machines, it keeps the jobs these were made for.
    stand(&mut desk, "first", Accepts::Full);
    assert_eq!(demand(&desk, "first"), (2, false));
    desk.hear(4, QUEUED, None);
    assert_eq!(demand(&desk, "second"), (2, false));
}

#[test]
fn the_jobs_of_a_draining_or_broken_pool_move_on_and_stay_there() {
    for refusal in [Accepts::Draining, Accepts::Broken] {
        let mut desk = two();
        desk.hear(1, QUEUED, None);
        stand(&mut desk, "first", refusal);
        assert_eq!(demand(&desk, "first"), (0, false));
        assert_eq!(demand(&desk, "second"), (1, false));
        stand(&mut desk, "first", Accepts::Work);
        assert_eq!(demand(&desk, "second"), (1, false));
    }
}

#[test]
fn when_all_refuse_the_job_is_blocked_demand_of_its_first_choice_until_one_takes_it() {
    let mut desk = two();
    stand(&mut desk, "first", Accepts::Broken);
    stand(&mut desk, "second", Accepts::Draining);
    desk.hear(1, QUEUED, None);
    desk.hear(2, QUEUED, None);
    assert_eq!(demand(&desk, "first"), (0, true));
    assert!(matches!(desk.said(1).last(), Some(What::Held { .. })));
    stand(&mut desk, "second", Accepts::Work);
    assert_eq!(demand(&desk, "first"), (0, false));
    assert_eq!(demand(&desk, "second"), (2, false));
}

#[test]
fn a_freed_place_takes_the_oldest_job_that_waits_for_one() {
    let mut only = pool("linux", &["linux"]);
    (only.max, only.binding) = (1, Binding::Early);
    let mut desk = Desk::with(vec![only]);
    desk.news("a", InstanceChange::Answers(vec!["a".into()]));
    for job in 1..=3 {
        desk.hear(job, QUEUED, None);
        desk.pass(Duration::from_secs(1));
    }
    assert_eq!(demand(&desk, "linux"), (1, true));
    desk.hear(1, RUNS, Some("a"));
    assert_eq!(demand(&desk, "linux"), (0, true));
    desk.hear(1, OVER, Some("a"));
    assert_eq!(demand(&desk, "linux"), (1, true));
    assert_eq!(desk.said(2).last(), Some(&What::Routed("linux".into())));
}

#[test]
fn a_runner_that_waits_is_offered_work_though_its_pool_can_create_no_more() {
    let mut desk = Desk::new();
    stand(&mut desk, "linux", Accepts::Broken);
    desk.hear(1, QUEUED, None);
    assert_eq!(demand(&desk, "linux"), (0, true));
    let acts = desk.waits("a");
    assert_eq!(sent_to(&acts, "a"), [&offered("a", 1, 1)]);
}

#[test]
fn a_draining_pool_is_offered_nothing() {
    let mut desk = Desk::new();
    stand(&mut desk, "linux", Accepts::Draining);
    desk.hear(1, QUEUED, None);
    assert_eq!(sent_to(&desk.waits("a"), "a"), Vec::<&Act>::new());
}

#[test]
fn the_jobs_of_a_removed_pool_go_to_another_or_to_nobody() {
    let mut desk = two();
    desk.hear(1, QUEUED, None);
    desk.pools.remove(0);
    desk.know_pools();
    assert_eq!(desk.job(1).pool, Some("second".into()));
    desk.pools.clear();
    desk.know_pools();
    assert_eq!(desk.job(1).pool, None);
    assert!(matches!(desk.said(1).last(), Some(What::Unserved(_))));
    desk.pools = vec![Arc::new(pool("linux", &["linux"]))];
    desk.know_pools();
    assert_eq!(desk.job(1).pool, Some(linux()));
}

#[test]
fn a_pool_is_told_its_demand_when_it_changes_and_when_it_may_have_forgotten() {
    let mut desk = Desk::new();
    let wanted = Demand { queued: 1, blocked: false, oldest: Some(T0) };
    assert_eq!(desk.hear(1, QUEUED, None), [Act::Demand { pool: linux(), demand: wanted }]);
    assert_eq!(desk.hear(1, QUEUED, None), []);
    let acts = stand(&mut desk, "linux", Accepts::Work);
    assert_eq!(acts, [Act::Demand { pool: linux(), demand: wanted }]);
}

#[test]
fn a_reload_that_changes_nothing_writes_nothing() {
    let mut desk = two();
    for job in 1..=4 {
        desk.hear(job, QUEUED, None);
    }
    let change = desk.ledger.pools_changed(desk.pools.clone(), desk.now);
    assert!(change.save.is_empty(), "{:?}", change.save);
    desk.save(change);
}
