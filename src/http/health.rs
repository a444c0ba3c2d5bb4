//! Whether the process lives, and whether it does its work.

use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde_json::json;

use super::AppState;
use crate::ports::Stage;

/// How long the store may take for one small read.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Says that the process lives.
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body("ok\n")
}

/// Says whether it leads, its store answers and takes saves; the details are for people.
pub(super) async fn ready(app_state: web::Data<AppState>) -> HttpResponse {
    let shown = app_state.status.shown();
    let read = tokio::time::timeout(PROBE_TIMEOUT, app_state.records.controller()).await;
    let store = match read {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some(why.to_string()),
        Err(_) => Some(format!("the store did not answer in {} s", PROBE_TIMEOUT.as_secs())),
    };
    let failing = app_state.saves.failing();
    let ready = shown.stage == Stage::Leading && store.is_none() && failing.is_none();
    let saves = failing.map(|(time, why)| format!("failing for {} s: {why}", time.as_secs()));
    let foreign = app_state.registry.foreign();
    let body = json!({
        "ready": ready,
        "stage": shown.stage,
        "store": store.unwrap_or_else(|| "ok".into()),
        "saves": saves.unwrap_or_else(|| "ok".into()),
        "config": shown.config_problem.unwrap_or_else(|| "ok".into()),
        "foreign_machines": foreign.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "violations": app_state.registry.violations(),
    });
    let mut answer = if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    answer.json(body)
}
