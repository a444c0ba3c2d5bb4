use super::*;
use crate::jobs::{BudgetLeft, HoldUps, PoolStatus, explain_job, why_it_waits};
use crate::model::{Instance, State};
use crate::registry::PoolView;

fn view() -> PoolView {
    PoolView {
        failing: None,
        proven: None,
        id: linux(),
        states: [(State::Busy, 2), (State::Starting, 1)].into_iter().collect(),
        demand: 4,
        oldest: None,
        want: 7,
        max: 10,
        draining: false,
        breaker: None,
        settled: true,
        stuck: 0,
        shunned: vec![],
        silent: None,
    }
}

fn explained(test: &TestLedger, view: PoolView) -> String {
    let events: Vec<Event> = test.events.values().cloned().collect();
    explain_job(test.job(1), &events, &status_of(view), &HoldUps::default(), later(test)).join(" ")
}

fn status_of(view: PoolView) -> [PoolStatus; 1] {
    [PoolStatus { spec: Arc::new(pool("linux", &["linux"])), view: Some(Arc::new(view)) }]
}

fn later(test: &TestLedger) -> Timestamp {
    after(test.now, Duration::from_secs(75))
}

fn booting(test: &TestLedger) -> Arc<Instance> {
    let mut row =
        crate::instance::requested_row("linux-1".into(), &pool("linux", &["linux"]), test.now);
    row.state = State::Starting;
    row.since = after(test.now, Duration::from_secs(35));
    Arc::new(row)
}

#[test]
fn a_waiting_job_is_explained_with_numbers() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    for (view, sentence) in [
        (view(), "Pool `linux` has 3 of 10 machines (1 starting, 2 busy) and wants 7."),
        (PoolView { max: 3, ..view() }, "is at its maximum: 3 of 3 machines"),
        (PoolView { draining: true, ..view() }, "is draining"),
        (PoolView { breaker: Some(T0), ..view() }, "failed repeatedly for 1 min 15 s"),
        (view(), "It has waited for a runner for 1 min 15 s."),
        (view(), "4 jobs wait for it."),
    ] {
        let lines = explained(&test, view);
        assert!(lines.contains(sentence), "{lines}");
    }
}

#[test]
fn an_offered_and_a_running_job_say_where() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    assert!(explained(&test, view()).contains("offered to `a` since 1 min 15 s"));
    test.deliver(1, "a", Generation(1));
    assert!(explained(&test, view()).contains("delivered to `a`"));
    test.notice(1, RUNS, Some("a"));
    assert_eq!(explained(&test, view()), "It runs on `a` since 1 min 15 s.");
}

#[test]
fn a_requeued_job_says_why() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.pass(Duration::from_mins(5));
    test.find(1, reading(QUEUED, None));
    let lines = explained(&test, view());
    assert!(lines.contains("offer to `a` ended: Requeued"), "{lines}");
    assert!(lines.contains("The forge was asked once, last 1 min 15 s ago."), "{lines}");
}

#[test]
fn booting_machines_and_a_spent_budget_are_named() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    let budget = BudgetLeft {
        who: "token 1".into(),
        resource: "core".into(),
        remaining: 0,
        limit: 5000,
        resets_at: Some(after(later(&test), Duration::from_secs(90))),
    };
    let holdups = HoldUps { booting: vec![booting(&test)], budgets: vec![budget] };
    let lines = explain_job(test.job(1), &[], &status_of(view()), &holdups, later(&test)).join(" ");
    assert!(lines.contains("`linux-1`: boot in progress 40 s of 300 s."), "{lines}");
    assert!(lines.contains("0 of 5000 calls (core) are left for token 1"), "{lines}");
    assert!(lines.contains("resets in 90 s"), "{lines}");
}

#[test]
fn one_sentence_says_what_a_job_waits_for_most() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    let holdups = HoldUps { booting: vec![booting(&test)], budgets: vec![] };
    let spent = BudgetLeft {
        who: "token 1".into(),
        resource: "core".into(),
        remaining: 0,
        limit: 5000,
        resets_at: None,
    };
    let short = HoldUps { budgets: vec![spent], ..holdups.clone() };
    let none = HoldUps::default();
    for (view, holdups, sentence) in [
        (PoolView { draining: true, ..view() }, &holdups, "is draining"),
        (PoolView { breaker: Some(T0), ..view() }, &holdups, "repeatedly for 1 min 15 s"),
        (PoolView { max: 3, ..view() }, &holdups, "at its maximum: 3 of 3"),
        (PoolView { settled: false, ..view() }, &holdups, "before the restart"),
        (view(), &short, "rate budget of token 1 is spent"),
        (view(), &holdups, "`linux-1`: boot in progress 40 s of 300 s"),
        (view(), &none, "4 jobs waiting and wants 7"),
    ] {
        let why = why_it_waits(test.job(1), &status_of(view), holdups, later(&test)).unwrap();
        assert!(why.contains(sentence), "{why}");
    }
    let mut alone = test.job(1).clone();
    alone.pool = None;
    alone.labels = ["windows"].iter().collect();
    let why = why_it_waits(&alone, &status_of(view()), &none, later(&test)).unwrap();
    assert!(why.contains("lacks [windows]"), "{why}");
}
