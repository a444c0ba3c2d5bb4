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
    let cordoned = BTreeSet::from([HostName::from("n1")]);
    leaving(rows, &"k8s".into(), &cordoned).into_iter().map(|(id, _)| id.to_string()).collect()
}

#[test]
fn only_free_instances_on_drained_nodes_are_asked_to_leave() {
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
fn a_large_node_is_left_a_few_at_a_time() {
    let rows: Vec<Instance> =
        (0..50).map(|at| row(&format!("m{at}"), State::Idle, Some("n1"))).collect();
    assert_eq!(names(&rows).len(), AT_ONCE);
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
