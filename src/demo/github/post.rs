//! Sends webhooks: signed, over HTTP, one connection each.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use http::Request;

use super::server::Shared;
use crate::client::{CallLimits, HttpClient};

/// GitHub waits ten seconds for an answer, and reads nothing of it but the status.
const DELIVERY: CallLimits = CallLimits { timeout: Duration::from_secs(10), body_bytes: 0 };

/// Sends what is in the outbox, each delivery beside the others.
pub(super) fn send_all(shared: &Arc<Shared>) {
    let outbox = std::mem::take(&mut shared.state().outbox);
    if outbox.is_empty() {
        return;
    }
    let client = HttpClient::plain(DELIVERY);
    for index in outbox {
        let (shared, client) = (Arc::clone(shared), client.clone());
        actix_rt::spawn(async move {
            let Some(request) = request(&shared, index) else { return };
            let sent = client.open(request).await;
            let status = sent.map_or(502, |answer| answer.status().as_u16());
            if let Some(delivery) = shared.state().deliveries.get_mut(index) {
                delivery.attempt.status = status;
            }
            shared.changed();
        });
    }
}

/// Writes the request of one delivery.
fn request(shared: &Shared, index: usize) -> Option<Request<Vec<u8>>> {
    let state = shared.state();
    let delivery = state.deliveries.get(index)?;
    let hook = state.hooks.get(&delivery.hook)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.as_bytes());
    let signature = hmac::sign(&key, delivery.body.as_bytes());
    let request = Request::post(&hook.url)
        .header("Connection", "close")
        .header("User-Agent", "GitHub-Hookshot/simulated")
        .header("Content-Type", "application/json")
        .header("X-GitHub-Event", delivery.attempt.event)
        .header("X-GitHub-Delivery", delivery.attempt.guid.as_str())
        .header("X-GitHub-Hook-ID", delivery.hook)
        .header("X-Hub-Signature-256", format!("sha256={}", hex(signature.as_ref())));
    request.body(delivery.body.as_bytes().to_vec()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
