//! Answers of GitHub and failed calls: what they prove, and what may have happened at GitHub.

use std::time::Duration;

use http::HeaderMap;
use ostler_actors::model::{Observation, Sighting};
use ostler_actors::ports::{ForgeError, MintError};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Holds one answer. Not `Debug`: its body may be a token or a JIT config.
#[derive(Clone)]
pub(super) struct ApiAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl ApiAnswer {
    /// Reads the body; a body that cannot be read is an answer lost.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ApiFailure> {
        serde_json::from_slice(self.text()).map_err(|error| ApiFailure::Lost {
            why: format!("GitHub's answer ({}) cannot be read: {error}", self.status),
        })
    }

    /// Returns the body without the mark some proxies put before it.
    fn text(&self) -> &[u8] {
        self.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.body)
    }

    /// Returns what GitHub says went wrong, shortened.
    pub(super) fn message(&self) -> String {
        let body: Option<Value> = serde_json::from_slice(self.text()).ok();
        let message = body.as_ref().and_then(|value| value.get("message")).and_then(Value::as_str);
        let text: String = message.unwrap_or("no message").chars().take(200).collect();
        format!("{} {text}", self.status)
    }

    /// Tells whether GitHub itself says that the thing does not exist. An error page of a proxy or of a
    /// server in maintenance has the same status without such a body.
    pub(super) fn denies(&self) -> bool {
        let body: Option<Value> = serde_json::from_slice(self.text()).ok();
        self.status == 404 && body.is_some_and(|value| value.get("message").is_some())
    }

    /// Returns a header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Turns an answer that is none of the expected ones into a failure.
    pub(super) fn unexpected(&self, what: &str) -> ApiFailure {
        let why = format!("{what}: GitHub answered {}", self.message());
        match self.status {
            400..=499 => ApiFailure::Denied { why },
            _ => ApiFailure::Lost { why },
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiFailure {
    /// Not sent, or rejected before it was handled: nothing was created, and it may work later.
    Held { after: Option<Duration>, why: String },
    /// Not sent or refused, and repeating will not help: a right or a setting must be changed.
    Denied { why: String },
    /// Sent, perhaps, without a usable answer: something may have been created.
    Lost { why: String },
}

impl ApiFailure {
    pub(super) fn why(self) -> String {
        match self {
            Self::Held { why, .. } | Self::Denied { why } | Self::Lost { why } => why,
        }
    }

    /// Says of a call made before the one that matters: whatever was lost, that one was not sent.
    pub(super) fn before_the_call(self) -> Self {
        match self {
            Self::Lost { why } => Self::Held { after: None, why },
            failure @ (Self::Held { .. } | Self::Denied { .. }) => failure,
        }
    }

    /// Says what it means for a registration.
    pub(super) fn of_mint(self) -> MintError {
        match self {
            Self::Held { after, why } => MintError::Later { after, why },
            Self::Denied { why } => MintError::Refused { why },
            Self::Lost { why } => MintError::Unanswered { why },
        }
    }

    /// Says what it means for a removal: it is always worth another attempt.
    pub(super) fn of_removal(self) -> ForgeError {
        match self {
            Self::Held { after, why } => ForgeError::Later { after, why },
            Self::Denied { why } | Self::Lost { why } => ForgeError::Later { after: None, why },
        }
    }
}

impl<T> From<ApiFailure> for Sighting<T> {
    fn from(failure: ApiFailure) -> Self {
        Self::Unknown(failure.why())
    }
}

impl<T> From<ApiFailure> for Observation<T> {
    fn from(failure: ApiFailure) -> Self {
        Self::Unusable(failure.why())
    }
}
