//! Certificates: a private CA is trusted when told, and only then.

use std::path::Path;

use ostler::demo::github::{Options, SimGitHub};
use ostler_actors::ports::{Forge as _, MintError};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::certificates::certificates;

use super::github_support::{acme, adapter, mint, order, settings, start, token_of};

/// Makes a CA and a certificate for this machine, if that can be done here.
fn of_this_machine(folder: &Path) -> Option<(Vec<u8>, ServerConfig)> {
    if !certificates(folder) {
        return None;
    }
    let certificate = CertificateDer::from_pem_file(folder.join("it.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("it.key")).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Some((std::fs::read(folder.join("ca.pem")).unwrap(), config))
}

fn secure() -> Option<(Vec<u8>, SimGitHub)> {
    let folder = tempfile::tempdir().unwrap();
    let (ca, config) = of_this_machine(folder.path())?;
    Some((ca, start(Options { tls: Some(config), ..Options::default() })))
}

#[tokio::test]
async fn a_private_ca_is_trusted_when_configured_and_only_then() {
    let Some((ca, sim)) = secure() else { return };
    let stranger = adapter(settings(&sim, token_of(&sim)));
    let later = stranger.mint(order(&acme(), "m1")).await;
    let Err(MintError::Later { why, .. }) = later else { panic!("{later:?}") };
    assert!(why.contains("certificate"), "{why}");
    assert!(sim.calls().is_empty(), "nothing was said to a server that is not trusted");
    let mut told = settings(&sim, token_of(&sim));
    told.ca_pem = Some(ca);
    mint(&adapter(told), "m1").await;
    assert_eq!(sim.runners().len(), 1);
}
