//! Signs as an App.

use octocrab::jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::failure::Failure;
use super::settings::BadSettings;

/// How far back a signature is dated: GitHub refuses those from the future.
const BACK: i64 = 60;
/// How long it is good for; GitHub refuses more than ten minutes.
const LIFE: i64 = 9 * 60;

/// Holds an App's key. Not `Debug`.
pub(super) struct AppKey {
    pub(super) client_id: String,
    key: EncodingKey,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: i64,
    exp: i64,
}

impl AppKey {
    pub(super) fn new(client_id: &str, pem: &SecretString) -> Result<Self, BadSettings> {
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes())
            .map_err(|_| BadSettings::Key(client_id.to_owned()))?;
        Ok(Self { client_id: client_id.to_owned(), key })
    }

    /// Returns a signed statement that we are the App, dated by GitHub's clock.
    pub(super) fn sign(&self, second: i64) -> Result<SecretString, Failure> {
        let iat = second - BACK;
        let claims = Claims { iss: &self.client_id, iat, exp: iat + LIFE };
        let signed = encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        signed.map(SecretString::from).map_err(|_| Failure::Denied {
            why: format!("the key of App `{}` cannot sign", self.client_id),
        })
    }
}
