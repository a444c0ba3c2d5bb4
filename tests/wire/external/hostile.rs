//! Providers that break the contract: none of them hangs, floods, leaks or fools its caller.

use std::time::Duration;

use ostler_actors::model::{MachinePhase, Observation, Sighting, State};
use ostler_actors::ports::{
    CreateError, Deletion, Grace, Inventory as _, MachineRef, Provider as _, ProviderError,
};
use tokio::time::Instant;

use super::fixture::{Fixture, named};
use crate::support::external::compiled;

/// More than any of these calls may take; a wedged one takes for ever.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

fn hostile(lines: &str) -> Fixture {
    let mut fixture = Fixture::on(&compiled());
    fixture.settings.timeout = Duration::from_millis(1500);
    fixture.cloud.behave(lines);
    fixture
}

/// Makes a machine with a provider that does so, and returns why that is not answered.
async fn unanswered(fixture: &Fixture) -> String {
    let began = Instant::now();
    let answer = fixture.open().create(fixture.order("m1")).await;
    assert!(began.elapsed() < CALL_TIMEOUT, "{:?}", began.elapsed());
    match answer {
        Err(CreateError::Unanswered { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// Fails if a process with this environment lives.
fn nobody_is_left(fixture: &Fixture) {
    let mark = format!("GARM_PROVIDER_CONFIG_FILE={}", fixture.cloud.config().display());
    let mine = |pid: &String| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let all = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = all.filter(mine).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes are left: {left:?}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_create_that_hangs_is_killed_and_proves_nothing() {
    let fixture = hostile("do.CreateInstance=hang");
    let why = unanswered(&fixture).await;
    assert!(why.contains("did not end in 1 s and was killed"), "{why}");
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn a_machine_whose_create_hung_after_making_it_is_adopted_by_name() {
    let fixture = hostile("do.CreateInstance=hang_after");
    let view = fixture.open().create(fixture.order("m1")).await.unwrap();
    assert_eq!(fixture.cloud.machines().keys().next(), view.uid.as_ref());
    assert_eq!(view.stamp.instance, Some("m1".into()));
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn a_machine_that_comes_after_the_deadline_is_found_later() {
    // It ends by itself, in time, were it not killed; what it made stays made.
    let fixture =
        hostile("do.CreateInstance=hang_after\ndo.GetInstance=hang\ndo.ListInstances=hang");
    let why = unanswered(&fixture).await;
    assert!(why.contains("CreateInstance did not end"), "{why}");
    fixture.cloud.behave("");
    assert!(matches!(fixture.open().read(&named("m1")).await, Sighting::Seen(_)));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_holds_up_nobody() {
    let fixture = Fixture::on(&compiled());
    fixture.cloud.behave("do.CreateInstance=grandchild");
    let began = Instant::now();
    let view = fixture.open().create(fixture.order("m1")).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(view.phase, MachinePhase::Running);
    end_grandchildren(&fixture);
}

#[tokio::test]
async fn past_the_deadline_grandchildren_go_with_the_group() {
    // A shell that hangs with a child of its own.
    let mut fixture = hostile("");
    let script = fixture.cloud.state().join("hangs.sh");
    std::fs::write(&script, "#!/bin/sh\n/bin/sleep 600 &\nwait\n").unwrap();
    make_executable(&script);
    fixture.settings.executable = script;
    let why = unanswered(&fixture).await;
    assert!(why.contains("was killed"), "{why}");
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn a_provider_that_does_not_hear_of_its_end_is_killed_all_the_same() {
    let mut fixture = hostile("");
    let script = fixture.cloud.state().join("deaf.sh");
    std::fs::write(&script, "#!/bin/sh\ntrap '' TERM\nwhile :; do /bin/sleep 600; done\n").unwrap();
    make_executable(&script);
    fixture.settings.executable = script;
    unanswered(&fixture).await;
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let mut fixture = hostile("do.CreateInstance=flood\ndo.ListInstances=flood");
    fixture.settings.timeout = Duration::from_secs(20);
    let why = unanswered(&fixture).await;
    assert!(why.contains("said more than"), "{why}");
    let Observation::Unusable(why) = fixture.open().list().await else { panic!("listed") };
    assert!(why.contains("said more than"), "{why}");
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn whatever_a_successful_create_says_its_machine_is_found_by_name() {
    for step in ["silent", "garbage", "partial"] {
        let fixture = hostile(&format!("do.CreateInstance={step}"));
        let view = fixture.open().create(fixture.order("m1")).await.unwrap();
        assert_eq!(fixture.cloud.machines().keys().next(), view.uid.as_ref(), "{step}");
    }
}

#[tokio::test]
async fn a_failed_create_tells_the_providers_words_and_vouches_for_nothing() {
    for (step, told) in [
        ("exit:1", "exit code 1: the cloud said no, \\u{1b}[31mloudly"),
        ("exit:255", "exit code 255"),
        ("exit:30", "exit code 30"),
        ("exit_after:1", "it was made and then I stumbled"),
        ("abort", "signal 6"),
    ] {
        let fixture = hostile(&format!("do.CreateInstance={step}"));
        let why = unanswered(&fixture).await;
        assert!(why.contains(told), "{step}: {why}");
    }
}

#[tokio::test]
async fn a_duplicate_is_adopted_if_it_is_there() {
    let fixture = hostile("do.CreateInstance=exit:31");
    let why = unanswered(&fixture).await;
    assert!(why.contains("exit code 31") && why.contains("not there yet"), "{why}");
    let fixture = hostile("do.CreateInstance=exit_after:31");
    let view = fixture.open().create(fixture.order("m1")).await.unwrap();
    assert_eq!(fixture.cloud.machines().keys().next(), view.uid.as_ref());
}

#[tokio::test]
async fn an_executable_that_cannot_be_started_has_made_nothing() {
    let fixture = hostile("");
    let mut gone = Fixture::on(&compiled());
    gone.settings.executable = fixture.cloud.state().join("gone");
    std::fs::write(&gone.settings.executable, "no program").unwrap();
    make_executable(&gone.settings.executable);
    let provider = gone.open();
    std::fs::remove_file(&gone.settings.executable).unwrap();
    let answer = provider.create(gone.order("m1")).await;
    assert!(matches!(answer, Err(CreateError::Refused { .. })), "{answer:?}");
}

#[tokio::test]
async fn of_two_machines_made_at_once_both_are_listed_and_each_is_deleted_for_itself() {
    let fixture = hostile("do.CreateInstance=twice");
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    let Observation::Complete(listed) = provider.list().await else { panic!("not listed") };
    assert_eq!(listed.len(), 2);
    let exact = MachineRef { name: "m1".into(), uid: made.uid.clone() };
    assert_eq!(provider.delete(&exact, Grace::Usual).await.unwrap(), Deletion::Accepted);
    assert_eq!(provider.read(&exact).await, Sighting::Absent, "its twin is not it");
    let Observation::Complete(left) = provider.list().await else { panic!("not listed") };
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].uid, made.uid);
}

#[tokio::test]
async fn a_listing_with_odd_elements_shows_the_others_and_proves_no_absence() {
    let fixture = hostile(
        r#"list={"provider_id":"x1","name":"odd","status":"pending_create"},{},null,{"name":"odder","status":"deleting"}"#,
    );
    let provider = fixture.open();
    provider.create(fixture.order("m1")).await.unwrap();
    let Observation::Complete(listed) = provider.list().await else { panic!("not listed") };
    let names: Vec<&str> = listed.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["m1", "odd", "odder"]);
    assert!(listed[2].leaving);
    let conf = std::fs::read_to_string(fixture.cloud.config()).unwrap();
    fixture.cloud.behave(&format!("{conf}\nmissing=1"));
    let seen = provider.read(&named("nobody")).await;
    assert!(matches!(seen, Sighting::Unknown(_)), "an element without a name may be it: {seen:?}");
}

#[tokio::test]
async fn a_failed_look_is_no_absence() {
    let fixture = hostile("");
    let provider = fixture.open();
    provider.create(fixture.order("m1")).await.unwrap();
    for get in ["exit:1", "hang", "abort", "garbage", "flood", "partial", "silent"] {
        fixture.cloud.behave(&format!("do.GetInstance={get}"));
        let seen = provider.read(&named("m1")).await;
        assert!(matches!(seen, Sighting::Seen(_)), "a listing names it, {get}: {seen:?}");
        for list in ["exit:1", "hang", "abort", "garbage", "silent", "partial"] {
            fixture.cloud.behave(&format!("do.GetInstance={get}\ndo.ListInstances={list}"));
            let seen = provider.read(&named("m1")).await;
            assert!(matches!(seen, Sighting::Unknown(_)), "{get}, {list}: {seen:?}");
        }
    }
    for list in ["exit:1", "garbage", "silent", "partial"] {
        fixture.cloud.behave(&format!("do.ListInstances={list}"));
        assert!(matches!(provider.list().await, Observation::Unusable(_)), "{list}");
    }
}

#[tokio::test]
async fn a_refused_delete_is_looked_into_before_it_is_a_failure() {
    let fixture = hostile("");
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    let exact = MachineRef { name: "m1".into(), uid: made.uid };
    fixture.cloud.behave("do.DeleteInstance=exit:1");
    let Err(ProviderError::Later { why, .. }) = provider.delete(&exact, Grace::Usual).await else {
        panic!("it is still there")
    };
    assert!(why.contains("the cloud said no"), "{why}");
    fixture.cloud.turn("m1", "deleting");
    let answer = provider.delete(&exact, Grace::Usual).await.unwrap();
    assert_eq!(answer, Deletion::Accepted, "it is on its way");
    fixture.cloud.behave("");
    provider.delete(&exact, Grace::Usual).await.unwrap();
    fixture.cloud.behave("do.DeleteInstance=exit:1\nmissing=1");
    let answer = provider.delete(&exact, Grace::Usual).await.unwrap();
    assert_eq!(answer, Deletion::NotFound);
    fixture.cloud.behave("do.DeleteInstance=exit:30");
    assert_eq!(provider.delete(&exact, Grace::Usual).await.unwrap(), Deletion::NotFound);
    fixture.cloud.behave("do.DeleteInstance=hang");
    let answer = provider.delete(&exact, Grace::Usual).await;
    assert!(matches!(answer, Err(ProviderError::Later { .. })), "{answer:?}");
    nobody_is_left(&fixture);
}

#[tokio::test]
async fn a_create_whose_caller_left_is_finished_and_a_look_is_not() {
    let mut fixture = hostile("before.CreateInstance=300\ndo.GetInstance=hang");
    fixture.settings.timeout = Duration::from_mins(1);
    let provider = fixture.open();
    let create = provider.create(fixture.order("m1"));
    assert!(tokio::time::timeout(Duration::from_millis(100), create).await.is_err());
    let whom = named("m1");
    let read = provider.read(&whom);
    assert!(tokio::time::timeout(Duration::from_millis(300), read).await.is_err());
    let deadline = Instant::now() + CALL_TIMEOUT;
    while fixture.cloud.machines().is_empty() {
        assert!(Instant::now() < deadline, "the create was cut short");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The look is ended by a task that must get its turn.
    tokio::task::spawn_blocking(move || nobody_is_left(&fixture)).await.unwrap();
}

#[tokio::test]
async fn a_stuck_create_does_not_keep_looks_and_deletes_waiting() {
    let mut fixture = hostile("");
    fixture.settings.concurrency = 3;
    fixture.settings.timeout = Duration::from_mins(1);
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    fixture.cloud.behave("do.CreateInstance=hang");
    let hung: Vec<_> = (0..10)
        .map(|number| {
            let (provider, order) = (provider.clone(), fixture.order(&format!("hung-{number}")));
            tokio::spawn(async move { provider.create(order).await.map(|_| State::Creating) })
        })
        .collect();
    let began = Instant::now();
    let exact = MachineRef { name: "m1".into(), uid: made.uid };
    assert!(matches!(provider.read(&exact).await, Sighting::Seen(_)));
    assert_eq!(provider.delete(&exact, Grace::Usual).await.unwrap(), Deletion::Accepted);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(fixture.cloud.most_at_once() <= 3);
    for task in hung {
        task.abort();
    }
    end_calls(&fixture);
}

/// Ends the calls of a provider that would take their time.
fn end_calls(fixture: &Fixture) {
    for entry in std::fs::read_dir(fixture.cloud.state().join("running")).unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().parse().ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

/// Ends what a provider left on purpose.
fn end_grandchildren(fixture: &Fixture) {
    let mark = format!("GARM_PROVIDER_CONFIG_FILE={}", fixture.cloud.config().display());
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let mine = environ.split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        let pid = entry.file_name().to_string_lossy().parse().ok();
        if let (true, Some(pid)) = (mine, pid.and_then(rustix::process::Pid::from_raw)) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
