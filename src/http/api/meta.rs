//! `GET /config` and `GET /version`: what this daemon is.

use actix_web::web;
use serde_json::Value;

use super::shapes::Version;
use crate::http::AppState;
use crate::http::problem::Problem;

/// Shows the configuration in force; secrets appear as the place they are kept in.
#[utoipa::path(
    get, path = "/api/v1/config", tag = "daemon",
    responses((status = 200, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn config(app_state: web::Data<AppState>) -> web::Json<Value> {
    web::Json(app_state.config.load().redacted())
}

/// Shows what runs here.
#[utoipa::path(
    get, path = "/api/v1/version", tag = "daemon",
    responses((status = 200, body = Version), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn version(app_state: web::Data<AppState>) -> web::Json<Version> {
    web::Json(Version {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("OSTLER_COMMIT").map(Into::into),
        rust: env!("CARGO_PKG_RUST_VERSION").into(),
        schema: app_state.schema,
    })
}
