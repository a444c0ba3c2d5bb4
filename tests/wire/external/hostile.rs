//! Providers that break the contract: none of them hangs, floods, leaks or fools its caller.

use std::time::Duration;

use ostler_actors::model::{MachinePhase, Observation, Sighting, State};
use ostler_actors::ports::{
    CreateError, Deletion, Grace, Inventory as _, MachineRef, Provider as _, ProviderError,
};

use super::fixture::{Fixture, named};
use crate::support::HANG_LIMIT;
use crate::support::daemon::until;
use crate::support::external::{compiled, write_program};

/// The deadline of calls that must exceed it: long enough for a provider on a busy machine to reach the
/// point where it hangs.
const DEADLINE: Duration = Duration::from_secs(10);

/// Returns a provider with this behaviour and no deadline that a test could reach.
fn hostile(lines: &str) -> Fixture {
    let mut fixture = Fixture::on(&compiled());
    fixture.settings.timeout = 6 * HANG_LIMIT;
    fixture.cloud.behave(lines);
    fixture
}

/// Returns a provider with this behaviour that is killed after [`DEADLINE`].
fn hanging(lines: &str) -> Fixture {
    let mut fixture = hostile(lines);
    fixture.settings.timeout = DEADLINE;
    fixture
}

/// Makes a machine with a provider that does so, and returns why that is not answered.
async fn unanswered(fixture: &Fixture) -> String {
    match not_made(fixture).await {
        CreateError::Unanswered { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// Makes a machine with a provider that does so, and returns why there is none.
async fn not_made(fixture: &Fixture) -> CreateError {
    let provider = fixture.open();
    let asked = tokio::time::timeout(HANG_LIMIT, provider.create(fixture.order("m1"))).await;
    asked.expect("it holds up its caller").expect_err("it was made")
}

/// Waits until no process with this environment lives.
async fn until_none_is_left(fixture: &Fixture) {
    let mark = format!("GARM_PROVIDER_CONFIG_FILE={}", fixture.cloud.config().display());
    let mine = |pid: &String| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())
    };
    until("no process of the provider is left", async || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        !all.map(|entry| entry.file_name().to_string_lossy().into_owned()).any(|pid| mine(&pid))
    })
    .await;
}

#[tokio::test]
async fn a_create_that_hangs_is_killed_and_proves_nothing() {
    let fixture = hanging("do.CreateInstance=hang");
    let why = unanswered(&fixture).await;
    assert!(
        why.contains("CreateInstance did not end in ") && why.contains(" and was killed"),
        "{why}"
    );
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_machine_whose_create_hung_after_making_it_is_adopted_by_name() {
    let fixture = hanging("do.CreateInstance=hang_after");
    let view = fixture.open().create(fixture.order("m1")).await.unwrap();
    assert_eq!(fixture.cloud.machines().keys().next(), view.uid.as_ref());
    assert_eq!(view.stamp.instance, Some("m1".into()));
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_machine_that_comes_after_the_deadline_is_found_later() {
    // It ends by itself, in time, were it not killed; what it made stays made.
    let fixture =
        hanging("do.CreateInstance=hang_after\ndo.GetInstance=hang\ndo.ListInstances=hang");
    let why = unanswered(&fixture).await;
    assert!(why.contains("CreateInstance did not end"), "{why}");
    fixture.cloud.behave("");
    assert!(matches!(fixture.open().read(&named("m1")).await, Sighting::Seen(_)));
}

#[tokio::test]
async fn a_grandchild_that_holds_the_output_holds_up_no_call() {
    let fixture = hostile("do.CreateInstance=grandchild");
    let provider = fixture.open();
    // The grandchild sleeps for 600 s, and the deadline is later still.
    let asked = tokio::time::timeout(HANG_LIMIT / 2, provider.create(fixture.order("m1"))).await;
    let view = asked.expect("waits for a grandchild").unwrap();
    assert_eq!(view.phase, MachinePhase::Running);
    end_grandchildren(&fixture);
}

#[tokio::test]
async fn past_the_deadline_grandchildren_go_with_the_group() {
    // A shell that hangs with a child of its own.
    let mut fixture = hanging("");
    let script = fixture.cloud.state().join("hangs.sh");
    write_program(&script, "#!/bin/sh\n/bin/sleep 600 &\nwait\n");
    fixture.settings.executable = script;
    let why = unanswered(&fixture).await;
    assert!(why.contains("was killed"), "{why}");
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_provider_that_does_not_hear_of_its_end_is_killed_all_the_same() {
    let mut fixture = hanging("");
    let script = fixture.cloud.state().join("deaf.sh");
    write_program(&script, "#!/bin/sh\ntrap '' TERM\nwhile :; do /bin/sleep 600; done\n");
    fixture.settings.executable = script;
    unanswered(&fixture).await;
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_flood_is_cut_off() {
    let fixture = hostile("do.CreateInstance=flood\ndo.ListInstances=flood");
    let why = unanswered(&fixture).await;
    assert!(why.contains("said more than"), "{why}");
    let Observation::Unusable(why) = fixture.open().list().await else { panic!("listed") };
    assert!(why.contains("said more than"), "{why}");
    until_none_is_left(&fixture).await;
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
async fn a_failed_create_shows_the_providers_message_and_vouches_for_nothing() {
    for (step, told) in [
        ("exit:1", "exit code 1: the cloud said no, \\u{1b}[31mloudly"),
        ("exit:255", "exit code 255"),
        ("exit:30", "exit code 30"),
        ("exit_after:1", "it was made and then I stumbled"),
        ("abort", "signal 6"),
    ] {
        let fixture = hostile(&format!("do.CreateInstance={step}"));
        // It refused by itself, unless a signal ended it; either way something may have been made.
        let error = not_made(&fixture).await;
        let by_itself = step != "abort";
        assert_eq!(matches!(error, CreateError::Failed { .. }), by_itself, "{step}: {error:?}");
        assert!(error.to_string().contains(told), "{step}: {error}");
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
    write_program(&gone.settings.executable, "no program");
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
    let seen = provider.read(&named("unknown")).await;
    assert!(matches!(seen, Sighting::Unknown(_)), "an element without a name may be it: {seen:?}");
}

#[tokio::test]
async fn a_failed_look_is_no_absence() {
    let mut fixture = hostile("");
    let patient = fixture.open();
    patient.create(fixture.order("m1")).await.unwrap();
    fixture.settings.timeout = DEADLINE;
    let strict = fixture.open();
    // For calls whose every outcome, late or not, must be `Unknown`.
    fixture.settings.timeout = Duration::from_millis(500);
    let hasty = fixture.open();
    for get in ["exit:1", "hang", "abort", "garbage", "flood", "partial", "silent"] {
        fixture.cloud.behave(&format!("do.GetInstance={get}"));
        let provider = if get == "hang" { &strict } else { &patient };
        let seen = provider.read(&named("m1")).await;
        assert!(matches!(seen, Sighting::Seen(_)), "a listing names it, {get}: {seen:?}");
        for list in ["exit:1", "hang", "abort", "garbage", "silent", "partial"] {
            fixture.cloud.behave(&format!("do.GetInstance={get}\ndo.ListInstances={list}"));
            let provider = if [get, list].contains(&"hang") { &hasty } else { &patient };
            let seen = provider.read(&named("m1")).await;
            assert!(matches!(seen, Sighting::Unknown(_)), "{get}, {list}: {seen:?}");
        }
    }
    for list in ["exit:1", "garbage", "silent", "partial"] {
        fixture.cloud.behave(&format!("do.ListInstances={list}"));
        assert!(matches!(patient.list().await, Observation::Unusable(_)), "{list}");
    }
}

#[tokio::test]
async fn a_refused_delete_is_looked_into_before_it_is_a_failure() {
    let mut fixture = hostile("");
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    let exact = MachineRef { name: "m1".into(), uid: made.uid };
    fixture.cloud.behave("do.DeleteInstance=exit:1");
    let Err(ProviderError::Later { why, .. }) = provider.delete(&exact, Grace::Usual).await else {
        panic!("it is still there")
    };
    assert!(why.contains("the cloud said no"), "{why}");
    fixture.cloud.set_status("m1", "deleting");
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
    fixture.settings.timeout = DEADLINE;
    let answer = fixture.open().delete(&exact, Grace::Usual).await;
    assert!(matches!(answer, Err(ProviderError::Later { .. })), "{answer:?}");
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_create_whose_caller_left_is_finished_and_a_look_is_not() {
    let fixture = hostile("before.CreateInstance=300\ndo.GetInstance=hang");
    let provider = fixture.open();
    let create = provider.create(fixture.order("m1"));
    assert!(tokio::time::timeout(Duration::from_millis(100), create).await.is_err());
    let whom = named("m1");
    let read = provider.read(&whom);
    assert!(tokio::time::timeout(Duration::from_millis(300), read).await.is_err());
    until("the create is finished", async || !fixture.cloud.machines().is_empty()).await;
    until_none_is_left(&fixture).await;
}

#[tokio::test]
async fn a_stuck_create_does_not_keep_reads_and_deletes_waiting() {
    let mut fixture = hostile("");
    fixture.settings.concurrency = 3;
    let provider = fixture.open();
    let made = provider.create(fixture.order("m1")).await.unwrap();
    fixture.cloud.behave("do.CreateInstance=hang");
    let hung: Vec<_> = (0..10)
        .map(|number| {
            let (provider, order) = (provider.clone(), fixture.order(&format!("hung-{number}")));
            tokio::spawn(async move { provider.create(order).await.map(|_| State::Creating) })
        })
        .collect();
    // The deadline of the stuck creates is later than HANG_LIMIT.
    let exact = MachineRef { name: "m1".into(), uid: made.uid };
    let look = tokio::time::timeout(HANG_LIMIT, provider.read(&exact)).await;
    assert!(matches!(look, Ok(Sighting::Seen(_))), "{look:?}");
    let delete = tokio::time::timeout(HANG_LIMIT, provider.delete(&exact, Grace::Usual)).await;
    assert_eq!(delete.expect("a delete waits for creates").unwrap(), Deletion::Accepted);
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
