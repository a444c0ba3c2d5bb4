//! `GET /pools…`: what is wanted, what there is, and why.

use actix_web::web;
use jiff::Timestamp;
use ostler_actors::model::{PoolId, Subject};
use ostler_actors::pool::explain_pool;

use super::look;
use super::shapes::{Explanation, Listed, Pool, PoolDetail};
use crate::http::AppState;
use crate::http::problem::Problem;

/// Lists the pools, in the order of the configuration.
#[utoipa::path(
    get, path = "/api/v1/pools", tag = "pools",
    responses((status = 200, body = Listed<Pool>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn list(app_state: web::Data<AppState>) -> web::Json<Listed<Pool>> {
    web::Json(Listed { items: app_state.pools(app_state.clock.now()), next_cursor: None })
}

/// Shows one pool and why it is so.
#[utoipa::path(
    get, path = "/api/v1/pools/{name}", tag = "pools", params(("name" = String, Path, description = "The pool.")),
    responses(
        (status = 200, body = PoolDetail),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn one(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<PoolDetail>, Problem> {
    let now = app_state.clock.now();
    let found = app_state.pools(now).into_iter().find(|pool| pool.name == *name);
    let pool = found.ok_or_else(|| unknown(&name))?;
    let explain = said(&app_state, &name, now).await?;
    Ok(web::Json(PoolDetail { pool, explain }))
}

/// Explains why a pool has as many instances as it has.
#[utoipa::path(
    get, path = "/api/v1/pools/{name}/explain", tag = "pools", params(("name" = String, Path, description = "The pool.")),
    responses(
        (status = 200, body = Explanation),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn explain(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<Explanation>, Problem> {
    let now = app_state.clock.now();
    if !app_state.pools(now).iter().any(|pool| pool.name == *name) {
        return Err(unknown(&name));
    }
    let subject = Subject::Pool(PoolId::new(name.as_str()));
    let lines = said(&app_state, &name, now).await?;
    Ok(web::Json(Explanation { subject: (&subject).into(), lines }))
}

async fn said(app_state: &AppState, name: &str, now: Timestamp) -> Result<Vec<String>, Problem> {
    let id = PoolId::new(name);
    let Some(view) = app_state.views().remove(&id) else {
        let stage = app_state.status.shown().stage;
        return Ok(vec![format!(
            "pool `{name}` has not shown itself yet: this daemon is {}",
            super::shapes::serde_name(&stage)
        )]);
    };
    let subject = Subject::Pool(id);
    let events = look(app_state.records.timeline(&subject)).await?;
    let mut lines = explain_pool(&view, &events, now);
    lines.extend(app_state.quarantine_remarks(&subject));
    Ok(lines)
}

pub(super) fn unknown(name: &str) -> Problem {
    Problem::new(404, format!("no pool is called `{name}`; `GET /api/v1/pools` lists them"))
}
