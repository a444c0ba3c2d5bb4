//! What operators may ask for: drains, goodbyes, adoptions.
//!
//! Each is in the audit log, with the name on the token, before it is asked. Nothing is done here:
//! the owner is asked by message, and what it answers is the answer.

use std::time::Duration;

use actix_web::{HttpRequest, web};
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::Consent;
use ostler_actors::mail::{NoAnswer, Reply};
use ostler_actors::model::{InstanceId, PoolId, Refusal, RequestedBy, State, Urgency};
use serde_json::json;
use tracing::info;

use super::shapes::{Adopted, Answered, DeleteRequest, Drained, Why};
use super::{instances, pools, requests};
use crate::config::Role;
use crate::http::AppState;
use crate::http::gate::Caller;
use crate::http::problem::Problem;
use crate::ports::AuditEntry;

/// How long an owner may take to answer.
const OWNER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long words may be that are kept for ever.
const MAX_WHY_CHARS: usize = 2000;

/// Drains a pool: free instances are asked to leave, and none is created.
#[utoipa::path(
    post, path = "/api/v1/pools/{name}/drain", tag = "pools", params(("name" = String, Path, description = "The pool.")),
    responses(
        (status = 200, body = Drained),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "This daemon does not lead, or its store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn drain(
    app_state: web::Data<AppState>,
    caller: web::ReqData<Caller>,
    name: web::Path<String>,
) -> Result<web::Json<Drained>, Problem> {
    set_drained(&app_state, &caller, &name, true).await
}

/// Resumes a pool.
#[utoipa::path(
    post, path = "/api/v1/pools/{name}/resume", tag = "pools", params(("name" = String, Path, description = "The pool.")),
    responses(
        (status = 200, body = Drained),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "This daemon does not lead, or its store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn resume(
    app_state: web::Data<AppState>,
    caller: web::ReqData<Caller>,
    name: web::Path<String>,
) -> Result<web::Json<Drained>, Problem> {
    set_drained(&app_state, &caller, &name, false).await
}

async fn set_drained(
    app_state: &AppState,
    caller: &Caller,
    name: &str,
    drained: bool,
) -> Result<web::Json<Drained>, Problem> {
    may_act(caller)?;
    let pool = PoolId::new(name);
    if !app_state.pools(app_state.clock.now()).iter().any(|pool| pool.name == name) {
        return Err(pools::unknown(name));
    }
    let what = if drained { "pool.drain" } else { "pool.resume" };
    audit(app_state, caller, what, json!({ "pool": name })).await?;
    let who = caller.name.clone();
    let message = |reply| ToFleet::Drain { pool, drained, who, reply };
    match ask(app_state, message).await? {
        Ok(()) => Ok(web::Json(Drained { pool: name.to_owned(), draining: drained })),
        Err(Refusal::Unknown) => Err(pools::unknown(name)),
        Err(why) => Err(refused(why)),
    }
}

/// Asks an instance to go: as soon as it is free, or now, whatever it does.
#[utoipa::path(
    delete, path = "/api/v1/instances/{name}", tag = "instances", params(("name" = String, Path, description = "The instance, or its runner.")),
    request_body = DeleteRequest,
    responses(
        (status = 200, body = Answered),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "This daemon does not lead, or its store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn delete(
    app_state: web::Data<AppState>,
    caller: web::ReqData<Caller>,
    name: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<web::Json<Answered>, Problem> {
    may_act(&caller)?;
    let request_body: DeleteRequest = requests::body(&request, payload).await?.unwrap_or_default();
    let why = request_body.why.as_deref().map(why_text).transpose()?;
    let urgency = match (request_body.force, &why) {
        (false, _) => Urgency::Delete,
        (true, Some(_)) => Urgency::Force,
        (true, None) => {
            return Err(Problem::new(400, "`force` cuts a running job short: say why, in `why`"));
        }
    };
    let why = why.unwrap_or_else(|| "no reason was given".into());
    go(&app_state, &caller, &name, urgency, why).await
}

/// Strikes an instance off whose machine is out of our reach for good; what is left of it is a leak.
#[utoipa::path(
    post, path = "/api/v1/instances/{name}/forget", tag = "instances", params(("name" = String, Path, description = "The instance, or its runner.")),
    request_body = Why,
    responses(
        (status = 200, body = Answered),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "This daemon does not lead, or its store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn forget(
    app_state: web::Data<AppState>,
    caller: web::ReqData<Caller>,
    name: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<web::Json<Answered>, Problem> {
    may_act(&caller)?;
    let why = reason(&request, payload).await?;
    go(&app_state, &caller, &name, Urgency::Forget, why).await
}

/// Counts all foreign machines among ours; they are then taken apart like any machine without a record.
#[utoipa::path(
    post, path = "/api/v1/foreign/adopt", tag = "fleet", request_body = Why,
    responses(
        (status = 200, body = Adopted),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "This daemon does not lead, or its store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn adopt(
    app_state: web::Data<AppState>,
    caller: web::ReqData<Caller>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<web::Json<Adopted>, Problem> {
    may_act(&caller)?;
    let why = reason(&request, payload).await?;
    let machines: Vec<String> =
        app_state.registry.foreign().keys().map(ToString::to_string).collect();
    audit(&app_state, &caller, "foreign.adopt", json!({ "machines": machines, "why": why }))
        .await?;
    let by = RequestedBy { who: caller.name.clone(), why };
    match ask(&app_state, |reply| ToFleet::AdoptForeign { by, reply }).await? {
        Ok(machines) => Ok(web::Json(Adopted { machines })),
        Err(why) => Err(refused(why)),
    }
}

/// Asks an instance to go.
async fn go(
    app_state: &AppState,
    caller: &Caller,
    name: &str,
    urgency: Urgency,
    why: String,
) -> Result<web::Json<Answered>, Problem> {
    let row = instances::find(app_state, name).await?;
    if row.state == State::Deleted {
        return Err(Problem::new(
            409,
            format!("`{}` is gone already; nothing is left of it", row.id),
        ));
    }
    let id = row.id.clone();
    let detail = json!({ "instance": id, "urgency": urgency, "why": why });
    audit(app_state, caller, "instance.go", detail).await?;
    let by = RequestedBy { who: caller.name.clone(), why };
    let instance: InstanceId = id.clone();
    match ask(app_state, |reply| ToFleet::Retire { instance, urgency, by, reply }).await? {
        Ok(consent) => {
            let (answer, why) = match consent {
                Consent::Going => ("going", "it is on its way"),
                Consent::Noted => ("noted", "deletion scheduled; it happens when it is safe"),
                Consent::Looking => ("looking", "it looks for itself before anything else"),
            };
            Ok(web::Json(Answered {
                instance: id.to_string(),
                answer: answer.into(),
                why: why.into(),
            }))
        }
        Err(Refusal::Unknown) => Err(Problem::new(
            409,
            format!("`{id}` has no owner at this moment; ask again in a second"),
        )),
        Err(why) => Err(refused(why)),
    }
}

async fn reason(request: &HttpRequest, payload: web::Payload) -> Result<String, Problem> {
    let said: Option<Why> = requests::body(request, payload).await?;
    let said = said.ok_or_else(|| Problem::new(400, "say why: send `{\"why\": \"…\"}`"))?;
    why_text(&said.why)
}

/// Returns a reason as it may be stored: not empty, not too long, in one line.
fn why_text(text: &str) -> Result<String, Problem> {
    if text.trim().is_empty() {
        return Err(Problem::new(400, "`why` says nothing"));
    }
    if text.chars().count() > MAX_WHY_CHARS {
        return Err(Problem::new(400, format!("`why` is longer than {MAX_WHY_CHARS} characters")));
    }
    Ok(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
}

fn may_act(caller: &Caller) -> Result<(), Problem> {
    match caller.role {
        Role::Operator => Ok(()),
        Role::Viewer => Err(Problem::new(
            403,
            format!("token `{}` may only look; this takes the role `operator`", caller.name),
        )),
    }
}

/// Makes the deed durable in the audit log before anything is asked.
async fn audit(
    app_state: &AppState,
    caller: &Caller,
    what: &str,
    detail: serde_json::Value,
) -> Result<(), Problem> {
    let (who, what, detail) = (caller.name.clone(), what.to_owned(), detail.to_string());
    info!(audit.who = %who, audit.what = %what, "{who} asks for {what}: {detail}");
    super::look(app_state.history.audit(AuditEntry { who, what, detail })).await
}

async fn ask<T>(
    app_state: &AppState,
    message: impl FnOnce(Reply<T>) -> ToFleet,
) -> Result<T, Problem> {
    app_state.fleet.ask(message, OWNER_TIMEOUT).await.map_err(|why| match why {
        NoAnswer::Gone => Problem::new(
            503,
            "no fleet acts here: this daemon stands by, starts or stops; ask the one that leads",
        ),
        NoAnswer::Late => Problem::new(
            503,
            "the owner did not answer in time; the request may have been taken, look before you repeat it",
        ),
    })
}

/// Returns the owner's sentence.
fn refused(why: Refusal) -> Problem {
    Problem::new(409, why.as_str())
}
