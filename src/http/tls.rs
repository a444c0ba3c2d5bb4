//! TLS: certificate and key from files, read again when they change.
//!
//! Certificates are renewed by other programs, often by swapping a link. Every few seconds the
//! contents are compared; a pair that belongs together is used for the next connection, one that
//! does not is told once and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::config::{SecretSource, Tls};

/// How often the files are looked at.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Tells why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCertificate {
    /// A file cannot be read.
    #[error("cannot read `{path}`")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("`{what}` of [http.tls] is not PEM that can be used: {why}")]
    Content {
        /// `cert` or `key`.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The two are of different pairs.
    #[error("`cert` and `key` of [http.tls] do not belong together")]
    Strangers,
}

/// Holds the certificate that is shown to clients.
#[derive(Debug)]
pub(super) struct Certificate {
    current: ArcSwap<CertifiedKey>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Certificate {
    /// Reads the pair.
    pub(super) fn read(tls: &Tls) -> Result<Arc<Self>, BadCertificate> {
        let pair = pair(&Pem::read(tls)?)?;
        Ok(Arc::new(Self { current: ArcSwap::from_pointee(pair) }))
    }

    /// Returns what a server needs.
    pub(super) fn config(self: &Arc<Self>) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("aws-lc-rs knows TLS 1.2 and 1.3")
            .with_no_client_auth();
        config.with_cert_resolver(Arc::clone(self) as _)
    }

    /// Reads the pair again whenever its files change, until the task is ended.
    pub(super) fn renew(self: Arc<Self>, tls: Tls) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut known = Pem::read(&tls).ok();
            let mut ticks = tokio::time::interval(FILE_CHECK_INTERVAL);
            loop {
                ticks.tick().await;
                let found = Pem::read(&tls);
                if found.as_ref().ok() == known.as_ref() {
                    continue;
                }
                match found
                    .as_ref()
                    .map_err(ToString::to_string)
                    .and_then(|pem| pair(pem).map_err(|why| why.to_string()))
                {
                    Ok(pair) => {
                        self.current.store(Arc::new(pair));
                        info!("the certificate of [http.tls] is renewed");
                    }
                    Err(why) => warn!("the old certificate stays in use: {why}"),
                }
                known = found.ok();
            }
        })
    }
}

/// The texts of certificate and key.
#[derive(PartialEq, Eq)]
struct Pem {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Pem {
    fn read(tls: &Tls) -> Result<Self, BadCertificate> {
        let file = |path: &Path| {
            std::fs::read(path)
                .map_err(|source| BadCertificate::File { path: path.to_owned(), source })
        };
        let key = match tls.key.source() {
            SecretSource::File(path) => file(path)?,
            // What stands in the environment cannot change.
            SecretSource::Env(_) => tls.key.expose().as_bytes().to_vec(),
        };
        Ok(Self { cert: file(&tls.cert)?, key })
    }
}

fn pair(pem: &Pem) -> Result<CertifiedKey, BadCertificate> {
    let bad =
        |what, why: &dyn std::fmt::Display| BadCertificate::Content { what, why: why.to_string() };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem.cert)
        .collect::<Result<_, _>>()
        .map_err(|why| bad("cert", &why))?;
    if chain.is_empty() {
        return Err(bad("cert", &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(&pem.key).map_err(|why| bad("key", &why))?;
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)
        .map_err(|why| bad("key", &why))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(pair)
        }
        Err(_) => Err(BadCertificate::Strangers),
    }
}
