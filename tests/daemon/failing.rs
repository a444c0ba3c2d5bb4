//! Runners that never serve, and a forge that refuses us: what that costs, and what an operator reads.

use std::process::Command;

use ostler::demo::agent::Step;
use serde_json::Value;

use crate::support::daemon::{Daemon, Stage, pool, until};

/// How many machines of the pool may start at once.
const START_PERMITS: usize = 2;

/// Returns what a command of ours prints.
fn ask(daemon: &mut Daemon, arguments: &[&str]) -> String {
    let server = format!("http://{}", daemon.address().expect("it listens"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    let output = command.args(arguments).args(["--server", &server]).output().expect("it starts");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the fleet as the API shows it.
fn fleet(daemon: &mut Daemon) -> Value {
    serde_json::from_str(&ask(daemon, &["status", "--json"])).unwrap_or_default()
}

/// Returns how many registrations were asked for.
fn registrations(stage: &Stage) -> usize {
    let calls = stage.github.calls();
    calls.iter().filter(|call| call.path.ends_with("/generate-jitconfig")).count()
}

/// Starts a daemon whose runners are this shell command.
async fn with_runners(stage: &Stage, script: &str) -> Daemon {
    let base = stage.base();
    let own = base.lines().find(|line| line.starts_with("command = ")).expect("a command");
    let command = format!("command = [\"/bin/sh\", \"-c\", {script:?}]");
    let pool = pool(2, 20) + &format!("start_permits = {START_PERMITS}\n");
    stage.write_config(&format!("{}\n{pool}", base.replace(own, &command)));
    stage.lead().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runners_that_leave_before_they_serve_are_held_back_and_status_says_why() {
    for (code, script) in [(1, "echo no such toolchain >&2; exit 1"), (0, "exit 0")] {
        let stage = Stage::on_sqlite("");
        let mut daemon = with_runners(&stage, script).await;
        let jobs: Vec<u64> = (0..10).map(|_| stage.queue(Step::Succeed, 50)).collect();
        until("the breaker is open", async || {
            daemon.must_live();
            fleet(&mut daemon)["pools"][0]["breaker_since"].is_string()
        })
        .await;
        let made = registrations(&stage);
        assert!(made <= START_PERMITS + 3, "exit {code}: {made} registrations");

        let shown = fleet(&mut daemon);
        let failing = &shown["pools"][0]["failing"];
        assert_eq!((&failing["class"], &failing["stage"]), (&"runner".into(), &"boot".into()));
        let error = failing["error"].as_str().expect("the last error");
        assert!(error.contains(&format!("exit code {code}")), "{error}");
        assert_eq!(shown["concerns"][0]["kind"], "pool", "{shown}");
        let status = ask(&mut daemon, &["status"]);
        assert!(status.contains("breaker open") && status.contains(error), "{status}");
        let explained = ask(&mut daemon, &["explain", "pool", "linux"]);
        assert!(
            explained.contains(error) && explained.contains("fault of the runner"),
            "{explained}"
        );
        let log = daemon.log();
        let warned = log.lines().find(|line| line.contains("failed without one that served"));
        let warned = warned.expect("a line in the log");
        assert!(warned.contains("WARN") && warned.contains("(runner)"), "{warned}");
        if code == 1 {
            assert!(error.contains("no such toolchain"), "in the runner's own words: {error}");
        }
        for job in jobs {
            stage.github.finish(job, "cancelled");
        }
        stage.drain(&mut daemon).await;
        stage.check_logs(&[]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forge_that_refuses_the_credential_is_shown_as_that() {
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    stage.write("token", "ghp_that_was_revoked");
    let mut daemon = stage.lead().await;
    stage.queue(Step::Succeed, 50);
    until("the refusal is shown", async || {
        daemon.must_live();
        let shown = fleet(&mut daemon);
        shown["concerns"][0]["kind"] == "credential"
            && shown["pools"][0]["failing"]["class"] == "credential"
    })
    .await;
    let status = ask(&mut daemon, &["status"]);
    assert!(status.contains("forge github refuses token 1") && status.contains("401"), "{status}");
    assert!(!status.contains("quota"), "{status}");
    let explained = ask(&mut daemon, &["explain", "pool", "linux"]);
    assert!(explained.contains("Renew the forge's credential"), "{explained}");
    stage.leave();
}
