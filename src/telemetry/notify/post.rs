//! Brings a message to its address: one JSON document that chats and programs both understand.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use serde_json::json;

use super::super::outgoing::{Outgoing, Text, connect};
use super::Notice;
use crate::config::Notify;

/// How long a message may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long is waited before the second and last try.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Tells why a message did not arrive; the address is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undelivered {
    /// It is not an address.
    #[error("`notify.url` is not an http:// or https:// address")]
    Address,
    #[error("the receiver cannot be reached; see `notify.url`")]
    Unreachable,
    /// It took too long.
    #[error("the receiver did not answer in {} s", SEND_TIMEOUT.as_secs())]
    Late,
    /// It does not want it.
    #[error("the receiver answered {0}")]
    Refused(u16),
}

/// Sends messages; the connection is made with the first.
#[derive(Default)]
pub(super) struct Post(Option<Outgoing>);

impl Post {
    /// Sends one message, twice if need be.
    pub(super) async fn send(
        &mut self,
        notify: &Notify,
        notice: &Notice,
        fleet: &str,
        text: &str,
    ) -> Result<(), Undelivered> {
        let body = json!({
            "text": text,
            "fleet": fleet,
            "occasion": notice.occasion.as_str(),
            "subject": notice.subject,
            "sentence": notice.sentence,
            "advice": notice.advice,
        });
        let body = Text::new(body.to_string().into_bytes());
        let first = self.once(notify, body.clone()).await;
        match first {
            // The same again would be refused again.
            Ok(()) | Err(Undelivered::Address | Undelivered::Refused(400..=499)) => first,
            Err(Undelivered::Unreachable | Undelivered::Late | Undelivered::Refused(_)) => {
                tokio::time::sleep(RETRY_DELAY).await;
                self.once(notify, body).await
            }
        }
    }

    async fn once(&mut self, notify: &Notify, body: Text) -> Result<(), Undelivered> {
        let request = Request::post(notify.url.expose().trim())
            .header("Content-Type", "application/json")
            .header("User-Agent", concat!("ostler/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|_| Undelivered::Address)?;
        if !matches!(request.uri().scheme_str(), Some("http" | "https")) {
            return Err(Undelivered::Address);
        }
        let client = self.0.get_or_insert_with(connect);
        match tokio::time::timeout(SEND_TIMEOUT, client.request(request)).await {
            Err(_) => Err(Undelivered::Late),
            Ok(Err(_)) => Err(Undelivered::Unreachable),
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(Undelivered::Refused(answer.status().as_u16())),
        }
    }
}
