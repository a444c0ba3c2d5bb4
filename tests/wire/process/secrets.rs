//! The JIT config is in files that only the runner reads, and nowhere else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ostler_actors::ports::{CreateError, CreateOrder, Jit, Provider as _};

use super::fixture::{Fixture, away, order, over, says, tail};

const KEY: &str = "k3y-material-4711";

fn jit() -> Jit {
    let files: BTreeMap<&str, String> = [
        (".runner", "{\"agentName\":\"m1\"}"),
        (".credentials", "{\"scheme\":\"OAuth\"}"),
        (".credentials_rsaparams", KEY),
    ]
    .into_iter()
    .map(|(name, text)| (name, STANDARD.encode(text)))
    .collect();
    Jit::new(STANDARD.encode(serde_json::to_vec(&files).unwrap()))
}

/// Searches arguments and environments of all processes.
fn anywhere(secrets: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        for file in ["cmdline", "environ"] {
            let path = entry.path().join(file);
            let raw = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&raw);
            if secrets.iter().any(|secret| text.contains(secret)) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[tokio::test]
async fn a_jit_config_is_in_files_of_the_runner_and_in_no_process() {
    let fixture = Fixture::running("cat .credentials_rsaparams > got; echo up; exec sleep 600");
    let provider = fixture.provider();
    let secrets = [KEY.to_owned(), STANDARD.encode(KEY), jit().reveal().chars().take(40).collect()];
    provider.create(CreateOrder { jit: Some(jit()), ..order("m1") }).await.unwrap();
    says(&provider, "m1", "up").await;
    assert_eq!(fs::read_to_string(fixture.work("m1").join("got")).unwrap(), KEY);
    for name in [".runner", ".credentials", ".credentials_rsaparams"] {
        let mode = fs::metadata(fixture.work("m1").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let mode = fs::metadata(fixture.home("m1")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(anywhere(&secrets), [""; 0]);
    for file in ["plan.json", "stamp.json", "keeper.json"] {
        let text = fs::read_to_string(fixture.home("m1").join(file)).unwrap();
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{file}");
    }
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_custom_command_gets_the_path_of_its_jit_config() {
    let mut fixture = Fixture::running("");
    let script = "cp \"$0\" got; stat -c %a \"$0\"; exit 0";
    fixture.settings.command = ["sh", "-c", script, "{jit_file}"].map(String::from).to_vec();
    let provider = fixture.provider();
    let refused = provider.create(order("m0")).await;
    assert!(matches!(refused, Err(CreateError::Refused { .. })), "{refused:?}");
    let raw = "not base64 at all";
    provider.create(CreateOrder { jit: Some(Jit::new(raw)), ..order("m1") }).await.unwrap();
    over(&provider, "m1").await;
    assert_eq!(tail(&provider, "m1").await, "600");
    assert_eq!(fs::read_to_string(fixture.work("m1").join("got")).unwrap(), raw);
    assert!(!fixture.work("m1").join(".jitconfig").exists(), "wiped with the runner's end");
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_sees_no_variable_that_was_not_meant_for_it() {
    let mut fixture = Fixture::running("umask >&2; env; exit 0");
    fixture.settings.env.insert("OF_PROVIDER".into(), "one".into());
    let provider = fixture.provider();
    let mut order = order("m1");
    order.machine.extra = serde_json::json!({ "env": { "OF_POOL": "two" } });
    provider.create(order).await.unwrap();
    over(&provider, "m1").await;
    let said = tail(&provider, "m1").await;
    assert!(said.contains("0022"), "a job's files are as usual: {said}");
    let mut names: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split('=').next())
        .filter(|it| !matches!(*it, "_" | "0022"))
        .collect();
    names.sort_unstable();
    let ours = ["ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE", "HOME", "OF_POOL"];
    let more = ["OF_PROVIDER", "OSTLER_MACHINE", "PATH", "PWD", "RUNNER_MANUALLY_TRAP_SIG"];
    assert_eq!(names, [&ours[..], &more[..]].concat());
    away(&provider, "m1").await;
}

#[tokio::test]
async fn a_runner_of_another_user_reads_its_own_files_and_none_of_the_keepers() {
    if !rustix::process::geteuid().is_root() {
        crate::support::skip::say("only root can start runners as another user");
        return;
    }
    let mut fixture =
        Fixture::running("id -u; id -G; nice; cat .runner; echo; cat ../plan.json || echo closed");
    fs::set_permissions(fixture.place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let source = fixture.place.path().join("runner");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("tool"), "shared").unwrap();
    fixture.settings.runner_dir = Some(source.clone());
    fixture.settings.user = Some("65534:65534".into());
    fixture.settings.nice = 5;
    let provider = fixture.provider();
    provider.create(CreateOrder { jit: Some(jit()), ..order("m1") }).await.unwrap();
    assert_eq!(over(&provider, "m1").await.code, Some(0));
    let said = tail(&provider, "m1").await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..4], ["65534", "65534", "5", "{\"agentName\":\"m1\"}"], "{said}");
    assert_eq!(lines.last(), Some(&"closed"), "{said}");
    let linked = |path: &std::path::Path| {
        std::os::unix::fs::MetadataExt::nlink(&fs::metadata(path).unwrap())
    };
    assert_eq!(linked(&source.join("tool")), 2, "linked: this user cannot change it");
    away(&provider, "m1").await;
    assert_eq!(fs::read_to_string(source.join("tool")).unwrap(), "shared");
}

#[tokio::test]
async fn each_machine_has_its_own_copy_of_the_runner() {
    let mut fixture = Fixture::running("");
    let source = fixture.place.path().join("runner");
    fs::create_dir_all(source.join("bin")).unwrap();
    fs::write(source.join("bin/data"), "original").unwrap();
    fs::write(source.join("run.sh"), "#!/bin/sh\necho changed > bin/data\necho \"in $PWD\"\n")
        .unwrap();
    fs::set_permissions(source.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fixture.settings.runner_dir = Some(source.clone());
    fixture.settings.command = vec!["./run.sh".into()];
    let provider = fixture.provider();
    provider.create(CreateOrder { jit: Some(jit()), ..order("m1") }).await.unwrap();
    assert_eq!(over(&provider, "m1").await.code, Some(0));
    assert!(tail(&provider, "m1").await.ends_with("/m1/work"));
    assert_eq!(fs::read_to_string(source.join("bin/data")).unwrap(), "original");
    assert!(!source.join(".runner").exists());
    away(&provider, "m1").await;
}
