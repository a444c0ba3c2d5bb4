//! A secret is named in the files and appears nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ostler::config::{Loaded, Outside, load};

use super::load_text;

/// Stands for every secret of this test; must never be seen.
const CANARY: &str = "canary-5up3r-s3cr3t";

/// Writes a whole configuration whose secrets are all canaries, and loads it.
fn with_canaries() -> (tempfile::TempDir, Loaded) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("the file can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode can be set");
    };
    write(
        "app.pem",
        &format!("-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----\n"),
        0o600,
    );
    write("open.token", &format!("{CANARY}\n"), 0o644);
    write("tls.crt", "-----BEGIN CERTIFICATE-----\n", 0o644);
    write("ostler.toml", include_str!("canaries.toml"), 0o644);
    let variable = |name: &str| match name {
        "STORE" => Some(format!("postgres://ostler:{CANARY}@db/ostler")),
        "SEAL" => Some("c2VhbC1rZXktb2YtdGhpcnR5LXR3by1ieXRlcyEhISE=".into()),
        _ => Some(format!("{CANARY}-{name}")),
    };
    let loaded = load(&folder.path().join("ostler.toml"), &Outside::with_variables(&variable));
    let loaded = loaded.map_err(|problems| problems.to_string()).expect("it is right");
    (folder, loaded)
}

#[test]
fn secrets_are_loaded_and_appear_in_nothing_that_is_shown() {
    let (_folder, loaded) = with_canaries();
    let config = &loaded.config;
    assert_eq!(config.http.tokens[0].secret.expose(), format!("{CANARY}-OPS"));
    assert!(config.store.url.is_postgres());
    assert_eq!(config.store.sealing_key(), Some(*b"seal-key-of-thirty-two-bytes!!!!"));
    assert_eq!(config.forges["ghes"].webhook_secrets.len(), 2);
    for shown in [
        format!("{config:?}"),
        format!("{config:#?}"),
        format!("{loaded:?}"),
        config.redacted().to_string(),
        loaded.warnings.to_string(),
    ] {
        assert!(!shown.contains(CANARY), "a secret is shown:\n{shown}");
    }
    let redacted = config.redacted();
    assert_eq!(redacted["http"]["tokens"][0]["secret"]["env"], "OPS");
    assert_eq!(redacted["store"]["url"]["env"], "STORE");
    assert_eq!(redacted["pools"][0]["env"]["DEPLOY_TOKEN"], "***");
    assert_eq!(redacted["pools"][0]["env"]["TZ"], "UTC");
}

#[test]
fn a_secret_file_that_every_user_can_read_is_warned_about() {
    let (_folder, loaded) = with_canaries();
    let warned = loaded.warnings.to_string();
    assert!(warned.contains("every user of this machine can read the secret"), "{warned}");
    assert!(warned.contains("open.token") && !warned.contains("app.pem"), "{warned}");
}

#[test]
fn a_literal_secret_is_refused_without_being_repeated() {
    for (line, place) in [
        ("token = \"X\"", "[forge.g]\nkind = \"github\""),
        ("token = 'X'", "[forge.g]\nkind = \"github\""),
        ("token = X", "[forge.g]\nkind = \"github\""),
        ("token = \"X", "[forge.g]\nkind = \"github\""),
        ("token = \"\"\"\nX\n\"\"\"", "[forge.g]\nkind = \"github\""),
        ("token = { value = \"X\" }", "[forge.g]\nkind = \"github\""),
        ("webhook_secret = [\"X\", \"X\"]", "[forge.g]\nkind = \"github\""),
        ("app = { client_id = \"a\", private_key = \"X\" }", "[forge.g]\nkind = \"github\""),
        ("secret = \"X\"", "[[http.token]]\nname = \"a\"\nrole = \"viewer\""),
        ("seal_key = \"X\"", "[store]"),
        ("url = \"postgres://user:X@host/db\"", "[store]"),
        ("password = \"X\"", "[store]"),
        ("url = \"X\"", "[notify]"),
        ("key = \"X\"", "[http.tls]\ncert = \"x\""),
        ("http = \"http://user:X@proxy\"", "[defaults.proxy]"),
    ] {
        let text = format!("{place}\n{}\n", line.replace('X', CANARY));
        let Err(problems) = load_text(text.as_bytes()) else { panic!("{text} was accepted") };
        let said = format!("{problems}\n{problems:?}\n{:?}", problems.reports());
        assert!(!said.contains(CANARY), "the message repeats the secret:\n{said}");
    }
}

#[test]
fn a_message_carries_no_escape_sequence_of_the_file_to_the_terminal() {
    for text in
        ["a\u{7} = x", "\u{1b}[31m = x", "\"a\\u001b[31m\" = 1", "[reaper]\nmode = \"\\u001b[31m\""]
    {
        let Err(problems) = load_text(text.as_bytes()) else { panic!("{text} was accepted") };
        let printed = problems.to_string();
        assert!(!printed.contains(['\u{7}', '\u{1b}']), "{printed:?}");
    }
}
