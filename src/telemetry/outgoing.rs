//! The way out for what we tell others: one client over http and https, for messages and traces.

use std::sync::Arc;

use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

/// The bytes of a message, shared by all tries.
pub(super) type Text = std::io::Cursor<Vec<u8>>;
pub(super) type Outgoing = Client<HttpsConnector<HttpConnector>, Full<Text>>;

/// Returns a client that trusts what this machine trusts.
pub(super) fn connect() -> Outgoing {
    let mut roots = RootCertStore::empty();
    // Without certificates plain http still works.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs knows TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
    Client::builder(TokioExecutor::new()).build(https.build())
}
