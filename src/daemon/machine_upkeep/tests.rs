use ostler_actors::testing::contract::instance;

use super::*;

fn row(name: &str, state: State, host: Option<&str>) -> Instance {
    let mut row = instance(name);
    row.provider = "k8s".into();
    row.state = state;
    row.host = host.map(HostName::from);
    row
}

fn names(rows: &[Instance]) -> Vec<String> {
    let draining = Draining::from([(HostName::from("n1"), "it is cordoned".to_owned())]);
    on_drained_hosts(rows, &"k8s".into(), &draining)
        .into_iter()
        .map(|(row, _)| row.id.to_string())
        .collect()
}

#[test]
fn only_free_instances_on_drained_hosts_are_asked_to_leave() {
    let rows = [
        row("idle", State::Idle, Some("n1")),
        row("starting", State::Starting, Some("n1")),
        row("busy", State::Busy, Some("n1")),
        row("reserved", State::Reserved, Some("n1")),
        row("elsewhere", State::Idle, Some("n2")),
        row("nowhere", State::Idle, None),
    ];
    assert_eq!(names(&rows), ["idle", "starting"]);
}

#[test]
fn the_request_names_the_host_and_the_reason() {
    let row = row("idle", State::Idle, Some("n1"));
    let ToFleet::Reap { pool, instance, ask } = retire(&row, "it is cordoned") else {
        panic!("a drained host is left like a reaped machine, within the budget")
    };
    assert_eq!((pool, instance), (row.pool, row.id));
    assert_eq!((ask.urgency, ask.reason, ask.by), (Urgency::Retire, Reason::HostDrain, None));
    assert_eq!(ask.evidence, "its node `n1` is to be left: it is cordoned");
}

#[test]
fn a_large_host_is_left_a_few_at_a_time() {
    let rows: Vec<Instance> =
        (0..50).map(|at| row(&format!("m{at}"), State::Idle, Some("n1"))).collect();
    assert_eq!(names(&rows).len(), MAX_RETIRED_AT_ONCE);
}

#[test]
fn a_secret_is_spent_once_its_runner_connected() {
    let mut early = row("early", State::Starting, None);
    early.binding = Binding::Early;
    assert!(!Marks::of(&early).spent);
    early.state = State::Idle;
    assert!(Marks::of(&early).spent);
    early.binding = Binding::Late;
    assert!(!Marks::of(&early).spent, "it never had one");
}
