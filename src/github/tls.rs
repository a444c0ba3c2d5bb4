//! The transport: which certificates are trusted, and through which proxy calls go.

use http::Uri;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;

use super::settings::BadSettings;

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_mins(1);

/// Returns octocrab on a transport of ours, without its own headers, retries and tokens.
pub(super) fn octocrab(ca: Option<&[u8]>, proxy: Option<&str>) -> Result<Octocrab, BadSettings> {
    let config = trust(ca)?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(IDLE));
    let https = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
    match proxy {
        None => Ok(over(pooled().build(https.wrap_connector(tcp)))),
        Some(text) => {
            let bad = || BadSettings::Proxy(text.to_owned());
            let uri: Uri = text.parse().map_err(|_| bad())?;
            uri.host().ok_or_else(bad)?;
            Ok(over(pooled().build(https.wrap_connector(Tunnel::new(uri, tcp)))))
        }
    }
}

fn pooled() -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
    builder
}

/// Puts octocrab on top of a client.
fn over<C>(client: Client<C, octocrab::OctoBody>) -> Octocrab
where
    C: hyper_util::client::legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    let built =
        OctocrabBuilder::new_empty().with_service(client).with_auth(AuthState::None).build();
    match built {
        Ok(octocrab) => octocrab,
        Err(never) => match never {},
    }
}

/// Returns the trust of this machine, and of the given certificates beside it.
pub(crate) fn trust(ca: Option<&[u8]>) -> Result<ClientConfig, BadSettings> {
    let mut roots = RootCertStore::empty();
    // A machine without certificates can still speak plain http; over https the handshake says why not.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(pem) = ca {
        let bad = |why: String| BadSettings::Ca(why);
        let mut added = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            added += 1;
        }
        if added == 0 {
            return Err(bad("the file has none".into()));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| BadSettings::Ca(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
