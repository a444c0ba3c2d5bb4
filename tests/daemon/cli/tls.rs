//! A daemon that speaks TLS with a certificate of the house's own.

use super::*;
use crate::support::certificates::certificates;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_behind_a_private_certificate_is_asked_with_its_ca_and_not_without() {
    let stage = Stage::on_sqlite(&pool(0, 1));
    if !certificates(&stage.path("")) {
        return;
    }
    std::fs::set_permissions(
        stage.path("it.key"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .expect("our file");
    let tls = "[http.tls]\ncert = \"it.pem\"\nkey = { file = \"it.key\" }\n";
    stage.configure(&format!("{tls}{}", pool(0, 1)));
    let mut daemon = stage.spawn();
    let mut server = String::new();
    until("it listens", async || {
        daemon.must_live();
        let log = daemon.log();
        let found = log.split_once("listening on https://").and_then(|(_, it)| it.split_once('"'));
        server = found.map(|(address, _)| format!("https://{address}")).unwrap_or_default();
        !server.is_empty()
    })
    .await;
    let ca = stage.path("ca.pem").display().to_string();
    let trusting =
        |arguments: &[&str]| ostler(&[arguments, &["--server", &server, "--ca", &ca]].concat());
    until("it leads", async || {
        String::from_utf8_lossy(&trusting(&["status"]).stdout).contains(", leading")
    })
    .await;
    let stranger = ostler(&["status", "--server", &server]);
    assert_eq!(stranger.status.code(), Some(1), "{stranger:?}");
    let told = error(&stranger);
    assert!(told.contains("not trusted") && told.contains("--ca FILE"), "{told}");
    // Nor is a token sent in the clear to a server that speaks TLS.
    let plain = ostler(&["status", "--server", &server.replace("https", "http")]);
    assert_eq!(plain.status.code(), Some(1), "{plain:?}");
}
