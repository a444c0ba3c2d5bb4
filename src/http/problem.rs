//! Errors for people and programs: `application/problem+json` with a sentence to act on.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says the kind.
    pub r#type: String,
    /// The kind, in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A sentence a person can act on.
    pub detail: String,
}

impl Problem {
    /// Makes a problem of a status and a sentence.
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        let known = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self {
            r#type: "about:blank".into(),
            title: known.canonical_reason().unwrap_or("error").into(),
            status: known.as_u16(),
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut answer = HttpResponse::build(self.status_code());
        answer.content_type("application/problem+json");
        if self.status == 401 {
            answer.insert_header((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        // What is worth repeating is worth a pause.
        if matches!(self.status, 429 | 503) {
            answer.insert_header((RETRY_AFTER, HeaderValue::from_static("5")));
        }
        answer.body(serde_json::to_string(self).unwrap_or_default())
    }
}

/// Returns a problem as an answer.
pub(super) fn problem(status: u16, detail: &str) -> HttpResponse {
    Problem::new(status, detail).error_response()
}

/// Answers for everything that is not here.
pub(super) async fn not_found() -> HttpResponse {
    problem(404, "there is nothing here; `GET /openapi.json` lists what is")
}

/// Answers a method that a place does not know.
pub(super) fn wrong_method(request: &HttpRequest, allowed: &'static str) -> HttpResponse {
    let detail = format!("`{}` is not possible here; {allowed} is", request.method());
    let mut answer = problem(405, &detail);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}
