//! Reads a GARM that runs, through its API.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use super::ImportError;
use super::survey::{Place, Rows};
use crate::github;

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
    let mut rows = Rows::default();
    for (list, place) in LISTS {
        let url = format!("{base}/api/v1/{list}");
        let failed = |why: String| ImportError::Api { url: url.clone(), why };
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, get(&url, token)).await;
        let (status, value) = asked
            .map_err(|_| failed(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())))?
            .map_err(failed)?;
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

async fn get(url: &str, token: &SecretString) -> Result<(u16, Value), String> {
    let told = |error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    let tls = github::trust(None).map_err(|error| told(&error))?;
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
    let client: Client<_, Empty<&'static [u8]>> =
        Client::builder(TokioExecutor::new()).build(https.build());
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret().trim()));
    let mut bearer = bearer.map_err(|_| "the token is no text for a header".to_owned())?;
    bearer.set_sensitive(true);
    let request = Request::get(url)
        .header(ACCEPT, "application/json")
        .header(AUTHORIZATION, bearer)
        .body(Empty::new())
        .map_err(|error| told(&error))?;
    let answer = client.request(request).await.map_err(|error| told(&error))?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
