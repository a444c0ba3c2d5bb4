//! Bodies of requests: small, whole, in time, and JSON that says so.

use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpRequest, web};
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;

/// How large the body of a request may be.
const MAX_BODY_BYTES: usize = 16 << 10;
/// How long it may take.
const SLOW: Duration = Duration::from_secs(10);

/// Reads a body; no body at all is `None`.
pub(super) async fn read<T: DeserializeOwned>(
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<Option<T>, Problem> {
    let too_large = || Problem::new(413, format!("the body is larger than {MAX_BODY_BYTES} bytes"));
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if announced
        .is_some_and(|text| text.parse::<u64>().is_ok_and(|size| size > MAX_BODY_BYTES as u64))
    {
        return Err(too_large());
    }
    let bytes = match tokio::time::timeout(SLOW, payload.to_bytes_limited(MAX_BODY_BYTES)).await {
        Ok(Ok(Ok(bytes))) => bytes,
        Ok(Ok(Err(why))) => return Err(Problem::new(400, format!("the body broke off: {why}"))),
        Ok(Err(_)) => return Err(too_large()),
        Err(_) => return Err(Problem::new(408, "the body took too long")),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    // A form of another site's page could not say this without asking us first.
    let kind = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or("");
    if !kind
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    {
        return Err(Problem::new(415, "send JSON, with `Content-Type: application/json`"));
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|why| Problem::new(400, format!("the body cannot be understood: {why}")))
}
