use super::*;
use crate::jobs::{PoolStanding, explain_job};
use crate::model::State;
use crate::registry::PoolView;

fn view() -> PoolView {
    PoolView {
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
    }
}

fn explained(desk: &Desk, view: PoolView) -> String {
    let pools =
        [PoolStanding { spec: Arc::new(pool("linux", &["linux"])), view: Some(Arc::new(view)) }];
    let events: Vec<Event> = desk.events.values().cloned().collect();
    explain_job(desk.job(1), &events, &pools, after(desk.now, Duration::from_secs(75))).join(" ")
}

#[test]
fn a_waiting_job_is_explained_with_numbers() {
    let mut desk = Desk::new();
    desk.hear(1, QUEUED, None);
    for (view, sentence) in [
        (view(), "Pool `linux` has 3 of 10 machines (1 starting, 2 busy) and wants 7."),
        (PoolView { max: 3, ..view() }, "is at its maximum: 3 of 3 machines"),
        (PoolView { draining: true, ..view() }, "is draining"),
        (PoolView { breaker: Some(T0), ..view() }, "failed again and again for 1 min 15 s"),
        (view(), "It has waited for a runner for 1 min 15 s."),
        (view(), "4 jobs wait for it."),
    ] {
        let said = explained(&desk, view);
        assert!(said.contains(sentence), "{said}");
    }
}

#[test]
fn an_offered_and_a_running_job_say_where() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    assert!(explained(&desk, view()).contains("offered to `a` since 1 min 15 s"));
    desk.deliver(1, "a", Generation(1));
    assert!(explained(&desk, view()).contains("delivered to `a`"));
    desk.hear(1, RUNS, Some("a"));
    assert_eq!(explained(&desk, view()), "It runs on `a` since 1 min 15 s.");
}

#[test]
fn a_job_that_came_back_says_why() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.pass(Duration::from_mins(5));
    desk.find(1, reading(QUEUED, None));
    let said = explained(&desk, view());
    assert!(said.contains("offer to `a` ended: Requeued"), "{said}");
    assert!(said.contains("The forge was asked 1 times, 1 min 15 s ago."), "{said}");
}
