//! Who asks: a token, an App, or one installation of an App, each with its own budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use secrecy::SecretString;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access::Proofs;
use super::failure::Failure;
use super::governor::Governor;
use super::keys::AppKey;

/// From this age before its end a token is renewed, while it still serves the others.
const FADING: Duration = Duration::from_mins(10);
/// From this age before its end a token is not used any more.
const GONE: Duration = Duration::from_secs(30);
/// How long a failed renewal answers for those who waited for it.
const SAME_FAILURE: Duration = Duration::from_secs(2);

/// Asks GitHub under one name.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) governor: Governor,
    pub(super) source: Source,
    pub(super) proofs: Proofs,
}

/// Says where the bearer secret comes from.
pub(super) enum Source {
    /// It is the secret.
    Token(SecretString),
    /// It is signed for each call.
    App(Arc<AppKey>),
    /// It is fetched for an hour.
    Installation {
        app: Arc<Identity>,
        number: u64,
        tokens: Tokens,
        /// Whether GitHub no longer knows the installation: the App may have been installed anew.
        gone: AtomicBool,
    },
}

impl Identity {
    /// Tells whether it is worth asking as this identity.
    pub(super) fn is_known(&self) -> bool {
        match &self.source {
            Source::Installation { gone, .. } => !gone.load(Ordering::Relaxed),
            Source::Token(_) | Source::App(_) => true,
        }
    }
}

/// Holds the current token of an installation; one renews, the others wait or use the old one.
#[derive(Default)]
pub(super) struct Tokens {
    current: ArcSwapOption<Token>,
    renewing: Mutex<Option<(Instant, Failure)>>,
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
        fetch: impl AsyncFnOnce() -> Result<Token, Failure>,
    ) -> Result<Arc<Token>, Failure> {
        if let Some(token) = self.usable() {
            if !token.ends_within(FADING) {
                return Ok(token);
            }
            let Ok(mut turn) = self.renewing.try_lock() else { return Ok(token) };
            // It still serves; a renewal that failed is tried again by the next caller.
            let renewed = self.renew(&mut turn, fetch).await;
            return Ok(renewed.unwrap_or(token));
        }
        let mut turn = self.renewing.lock().await;
        match self.usable() {
            Some(token) => Ok(token),
            None => self.renew(&mut turn, fetch).await,
        }
    }

    /// Drops a token that GitHub no longer accepts, unless another has replaced it already.
    pub(super) fn forget(&self, refused: &Arc<Token>) {
        if self.current.load().as_ref().is_some_and(|it| Arc::ptr_eq(it, refused)) {
            self.current.store(None);
        }
    }

    fn usable(&self) -> Option<Arc<Token>> {
        self.current.load_full().filter(|token| !token.ends_within(GONE))
    }

    async fn renew(
        &self,
        turn: &mut Option<(Instant, Failure)>,
        fetch: impl AsyncFnOnce() -> Result<Token, Failure>,
    ) -> Result<Arc<Token>, Failure> {
        if let Some((_, failure)) = turn.as_ref().filter(|(at, _)| at.elapsed() < SAME_FAILURE) {
            return Err(failure.clone());
        }
        match fetch().await {
            Ok(token) => {
                let token = Arc::new(token);
                self.current.store(Some(Arc::clone(&token)));
                *turn = None;
                Ok(token)
            }
            Err(failure) => {
                *turn = Some((Instant::now(), failure.clone()));
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
