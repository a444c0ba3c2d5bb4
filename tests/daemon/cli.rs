//! The commands that ask a daemon, as they are typed.

#![expect(clippy::panic, reason = "helpers of tests may stop at the first surprise, as tests may")]

use std::process::{Command, Output};

use ostler::demo::agent::Step;
use serde_json::Value;

use crate::support::daemon::{Daemon, ENDLESS_JOB, Stage, pool, until};
use crate::support::port::Port;

mod actions;
mod tls;
mod top;

/// Runs a command that asks no daemon, or one that is not there.
fn ostler(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(arguments)
        .env_remove("OSTLER_TOKEN")
        .output()
        .expect("the program starts")
}

fn ask(daemon: &mut Daemon, arguments: &[&str]) -> Output {
    let server = format!("http://{}", daemon.address().expect("it listens"));
    ostler(&[arguments, &["--server", &server]].concat())
}

/// Asks a daemon, and reads what it answers.
fn said(daemon: &mut Daemon, arguments: &[&str]) -> String {
    let output = ask(daemon, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Asks a daemon as a program would.
fn json(daemon: &mut Daemon, arguments: &[&str]) -> Value {
    let text = said(daemon, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_reading_commands_show_a_fleet_at_work() {
    let mut stage = Stage::on_sqlite(&pool(0, 2));
    let mut daemon = stage.lead().await;
    let long = stage.queue_as("long build", &["self-hosted", "linux"], Step::Succeed, ENDLESS_JOB);
    stage.queue_as("bad \x1b[2Jname", &["self-hosted", "linux", "nowhere"], Step::Succeed, 500);
    stage.queue_as("dies", &["self-hosted", "linux"], Step::Abort, 300);
    stage.until_at_work(&[long]).await;
    until("the death is on record", async || said(&mut daemon, &["deaths"]).contains("aborted"))
        .await;

    until("one job runs", async || said(&mut daemon, &["status"]).contains("1 running")).await;
    let status = said(&mut daemon, &["status"]);
    assert!(status.starts_with("tested, Ostler ") && status.contains("1 running"), "{status}");
    assert!(status.contains("POOL ") && status.contains("linux"), "{status}");
    assert!(!status.contains('\x1b'), "colours in a pipe: {status:?}");
    assert_eq!(json(&mut daemon, &["pools"])["items"][0]["name"], "linux");

    let busy = json(&mut daemon, &["instances", "--state", "busy", "--pool", "linux"]);
    let name = busy["items"][0]["name"].as_str().expect("one is busy").to_owned();
    assert!(said(&mut daemon, &["instances"]).contains(&name));
    let jobs = said(&mut daemon, &["jobs"]);
    assert!(jobs.contains("long build") && jobs.contains("running"), "{jobs}");
    assert!(jobs.contains(r"bad \u{1b}[2Jname"), "a stranger's text acts: {jobs:?}");

    let why = said(&mut daemon, &["explain", "instance", &name]);
    assert!(why.starts_with(&format!("instance {name}\n- ")), "{why}");
    assert!(said(&mut daemon, &["explain", "pool", "linux"]).contains("- "));
    let url = format!("https://github.com/acme/web/actions/runs/1/job/{long}?pr=1");
    for job in [url, long.to_string(), format!("github/{long}")] {
        let why = said(&mut daemon, &["explain", "job", &job]);
        assert!(why.contains(&name), "{job}: {why}");
    }

    let dead = json(&mut daemon, &["deaths", "--verdict", "aborted"]);
    let dead = dead["items"][0]["instance"].as_str().expect("one died").to_owned();
    let life = said(&mut daemon, &["timeline", &dead]);
    for text in
        ["pending_create → creating", "How it ended", "aborted, fault: ", "No space left on device"]
    {
        assert!(life.contains(text), "no `{text}` in\n{life}");
    }
    let deaths = said(&mut daemon, &["deaths"]);
    assert!(deaths.contains("By cause\n   1 × aborted"), "{deaths}");

    let events = said(&mut daemon, &["events"]);
    assert!(
        events.contains(&format!("instance {name}  ")) && events.contains(" → busy: "),
        "{events}"
    );
    let first: Value =
        serde_json::from_str(said(&mut daemon, &["events", "--json"]).lines().next().unwrap())
            .unwrap();
    assert!(first["id"].is_i64() && first["text"].is_string(), "{first}");
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_drains_resumes_and_deletes() {
    let mut stage = Stage::on_sqlite(&pool(1, 2));
    let mut daemon = stage.lead().await;
    until("one is idle", async || {
        json(&mut daemon, &["status"])["instances"]["states"]["idle"] == 1
    })
    .await;
    let all = json(&mut daemon, &["instances"]);
    let name = all["items"][0]["name"].as_str().expect("one is there").to_owned();
    let answer = said(&mut daemon, &["instance", "delete", &name, "--why", "the test asks"]);
    assert!(answer.starts_with(&format!("{name}: ")), "{answer}");
    until("it is gone", async || {
        json(&mut daemon, &["instances"])["items"]
            .as_array()
            .is_some_and(|all| all.iter().all(|it| it["name"] != *name))
    })
    .await;
    assert_eq!(said(&mut daemon, &["pool", "drain", "linux"]), "pool linux: draining\n");
    until("no machine is left", async || stage.machines().is_empty()).await;
    assert!(said(&mut daemon, &["pools"]).contains("draining"));
    assert_eq!(said(&mut daemon, &["pool", "resume", "linux"]), "pool linux: resumed\n");
    let life = json(&mut daemon, &["timeline", &name]);
    assert_eq!(life["instance"]["removal"]["why"], "the test asks", "{life}");
    let told = said(&mut daemon, &["timeline", &name]);
    assert!(told.contains("asked to go (Delete, operator) by local: the test asks"), "{told}");
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_reported_with_a_fix_and_have_their_exit_codes() {
    let stage = Stage::on_sqlite(&pool(0, 1));
    stage.write("viewer.token", "viewer-token-of-the-tests-0123456789abc");
    let token = "[[http.token]]\nname = \"board\"\nrole = \"viewer\"\nsecret = { file = \"viewer.token\" }\n";
    stage.configure(&format!("{token}{}", pool(0, 1)));
    let mut daemon = stage.lead().await;
    let mut with = |token: Option<&str>, arguments: &[&str]| {
        let server = format!("http://{}", daemon.address().expect("it listens"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command.args(arguments).args(["--server", &server]).env_remove("OSTLER_TOKEN");
        if let Some(token) = token {
            command.env("OSTLER_TOKEN", token);
        }
        let output = command.output().expect("the program starts");
        (output.status.code(), error(&output))
    };
    let viewer = Some("viewer-token-of-the-tests-0123456789abc");
    assert_eq!(with(viewer, &["status"]).0, Some(0));
    for (token, arguments, code, words) in [
        (None, &["status"][..], 1, &["OSTLER_TOKEN", "token"][..]),
        (Some("wrong-token"), &["status"], 1, &["not known", "[[http.token]]"]),
        (viewer, &["explain", "pool", "nowhere"], 3, &["nowhere"]),
        (viewer, &["explain", "job", "https://example.com"], 3, &["no job"]),
        (viewer, &["timeline", "nothing/../x"], 3, &["nothing"]),
        (viewer, &["pool", "drain", "linux"], 1, &["refused (403)", "operator"]),
        (viewer, &["instances", "--state", "asleep"], 1, &["refused (400)"]),
        (viewer, &["instance", "delete", "x", "--force"], 2, &["--why"]),
        (viewer, &["adopt", "--why", "x"], 2, &["--foreign"]),
        (viewer, &["deaths", "--since", "yesterday"], 2, &["24h"]),
        (viewer, &["top"], 2, &["not a terminal"]),
    ] {
        let (got, told) = with(token, arguments);
        assert_eq!(got, Some(code), "{arguments:?}: {told}");
        for word in words {
            assert!(told.contains(word), "no `{word}` for {arguments:?} in {told}");
        }
        assert!(!told.contains("wrong-token") && !told.contains("viewer-token"), "{told}");
    }
}

#[test]
fn a_daemon_that_is_not_there_is_reported_with_a_fix() {
    let port = Port::choose();
    let port = port.number;
    let output = ostler(&["status", "--server", &format!("http://127.0.0.1:{port}")]);
    let told = error(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains(&format!(
            "no daemon reachable at http://127.0.0.1:{port}: Connection refused"
        )),
        "{told}"
    );
    assert!(told.contains("Is the daemon running") && told.contains("--server"), "{told}");
    let output = ostler(&["status", "--server", "ftp://example.com"]);
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
    let output = ostler(&["status", "--ca", "/nowhere/ca.pem"]);
    assert_eq!(output.status.code(), Some(2), "{}", error(&output));
    assert!(error(&output).contains("/nowhere/ca.pem"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let commands = [
        "run", "check", "status", "explain", "timeline", "top", "pool", "instance", "adopt",
        "events",
    ];
    for shell in ["bash", "zsh", "fish"] {
        let output = ostler(&["completions", shell]);
        let text = String::from_utf8(output.stdout).unwrap();
        for command in commands {
            assert!(text.contains(command), "{shell} does not complete {command}");
        }
        assert!(!text.contains("demo-runner"), "{shell} completes an inner command");
    }
    let page = String::from_utf8(ostler(&["man"]).stdout).unwrap();
    assert!(page.contains(".TH ostler 1") && page.contains("explain"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    assert!(ostler(&["man", "--to", place]).status.success());
    for name in ["ostler.1", "ostler-explain.1", "ostler-pool-drain.1"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{name}: {text}");
    }
    assert!(!folder.path().join("ostler-keeper.1").exists(), "inner commands have no page");
}
