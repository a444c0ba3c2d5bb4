//! Reads a GARM that runs, through its API.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::ImportError;
use super::survey::{Place, Rows};
use crate::client::{CallLimits, HttpClient};
use crate::errors::chain;

/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How large one answer may be.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// The lists that are read; a release that does not know one of them answers 404.
const LISTS: &[(&str, Place)] = &[
    ("github/endpoints", |rows| &mut rows.endpoints),
    ("github/credentials", |rows| &mut rows.credentials),
    ("gitea/credentials", |rows| &mut rows.gitea),
    ("repositories", |rows| &mut rows.repositories),
    ("organizations", |rows| &mut rows.organizations),
    ("enterprises", |rows| &mut rows.enterprises),
    ("pools", |rows| &mut rows.pools),
    ("scalesets", |rows| &mut rows.scale_sets),
    ("controller-info", |rows| &mut rows.controllers),
];

/// Reads an installation; `token` is what `garm-cli` got when it logged in.
pub async fn from_url(url: &str, token: &SecretString) -> Result<Rows, ImportError> {
    let base = url.trim_end_matches('/').trim_end_matches("/api/v1");
    let client =
        HttpClient::direct(CallLimits { timeout: ANSWER_TIMEOUT, body_bytes: MAX_ANSWER_BYTES });
    let mut rows = Rows::default();
    for (list, place) in LISTS {
        let url = format!("{base}/api/v1/{list}");
        let failed = |why: String| ImportError::Api { url: url.clone(), why };
        let (status, value) = get(&client, &url, token).await.map_err(failed)?;
        match (status, value) {
            (200, Value::Array(all)) => *place(&mut rows) = all,
            (200, one @ Value::Object(_)) => place(&mut rows).push(one),
            (200, _) => {}
            (404, _) if *list != "pools" => {}
            (401 | 403, _) => {
                return Err(failed("GARM does not know this token; log in with garm-cli".into()));
            }
            (other, _) => return Err(failed(format!("GARM answered {other}"))),
        }
    }
    Ok(rows)
}

async fn get(client: &HttpClient, url: &str, token: &SecretString) -> Result<(u16, Value), String> {
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret().trim()));
    let mut bearer = bearer.map_err(|_| "the token is no text for a header".to_owned())?;
    bearer.set_sensitive(true);
    let request = Request::get(url)
        .header(ACCEPT, "application/json")
        .header(AUTHORIZATION, bearer)
        .body(Vec::new())
        .map_err(|error| chain(&error))?;
    let answer = client.call(request).await.map_err(|error| chain(&error))?;
    let value = serde_json::from_slice(answer.body()).unwrap_or(Value::Null);
    Ok((answer.status().as_u16(), value))
}
