//! Reads deliveries: the signature first, on the bytes as they came, then the content.
//!
//! Nothing is parsed before the signature is right, and nothing larger than GitHub's own limit
//! is even hashed. One or two secrets are accepted, so that they can be changed without losing a
//! delivery. What we do not know is ignored, not refused: a refused delivery is a failed one at
//! GitHub, and would be sent again for ever.

use aws_lc_rs::hmac;
use jiff::Timestamp;
use ostler_actors::model::{DeliveryId, ForgeId, JobNotice, Place, Scope};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::wire::{self, lenient};

/// The largest delivery GitHub sends.
pub const MAX_DELIVERY_BYTES: usize = 25 << 20;

/// Holds the secrets a delivery may be signed with. Not `Debug`.
pub struct Secrets(Vec<hmac::Key>);

impl Secrets {
    /// Takes the current secret, and during a change the next one.
    pub fn new(secrets: &[SecretString]) -> Self {
        let key =
            |it: &SecretString| hmac::Key::new(hmac::HMAC_SHA256, it.expose_secret().as_bytes());
        Self(secrets.iter().map(key).collect())
    }

    /// Tells whether the signature is one of ours; every secret is tried, in constant time.
    fn signed(&self, body: &[u8], signature: &[u8]) -> bool {
        let tried = self.0.iter().map(|key| hmac::verify(key, body, signature).is_ok());
        tried.fold(false, |any, good| any | good)
    }
}

/// Holds one request as it came.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `X-GitHub-Event`.
    pub event: Option<&'a str>,
    /// `X-GitHub-Delivery`.
    pub delivery: Option<&'a str>,
    /// `X-Hub-Signature-256`.
    pub signature: Option<&'a str>,
    pub body: &'a [u8],
}

/// Holds what a delivery says.
#[derive(Clone, Debug, PartialEq)]
pub enum WebhookEvent {
    /// GitHub tries the hook.
    Ping,
    /// A job in one of our scopes.
    Job(Box<JobEvent>),
    /// A job outside our scopes.
    Elsewhere(Place),
    /// An event or an action we do not need.
    Ignored(String),
}

/// Holds news of a job, dated by GitHub's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEvent {
    pub notice: JobNotice,
    /// When it happened, where that is told.
    pub happened_at: Option<Timestamp>,
}

impl WebhookEvent {
    /// Returns the word it is counted under.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Job(_) => "accepted",
            Self::Elsewhere(_) => "elsewhere",
            Self::Ignored(_) => "ignored",
        }
    }
}

/// Tells why a delivery was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookRefusal {
    /// Too large to be GitHub's.
    #[error("the delivery is larger than 25 MiB")]
    TooLarge,
    /// No signature at all.
    #[error("the delivery is not signed; set the hook's secret")]
    Unsigned,
    /// Signed with another secret.
    #[error(
        "the delivery is signed with another secret; compare the hook's secret with `webhook_secret`"
    )]
    BadSignature,
    #[error("the delivery cannot be read: {0}")]
    Malformed(String),
}

impl WebhookRefusal {
    /// Returns the word it is counted under.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Unsigned => "unsigned",
            Self::BadSignature => "bad_signature",
            Self::Malformed(_) => "malformed",
        }
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(default, deserialize_with = "lenient")]
    action: String,
    workflow_job: wire::Job,
    repository: Repository,
    #[serde(default)]
    enterprise: Option<Enterprise>,
}

#[derive(Deserialize)]
struct Repository {
    name: String,
    owner: Owner,
}

#[derive(Deserialize)]
struct Owner {
    login: String,
}

#[derive(Deserialize)]
struct Enterprise {
    #[serde(default)]
    slug: Option<String>,
}

/// Verifies and reads a delivery. `scopes` are ours; `now` dates jobs that old servers do not date.
pub fn open(
    secrets: &Secrets,
    request: Request<'_>,
    forge: &ForgeId,
    scopes: &[Scope],
    now: Timestamp,
) -> Result<WebhookEvent, WebhookRefusal> {
    if request.body.len() > MAX_DELIVERY_BYTES {
        return Err(WebhookRefusal::TooLarge);
    }
    let signature = request.signature.ok_or(WebhookRefusal::Unsigned)?;
    let signature = signature_bytes(signature).ok_or(WebhookRefusal::BadSignature)?;
    if !secrets.signed(request.body, &signature) {
        return Err(WebhookRefusal::BadSignature);
    }
    match request.event {
        Some("workflow_job") => {
            let event = job(request.body, forge, scopes, now)?;
            Ok(with_delivery(event, request.delivery))
        }
        Some("ping") => Ok(WebhookEvent::Ping),
        Some(other) => Ok(WebhookEvent::Ignored(shortened(other))),
        None => Err(WebhookRefusal::Malformed("it names no event (`X-GitHub-Event`)".into())),
    }
}

fn job(
    body: &[u8],
    forge: &ForgeId,
    scopes: &[Scope],
    now: Timestamp,
) -> Result<WebhookEvent, WebhookRefusal> {
    if body.starts_with(b"payload=") {
        let why = "it is a form; set the hook's content type to `application/json`";
        return Err(WebhookRefusal::Malformed(why.into()));
    }
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    // The parser's own words may quote the payload; line and column say enough.
    let payload: Payload = serde_json::from_slice(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        WebhookRefusal::Malformed(format!(
            "{:?} error at line {line}, column {column}",
            error.classify()
        ))
    })?;
    let place = Place {
        owner: payload.repository.owner.login,
        repository: payload.repository.name,
        enterprise: payload.enterprise.and_then(|it| it.slug),
    };
    // The action says what happened; `status` may already be older or newer than it.
    let known =
        matches!(payload.action.as_str(), "queued" | "waiting" | "in_progress" | "completed");
    let Some(fact) = payload.workflow_job.fact(&payload.action).filter(|_| known) else {
        return Ok(WebhookEvent::Ignored(shortened(&payload.action)));
    };
    if !scopes.iter().any(|scope| scope.covers(&place)) {
        return Ok(WebhookEvent::Elsewhere(place));
    }
    let happened_at = payload.workflow_job.happened_at(&fact);
    let notice = payload.workflow_job.notice(forge, place, fact, now);
    Ok(WebhookEvent::Job(Box::new(JobEvent { notice, happened_at })))
}

fn with_delivery(event: WebhookEvent, guid: Option<&str>) -> WebhookEvent {
    match event {
        WebhookEvent::Job(mut event) => {
            event.notice.delivery = guid.filter(|guid| !guid.is_empty()).map(DeliveryId::new);
            WebhookEvent::Job(event)
        }
        WebhookEvent::Ping | WebhookEvent::Elsewhere(_) | WebhookEvent::Ignored(_) => event,
    }
}

/// Reads `sha256=<hex>`.
fn signature_bytes(text: &str) -> Option<Vec<u8>> {
    let hex = text.trim().strip_prefix("sha256=")?;
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn shortened(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(64).collect()
}
