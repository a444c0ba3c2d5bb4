//! Errors for people and programs: `application/problem+json` with a sentence to act on.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

/// Returns a problem.
pub(super) fn problem(status: u16, detail: &str) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    HttpResponse::build(status).content_type("application/problem+json").body(body.to_string())
}

/// Answers for everything that is not here.
pub(super) async fn not_found() -> HttpResponse {
    problem(
        404,
        "there is nothing here; `GET /healthz`, `GET /readyz` and `POST /webhooks/{forge}` are",
    )
}
