//! Sends webhooks: signed, over HTTP, one connection each.
//!
//! Forty lines of HTTP instead of a client library: the receiver is our own daemon on this
//! machine, and the answer's first line is all that is wanted.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::server::Shared;

/// GitHub waits ten seconds for an answer.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends what is in the outbox, each delivery beside the others.
pub(super) fn send_all(shared: &Arc<Shared>) {
    let outbox = std::mem::take(&mut shared.state().outbox);
    for index in outbox {
        let shared = Arc::clone(shared);
        actix_rt::spawn(async move {
            let Some((url, request)) = request(&shared, index) else { return };
            let sent = tokio::time::timeout(DELIVERY_TIMEOUT, exchange(&url, &request)).await;
            let status = sent.ok().and_then(Result::ok).unwrap_or(502);
            if let Some(delivery) = shared.state().deliveries.get_mut(index) {
                delivery.attempt.status = status;
            }
            shared.changed();
        });
    }
}

/// Writes the request of one delivery.
fn request(shared: &Shared, index: usize) -> Option<(String, Vec<u8>)> {
    let state = shared.state();
    let delivery = state.deliveries.get(index)?;
    let hook = state.hooks.get(&delivery.hook)?;
    let (authority, path) = split(&hook.url)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.as_bytes());
    let signature = hmac::sign(&key, delivery.body.as_bytes());
    let hex = hex(signature.as_ref());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\
         User-Agent: GitHub-Hookshot/simulated\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nX-GitHub-Event: {}\r\nX-GitHub-Delivery: {}\r\n\
         X-GitHub-Hook-ID: {}\r\nX-Hub-Signature-256: sha256={hex}\r\n\r\n",
        delivery.body.len(),
        delivery.attempt.event,
        delivery.attempt.guid,
        delivery.hook,
    );
    let request = [head.as_bytes(), delivery.body.as_bytes()].concat();
    Some((authority.to_owned(), request))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Splits `http://host:port/path`.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("http://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    Some((authority, if path.is_empty() { "/" } else { path }))
}

/// Sends and returns the status of the answer.
async fn exchange(authority: &str, request: &[u8]) -> io::Result<u16> {
    let mut stream = TcpStream::connect(authority).await?;
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|label| label.parse().ok());
    status.ok_or_else(|| io::Error::other("no HTTP answer"))
}
