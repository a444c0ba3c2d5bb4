//! One call over HTTP, with a deadline; no tokens and no retries here.

use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, IF_NONE_MATCH, LOCATION, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Limited};
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::answer::{ApiAnswer, ApiFailure};
use super::settings::{BadSettings, Settings};
use crate::client::{BadTransport, TransportOptions, USER_AGENT_VALUE, transport, was_never_sent};
use crate::errors::root_cause;

/// How large an answer may be.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The version of the API whose answers we read; a later one may rename fields.
const API_VERSION: &str = "2022-11-28";
/// How many redirects of a moved repository are followed.
const MAX_REDIRECTS: usize = 3;

/// Speaks HTTP with one GitHub.
pub(super) struct GitHubClient {
    octocrab: Octocrab,
    base: String,
    timeout: Duration,
}

/// Holds one call. Not `Debug`: it may carry a secret.
pub(super) struct ApiCall<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    pub(super) bearer: &'a SecretString,
    pub(super) etag: Option<&'a str>,
    pub(super) body: Option<&'a Value>,
}

impl GitHubClient {
    pub(super) fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let bad = || BadSettings::Url(settings.api_url.clone());
        let base = settings.api_url.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| bad())?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Self { octocrab: octocrab(settings)?, base, timeout: settings.timeout })
    }

    /// Makes the call and reads the whole answer, within the deadline.
    pub(super) async fn send(&self, call: &ApiCall<'_>) -> Result<ApiAnswer, ApiFailure> {
        let late = || {
            let seconds = self.timeout.as_secs();
            ApiFailure::Lost { why: format!("no answer from GitHub in {seconds} s") }
        };
        let answer = tokio::time::timeout(self.timeout, self.follow(call)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    /// Follows a repository that was renamed; only reads, and never to another host.
    async fn follow(&self, call: &ApiCall<'_>) -> Result<ApiAnswer, ApiFailure> {
        let mut uri = format!("{}{}", self.base, call.path);
        for _ in 0..MAX_REDIRECTS {
            let answer = self.once(call, &uri).await?;
            let moved = matches!(answer.status, 301 | 302 | 307 | 308);
            let next = answer.header(LOCATION.as_str()).and_then(|to| same_host(&uri, to));
            match next {
                Some(next) if moved && call.method == Method::GET => uri = next,
                Some(_) | None => return Ok(answer),
            }
        }
        Err(ApiFailure::Lost { why: "too many redirects".into() })
    }

    async fn once(&self, call: &ApiCall<'_>, uri: &str) -> Result<ApiAnswer, ApiFailure> {
        let request = self.request(call, uri)?;
        let response =
            self.octocrab.execute(request).await.map_err(|error| unsent_or_lost(&error))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|_| {
            ApiFailure::Lost { why: format!("GitHub's answer ({}) broke off", parts.status) }
        })?;
        let body = body.to_bytes().to_vec();
        Ok(ApiAnswer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    fn request(
        &self,
        call: &ApiCall<'_>,
        uri: &str,
    ) -> Result<Request<octocrab::OctoBody>, ApiFailure> {
        let denied =
            |_| ApiFailure::Denied { why: "the credential cannot be sent as a header".into() };
        let bearer = format!("Bearer {}", call.bearer.expose_secret());
        let mut bearer = HeaderValue::from_str(&bearer).map_err(denied)?;
        bearer.set_sensitive(true);
        let mut builder = Request::builder()
            .method(call.method.clone())
            .uri(uri)
            .header(AUTHORIZATION, bearer)
            .header(ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", API_VERSION)
            .header(USER_AGENT, USER_AGENT_VALUE);
        if let Some(etag) = call.etag {
            builder = builder.header(IF_NONE_MATCH, etag);
        }
        self.octocrab
            .build_request(builder, call.body)
            .map_err(|_| ApiFailure::Denied { why: format!("`{uri}` is not an address") })
    }
}

/// Returns octocrab on our transport, without its own headers, retries and tokens.
fn octocrab(settings: &Settings) -> Result<Octocrab, BadSettings> {
    let options =
        TransportOptions { ca_pem: settings.ca_pem.as_deref(), proxy: settings.proxy.as_deref() };
    let transport = transport(&options).map_err(|error| match error {
        BadTransport::Ca(why) => BadSettings::Ca(why),
        BadTransport::Proxy(text) => BadSettings::Proxy(text),
    })?;
    let built =
        OctocrabBuilder::new_empty().with_service(transport).with_auth(AuthState::None).build();
    match built {
        Ok(octocrab) => Ok(octocrab),
        Err(never) => match never {},
    }
}

/// Separates a call that was never sent from one whose answer was lost.
fn unsent_or_lost(error: &octocrab::Error) -> ApiFailure {
    let cause = root_cause(error);
    if was_never_sent(error) {
        ApiFailure::Held { after: None, why: format!("GitHub cannot be reached: {cause}") }
    } else {
        ApiFailure::Lost { why: format!("the call to GitHub broke: {cause}") }
    }
}

/// Returns the target of a redirect, if it stays on the configured host.
fn same_host(from: &str, to: &str) -> Option<String> {
    let (from, to) = (from.parse::<Uri>().ok()?, to.parse::<Uri>().ok()?);
    let path = to.path_and_query()?.as_str();
    let stays = to.authority().is_none()
        || (to.authority() == from.authority() && to.scheme() == from.scheme());
    let (scheme, authority) = (from.scheme_str()?, from.authority()?);
    stays.then(|| format!("{scheme}://{authority}{path}"))
}

#[cfg(test)]
mod tests {
    use super::same_host;

    #[test]
    fn a_move_is_followed_only_on_the_same_host() {
        let from = "https://github.example/api/v3/repos/a/b";
        let to = "https://github.example/api/v3/repositories/7";
        assert_eq!(same_host(from, to).as_deref(), Some(to));
        assert_eq!(
            same_host(from, "/repositories/7?page=2").as_deref(),
            Some("https://github.example/repositories/7?page=2")
        );
        assert_eq!(same_host(from, "https://evil.example/repositories/7"), None);
        assert_eq!(same_host(from, "http://github.example/repositories/7"), None);
    }
}
