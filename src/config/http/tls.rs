//! `[http.tls]`: certificate and key.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::keys::{Key, Keys, Kind};
use crate::config::secrets::Secret;
use crate::config::section::Section;

/// The keys of `[http.tls]`.
pub(crate) const KEYS: Keys = &[&[
    Key::new("cert", Kind::Path, "The certificate chain, PEM.").required(),
    Key::new("key", Kind::Secret, "Its private key, PEM.").required(),
]];

/// Holds `[http.tls]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tls {
    /// The certificate chain, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: Secret,
}

impl Tls {
    pub(crate) fn read(section: &Section<'_>) -> Option<Self> {
        let cert = section.path("cert")?;
        match section.cx.file(&cert) {
            Ok(text) if section.cx.looks() && !text.contains("BEGIN CERTIFICATE") => {
                let what = format!("`{}` holds no PEM certificate", cert.display());
                section.note(
                    section.error("cert", what).help("it begins with -----BEGIN CERTIFICATE-----"),
                );
            }
            Ok(_) => {}
            Err(why) => {
                let what = format!("cannot read the certificate `{}`: {why}", cert.display());
                section.note(
                    section.error("cert", what).help("relative paths start beside this file"),
                );
            }
        }
        Some(Self { cert, key: section.secret("key")? })
    }
}
