//! `GET /deaths…`: who ended, how, and why.

use actix_web::web;
use jiff::Timestamp;
use ostler_actors::model::PoolId;
use serde::Deserialize;

use super::requests::Part;
use super::shapes::{Death, DeathDetail, Listed, VerdictName};
use super::{instances, look};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::ports::DeathQuery;

/// Narrows the list.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::http) struct Which {
    verdict: Option<VerdictName>,
    pool: Option<String>,
    since: Option<Timestamp>,
}

/// Lists ends, the latest first.
#[utoipa::path(
    get, path = "/api/v1/deaths", tag = "deaths",
    params(
        ("verdict" = Option<VerdictName>, Query, description = "With this verdict only."),
        ("pool" = Option<String>, Query, description = "Of this pool only."),
        ("since" = Option<Timestamp>, Query, description = "Recorded at or after this only."),
        ("limit" = Option<u32>, Query, description = "How many at most.", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "Where the last part ended.")
    ),
    responses(
        (status = 200, body = Listed<Death>),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn list(
    app_state: web::Data<AppState>,
    which: web::Query<Which>,
    part: web::Query<Part>,
) -> Result<web::Json<Listed<Death>>, Problem> {
    let query = DeathQuery {
        verdict: which.verdict.map(|verdict| verdict.0),
        pool: which.pool.as_deref().filter(|pool| !pool.contains('\0')).map(PoolId::new),
        since: which.since,
    };
    let page = look(app_state.history.deaths(&query, &part.page()?)).await?;
    let items = page.items.iter().map(Death::from).collect();
    Ok(web::Json(Listed { items, next_cursor: page.next_cursor }))
}

/// Shows one end, with the end of its log.
#[utoipa::path(
    get, path = "/api/v1/deaths/{name}", tag = "deaths", params(("name" = String, Path, description = "The instance, or its runner.")),
    responses(
        (status = 200, body = DeathDetail),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn one(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<DeathDetail>, Problem> {
    let row = instances::find(&app_state, &name).await?;
    let record = look(app_state.records.exit(&row.id)).await?;
    let alive = || {
        let detail =
            format!("`{}` is {}; the record of its end is not written yet", row.id, row.state);
        Problem::new(404, detail)
    };
    record.as_ref().map(|record| web::Json(record.into())).ok_or_else(alive)
}
