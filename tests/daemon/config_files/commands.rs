//! `ostler check` and `ostler plan` as they are typed.

use std::process::{Command, Output};

fn ostler(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(arguments)
        .output()
        .expect("ostler can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("ostler writes text")
}

#[test]
fn check_ends_with_0_on_a_good_file_and_with_2_on_a_bad_one() {
    let good = ostler(&["check", "--text-only", "--config", "config/example.toml"]);
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    let example = std::fs::read_to_string("config/example.toml").expect("the example is there");
    let is_provider =
        |line: &&str| line.starts_with("[provider.") && line.matches('.').count() == 1;
    let providers = example.lines().filter(is_provider).count();
    assert_eq!(text(&good.stdout), format!("ok: pools 1, forges 1, providers {providers}\n"));

    let bad = ostler(&[
        "check",
        "--text-only",
        "--config",
        "tests/daemon/broken/20_min_idle_above_max.toml",
    ]);
    assert_eq!(bad.status.code(), Some(2));
    let printed = text(&bad.stderr);
    assert!(printed.contains("20_min_idle_above_max.toml:17:12"), "{printed}");
    assert!(printed.ends_with("\n1 error\n"), "{printed}");

    let nowhere = ostler(&["check", "--config", "no/such/place"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("cannot read `no/such/place`"));
}

#[test]
fn check_reports_in_json_for_programs() {
    let bad = ostler(&[
        "check",
        "--json",
        "--text-only",
        "--config",
        "tests/daemon/broken/20_min_idle_above_max.toml",
    ]);
    assert_eq!(bad.status.code(), Some(2));
    let problems: serde_json::Value = serde_json::from_slice(&bad.stdout).expect("JSON");
    assert_eq!(problems[0]["key"], "pool.linux.min_idle");
    assert_eq!(problems[0]["severity"], "error");
    assert_eq!(problems[0]["line"], 17);

    let schema = ostler(&["check", "--schema"]);
    assert_eq!(schema.status.code(), Some(0));
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    assert_eq!(schema, ostler::config::schema());
}

#[test]
fn the_example_is_what_check_prints() {
    let printed = ostler(&["check", "--example"]);
    assert_eq!(printed.status.code(), Some(0));
    let kept = std::fs::read_to_string("config/example.toml").expect("the example is there");
    assert!(
        text(&printed.stdout) == kept,
        "config/example.toml differs from the declarations in src/config; write it anew with \
         `cargo run -- check --example > config/example.toml`"
    );
}

#[test]
fn plan_compares_two_files_and_fails_on_what_a_reload_would_refuse() {
    let same =
        ostler(&["plan", "--config", "config/process.toml", "--against", "config/process.toml"]);
    assert_eq!((same.status.code(), text(&same.stdout).as_str()), (Some(0), "nothing changes\n"));

    let first = ostler(&["plan", "--config", "config/process.toml"]);
    assert_eq!(first.status.code(), Some(0));
    assert!(
        text(&first.stdout).starts_with("+ pool linux: new; keeps 1 idle, at most 4 machines\n")
    );

    let refused =
        ostler(&["plan", "--config", "config/external.toml", "--against", "config/process.toml"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stdout).contains("! provider local: refused"));

    let broken = ostler(&["plan", "--config", "tests/daemon/broken/20_min_idle_above_max.toml"]);
    assert_eq!(broken.status.code(), Some(2));
}

#[test]
fn a_draft_in_another_folder_is_read_as_if_it_were_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let draft = folder.path().join("draft.toml");
    std::fs::copy("config/minimal.toml", &draft).unwrap();
    let draft = draft.to_str().unwrap();
    let same = ostler(&["plan", "--config", draft, "--against", "config/minimal.toml"]);
    assert_eq!(text(&same.stdout), "nothing changes\n");
}
