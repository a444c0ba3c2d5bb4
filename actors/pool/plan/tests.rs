use super::*;
use crate::model::Urgency;
use crate::pool::fixtures::{any_reports, at, report, reports, spec};
use crate::pool::reports::of_new;
use proptest::prelude::*;

const CALM: PlanLimits = PlanLimits {
    draining: false,
    settled: true,
    healthy: true,
    admits: u32::MAX,
    budget: u32::MAX,
    quarantined: 0,
};
const LONG_AGO: u64 = 0;
const LATER: u64 = 1000;

fn queued(queued: u32) -> Demand {
    Demand { queued, ..Demand::default() }
}

fn leaving(plan: &PoolPlan) -> Vec<(&str, Reason)> {
    plan.retire.iter().map(|(id, reason)| (id.as_str(), *reason)).collect()
}

#[test]
fn a_pool_wants_what_works_what_waits_and_what_is_kept_idle() {
    let mixed = || {
        reports([
            report("b", State::Busy),
            report("r", State::Reserved),
            report("i", State::Idle),
            report("d", State::Deleting),
        ])
    };
    let blocked = Demand { blocked: true, ..Demand::default() };
    for (case, demand, want, create) in [
        ("nothing waits", queued(0), 3, 0),
        ("two wait, one is kept idle, one is there", queued(2), 5, 2),
        ("blocked work is worth one", blocked, 4, 1),
        ("never more than max, and the one on its way out holds a place", queued(50), 6, 2),
    ] {
        let plan = plan(&spec(1, 6), &mixed(), demand, CALM, at(1));
        assert_eq!((plan.want, plan.create), (want, create), "{case}");
        assert_eq!(plan.retire, [], "{case}");
    }
}

#[test]
fn nothing_is_created_while_the_pool_drains_is_unsettled_or_has_no_permit() {
    for limits in [
        PlanLimits { draining: true, ..CALM },
        PlanLimits { settled: false, ..CALM },
        PlanLimits { admits: 0, ..CALM },
    ] {
        assert_eq!(
            plan(&spec(5, 10), &reports([]), queued(5), limits, at(1)).create,
            0,
            "{limits:?}"
        );
    }
    let probe = PlanLimits { healthy: false, admits: 1, ..CALM };
    assert_eq!(plan(&spec(5, 10), &reports([]), queued(5), probe, at(1)).create, 1);
}

#[test]
fn an_instance_asked_to_go_is_no_capacity_unless_it_works() {
    let mut idle = report("i", State::Idle);
    idle.removal = Some(Urgency::Retire);
    let requested_row = reports([idle]);
    assert_eq!(plan(&spec(1, 9), &requested_row, queued(0), CALM, at(1)).create, 1);

    let mut busy = report("b", State::Busy);
    busy.removal = Some(Urgency::Delete);
    let plan = plan(&spec(0, 9), &reports([busy]), queued(0), CALM, at(1));
    assert_eq!((plan.want, plan.create), (1, 0), "its job is served already");
}

#[test]
fn surplus_goes_longest_idle_first_and_only_after_its_time() {
    let mut young = report("young", State::Idle);
    young.since = at(LATER - 10);
    let mut older = report("older", State::Idle);
    older.since = at(LATER - 400);
    let oldest = report("oldest", State::Idle);
    let all = reports([young, older, oldest]);

    let one_kept = plan(&spec(1, 9), &all, queued(0), CALM, at(LATER));
    assert_eq!(leaving(&one_kept), [("oldest", Reason::Surplus), ("older", Reason::Surplus)]);
    assert_eq!(one_kept.next_plan, None, "the last one is wanted");

    let none_kept = plan(&spec(0, 9), &all, queued(0), CALM, at(LATER));
    assert_eq!(none_kept.retire.len(), 2);
    assert_eq!(none_kept.next_plan, Some(at(LATER + 290)), "when the young one comes of age");
}

#[test]
fn what_is_wanted_again_is_not_asked_to_go() {
    let all = reports([report("a", State::Idle), report("b", State::Idle)]);
    assert_eq!(plan(&spec(0, 9), &all, queued(2), CALM, at(LATER)).retire, []);
}

#[test]
fn a_draining_pool_retires_all_free_instances_at_once_and_no_other() {
    let all = reports([
        report("idle", State::Idle),
        report("starting", State::Starting),
        report("pending", State::PendingCreate),
        report("creating", State::Creating),
        report("reserved", State::Reserved),
        report("busy", State::Busy),
        report("retiring", State::Retiring),
    ]);
    let limits = PlanLimits { draining: true, ..CALM };
    let plan = plan(&spec(3, 9), &all, queued(9), limits, at(LONG_AGO));
    assert_eq!(
        leaving(&plan),
        [("pending", Reason::Drain), ("starting", Reason::Drain), ("idle", Reason::Drain)]
    );
    assert_eq!((plan.want, plan.next_plan), (2, None));
}

#[test]
fn an_edited_pool_rolls_one_in_twenty_and_never_below() {
    let old = |id: &str| InstanceReport { revision: "old".into(), ..report(id, State::Idle) };
    let mut all = reports([old("a"), old("b"), old("c")]);
    let first = plan(&spec(3, 40), &all, queued(0), CALM, at(1));
    assert_eq!(leaving(&first), [("a", Reason::Revision), ("b", Reason::Revision)]);
    assert_eq!(first.create, 2, "their successors are made at once where there is room");

    all.insert("s".into(), report("s", State::Starting));
    let second = plan(&spec(3, 40), &all, queued(0), CALM, at(1));
    assert_eq!(second.retire.len(), 1, "one is missing already");
    all.insert("t".into(), report("t", State::Retiring));
    assert_eq!(plan(&spec(4, 40), &all, queued(0), CALM, at(1)).retire, []);

    all.retain(|id, _| id.as_str().len() == 1 && id.as_str() < "s");
    for limits in [PlanLimits { healthy: false, ..CALM }, PlanLimits { settled: false, ..CALM }] {
        assert_eq!(plan(&spec(3, 40), &all, queued(0), limits, at(1)).retire, [], "{limits:?}");
    }
    let tiny = plan(&spec(3, 3), &all, queued(0), CALM, at(1));
    assert_eq!((tiny.retire.len(), tiny.create), (1, 0), "a place is free only when it is gone");
}

#[test]
fn a_successor_that_failed_holds_up_a_roll_until_another_is_ready() {
    let old = |id: &str| InstanceReport { revision: "old".into(), ..report(id, State::Idle) };
    let failed = || report("failed", State::Deleting);
    let all = reports([old("a"), old("b"), failed()]);
    assert_eq!(plan(&spec(3, 10), &all, queued(0), CALM, at(1)).retire, [], "one is missing");
    let all = reports([old("a"), old("b"), report("c", State::Idle), failed()]);
    assert_eq!(plan(&spec(3, 10), &all, queued(0), CALM, at(1)).retire.len(), 1);
    let all = reports([old("a"), old("b"), InstanceReport { stuck: true, ..failed() }]);
    assert_eq!(plan(&spec(3, 3), &all, queued(0), CALM, at(1)).retire.len(), 1, "no place left");
}

#[test]
fn a_stuck_retirement_does_not_hold_up_a_roll() {
    let old = InstanceReport { revision: "old".into(), ..report("a", State::Idle) };
    let stuck = InstanceReport { stuck: true, ..report("s", State::Retiring) };
    let all = reports([old, stuck]);
    assert_eq!(plan(&spec(1, 10), &all, queued(0), CALM, at(1)).retire.len(), 1);
}

#[test]
fn an_idle_runner_is_replaced_when_it_is_too_old() {
    let mut spec = spec(2, 10);
    spec.policy.max_lifetime = Some(Duration::from_secs(500));
    let mut young = report("young", State::Idle);
    young.created_at = at(300);
    let all = reports([report("old", State::Idle), young]);
    assert_eq!(plan(&spec, &all, queued(0), CALM, at(499)).next_plan, Some(at(500)));
    let plan = plan(&spec, &all, queued(0), CALM, at(500));
    assert_eq!(leaving(&plan), [("old", Reason::Lifetime)]);
    assert_eq!((plan.create, plan.next_plan), (1, Some(at(800))));
}

#[test]
fn a_registered_late_bound_instance_is_capacity_for_a_while_and_then_replaced() {
    let mut spec = spec(0, 10);
    spec.binding = Binding::Late;
    let spent = InstanceReport { registered: true, ..report("spent", State::Idle) };
    let all = reports([spent]);
    let early = plan(&spec, &all, queued(1), CALM, at(10));
    assert_eq!((early.create, early.retire.len()), (0, 0), "the forge may give it that job");
    assert_eq!(early.next_plan, Some(at(300)));
    let late = plan(&spec, &all, queued(1), CALM, at(300));
    assert_eq!(leaving(&late), [("spent", Reason::OfferEnded)]);
    assert_eq!(late.create, 1);
}

#[test]
fn a_spent_instance_counts_for_a_waiting_job_and_not_as_min_idle() {
    let mut spec = spec(2, 10);
    spec.binding = Binding::Late;
    let spent = InstanceReport { registered: true, ..report("spent", State::Idle) };
    let all = reports([spent, report("warm", State::Idle)]);
    let calm = plan(&spec, &all, queued(0), CALM, at(10));
    assert_eq!((calm.want, calm.create, calm.retire.len()), (2, 1, 0), "one warm is missing");
    let busy = plan(&spec, &all, queued(1), CALM, at(10));
    assert_eq!((busy.want, busy.create), (3, 1), "the forge may give it that job");
    spec.binding = Binding::Early;
    assert_eq!(plan(&spec, &all, queued(0), CALM, at(10)).create, 0, "an early one waits for jobs");
}

#[test]
fn a_job_that_a_machine_shows_before_its_notice_is_not_served_twice() {
    let shown = InstanceReport { unnamed: true, ..report("shown", State::Busy) };
    let all = reports([shown]);
    let early = plan(&spec(0, 10), &all, queued(2), CALM, at(59));
    assert_eq!((early.want, early.create), (2, 1), "one of the two runs there");
    assert_eq!(early.next_plan, Some(at(60)));
    let late = plan(&spec(0, 10), &all, queued(2), CALM, at(60));
    assert_eq!((late.want, late.create), (3, 2), "whatever runs there is not one of ours");
}

#[test]
fn no_instance_beyond_the_budget_is_asked_to_retire() {
    let all = reports([report("a", State::Idle), report("b", State::Idle)]);
    let limits = PlanLimits { budget: 1, ..CALM };
    assert_eq!(plan(&spec(0, 9), &all, queued(0), limits, at(LATER)).retire.len(), 1);
}

#[test]
fn a_row_that_cannot_be_decoded_holds_a_place_of_its_pool() {
    let none = reports([]);
    let created = |quarantined| {
        plan(&spec(0, 3), &none, queued(9), PlanLimits { quarantined, ..CALM }, at(0)).create
    };
    assert_eq!([created(0), created(1), created(3), created(4)], [3, 2, 0, 0]);
}

prop_compose! {
    fn any_mood()(
        draining in prop::bool::weighted(0.2),
        settled in prop::bool::weighted(0.8),
        healthy in prop::bool::weighted(0.8),
        admits in 0_u32..40,
        budget in 0_u32..40,
        quarantined in 0_u32..3,
    ) -> PlanLimits {
        PlanLimits { draining, settled, healthy, admits, budget, quarantined }
    }
}

prop_compose! {
    fn any_pool()(
        min_idle in 0_u32..5,
        max in 0_u32..60,
        late in any::<bool>(),
        lifetime in prop::option::of(1_u64..1000),
    ) -> PoolSpec {
        let mut spec = spec(min_idle, max);
        spec.binding = if late { Binding::Late } else { Binding::Early };
        spec.policy.max_lifetime = lifetime.map(Duration::from_secs);
        spec
    }
}

prop_compose! {
    fn any_demand()(queued in 0_u32..100, blocked in any::<bool>()) -> Demand {
        Demand { queued, blocked, oldest: None }
    }
}

/// Returns the standing as it is once the plan was carried out.
fn carried_out(
    spec: &PoolSpec,
    before: &BTreeMap<InstanceId, InstanceReport>,
    plan: &PoolPlan,
    now: Timestamp,
) -> BTreeMap<InstanceId, InstanceReport> {
    let mut after = before.clone();
    for (id, _) in &plan.retire {
        let asked = after.get_mut(id).unwrap();
        // An owner that moves on is no longer stuck.
        (asked.removal, asked.stuck) = (Some(Urgency::Retire), false);
    }
    for made in 0..plan.create {
        let id = InstanceId::new(format!("new{made}"));
        after.insert(id.clone(), of_new(id, spec.revision.clone(), now));
    }
    after
}

proptest! {
    #[test]
    fn a_plan_keeps_within_its_bounds(
        spec in any_pool(),
        reports in any_reports(),
        demand in any_demand(),
        limits in any_mood(),
        now in 0_u64..2000,
    ) {
        let now = at(now);
        let plan = plan(&spec, &reports, demand, limits, now);
        let tally = PoolTally::of(&reports);
        prop_assert!(plan.want <= spec.max);
        prop_assert!(plan.create <= limits.admits);
        prop_assert!(plan.create == 0 || tally.occupying + plan.create <= spec.max);
        prop_assert!(count(&plan.retire) <= limits.budget);
        prop_assert!(plan.next_plan.is_none_or(|at| at > now));
        let mut asked = BTreeSet::new();
        for (id, _) in &plan.retire {
            prop_assert!(asked.insert(id), "{id} is asked twice");
            let report = &reports[id];
            prop_assert!(report.removal.is_none());
            match report.state {
                State::Idle => {}
                State::PendingCreate | State::Starting => prop_assert!(limits.draining),
                other => prop_assert!(false, "{other} is asked to go"),
            }
        }
        if !limits.draining {
            let surplus = plan.retire.iter().filter(|(_, why)| *why == Reason::Surplus).count();
            let left = tally.capacity() - count(&plan.retire);
            prop_assert!(surplus == 0 || left >= plan.want, "surplus is what is not wanted");
        }
    }

    #[test]
    fn a_plan_that_was_carried_out_has_nothing_to_add(
        spec in any_pool(),
        reports in any_reports(),
        demand in any_demand(),
        limits in any_mood(),
        now in 0_u64..2000,
    ) {
        let now = at(now);
        let first = plan(&spec, &reports, demand, limits, now);
        let after = carried_out(&spec, &reports, &first, now);
        let limits = PlanLimits {
            admits: limits.admits - first.create,
            budget: limits.budget - count(&first.retire),
            ..limits
        };
        let second = plan(&spec, &after, demand, limits, now);
        prop_assert_eq!((second.create, &second.retire), (0, &Vec::new()));
        prop_assert_eq!(second.want, first.want);
    }
}

#[test]
fn machines_that_are_silent_or_out_of_reach_are_no_capacity_and_no_surplus() {
    let silent = |id: &str| InstanceReport { silent_since: Some(at(0)), ..report(id, State::Idle) };
    let lost = |id: &str| InstanceReport { unreachable: true, ..report(id, State::Starting) };
    let all = reports([silent("a"), silent("b"), lost("c"), report("d", State::Idle)]);
    let tally = PoolTally::of(&all);
    assert_eq!((tally.free, tally.ready, tally.occupying), (1, 1, 4));
    let demand = Demand { queued: 2, ..Demand::default() };
    let plan = plan(&spec(0, 10), &all, demand, CALM, at(1000));
    assert_eq!((plan.create, plan.retire), (1, vec![]));
}
