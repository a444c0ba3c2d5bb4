//! Who may ask: tokens with roles, compared in constant time; without tokens, this machine alone.
//!
//! ```text
//!   request ─▶ too many wrong tokens from there? 429
//!           ─▶ tokens configured: none given 401 · wrong 401, counted · known: who, and which role
//!           ─▶ no tokens (loopback only): Host must name this machine; what changes things must
//!              come from a page of ours (DNS rebinding, forged requests)
//! ```
//!
//! A token travels in `Authorization: Bearer …` and nowhere else: what stands in an address stands
//! in logs. Tokens are kept as digests, so that comparing does not tell their length either.

mod guesses;
mod origin;

use std::sync::Mutex;
use std::sync::PoisonError;

use actix_web::http::Method;
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use tokio::time::Instant;

use super::problem::Problem;
use crate::config::{Http, Role};
use guesses::Guesses;

/// Names the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// The name on the token; stands in the audit log.
    pub(super) name: String,
    /// What they may do.
    pub(super) role: Role,
}

/// Holds who may ask.
pub(super) struct Gate {
    keys: Vec<Key>,
    /// Names by which this machine may be called where there are no tokens.
    hosts: Vec<String>,
    guesses: Mutex<Guesses>,
}

struct Key {
    caller: Caller,
    digest: Digest,
}

impl Gate {
    pub(super) fn new(config: &Http) -> Self {
        let key = |token: &crate::config::Token| Key {
            caller: Caller { name: token.name.clone(), role: token.role },
            digest: digest(&SHA256, token.secret.expose().as_bytes()),
        };
        Self {
            keys: config.tokens.iter().map(key).collect(),
            hosts: origin::names_of(config),
            guesses: Mutex::default(),
        }
    }

    /// Returns whether callers on this machine may ask without a token.
    pub(super) fn is_open(&self) -> bool {
        self.keys.is_empty()
    }

    /// Decides who asks, or why they may not.
    pub(super) fn admit(
        &self,
        headers: &HeaderMap,
        method: &Method,
        peer: Option<std::net::IpAddr>,
    ) -> Result<Caller, Problem> {
        if self.is_open() {
            return self.admit_local(headers, method);
        }
        let now = Instant::now();
        if peer.is_some_and(|peer| self.guesses().is_shut_out(peer, now)) {
            return Err(Problem::new(
                429,
                "too many wrong tokens came from your address; wait a minute",
            ));
        }
        let Some(given) = bearer(headers) else {
            return Err(Problem::new(
                401,
                "a token is needed: send it as `Authorization: Bearer TOKEN`",
            ));
        };
        if let Some(caller) = self.holder(given) {
            return Ok(caller);
        }
        if let Some(peer) = peer {
            self.guesses().count(peer, now);
        }
        Err(Problem::new(401, "that token is not known here; compare it with [[http.token]]"))
    }

    /// Decides where there are no tokens: this machine may do everything, other sites' pages nothing.
    fn admit_local(&self, headers: &HeaderMap, method: &Method) -> Result<Caller, Problem> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        origin::check(
            &self.hosts,
            &origin::RequestHeaders {
                host: text(HOST).unwrap_or_default(),
                origin: text(ORIGIN),
                site: headers.get("Sec-Fetch-Site").and_then(|value| value.to_str().ok()),
            },
            changes,
        )
        .map_err(|why| Problem::new(403, why))?;
        Ok(Caller { name: "local".into(), role: Role::Operator })
    }

    /// Compares with every token, whichever fits, so that the time tells nothing.
    fn holder(&self, given: &str) -> Option<Caller> {
        let given = digest(&SHA256, given.as_bytes());
        let mut found = None;
        for key in &self.keys {
            if verify_slices_are_equal(key.digest.as_ref(), given.as_ref()).is_ok() {
                found = Some(&key.caller);
            }
        }
        found.cloned()
    }

    fn guesses(&self) -> std::sync::MutexGuard<'_, Guesses> {
        self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests;
