//! A changed configuration is loaded again, all or nothing.

use std::fs;
use std::path::Path;

use ostler::config::watch::{self, ConfigWatch, Look};
use ostler::config::{Outside, load};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const GOOD: &str = "[reaper]\ntick = \"60s\"\n";
const CHANGED: &str = "[reaper]\ntick = \"30s\"\n";
const BAD: &str = "[reaper]\ntick = \"0s\"\n";

fn watched(folder: &Path) -> ConfigWatch {
    let first = load(folder, &Outside::real()).expect("it is right");
    ConfigWatch::new(folder, Outside::real(), &first)
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("the file can be written");
}

#[test]
fn a_change_counts_once_it_has_settled() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.toml", GOOD);
    let mut watch = watched(folder.path());
    assert!(watch.look(Look::Tick).is_none(), "nothing changed");
    write(folder.path(), "a.toml", CHANGED);
    assert!(watch.look(Look::Tick).is_none(), "it may still be written to");
    let config = watch.look(Look::Tick).expect("it has settled").expect("it is right");
    assert_eq!(config.reaper.tick.as_secs(), 30);
    assert!(watch.look(Look::Tick).is_none(), "reported once");
}

#[test]
fn a_bad_edit_is_reported_once_and_its_repair_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.toml", GOOD);
    let mut watch = watched(folder.path());
    write(folder.path(), "a.toml", BAD);
    watch.look(Look::Tick);
    let problems = watch.look(Look::Tick).expect("it has settled").expect_err("it is wrong");
    assert!(problems.to_string().contains("reaper.tick"));
    assert!(watch.look(Look::Tick).is_none(), "reported once");
    assert!(
        watch.look(Look::Now).is_some_and(|change| change.is_err()),
        "an explicit reload always answers"
    );
    write(folder.path(), "a.toml", GOOD);
    watch.look(Look::Tick);
    assert!(watch.look(Look::Tick).is_some_and(|change| change.is_ok()));
}

#[test]
fn a_new_file_a_removed_one_and_a_changed_secret_are_changes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "token", "first-secret-of-the-forge");
    write(folder.path(), "a.toml", "[forge.g]\nkind = \"github\"\ntoken = { file = \"token\" }\n");
    let mut watch = watched(folder.path());
    let mut settle = || {
        watch.look(Look::Tick);
        watch.look(Look::Tick).map(|change| change.unwrap_or_else(|problems| panic!("{problems}")))
    };
    assert!(settle().is_none());
    write(folder.path(), "b.toml", CHANGED);
    assert!(settle().is_some(), "a new file");
    fs::remove_file(folder.path().join("b.toml")).unwrap();
    assert!(settle().is_some(), "a removed file");
    write(folder.path(), "token", "second-secret-of-the-forge");
    assert!(settle().is_some(), "a changed secret");
    assert!(settle().is_none());
}

#[test]
fn what_was_missing_is_noticed_when_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.toml", GOOD);
    let mut watch = watched(folder.path());
    write(folder.path(), "a.toml", "[forge.g]\nkind = \"github\"\ntoken = { file = \"later\" }\n");
    watch.look(Look::Tick);
    assert!(watch.look(Look::Tick).is_some_and(|change| change.is_err()));
    write(folder.path(), "later", "a-secret-that-came-late");
    let config = watch.look(Look::Tick).expect("tried again").expect("nothing is missing now");
    assert!(config.forges.contains_key("g"));
}

#[tokio::test(start_paused = true)]
async fn a_hangup_reloads_at_once_and_an_edit_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a.toml", GOOD);
    let (sender, mut changes) = mpsc::channel(1);
    let hangup = signal(SignalKind::hangup()).unwrap();
    let watching = tokio::spawn(watch::run(watched(folder.path()), hangup, || {}, sender));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
    let config = changes.recv().await.unwrap().unwrap();
    assert_eq!(config.reaper.tick.as_secs(), 60, "asked for, though nothing changed");
    write(folder.path(), "a.toml", CHANGED);
    let config = changes.recv().await.unwrap().unwrap();
    assert_eq!(config.reaper.tick.as_secs(), 30);
    drop(changes);
    watching.await.unwrap().unwrap();
}
