//! The identities that ask: a token, an App, or one installation of an App, each with its own budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use octocrab::jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access::Proofs;
use super::answer::ApiFailure;
use super::governor::Governor;
use super::settings::BadSettings;

/// This long before its end a token is renewed, while it still serves other calls.
const RENEW_BEFORE_END: Duration = Duration::from_mins(10);
/// This long before its end a token is not used any more.
const UNUSABLE_BEFORE_END: Duration = Duration::from_secs(30);
/// How long a failed renewal answers the calls that waited for it.
const FAILED_RENEWAL_TTL: Duration = Duration::from_secs(2);

/// One identity at GitHub.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) governor: Governor,
    pub(super) source: SecretSource,
    pub(super) proofs: Proofs,
}

/// Where the bearer secret comes from.
pub(super) enum SecretSource {
    Token(SecretString),
    /// Signed for each call.
    App(Arc<AppKey>),
    /// Fetched, and valid for an hour.
    Installation {
        app: Arc<Identity>,
        number: u64,
        tokens: Tokens,
        /// Whether GitHub no longer knows the installation: the App may have been installed anew.
        gone: AtomicBool,
    },
}

impl Identity {
    /// Returns whether GitHub still knows this identity.
    pub(super) fn is_known(&self) -> bool {
        match &self.source {
            SecretSource::Installation { gone, .. } => !gone.load(Ordering::Relaxed),
            SecretSource::Token(_) | SecretSource::App(_) => true,
        }
    }
}

/// Holds the current token of an installation; one renews, the others wait or use the old one.
#[derive(Default)]
pub(super) struct Tokens {
    current: ArcSwapOption<Token>,
    renewing: Mutex<Option<(Instant, ApiFailure)>>,
}

/// Holds a token and when it ends. Not `Debug`.
pub(super) struct Token {
    pub(super) secret: SecretString,
    pub(super) ends: Instant,
}

impl Tokens {
    /// Returns a token that is good, fetching one if there is none: once for all who ask.
    pub(super) async fn get(
        &self,
        fetch: impl AsyncFnOnce() -> Result<Token, ApiFailure>,
    ) -> Result<Arc<Token>, ApiFailure> {
        if let Some(token) = self.usable() {
            if !token.ends_within(RENEW_BEFORE_END) {
                return Ok(token);
            }
            let Ok(mut last_failure) = self.renewing.try_lock() else { return Ok(token) };
            // It still serves; a renewal that failed is tried again by the next caller.
            let renewed = self.renew(&mut last_failure, fetch).await;
            return Ok(renewed.unwrap_or(token));
        }
        let mut last_failure = self.renewing.lock().await;
        match self.usable() {
            Some(token) => Ok(token),
            None => self.renew(&mut last_failure, fetch).await,
        }
    }

    /// Drops a token that GitHub no longer accepts, unless another has replaced it already.
    pub(super) fn forget(&self, refused: &Arc<Token>) {
        if self.current.load().as_ref().is_some_and(|it| Arc::ptr_eq(it, refused)) {
            self.current.store(None);
        }
    }

    fn usable(&self) -> Option<Arc<Token>> {
        self.current.load_full().filter(|token| !token.ends_within(UNUSABLE_BEFORE_END))
    }

    async fn renew(
        &self,
        last_failure: &mut Option<(Instant, ApiFailure)>,
        fetch: impl AsyncFnOnce() -> Result<Token, ApiFailure>,
    ) -> Result<Arc<Token>, ApiFailure> {
        if let Some((_, failure)) =
            last_failure.as_ref().filter(|(at, _)| at.elapsed() < FAILED_RENEWAL_TTL)
        {
            return Err(failure.clone());
        }
        match fetch().await {
            Ok(token) => {
                let token = Arc::new(token);
                self.current.store(Some(Arc::clone(&token)));
                *last_failure = None;
                Ok(token)
            }
            Err(failure) => {
                *last_failure = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}

impl Token {
    fn ends_within(&self, span: Duration) -> bool {
        self.ends.saturating_duration_since(Instant::now()) <= span
    }
}

/// How far back a signature is dated, in seconds: GitHub refuses those from the future.
const ISSUED_BACK_SECONDS: i64 = 60;
/// How long a signature is valid, in seconds; GitHub refuses more than ten minutes.
const SIGNATURE_SECONDS: i64 = 9 * 60;

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
    pub(super) fn sign(&self, second: i64) -> Result<SecretString, ApiFailure> {
        let iat = second - ISSUED_BACK_SECONDS;
        let claims = Claims { iss: &self.client_id, iat, exp: iat + SIGNATURE_SECONDS };
        let signed = encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        signed.map(SecretString::from).map_err(|_| ApiFailure::Denied {
            why: format!("the key of App `{}` cannot sign", self.client_id),
        })
    }
}
