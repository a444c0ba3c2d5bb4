//! What clients send: bodies that are small, whole, in time and JSON that says so, and which page of a
//! list they want.

use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::{HttpRequest, web};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::problem::Problem;
use crate::ports::Page;

/// How large the body of a request may be.
const MAX_BODY_BYTES: usize = 16 << 10;
/// How long it may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a body; no body at all is `None`.
pub(super) async fn body<T: DeserializeOwned>(
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
    let bytes = match tokio::time::timeout(BODY_TIMEOUT, payload.to_bytes_limited(MAX_BODY_BYTES))
        .await
    {
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

/// How many items a page holds by default.
const DEFAULT_PAGE_ITEMS: u32 = 100;
/// How many it may hold.
const MAX_PAGE_ITEMS: u32 = 1000;

/// Holds which part of a list is asked for.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Part {
    limit: Option<u32>,
    cursor: Option<String>,
}

impl Part {
    /// Returns how many items are asked for.
    pub(super) fn limit(&self) -> Result<u32, Problem> {
        match self.limit {
            None => Ok(DEFAULT_PAGE_ITEMS),
            Some(limit) if (1..=MAX_PAGE_ITEMS).contains(&limit) => Ok(limit),
            Some(_) => {
                Err(Problem::new(400, format!("`limit` is a number from 1 to {MAX_PAGE_ITEMS}")))
            }
        }
    }

    /// Returns where the last part of a list by name ended.
    pub(super) fn after(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Returns the part as the store knows it.
    pub(super) fn page(&self) -> Result<Page, Problem> {
        let ours = |cursor: &String| {
            cursor.split_once(':').is_some_and(|(at, _)| at.parse::<i64>().is_ok())
        };
        if self.cursor.as_ref().is_some_and(|cursor| !ours(cursor) || cursor.contains('\0')) {
            return Err(bad_cursor());
        }
        Ok(Page { limit: self.limit()?, cursor: self.cursor.clone() })
    }
}

pub(super) fn bad_cursor() -> Problem {
    Problem::new(400, "that `cursor` is none of ours; leave it out to begin with the first part")
}
