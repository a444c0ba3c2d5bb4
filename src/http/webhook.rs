//! Takes what a forge delivers: verified on the bytes as they came, durable, then 202.

use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::fleet::ToFleet;
use ostler_actors::model::JobNotice;
use ostler_actors::ports::Acceptance;
use tracing::{debug, warn};

use super::Doors;
use super::problem::problem;
use crate::github::webhook::{self, News, Refusal, Request};

pub(super) use crate::github::webhook::LARGEST;

/// Takes one delivery.
pub(super) async fn deliver(
    doors: web::Data<Doors>,
    forge: web::Path<String>,
    request: HttpRequest,
    body: web::Bytes,
) -> HttpResponse {
    let Some(hook) = doors.hook(&forge) else {
        return problem(404, "no forge of that name takes deliveries here now");
    };
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    let delivery = Request {
        event: header("X-GitHub-Event"),
        delivery: header("X-GitHub-Delivery"),
        signature: header("X-Hub-Signature-256"),
        body: &body,
    };
    let now = doors.clock.now();
    match webhook::open(&hook.secrets, delivery, &hook.forge, &hook.scopes, now) {
        Ok(News::Job(notice)) => {
            hook.github.remember(&notice.place);
            keep(&doors, *notice).await
        }
        Ok(news @ (News::Ping | News::Elsewhere(_) | News::Ignored(_))) => {
            debug!(forge.id = %hook.forge, "delivery: {}", news.outcome());
            HttpResponse::Accepted().finish()
        }
        Err(refusal) => refuse(&refusal),
    }
}

/// Makes a notice durable, tells the fleet, and only then accepts it.
async fn keep(doors: &Doors, notice: JobNotice) -> HttpResponse {
    let Some(id) = notice.delivery.clone() else {
        return problem(400, "the delivery has no id (`X-GitHub-Delivery`)");
    };
    match doors.inbox.accept(id, notice.clone()).await {
        Ok(Acceptance::New) => {
            // A standby has no fleet; the leader finds the delivery in the inbox.
            let _: Result<(), _> = doors.fleet.tell(ToFleet::Notice(notice));
            HttpResponse::Accepted().finish()
        }
        Ok(Acceptance::Known) => HttpResponse::Accepted().finish(),
        Err(why) => {
            warn!("a delivery is not taken: {why}");
            problem(503, "the store does not answer; the delivery was not taken, send it again")
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
