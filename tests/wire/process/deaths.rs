//! Every way a runner ends is told apart.

use ostler::providers::process::Limits;
use ostler_actors::model::{ExitFacts, MachinePhase, Worker};
use ostler_actors::ports::Provider as _;

use super::fixture::{Fixture, away, order, over, seen, tail};

/// Runs a line of shell to its end and returns how it ended.
async fn death_of(script: &str) -> (ExitFacts, String) {
    let fixture = Fixture::running(script);
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    let facts = over(&provider, "m1").await;
    assert_eq!(seen(&provider, "m1").await.worker, Worker::Absent);
    let said = tail(&provider, "m1").await;
    away(&provider, "m1").await;
    (facts, said)
}

#[tokio::test]
async fn exits_and_signals_are_distinguished() {
    for (script, code, signal) in [
        ("echo fine; exit 0", 0, None),
        ("echo outdated >&2; exit 7", 7, None),
        ("kill -KILL $$", 137, Some(9)),
        ("kill -TERM $$", 143, Some(15)),
        ("kill -ABRT $$", 134, Some(6)),
        ("kill -SEGV $$", 139, Some(11)),
        ("exit 137", 137, None),
    ] {
        let (facts, _) = death_of(script).await;
        assert_eq!((facts.code, facts.signal), (Some(code), signal), "{script}");
        assert_eq!(facts.part, None, "{script}");
        assert!(facts.ended_at.is_some(), "{script}");
        assert_ne!(facts.reason.as_deref(), Some("OOMKilled"), "{script}");
    }
}

#[tokio::test]
async fn both_outputs_are_in_the_log_to_the_last_line() {
    let (_, said) = death_of("echo first; echo second >&2; printf last; exit 1").await;
    assert_eq!(said, "first\nsecond\nlast");
}

#[tokio::test]
async fn a_command_that_is_not_there_says_so() {
    let mut fixture = Fixture::running("");
    fixture.settings.command = vec!["./run.sh".into()];
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    let facts = over(&provider, "m1").await;
    assert_eq!((facts.code, facts.part), (Some(127), None));
    assert!(tail(&provider, "m1").await.contains("cannot run `./run.sh`"));
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_whose_files_cannot_be_had_never_began() {
    let mut fixture = Fixture::running("exit 0");
    let source = fixture.place.path().join("runner");
    std::fs::create_dir(&source).unwrap();
    fixture.settings.runner_dir = Some(source.clone());
    let provider = fixture.provider();
    std::fs::remove_dir(source).unwrap();
    provider.create(order("m1")).await.unwrap();
    let facts = over(&provider, "m1").await;
    assert_eq!((facts.code, facts.part.as_deref()), (None, Some("keeper")));
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_death_for_memory_is_distinguished_from_other_kills() {
    let mut fixture = Fixture::running("echo hungry; exec tail /dev/zero");
    fixture.settings.limits = Limits { memory: Some(32 << 20), pids: Some(64) };
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    let plan = std::fs::read_to_string(fixture.home("m1").join("plan.json")).unwrap();
    if !plan.contains("\"cgroup\": true") {
        crate::support::skip::say(
            "no cgroup can be made here, so deaths for memory are not counted",
        );
        away(&provider, "m1").await;
        return;
    }
    let facts = over(&provider, "m1").await;
    assert_eq!(facts.reason.as_deref(), Some("OOMKilled"), "{facts:?}");
    assert_eq!(facts.signal, Some(9), "{facts:?}");
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_flood_of_output_stays_within_its_bounds() {
    let fixture =
        Fixture::running("yes 'a line of no importance' | head -c 50000000; echo the end");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    let facts = over(&provider, "m1").await;
    assert_eq!(facts.code, Some(0));
    let said = tail(&provider, "m1").await;
    assert!(said.ends_with("the end"), "{}", &said[said.len().saturating_sub(80)..]);
    let kept: u64 = ["output", "output.old"]
        .iter()
        .map(|file| std::fs::metadata(fixture.home("m1").join(file)).unwrap().len())
        .sum();
    assert!(kept <= 2 * 64 * 1024, "{kept} bytes are kept");
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_that_hangs_runs_on() {
    let fixture = Fixture::running("echo here; exec sleep 600");
    let provider = fixture.provider();
    provider.create(order("m1")).await.unwrap();
    super::fixture::says(&provider, "m1", "here").await;
    let view = seen(&provider, "m1").await;
    assert_eq!((view.phase, view.ready), (MachinePhase::Running, false));
    away(&provider, "m1").await;
}
