use super::*;
use crate::pool::fixtures::{any_reports, at, report, reports};
use proptest::prelude::*;

fn pace() -> PoolPace {
    PoolPace::new(Lives::new("new".into(), None, at(0)))
}

fn names(ids: &[InstanceId]) -> Vec<&str> {
    ids.iter().map(InstanceId::as_str).collect()
}

fn waiting(id: &str, permit: Permit, since: u64) -> InstanceReport {
    InstanceReport { wants: Some(permit), since: at(since), ..report(id, waits_in(permit)) }
}

fn on(host: &str, id: &str) -> InstanceReport {
    InstanceReport { host: Some(host.into()), ..report(id, State::Starting) }
}

#[test]
fn an_instance_holds_its_start_permit_until_it_is_ready() {
    let policy = Policy { start_permits: 2, ..Policy::default() };
    let mut pace = pace();
    let mut all = reports([waiting("a", Permit::Start, 0)]);
    assert_eq!(pace.queue(&policy, &all).free_starts, 2);

    pace.grant(&"a".into(), Permit::Start, at(0));
    let queue = pace.queue(&policy, &all);
    assert_eq!((queue.free_starts, queue.starts.len()), (1, 0), "granted, not yet shown");

    for (state, free) in [(State::Creating, 1), (State::Starting, 1), (State::Idle, 2)] {
        let shown = report("a", state);
        pace.update(&shown, at(0));
        all.insert("a".into(), shown);
        assert_eq!(pace.queue(&policy, &all).free_starts, free, "{state}");
    }
}

#[test]
fn a_new_owner_requests_the_permit_that_its_predecessor_held() {
    let mut pace = pace();
    let all = reports([waiting("a", Permit::Start, 0)]);
    pace.grant(&"a".into(), Permit::Start, at(0));
    assert!(pace.queue(&Policy::default(), &all).starts.is_empty());
    pace.owner_gone(&"a".into());
    assert_eq!(names(&pace.queue(&Policy::default(), &all).starts), ["a"]);
}

#[test]
fn the_longest_waiting_comes_first_and_the_unwanted_not_at_all() {
    let mut unwanted = waiting("unwanted", Permit::Start, 0);
    unwanted.removal = Some(crate::model::Urgency::Retire);
    let all = reports([
        waiting("a", Permit::Start, 9),
        waiting("b", Permit::Start, 3),
        waiting("c", Permit::Delete, 8),
        waiting("d", Permit::Delete, 2),
        unwanted,
    ]);
    let queue = pace().queue(&Policy::default(), &all);
    assert_eq!(names(&queue.starts), ["b", "a"]);
    assert_eq!(names(&queue.deletes), ["d", "c"]);
}

#[test]
fn a_sick_host_holds_only_its_own_share() {
    let policy = Policy { start_permits: 32, start_permits_per_host: 2, ..Policy::default() };
    let mut pace = pace();
    assert_eq!(pace.queue(&policy, &reports([])).free_starts, 32, "no host is known");
    let all = reports([on("sick", "a"), on("sick", "b"), on("sick", "c"), on("fine", "d")]);
    for report in all.values() {
        pace.update(report, at(0));
    }
    assert_eq!(pace.queue(&policy, &all).free_starts, 1, "the other host has room for one");
}

#[test]
fn a_stuck_deletion_gives_its_permit_back() {
    let stuck = InstanceReport { stuck: true, ..report("s", State::Deleting) };
    let gone = InstanceReport { occupies: false, ..report("g", State::Deleting) };
    let all = reports([stuck, gone, report("d", State::Deleting)]);
    assert_eq!(pace().queue(&Policy::default(), &all).free_deletes, 31);
}

#[test]
fn a_spent_budget_comes_back_a_minute_later() {
    let policy = Policy { retire_budget: 1, ..Policy::default() };
    let mut pace = pace();
    assert_eq!(pace.next_plan(&policy, at(5)), None);
    assert!(pace.spend(&policy, at(5)));
    assert!(!pace.spend(&policy, at(64)));
    assert_eq!(pace.next_plan(&policy, at(64)), Some(at(65)));
    assert!(pace.spend(&policy, at(65)));
}

proptest! {
    #[test]
    fn permits_are_never_given_out_twice_nor_lost(
        mut all in any_reports(),
        start_permits in 0_u32..40,
        per_host in 1_u32..5,
    ) {
        let policy = Policy {
            start_permits,
            start_permits_per_host: per_host,
            ..Policy::default()
        };
        let mut pace = pace();
        for report in all.values() {
            pace.update(report, at(0));
        }
        let before = pace.queue(&policy, &all);
        for id in before.starts.iter().take(before.free_starts as usize) {
            pace.grant(id, Permit::Start, at(0));
        }
        for id in before.deletes.iter().take(before.free_deletes as usize) {
            pace.grant(id, Permit::Delete, at(0));
        }
        let after = pace.queue(&policy, &all);
        let held = |of: fn(&InstanceReport) -> bool| all.values().filter(|report| of(report)).count();
        let starting = held(|report| matches!(report.state, State::Creating | State::Starting));
        let granted = before.starts.len() - after.starts.len();
        prop_assert!(granted == 0 || starting + granted <= start_permits as usize);
        prop_assert!(after.free_starts == 0 || after.starts.is_empty(), "a free permit is not withheld");
        prop_assert!(after.free_deletes == 0 || after.deletes.is_empty());

        // Everyone lives on and ends: all permits are back.
        for report in all.values_mut() {
            report.state = State::Deleted;
            report.wants = None;
            pace.update(report, at(0));
        }
        let end = pace.queue(&policy, &all);
        prop_assert_eq!(end.free_deletes, DELETE_PERMITS);
        prop_assert!(pace.granted.is_empty());
    }

    #[test]
    fn the_budget_is_never_exceeded_in_any_minute(
        steps in prop::collection::vec(0_u64..20, 0..200),
        retire_budget in 0_u32..10,
    ) {
        let policy = Policy { retire_budget, ..Policy::default() };
        let mut pace = pace();
        let mut now = 0;
        let mut spent = Vec::new();
        for step in steps {
            now += step;
            if pace.spend(&policy, at(now)) {
                spent.push(now);
            }
            let window = spent.iter().filter(|then| now - **then < 60).count();
            prop_assert!(window <= retire_budget as usize);
        }
    }
}
