//! Schemathesis reads our description and tries to find an answer that it does not describe.
//!
//! It is a program of its own (from `PyPI`), which `make schema` installs into the cache and names in
//! `OSTLER_SCHEMATHESIS`.

use std::process::Command;

use super::*;

const LEFT_OUT: &str =
    "positive_data_acceptance,negative_data_rejection,ignored_auth,missing_required_header";
/// How long it may look.
const SECONDS: &str = "60";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs schemathesis; `make schema` brings and runs it"]
async fn no_answer_is_undescribed_and_none_is_a_server_error() {
    let program = std::env::var("OSTLER_SCHEMATHESIS").expect("make schema says where it is");
    // Without tokens: a client that tries wrong ones is shut out, and would try nothing else.
    let mut stage = Stage::on_sqlite(&one_idle());
    let mut daemon = stage.lead().await;
    stage.queue(Step::Crash, 50);
    stage.until_all_jobs_are_over(&mut daemon).await;
    let address = daemon.address().expect("it listens");
    let report = Command::new(program)
        .args(["run", "--max-time", SECONDS, "--workers", "1", "--phases", "examples,coverage,fuzzing"])
        // Events never end, and a fleet that is told to go has nothing left to show.
        .args(["--exclude-path", "/api/v1/events"])
        // 4XX describes refusals; which data is refused is for the sentence to say. That nothing
        // answers without a token where one is configured is shown beside this (`access`).
        .args(["--exclude-checks", LEFT_OUT, "--request-timeout", "20"])
        // Names in paths are so free that most of what it draws falls to its own filter.
        .args(["--suppress-health-check", "filter_too_much"])
        .arg("--generation-deterministic")
        .args(["--url", &format!("http://{address}")])
        .arg(format!("http://{address}/openapi.json"))
        .current_dir(stage.path(""))
        .output()
        .expect("schemathesis runs");
    let text = String::from_utf8_lossy(&report.stdout);
    println!("{text}");
    daemon.must_live();
    assert!(report.status.success(), "{text}\n{}", String::from_utf8_lossy(&report.stderr));
    stage.leave();
}
