//! Delivers messages to receivers outside: each is sent, and once more after a failure that may pass.

use std::fmt;
use std::time::Duration;

use http::Request;

use crate::client::{CallError, CallLimits, HttpClient};

/// How long a receiver may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before the second and last attempt.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Names a receiver in errors; its address may be a secret and is not part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Receiver {
    pub(super) name: &'static str,
    /// The setting that holds the address.
    pub(super) setting: &'static str,
}

/// Tells why a message did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    receiver: Receiver,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Address,
    Unreachable,
    Late,
    Refused(u16),
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Receiver { name, setting } = self.receiver;
        match self.cause {
            Cause::Address => write!(f, "`{setting}` cannot be used as an http(s) address"),
            Cause::Unreachable => write!(f, "the {name} cannot be reached; see `{setting}`"),
            Cause::Late => {
                write!(f, "the {name} did not answer in {} s", SEND_TIMEOUT.as_secs())
            }
            Cause::Refused(status) => write!(f, "the {name} answered {status}"),
        }
    }
}

impl Cause {
    /// Tells whether the same message may be taken a moment later.
    fn may_pass(self) -> bool {
        match self {
            Self::Unreachable | Self::Late => true,
            // The same again would be refused again, unless there was too much at once.
            Self::Refused(status) => status == 429 || !(400..=499).contains(&status),
            Self::Address => false,
        }
    }
}

/// Delivers to one receiver; the connection is made with the first message.
pub(super) struct Outgoing {
    receiver: Receiver,
    client: Option<HttpClient>,
}

impl Outgoing {
    pub(super) fn new(receiver: Receiver) -> Self {
        Self { receiver, client: None }
    }

    /// Sends a JSON document, twice if need be.
    pub(super) async fn deliver<'a>(
        &mut self,
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        body: String,
    ) -> Result<(), Undelivered> {
        let mut request = Request::post(url).header("Content-Type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let undelivered = |cause| Undelivered { receiver: self.receiver, cause };
        let request = request.body(body.into_bytes()).map_err(|_| undelivered(Cause::Address))?;
        if !matches!(request.uri().scheme_str(), Some("http" | "https")) {
            return Err(undelivered(Cause::Address));
        }
        // Nothing of an answer is read but its head.
        let limits = CallLimits { timeout: SEND_TIMEOUT, body_bytes: 0 };
        let client = self.client.get_or_insert_with(|| HttpClient::direct(limits));
        let sent = match send(client, request.clone()).await {
            Err(cause) if cause.may_pass() => {
                tokio::time::sleep(RETRY_DELAY).await;
                send(client, request).await
            }
            sent => sent,
        };
        sent.map_err(undelivered)
    }
}

async fn send(client: &HttpClient, request: Request<Vec<u8>>) -> Result<(), Cause> {
    match client.open(request).await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        Ok(answer) => Err(Cause::Refused(answer.status().as_u16())),
        Err(CallError::Late(_)) => Err(Cause::Late),
        Err(CallError::Failed(_) | CallError::Broken(_)) => Err(Cause::Unreachable),
    }
}
