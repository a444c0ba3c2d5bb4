//! Takes what a forge delivers: verified on the bytes as they came, durable, then 202.
//!
//! The sender and the headers are judged first: a request that names no forge of ours, is not
//! signed, or announces more than its forge sends, is refused before its body is read.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::fleet::ToFleet;
use ostler_actors::model::JobNotice;
use ostler_actors::ports::Acceptance;
use tracing::{debug, warn};

use super::AppState;
use super::app_state::{WebhookSource, WebhookTarget};
use super::problem::problem;
use crate::ports::{DeliveryRefusal, Received};

/// How long a body may take; GitHub gives up after ten seconds.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes one delivery.
pub(super) async fn deliver(
    app_state: web::Data<AppState>,
    forge: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let target = match app_state.webhook_source(&forge) {
        WebhookSource::Known(target) => target,
        WebhookSource::Unknown => {
            return problem(404, "no forge of that name is configured; compare the hook's address");
        }
        WebhookSource::Shut => {
            return problem(
                503,
                "this daemon is stopping; the delivery was not taken, send it again",
            );
        }
    };
    let (answer, outcome) = receive(&app_state, &target, &request, payload).await;
    app_state.metrics.count_webhook(target.forge.as_str(), outcome);
    answer
}

/// Takes one delivery of a configured forge; also returns its outcome for the metrics.
async fn receive(
    app_state: &AppState,
    target: &WebhookTarget,
    request: &HttpRequest,
    payload: web::Payload,
) -> (HttpResponse, &'static str) {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if let Err(refusal) = target.webhooks.screen(&header) {
        return refuse(&refusal);
    }
    let body = match read(payload, target.webhooks.max_body_bytes()).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let now = app_state.clock.now();
    match target.webhooks.receive(&header, &body, &target.scopes, now) {
        Ok(Received::Job(notice)) => accept(app_state, *notice).await,
        Ok(Received::NoJob(outcome)) => {
            debug!(forge.id = %target.forge, "delivery: {outcome}");
            (HttpResponse::Accepted().finish(), outcome)
        }
        Err(refusal) => refuse(&refusal),
    }
}

/// Reads a body that is neither too large nor too slow.
async fn read(
    payload: web::Payload,
    limit: usize,
) -> Result<web::Bytes, (HttpResponse, &'static str)> {
    match tokio::time::timeout(BODY_TIMEOUT, payload.to_bytes_limited(limit)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(why))) => Err((problem(400, &format!("the body broke off: {why}")), "malformed")),
        Ok(Err(_)) => Err(refuse(&DeliveryRefusal::TooLarge { limit })),
        Err(_) => {
            Err((problem(408, "the body took too long; the delivery was not taken"), "failed"))
        }
    }
}

/// Makes a notice durable, tells the fleet, and only then accepts it.
async fn accept(app_state: &AppState, notice: JobNotice) -> (HttpResponse, &'static str) {
    let Some(id) = notice.delivery.clone() else {
        return (problem(400, "the delivery has no id"), "malformed");
    };
    match app_state.inbox.accept(id, notice.clone()).await {
        Ok(Acceptance::New) => {
            // A standby has no fleet; the leader finds the delivery in the inbox.
            let _: Result<(), _> = app_state.fleet.tell(ToFleet::Notice(notice));
            (HttpResponse::Accepted().finish(), "accepted")
        }
        Ok(Acceptance::Known) => (HttpResponse::Accepted().finish(), "duplicate"),
        Err(why) => {
            warn!("a delivery is not taken: {why}");
            let why = "the store does not answer; the delivery was not taken, send it again";
            (problem(503, why), "failed")
        }
    }
}

fn refuse(refusal: &DeliveryRefusal) -> (HttpResponse, &'static str) {
    debug!("delivery refused: {refusal}");
    let status = match refusal {
        DeliveryRefusal::TooLarge { .. } => 413,
        DeliveryRefusal::Unsigned | DeliveryRefusal::BadSignature => 401,
        DeliveryRefusal::Malformed(_) => 400,
    };
    (problem(status, &refusal.to_string()), refusal.outcome())
}
