//! `ostler import garm`: a database or an API of GARM becomes a configuration that loads.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ostler::config::{Auth, Config, Outside, ProviderSettings, load};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::TempDir;

/// The tables of a GARM, as far as they matter, with two entities, three pools and a scale set.
const DATABASE: &str = "
create table github_endpoints (name text, deleted_at datetime, endpoint_type text, api_base_url text, base_url text, ca_cert_bundle blob);
create table github_credentials (id integer primary key, deleted_at datetime, name text, auth_type text, payload blob, endpoint_name text);
create table organizations (id text, deleted_at datetime, credentials_id integer, name text, webhook_secret blob, pool_balancer_type text, endpoint_name text);
create table repositories (id text, deleted_at datetime, credentials_id integer, owner text, name text, webhook_secret blob, endpoint_name text);
create table tags (id text, deleted_at datetime, name text);
create table pool_tags (pool_id text, tag_id text);
create table pools (id text, deleted_at datetime, provider_name text, runner_prefix text, max_runners integer, min_idle_runners integer,
  runner_bootstrap_timeout integer, image text, flavor text, os_type text, os_arch text, enabled numeric, extra_specs json,
  git_hub_runner_group text, repo_id text, org_id text, enterprise_id text, priority integer, template_id integer);
create table scale_sets (id integer, deleted_at datetime, name text);
create table controller_infos (id text, deleted_at datetime, controller_id text, callback_url text);
insert into github_endpoints values ('github.com', null, 'github', 'https://api.github.com', 'https://github.com', null);
insert into github_endpoints values ('ghes', null, 'github', 'https://git.acme.com/api/v3', 'https://git.acme.com', null);
insert into github_credentials values (1, null, 'acme app', 'app', x'00ff', 'github.com');
insert into github_credentials values (2, null, 'pat', 'pat', x'00ff', 'ghes');
insert into organizations values ('o1', null, 1, 'acme', x'00ff', 'pack', 'github.com');
insert into repositories values ('r1', null, 2, 'acme', 'web', x'00ff', 'ghes');
insert into tags values ('t1', null, 'self-hosted'), ('t2', null, 'gpu'), ('t3', null, 'linux');
insert into pool_tags values ('p1', 't1'), ('p1', 't3'), ('p2', 't1'), ('p2', 't2'), ('p3', 't1');
insert into pools values ('p1', null, 'aws', 'ci', 20, 2, 15, 'ami-1', 'm7i.large', 'linux', 'amd64', 1, '{\"disk\":{\"size\":50},\"subnet\":null}', 'Big', null, 'o1', null, 7, null);
insert into pools values ('p2', null, 'aws', 'gpu', 4, 9, 20, 'ami-2', 'g5', 'windows', 'arm64', 0, null, null, 'r1', null, null, 0, 3);
insert into pools values ('p3', null, 'lxd', 'ci', 3, 0, 10, 'ubuntu', 'default', 'linux', 'i386', 1, 'null', null, null, 'o1', null, 0, null);
insert into pools values ('p4', '2026-01-01', 'gone', 'ci', 3, 0, 10, 'x', 'x', 'linux', 'amd64', 1, null, null, null, 'o1', null, 0, null);
insert into scale_sets values (1, null, 'arc-like');
insert into controller_infos values ('c', null, '9f1b', 'https://garm.acme.com:9997/api/v1/callbacks');
";

const GARM_CONFIG: &str = r#"
[[provider]]
name = "aws"
provider_type = "external"
  [provider.external]
  provider_executable = "/opt/garm/garm-provider-aws"
  config_file = "/etc/garm/aws.toml"
  environment_variables = ["AWS_"]
  interface_version = "v0.1.1"
"#;

async fn database(folder: &Path) -> PathBuf {
    let path = folder.join("garm.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut link = options.connect().await.expect("a database");
    sqlx::raw_sql(AssertSqlSafe(DATABASE)).execute(&mut link).await.expect("tables");
    link.close().await.expect("an end");
    path
}

fn import(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(["import", "garm"])
        .args(arguments)
        .output()
        .expect("the program runs")
}

/// Loads what was written, as `ostler check` would away from the machine.
fn loaded(folder: &TempDir, toml: &[u8]) -> Config {
    let path = folder.path().join("ostler.toml");
    std::fs::write(&path, toml).expect("our folder");
    let loaded = load(&path, &Outside::text_only());
    let text = String::from_utf8_lossy(toml);
    let problems = loaded.as_ref().err().map(ToString::to_string);
    assert_eq!(problems, None, "{text}");
    loaded.expect("it is").config
}

#[tokio::test]
async fn a_database_becomes_a_configuration_that_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = database(folder.path()).await;
    let garm = folder.path().join("config.toml");
    std::fs::write(&garm, GARM_CONFIG).expect("our folder");
    let (db, garm) = (db.display().to_string(), garm.display().to_string());
    let output = import(&["--db", &db, "--garm-config", &garm]);
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{remarks}");
    let config = loaded(&folder, &output.stdout);

    assert_eq!(config.http.public_url.as_deref(), Some("https://garm.acme.com:9997"));
    assert_eq!(config.forges["ghes"].api_url, "https://git.acme.com/api/v3");
    let app = &config.forges["github"].credentials[0];
    assert!(matches!(app.auth, Auth::App { .. }) && app.scopes.len() == 1, "{app:?}");
    let ProviderSettings::External(aws) = &config.providers["aws"] else { panic!("no provider") };
    assert_eq!(aws.executable, PathBuf::from("/opt/garm/garm-provider-aws"));
    assert_eq!(
        (aws.interface.as_str(), aws.pass_env.as_slice()),
        ("v0.1.1", &["AWS_".to_owned()][..])
    );

    let pools: BTreeMap<&str, _> = config.pools.iter().map(|it| (it.name.as_str(), it)).collect();
    assert_eq!(pools.keys().copied().collect::<Vec<_>>(), ["acme", "acme-ci", "acme-web"]);
    let first = pools["acme"];
    assert_eq!((first.max, first.min_idle), (20, 2));
    assert_eq!(first.labels, ["linux", "self-hosted"]);
    assert_eq!((first.image.as_str(), first.flavor.as_str()), ("ami-1", "m7i.large"));
    assert_eq!((first.runner_group.as_str(), first.arch.as_str()), ("Big", "x64"));
    assert_eq!(first.policy.boot_timeout.as_secs(), 15 * 60);
    assert_eq!(first.extra_specs, Some(json!({ "disk": { "size": 50 } })));
    let off = pools["acme-web"];
    assert_eq!((off.max, off.min_idle, off.os.as_str()), (0, 0, "windows"));

    for told in [
        "pool `acme-web` is disabled in GARM and has max = 0 here (was 4)",
        "scale set `arc-like`",
        "provider `lxd`: set executable",
        "set PAT_TOKEN",
        "no runners for `i386`",
        "priorities are no more",
        "a template of its own",
        "balancing `pack`",
    ] {
        assert!(remarks.contains(told), "{told}: {remarks}");
    }
    assert!(!remarks.contains("gone"), "what GARM deleted is gone: {remarks}");
}

#[tokio::test]
async fn nothing_is_overwritten_and_other_databases_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = database(folder.path()).await.display().to_string();
    let to = folder.path().join("new.toml").display().to_string();
    assert!(import(&["--db", &db, "--to", &to]).status.success());
    let again = import(&["--db", &db, "--to", &to]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("cannot write"));
    for wrong in [to.as_str(), "/nowhere/garm.db"] {
        let refused = import(&["--db", wrong]);
        assert_eq!(refused.status.code(), Some(1));
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("as GARM's SQLite database"), "{told}");
    }
    assert_eq!(import(&[]).status.code(), Some(2));
}

/// Answers like a GARM that runs: lists as JSON, to every client with the token.
fn serve(lists: BTreeMap<&'static str, Value>) -> String {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("a port");
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|it| it == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).to_lowercase();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let body = lists.get(path.trim_start_matches("/api/v1/")).map(Value::to_string);
            let (status, body) = match body {
                _ if !head.contains("authorization: bearer a-token") => (401, "{}".to_owned()),
                Some(body) => (200, body),
                None => (404, "{}".to_owned()),
            };
            let answer = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    format!("http://{address}")
}

#[test]
fn a_garm_that_runs_is_read_through_its_api() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = serve(BTreeMap::from([
        (
            "github/endpoints",
            json!([{ "name": "github.com", "api_base_url": "https://api.github.com/" }]),
        ),
        (
            "github/credentials",
            json!([{ "id": 1, "name": "main", "auth-type": "pat", "endpoint": { "name": "github.com" } }]),
        ),
        (
            "organizations",
            json!([{ "id": "o1", "name": "acme", "credentials_name": "main", "endpoint": { "name": "github.com" } }]),
        ),
        (
            "pools",
            json!([{ "id": "p1", "org_id": "o1", "provider_name": "lxd", "runner_prefix": "ci", "max_runners": 5,
            "min_idle_runners": 1, "image": "ubuntu", "flavor": "small", "os_type": "linux", "os_arch": "arm64",
            "enabled": true, "tags": [{ "name": "self-hosted" }], "github-runner-group": "Big", "extra_specs": {} }]),
        ),
        ("controller-info", json!({ "callback_url": "https://garm.acme.com/api/v1/callbacks" })),
    ]));
    let token = folder.path().join("token");
    std::fs::write(&token, "a-token\n").expect("our folder");
    let output = import(&["--url", &url, "--token-file", &token.display().to_string()]);
    let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{remarks}");
    let config = loaded(&folder, &output.stdout);
    assert_eq!(config.pools.len(), 1);
    assert_eq!((config.pools[0].max, config.pools[0].arch.as_str()), (5, "arm64"));
    assert_eq!(config.pools[0].labels, ["self-hosted"]);
    assert_eq!(config.pools[0].runner_group, "Big");

    std::fs::write(&token, "another").expect("our folder");
    let refused = import(&["--url", &url, "--token-file", &token.display().to_string()]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(told.contains("does not know this token") && !told.contains("another"), "{told}");
}
