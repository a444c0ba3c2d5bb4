//! What a new daemon finds of machines that an old one made.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ostler_actors::model::{ExitFacts, MachineName, MachinePhase, MachineView, Worker};
use ostler_actors::ports::{Grace, Inventory as _, MachineSink, Provider as _};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::fixture::{Fixture, away, named, order, over, says, seen, settings, tail, until};

/// Where the daemon that is to be killed finds its work directory.
const PLACE: &str = "OSTLER_TEST_WORK_DIR";
const SCRIPT: &str =
    "echo before; while test -d \"$PWD\" && ! test -e end; do sleep 0.02; done; echo after; exit 5";

/// Not a test: the daemon of the next one, in a process of its own.
#[tokio::test]
#[ignore = "is the daemon that another test kills"]
async fn daemon_that_is_to_be_killed() {
    let work_dir = std::env::var_os(PLACE).expect("started by the other test");
    let settings = settings(work_dir.into(), SCRIPT);
    let provider = ostler::providers::process::LocalProcess::open(settings).unwrap();
    provider.create(order("m1")).await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_machine_outlives_the_daemon_that_made_it() {
    let fixture = Fixture::running(SCRIPT);
    let mut daemon = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "wire::process::restarts::daemon_that_is_to_be_killed"])
        .env(PLACE, &fixture.settings.work_dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let home = fixture.home("m1");
    until("it runs", async || {
        fs::read_to_string(home.join("output")).ok().filter(|said| said.contains("before"))
    })
    .await;
    daemon.kill().unwrap();
    daemon.wait().unwrap();

    let provider = fixture.provider();
    let view = seen(&provider, "m1").await;
    assert_eq!(view.phase, MachinePhase::Running);
    assert_eq!(view.stamp, order("m1").stamp);
    fs::write(fixture.work("m1").join("end"), "").unwrap();
    assert_eq!(over(&provider, "m1").await.code, Some(5));
    assert_eq!(tail(&provider, "m1").await, "before\nafter");
    away(&provider, "m1").await;
}

/// Returns the numbers that a keeper wrote down.
pub(super) fn keeping(fixture: &Fixture) -> Value {
    serde_json::from_slice(&fs::read(fixture.home("m1").join("keeper.json")).unwrap()).unwrap()
}

pub(super) fn pid_of(keeping: &Value, who: &str) -> Pid {
    let number = keeping[who]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    Pid::from_raw(number.filter(|pid| *pid > 1).expect("a number")).unwrap()
}

async fn started(fixture: &Fixture) -> Value {
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    until("the runner is known", async || {
        let keeping = keeping(fixture);
        (!keeping["runner"].is_null()).then_some(keeping)
    })
    .await
}

#[tokio::test]
async fn a_machine_of_an_earlier_boot_is_lost_with_its_host() {
    let mut fixture = Fixture::running("echo before; exec sleep 600");
    let keeping = started(&fixture).await;
    says(&fixture.provider(), "m1", "before").await;
    for who in ["keeper", "runner"] {
        kill_process(pid_of(&keeping, who), Signal::KILL).unwrap();
    }
    until("all have gone", async || fixture.living().is_empty().then_some(())).await;
    let boot = fixture.place.path().join("boot_id");
    fs::write(&boot, "another boot\n").unwrap();
    fixture.settings.boot_id_file = boot;
    let provider = fixture.provider();
    let facts = over(&provider, "m1").await;
    assert_eq!(facts.machine_reason.as_deref(), Some("NodeLost"));
    assert_eq!(tail(&provider, "m1").await, "before");
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_whose_keeper_was_killed_is_in_doubt_until_it_ends() {
    let fixture = Fixture::running(
        "trap '' PIPE; (setsid sleep 61 &); while test -d \"$PWD\" && ! test -e end; do sleep 0.02; done",
    );
    let keeping = started(&fixture).await;
    let provider = fixture.provider();
    kill_process(pid_of(&keeping, "keeper"), Signal::KILL).unwrap();
    until("it is in doubt", async || {
        matches!(seen(&provider, "m1").await.phase, MachinePhase::Doubt(_)).then_some(())
    })
    .await;
    assert!(!fixture.living().is_empty(), "a look kills no process");
    fs::write(fixture.work("m1").join("end"), "").unwrap();
    until("its runner has gone", async || (fixture.living().len() == 1).then_some(())).await;
    assert!(matches!(seen(&provider, "m1").await.phase, MachinePhase::Doubt(_)), "one ran away");
    provider.delete(&named("m1"), Grace::Zero).await.unwrap();
    assert!(fixture.living().is_empty());
}

#[tokio::test]
async fn a_number_that_is_used_again_is_not_taken_for_the_keeper() {
    let fixture = Fixture::running("exec sleep 600");
    let mut known = started(&fixture).await;
    for who in ["keeper", "runner"] {
        kill_process(pid_of(&known, who), Signal::KILL).unwrap();
    }
    until("all have gone", async || fixture.living().is_empty().then_some(())).await;
    let mut stranger = Command::new("sleep").arg("62").stdin(Stdio::null()).spawn().unwrap();
    let line = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let start = line.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let provider = fixture.provider();
    // The number alone, and even the number with its true start: he keeps no machine.
    for start in [None, Some(start.parse::<u64>().unwrap())] {
        for who in ["keeper", "runner"] {
            known[who]["pid"] = stranger.id().into();
            if let Some(start) = start {
                known[who]["start"] = start.into();
            }
        }
        fs::write(fixture.home("m1").join("keeper.json"), known.to_string()).unwrap();
        let view = seen(&provider, "m1").await;
        assert_eq!(view.phase, MachinePhase::Over(ExitFacts::default()), "no report says how");
        assert_eq!(view.worker, Worker::Absent);
    }
    away(&provider, "m1").await;
    assert!(stranger.try_wait().unwrap().is_none(), "a stranger was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[tokio::test]
async fn a_machine_whose_maker_died_too_early_is_over_and_never_began() {
    let fixture = Fixture::running("exit 0");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    over(&provider, "m1").await;
    until("its keeper has gone", async || fixture.living().is_empty().then_some(())).await;
    for file in ["keeper.json", "exit.json"] {
        fs::remove_file(fixture.home("m1").join(file)).unwrap();
    }
    let facts = over(&provider, "m1").await;
    assert_eq!(facts, ExitFacts { part: Some("keeper".into()), ..ExitFacts::default() });
    away(&provider, "m1").await;
}

/// Hears nothing; the test only checks whether it is still held.
struct Deaf;

impl MachineSink for Deaf {
    fn seen(&self, _: MachineView) {}
    fn missed(&self, _: MachineName) {}
}

#[tokio::test]
async fn a_provider_that_was_replaced_is_no_longer_watched() {
    let fixture = Fixture::running("exit 0");
    let sink = Arc::new(Deaf);
    let provider = fixture.provider();
    let watching = provider.watch(Arc::clone(&sink) as _);
    assert!(Arc::strong_count(&sink) > 1, "no watcher holds it");
    drop((provider, watching));
    // Each reload would leave one more behind.
    until("the watcher is gone", async || (Arc::strong_count(&sink) == 1).then_some(())).await;
}
