//! What came back: status, headers, body, and how far it can be trusted.

use http::HeaderMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::Failure;

/// Holds one answer. Not `Debug`: its body may be a token or a JIT config.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Reads the body; a body that cannot be read is an answer lost.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(self.text()).map_err(|error| Failure::Lost {
            why: format!("GitHub's answer ({}) cannot be read: {error}", self.status),
        })
    }

    /// Returns the body without the mark some proxies put before it.
    fn text(&self) -> &[u8] {
        self.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.body)
    }

    /// Returns what GitHub says went wrong, shortened.
    pub(super) fn message(&self) -> String {
        let told: Option<Value> = serde_json::from_slice(self.text()).ok();
        let told = told.as_ref().and_then(|value| value.get("message")).and_then(Value::as_str);
        let text: String = told.unwrap_or("no message").chars().take(200).collect();
        format!("{} {text}", self.status)
    }

    /// Tells whether GitHub itself says that the thing is not there. A page of a proxy or of
    /// a server in maintenance has the same number and no such body.
    pub(super) fn denies(&self) -> bool {
        let told: Option<Value> = serde_json::from_slice(self.text()).ok();
        self.status == 404 && told.is_some_and(|value| value.get("message").is_some())
    }

    /// Returns a header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Turns an answer that is none of the expected ones into a failure.
    pub(super) fn unexpected(&self, what: &str) -> Failure {
        let why = format!("{what}: GitHub answered {}", self.message());
        match self.status {
            400..=499 => Failure::Denied { why },
            _ => Failure::Lost { why },
        }
    }
}
