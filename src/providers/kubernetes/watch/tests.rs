use ostler_actors::model::{Began, MachinePhase, Stamp, Worker};

use super::*;

fn view(name: &str, phase: MachinePhase) -> MachineView {
    MachineView {
        name: name.into(),
        uid: Some(format!("uid-{name}")),
        stamp: Stamp::default(),
        phase,
        worker: Worker::NoWitness,
        began: Began::Unknown,
        ready: false,
        leaving: false,
        host: None,
    }
}

fn up(name: &str) -> MachineView {
    view(name, MachinePhase::Running)
}

fn list(memory: &mut Memory, names: &[&str]) -> Vec<Sight> {
    memory.begin();
    let mut sights: Vec<Sight> = names.iter().filter_map(|name| memory.take(up(name))).collect();
    sights.extend(memory.end());
    sights
}

fn missed(name: &str) -> Sight {
    Sight::Missed(name.into())
}

#[test]
fn only_what_changed_is_reported() {
    let mut memory = Memory::default();
    assert!(memory.take(view("a", MachinePhase::Booting)).is_some());
    assert_eq!(memory.take(view("a", MachinePhase::Booting)), None);
    assert!(memory.take(up("a")).is_some());
    assert_eq!(list(&mut memory, &["a"]), [], "a listing repeats everything and tells nothing");
}

#[test]
fn a_pod_is_missed_after_two_complete_listings_without_it() {
    let mut memory = Memory::default();
    list(&mut memory, &["a", "b", "c"]);
    assert_eq!(list(&mut memory, &["a"]), []);
    assert!(memory.has_suspects());
    memory.take(up("b"));
    assert_eq!(list(&mut memory, &["a", "b"]), [missed("c")]);
    assert!(!memory.has_suspects());
    assert_eq!(memory.len(), 2);
}

#[test]
fn an_empty_listing_misses_no_pod() {
    let mut memory = Memory::default();
    let names: Vec<String> = (0..500).map(|at| format!("m{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    list(&mut memory, &names);
    assert_eq!(list(&mut memory, &[]), []);
    assert_eq!(list(&mut memory, &names), [], "and all are known again");
    assert!(!memory.has_suspects());
}

#[test]
fn a_listing_that_never_ended_misses_no_pod() {
    let mut memory = Memory::default();
    list(&mut memory, &["a", "b"]);
    memory.begin();
    memory.take(up("a"));
    memory.begin();
    assert_eq!(list(&mut memory, &["a", "b"]), []);
    assert!(!memory.has_suspects());
}

#[test]
fn a_deletion_is_reported_once() {
    let mut memory = Memory::default();
    memory.take(up("a"));
    assert_eq!(memory.lose("a".into()), Some(missed("a")));
    assert_eq!(memory.lose("a".into()), None);
}

#[test]
fn what_is_kept_of_a_pod_is_small() {
    let entry = size_of::<(MachineName, u64)>();
    let name = 63 + 2 * size_of::<usize>();
    // A tree keeps its entries at least half full.
    assert!(2 * entry + name <= 500, "{entry} + {name}");
}

#[test]
fn a_server_that_forgot_is_distinguished_from_one_that_is_away() {
    let status = |code| Box::new(kube::core::Status { code, ..Default::default() });
    let refused = |code| watcher::Error::WatchStartFailed(kube::Error::Api(status(code)));
    assert_eq!(expiry(&watcher::Error::WatchError(status(410))), Expiry::Reported);
    assert_eq!(expiry(&watcher::Error::WatchError(status(500))), Expiry::None);
    assert_eq!(expiry(&refused(410)), Expiry::Refused);
    assert_eq!(expiry(&refused(403)), Expiry::None);
    assert_eq!(expiry(&watcher::Error::NoResourceVersion), Expiry::None);
}
