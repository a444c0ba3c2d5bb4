//! Calls the HTTP API of the daemon, and explains failures so that a person can act on them.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use serde_json::Value;

use super::address::DaemonAddress;
use crate::client::{CallError, CallLimits, HttpClient, TransportOptions};
use crate::errors::{chain, root_cause};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The daemon sends something at least every 15 s; a stream silent for this long is dead.
const STREAM_TIMEOUT: Duration = Duration::from_secs(45);
/// How large an answer may be.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// How many items a page holds.
const PAGE_ITEMS: usize = 500;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AskError {
    #[error("`--server {given}` is not a valid address; write http://HOST:PORT or https://HOST")]
    Address { given: String },
    #[error("`--ca {path}` cannot be used: {why}")]
    Ca { path: String, why: String },
    #[error("the token contains characters that no token has; copy it again")]
    Token,
    /// No connection, or it broke.
    #[error(
        "no daemon reachable at {server}: {why}\n  Is the daemon running, and is this its `[http] listen`? \
         Give another address with --server."
    )]
    Away { server: String, why: String },
    #[error(
        "{server} has a certificate that is not trusted here: {why}\n  Give the certificate of its \
         authority (PEM) with --ca FILE, and the name in the certificate with --server."
    )]
    Untrusted { server: String, why: String },
    #[error("{server} did not answer in {} s; look at its log, and at GET /readyz", ANSWER_TIMEOUT.as_secs())]
    Slow { server: String },
    #[error(
        "{server} denied access: {why}\n  Give the secret of an [[http.token]] as OSTLER_TOKEN, or with --token."
    )]
    Unauthorized { server: String, why: String },
    #[error("{0}")]
    NotFound(String),
    #[error("the daemon refused ({status}): {why}")]
    Refused { status: u16, why: String },
    #[error("the answer of {server} is not from an Ostler daemon: {why}")]
    Garbled { server: String, why: String },
}

impl AskError {
    /// Returns the exit code: 1 failed, 2 usage, 3 not found.
    pub(in crate::cli) fn code(&self) -> ExitCode {
        match self {
            Self::Address { .. } | Self::Ca { .. } | Self::Token => ExitCode::from(2),
            Self::NotFound(_) => ExitCode::from(3),
            Self::Away { .. }
            | Self::Untrusted { .. }
            | Self::Slow { .. }
            | Self::Unauthorized { .. }
            | Self::Refused { .. }
            | Self::Garbled { .. } => ExitCode::FAILURE,
        }
    }
}

/// Calls one daemon.
#[derive(Clone)]
pub(in crate::cli) struct DaemonClient {
    address: DaemonAddress,
    token: Option<HeaderValue>,
    http: HttpClient,
}

impl DaemonClient {
    pub(super) fn new(
        server: &str,
        token: Option<String>,
        ca: Option<&Path>,
    ) -> Result<Self, AskError> {
        let address = DaemonAddress::read(server)?;
        let bad = |path: &Path, why: String| AskError::Ca { path: path.display().to_string(), why };
        let pem = ca
            .map(|path| std::fs::read(path).map_err(|error| bad(path, error.to_string())))
            .transpose()?;
        let options = TransportOptions { ca_pem: pem.as_deref(), proxy: None };
        let limits = CallLimits { timeout: ANSWER_TIMEOUT, body_bytes: MAX_ANSWER_BYTES };
        let http = HttpClient::new(&options, limits)
            .map_err(|error| bad(ca.unwrap_or(Path::new("(none)")), error.to_string()))?;
        let token = token.map(|token| bearer(&token)).transpose()?;
        if token.is_some() && address.is_unencrypted() {
            eprintln!("warning: the token travels to {address} unencrypted; use https");
        }
        Ok(Self { address, token, http })
    }

    /// Returns the address of the daemon.
    pub(in crate::cli) fn server(&self) -> String {
        self.address.to_string()
    }

    /// Sends a GET request.
    pub(in crate::cli) async fn get(&self, path: &str) -> Result<Value, AskError> {
        self.ask(Method::GET, path, None).await
    }

    /// Sends a request that changes something.
    pub(in crate::cli) async fn act(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AskError> {
        self.ask(method, path, body).await
    }

    /// Reads a list page by page, up to `most` items.
    pub(in crate::cli) async fn list(
        &self,
        path: &str,
        filters: &[(&str, Option<&str>)],
        most: usize,
    ) -> Result<Value, AskError> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let size = PAGE_ITEMS.min(most.saturating_sub(items.len()).max(1)).to_string();
            let more = [("limit", Some(size.as_str())), ("cursor", cursor.as_deref())];
            let mut page = self.get(&with_query(path, filters.iter().chain(&more))).await?;
            let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) else {
                return Err(self.garbled("a list without `items`"));
            };
            items.extend(found);
            cursor = page["next_cursor"].as_str().map(ToOwned::to_owned);
            if cursor.is_none() || items.len() >= most {
                return Ok(serde_json::json!({ "items": items, "next_cursor": cursor }));
            }
        }
    }

    /// Opens the stream of events after the one with this id.
    pub(in crate::cli) async fn follow(&self, last: Option<&str>) -> Result<EventStream, AskError> {
        let mut request = self.request(Method::GET, "/events", None)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(last) = last.and_then(|last| HeaderValue::from_str(last).ok()) {
            request.headers_mut().insert("Last-Event-ID", last);
        }
        let answer = self.http.open(request).await.map_err(|error| self.no_answer(&error))?;
        if answer.status() != StatusCode::OK {
            let answer = self.http.read(answer).await.map_err(|error| self.no_answer(&error))?;
            return Err(self.refusal(&answer));
        }
        Ok(EventStream {
            body: answer.into_body(),
            rest: Vec::new(),
            message: StreamMessage::default(),
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AskError> {
        let request = self.request(method, path, body)?;
        let answer = self.http.call(request).await.map_err(|error| self.no_answer(&error))?;
        if !answer.status().is_success() {
            return Err(self.refusal(&answer));
        }
        if answer.body().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(answer.body()).map_err(|error| self.garbled(&error.to_string()))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Request<Vec<u8>>, AskError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.address.of(&format!("/api/v1{path}")))
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let bad = |_| AskError::NotFound(format!("nothing can be called `{path}`"));
        request.body(body.into_bytes()).map_err(bad)
    }

    fn no_answer(&self, error: &CallError) -> AskError {
        let server = self.server();
        match error {
            CallError::Late(_) => AskError::Slow { server },
            CallError::Broken(_) => AskError::Away { server, why: chain(error) },
            CallError::Failed(error) => {
                let why = root_cause(error);
                if why.contains("peer certificate") {
                    return AskError::Untrusted { server, why };
                }
                AskError::Away { server, why }
            }
        }
    }

    /// Reads the problem in an error answer.
    fn refusal(&self, answer: &Response<Bytes>) -> AskError {
        let status = answer.status();
        let problem: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let detail = problem["detail"].as_str().or(problem["title"].as_str());
        let why =
            detail.unwrap_or(status.canonical_reason().unwrap_or("no reason given")).to_owned();
        match status {
            StatusCode::UNAUTHORIZED => AskError::Unauthorized { server: self.server(), why },
            StatusCode::NOT_FOUND if detail.is_some() => AskError::NotFound(why),
            StatusCode::NOT_FOUND => self.garbled("it has no admin API"),
            _ => AskError::Refused { status: status.as_u16(), why },
        }
    }

    fn garbled(&self, why: &str) -> AskError {
        AskError::Garbled { server: self.server(), why: why.to_owned() }
    }
}

/// One message of the event stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct StreamMessage {
    /// The number of the event; None for messages about the stream itself.
    pub(in crate::cli) id: Option<String>,
    pub(in crate::cli) event: String,
    pub(in crate::cli) data: String,
}

/// The open stream of events.
pub(in crate::cli) struct EventStream {
    body: Incoming,
    rest: Vec<u8>,
    message: StreamMessage,
}

impl EventStream {
    /// Returns the next message; None when the stream ended or was silent for too long.
    pub(in crate::cli) async fn next(&mut self) -> Option<StreamMessage> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(message) = self.take(line.trim_end_matches(['\n', '\r'])) {
                    return Some(message);
                }
            }
            let frame =
                tokio::time::timeout(STREAM_TIMEOUT, self.body.frame()).await.ok()??.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }

    fn take(&mut self, line: &str) -> Option<StreamMessage> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return (!message.data.is_empty()).then_some(message);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.message.event),
            "data" => {
                if !self.message.data.is_empty() {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

/// Returns a path with its query; names may contain anything.
fn with_query<'a>(
    path: &str,
    filters: impl Iterator<Item = &'a (&'a str, Option<&'a str>)>,
) -> String {
    let given = filters.filter_map(|(key, value)| Some(format!("{key}={}", encode((*value)?))));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Escapes a name for use in a URL.
pub(in crate::cli) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escaped = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(escaped).collect()
}

fn bearer(token: &str) -> Result<HeaderValue, AskError> {
    let mut value =
        HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|_| AskError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}
