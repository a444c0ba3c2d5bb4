//! Takes what a forge delivers: verified on the bytes as they came, durable, then 202.
//!
//! Who it is and what the head says come first: nobody is given room for a body who does not name
//! a forge of ours, signs nothing, or announces more than a forge sends.

use std::time::Duration;

use actix_web::http::header::CONTENT_LENGTH;
use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::fleet::ToFleet;
use ostler_actors::model::JobNotice;
use ostler_actors::ports::Acceptance;
use tracing::{debug, warn};

use super::AppState;
use super::app_state::{Hook, WebhookSource};
use super::problem::problem;
use crate::github::webhook::{self, MAX_DELIVERY_BYTES, Refusal, Request, WebhookEvent};

/// How long a body may take; GitHub itself gives up after ten seconds.
const SLOW_BODY: Duration = Duration::from_secs(10);

/// Takes one delivery.
pub(super) async fn deliver(
    app_state: web::Data<AppState>,
    forge: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let hook = match app_state.webhook_source(&forge) {
        WebhookSource::Known(hook) => hook,
        WebhookSource::Stranger => {
            return problem(404, "no forge of that name is configured; compare the hook's address");
        }
        WebhookSource::Shut => {
            return problem(
                503,
                "this daemon is stopping; the delivery was not taken, send it again",
            );
        }
    };
    let (answer, outcome) = receive(&app_state, &hook, &request, payload).await;
    app_state.metrics.count_webhook(hook.forge.as_str(), outcome);
    answer
}

/// Takes one delivery of a forge of ours; also returns the word it is counted under.
async fn receive(
    app_state: &AppState,
    hook: &Hook,
    request: &HttpRequest,
    payload: web::Payload,
) -> (HttpResponse, &'static str) {
    if let Some(refusal) = at_first_sight(request) {
        return (refuse(&refusal), refusal.outcome());
    }
    let body = match read(payload, SLOW_BODY).await {
        Ok(body) => body,
        Err((answer, outcome)) => return (answer, outcome),
    };
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let delivery = Request {
        event: header("X-GitHub-Event"),
        delivery: header("X-GitHub-Delivery"),
        signature: header("X-Hub-Signature-256"),
        body: &body,
    };
    let now = app_state.clock.now();
    match webhook::open(&hook.secrets, delivery, &hook.forge, &hook.scopes, now) {
        Ok(WebhookEvent::Job(event)) => {
            let notice = hook.github.hear(*event);
            keep(app_state, notice).await
        }
        Ok(
            event @ (WebhookEvent::Ping | WebhookEvent::Elsewhere(_) | WebhookEvent::Ignored(_)),
        ) => {
            debug!(forge.id = %hook.forge, "delivery: {}", event.outcome());
            (HttpResponse::Accepted().finish(), event.outcome())
        }
        Err(refusal) => (refuse(&refusal), refusal.outcome()),
    }
}

/// Returns why a delivery is refused for its head alone.
fn at_first_sight(request: &HttpRequest) -> Option<Refusal> {
    let headers = request.headers();
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.is_some_and(|text| {
        text.parse().is_ok_and(|length: u64| length > MAX_DELIVERY_BYTES as u64)
    }) {
        return Some(Refusal::TooLarge);
    }
    (!headers.contains_key("X-Hub-Signature-256")).then_some(Refusal::Unsigned)
}

/// Reads a body that is neither too large nor too slow.
async fn read(
    payload: web::Payload,
    timeout: Duration,
) -> Result<web::Bytes, (HttpResponse, &'static str)> {
    match tokio::time::timeout(timeout, payload.to_bytes_limited(MAX_DELIVERY_BYTES)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(why))) => Err((problem(400, &format!("the body broke off: {why}")), "malformed")),
        Ok(Err(_)) => Err((refuse(&Refusal::TooLarge), Refusal::TooLarge.outcome())),
        Err(_) => {
            Err((problem(408, "the body took too long; the delivery was not taken"), "failed"))
        }
    }
}

/// Makes a notice durable, tells the fleet, and only then accepts it.
async fn keep(app_state: &AppState, notice: JobNotice) -> (HttpResponse, &'static str) {
    let Some(id) = notice.delivery.clone() else {
        return (problem(400, "the delivery has no id (`X-GitHub-Delivery`)"), "malformed");
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

fn refuse(refusal: &Refusal) -> HttpResponse {
    debug!("delivery refused: {refusal}");
    let status = match refusal {
        Refusal::TooLarge => 413,
        Refusal::Unsigned | Refusal::BadSignature => 401,
        Refusal::Malformed(_) => 400,
    };
    problem(status, &refusal.to_string())
}
