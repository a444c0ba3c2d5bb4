//! The webhook of an organization or a repository: found by its address, created, repaired, checked.
//!
//! A hook is ours when it sends to our address; numbers are looked up and never configured, so
//! installing twice is installing once. GitHub never shows a secret again, so whether it is right
//! shows in how our own server answered the deliveries: 401 means another secret.
//!
//! An App has a hook of its own, set on its page. Where that one sends to us already, no other is
//! needed. Hooks of an enterprise cannot be reached by anyone but its owners' browsers.

use ostler_actors::model::Scope;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;

use super::GitHub;
use super::answer::ApiFailure;
use super::api::ApiRequest;
use super::governor::Lane;
use super::paging::List;
use super::route;
use super::wire::lenient;
use crate::ports::{DeliveryAttempt, HookRef, HookView, Installed};

/// The one event we need.
pub(super) const EVENT: &str = "workflow_job";

/// Says what a hook is to be.
pub struct HookSpec<'a> {
    /// Where it shall send.
    pub url: &'a str,
    /// What it shall sign with.
    pub secret: &'a SecretString,
}

#[derive(Deserialize)]
struct HookJson {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    active: bool,
    #[serde(default, deserialize_with = "lenient")]
    events: Vec<String>,
    config: HookConfigJson,
}

#[derive(Deserialize)]
struct HookConfigJson {
    #[serde(default, deserialize_with = "lenient")]
    url: String,
    #[serde(default, deserialize_with = "lenient")]
    content_type: String,
    #[serde(default)]
    secret: Option<String>,
    /// `"0"` or `"1"`, and a number on old servers.
    #[serde(default)]
    insecure_ssl: serde_json::Value,
}

#[derive(Deserialize)]
struct AppJson {
    #[serde(default, deserialize_with = "lenient")]
    events: Vec<String>,
}

impl HookJson {
    fn view(self) -> HookView {
        HookView {
            id: self.id,
            url: self.config.url,
            active: self.active,
            events: self.events,
            content_type: self.config.content_type,
            signed: self.config.secret.is_some_and(|secret| !secret.is_empty()),
            careless: matches!(self.config.insecure_ssl.to_string().as_str(), "\"1\"" | "1"),
        }
    }
}

impl GitHub {
    /// Returns the hooks of a scope that send to an address: one, if all is well.
    pub async fn hooks_to(&self, scope: &Scope, url: &str) -> Result<Vec<HookView>, String> {
        self.find_hooks(scope, url).await.map_err(ApiFailure::why)
    }

    pub(super) async fn find_hooks(
        &self,
        scope: &Scope,
        url: &str,
    ) -> Result<Vec<HookView>, ApiFailure> {
        if let Scope::Enterprise(slug) = scope {
            return Err(enterprise(slug));
        }
        let route = route::hooks(scope);
        let list = List { scope, lane: Lane::Check, route, field: "hooks", etags: None };
        let hooks =
            self.api.list::<HookJson>(list).await.map_err(|failure| explained(scope, failure));
        let ours = hooks?.into_iter().map(HookJson::view).filter(|hook| same(&hook.url, url));
        Ok(ours.collect())
    }

    /// Returns the hook of our App, if there is an App and its hook sends to the address.
    pub async fn app_hook_to(&self, url: &str) -> Result<Option<HookView>, String> {
        self.find_app_hook(url).await.map_err(ApiFailure::why)
    }

    async fn find_app_hook(&self, url: &str) -> Result<Option<HookView>, ApiFailure> {
        for app in self.api.apps() {
            let route = route::other("app_hook", "/app/hook/config".into());
            let answer = self.api.ask_as(&app, Lane::Check, &ApiRequest::get(route)).await?;
            let config: HookConfigJson = match answer.status {
                200 => answer.read()?,
                404 => continue,
                _ => return Err(answer.unexpected("cannot read the hook of the App")),
            };
            if !same(&config.url, url) {
                continue;
            }
            let question = ApiRequest::get(route::other("app", "/app".into()));
            let answer = self.api.ask_as(&app, Lane::Check, &question).await?;
            if answer.status != 200 {
                return Err(answer.unexpected("cannot read what the App tells of"));
            }
            let events = answer.read::<AppJson>()?.events;
            let wire = HookJson { id: None, active: true, events, config };
            return Ok(Some(wire.view()));
        }
        Ok(None)
    }

    /// Returns the hooks that send to us, by address, for those who look after deliveries: the
    /// App's own, else those of the scopes. What could not be looked at is said beside.
    pub async fn hooks_that_reach(
        &self,
        url: &str,
        scopes: &[Scope],
    ) -> (Vec<HookRef>, Vec<String>) {
        match self.find_app_hook(url).await {
            Ok(Some(_)) => return (vec![HookRef::Shared], Vec::new()),
            Ok(None) => {}
            Err(failure) => return (vec![HookRef::Shared], vec![failure.why()]),
        }
        let (mut hooks, mut unseen) = (Vec::new(), Vec::new());
        for scope in scopes.iter().filter(|scope| !matches!(scope, Scope::Enterprise(_))) {
            match self.find_hooks(scope, url).await {
                Ok(found) => hooks.extend(
                    found
                        .into_iter()
                        .filter_map(|hook| hook.id)
                        .map(|id| HookRef::Scope { scope: scope.clone(), id }),
                ),
                Err(failure) => unseen.push(format!("hooks of `{scope}`: {}", failure.why())),
            }
        }
        (hooks, unseen)
    }

    /// Creates the hook, or repairs the one that sends to the address already.
    pub async fn install_hook(
        &self,
        scope: &Scope,
        spec: &HookSpec<'_>,
    ) -> Result<Installed, String> {
        self.install(scope, spec).await.map_err(ApiFailure::why)
    }

    async fn install(&self, scope: &Scope, spec: &HookSpec<'_>) -> Result<Installed, ApiFailure> {
        let found = self.find_hooks(scope, spec.url).await?.into_iter().find_map(|hook| hook.id);
        let config = json!({
            "url": spec.url, "content_type": "json", "insecure_ssl": "0",
            "secret": spec.secret.expose_secret(),
        });
        let mut body = json!({"config": config, "events": [EVENT], "active": true});
        let question = if let Some(id) = found {
            ApiRequest::patch(route::hook(scope, id), body)
        } else {
            body["name"] = json!("web");
            ApiRequest::post(route::hooks(scope), Some(body))
        };
        let answer = self.api.ask(scope, Lane::Check, &question).await?;
        match (answer.status, found) {
            (200, Some(id)) => Ok(Installed::Updated(id)),
            (201, None) => {
                let made: HookJson = answer.read()?;
                let id = made.id.ok_or_else(|| ApiFailure::Lost {
                    why: "GitHub created a hook and did not return its id".into(),
                })?;
                Ok(Installed::Created(id))
            }
            (_, _) => {
                let what = format!("cannot install the hook of `{scope}`");
                Err(explained(scope, answer.unexpected(&what)))
            }
        }
    }

    /// Returns the newest attempts of a hook to deliver, the last one first.
    pub async fn hook_log(&self, hook: &HookRef) -> Result<Vec<DeliveryAttempt>, String> {
        let mut log = Vec::new();
        for whose in self.logs(hook) {
            log.extend(self.newest(&whose).await.map_err(ApiFailure::why)?);
        }
        Ok(log)
    }
}

/// Compares addresses without a slash at the end.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn enterprise(slug: &str) -> ApiFailure {
    let why = format!(
        "GitHub lets no program reach the hooks of enterprise `{slug}`; set it in the enterprise's \
         settings under Hooks, or install one for each organization"
    );
    ApiFailure::Denied { why }
}

/// Says which right is missing: GitHub's own words name none.
fn explained(scope: &Scope, failure: ApiFailure) -> ApiFailure {
    match failure {
        ApiFailure::Denied { why } => {
            let right = match scope {
                Scope::Repository { .. } => {
                    "`Webhooks: write` of the repository (classic: `admin:repo_hook`)"
                }
                Scope::Organization(_) | Scope::Enterprise(_) => {
                    "`Webhooks: write` of the organization (classic: `admin:org_hook`)"
                }
            };
            ApiFailure::Denied { why: format!("{why}; the credential needs {right}") }
        }
        failure @ (ApiFailure::Held { .. } | ApiFailure::Lost { .. }) => failure,
    }
}

/// Returns what is wrong with a hook, each with a fix; empty when it is fine.
pub fn faults(hook: &HookView, log: &[DeliveryAttempt]) -> Vec<String> {
    let fix =
        if hook.id.is_some() { "run `ostler hook install`" } else { "set it on the App's page" };
    let mut faults = Vec::new();
    if !hook.active {
        faults.push(format!("the hook is disabled; {fix}"));
    }
    if !hook.events.iter().any(|event| event == EVENT || event == "*") {
        faults.push(format!("the hook does not tell of jobs (event `{EVENT}`); {fix}"));
    }
    if hook.content_type != "json" {
        faults.push(format!("the hook sends forms instead of `application/json`; {fix}"));
    }
    if !hook.signed {
        faults.push(format!("the hook has no secret, so every delivery is refused; {fix}"));
    }
    if hook.careless {
        faults.push(format!("the hook does not check our certificate; {fix}"));
    }
    faults.extend(log.first().and_then(|newest| answered(newest.status_code)));
    faults
}

/// Explains the newest answer; None for one of success.
fn answered(code: u16) -> Option<String> {
    let says = match code {
        200..=299 => return None,
        0 | 502 | 504 => {
            "GitHub could not reach us; `http.public_url` must lead from the internet to this daemon, \
             with a certificate that browsers trust"
        }
        300..=399 => "we were not reached but sent on; `http.public_url` must be the final address",
        401 => {
            "the hook signs with another secret than `webhook_secret`; run `ostler hook install`"
        }
        404 => {
            "the address leads to another server, or the running daemon has no forge of this name; \
             compare `http.public_url` and the proxy before it"
        }
        413 => "a proxy before the daemon refuses large bodies; allow 25 MiB",
        503 => "the daemon could not store it; look at its log and `/readyz`",
        _ => "look at the daemon's log and at the proxy before it",
    };
    Some(format!("the last delivery was answered {code}: {says}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> HookView {
        HookView {
            id: Some(1),
            url: "https://ci/webhooks/github".into(),
            active: true,
            events: vec![EVENT.into()],
            content_type: "json".into(),
            signed: true,
            careless: false,
        }
    }

    fn delivery(status_code: u16) -> DeliveryAttempt {
        DeliveryAttempt {
            id: 1,
            guid: "a".into(),
            delivered_at: None,
            status_code,
            event: EVENT.into(),
        }
    }

    #[test]
    fn a_good_hook_has_no_faults_and_only_the_newest_answer_counts() {
        assert_eq!(faults(&good(), &[]), [""; 0]);
        assert_eq!(faults(&good(), &[delivery(202), delivery(401)]), [""; 0]);
        let everything = HookView { events: vec!["*".into()], ..good() };
        assert_eq!(faults(&everything, &[delivery(202)]), [""; 0]);
    }

    #[test]
    fn every_fault_is_named_with_a_fix() {
        let bad = HookView {
            active: false,
            events: vec!["push".into()],
            content_type: "form".into(),
            signed: false,
            careless: true,
            ..good()
        };
        let told = faults(&bad, &[delivery(401)]);
        assert_eq!(told.len(), 6);
        assert!(told.iter().all(|fault| fault.contains("; ")), "{told:?}");
        let of_app = faults(&HookView { id: None, ..bad }, &[]);
        assert!(of_app.iter().all(|fault| fault.contains("App's page")), "{of_app:?}");
        for code in [0, 301, 400, 401, 404, 413, 500, 502, 503, 504] {
            assert_eq!(faults(&good(), &[delivery(code)]).len(), 1, "{code}");
        }
    }
}
