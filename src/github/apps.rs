//! Finds the installation of an App that serves an owner, so that its number is not configured.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ostler_actors::model::Scope;
use tokio::time::Instant;

use super::answer::ApiFailure;
use super::api::{ApiClient, ApiRequest};
use super::identity::{Identity, SecretSource, Tokens};
use super::route;
use super::wire;

/// How long a failed search answers later calls.
const FAILED_SEARCH_TTL: Duration = Duration::from_secs(5);
/// How long an App that is not installed is not searched for again.
const NOT_INSTALLED_TTL: Duration = Duration::from_mins(1);

/// Holds one configured credential.
pub(super) enum Account {
    /// Serves every scope its owner may.
    Token(Arc<Identity>),
    /// Serves the owners it is installed on.
    App(App),
}

/// Holds an App and what was found of its installations.
pub(super) struct App {
    pub(super) identity: Arc<Identity>,
    found: Mutex<BTreeMap<String, Arc<InstallationSlot>>>,
}

/// Holds the search for one owner: one searches, the others wait for it.
#[derive(Default)]
struct InstallationSlot {
    identity: ArcSwapOption<Identity>,
    searching: tokio::sync::Mutex<Option<(Instant, ApiFailure)>>,
}

impl InstallationSlot {
    fn known(&self) -> Option<Arc<Identity>> {
        self.identity.load_full().filter(|identity| identity.is_known())
    }
}

/// Returns how long a failure is not worth another search.
fn failure_ttl(failure: &ApiFailure) -> Duration {
    match failure {
        ApiFailure::Denied { .. } => NOT_INSTALLED_TTL,
        ApiFailure::Held { .. } | ApiFailure::Lost { .. } => FAILED_SEARCH_TTL,
    }
}

impl Account {
    /// Returns the identity for the scope.
    pub(super) async fn for_scope(
        &self,
        api: &ApiClient,
        scope: &Scope,
    ) -> Result<Arc<Identity>, ApiFailure> {
        match self {
            Self::Token(identity) => Ok(Arc::clone(identity)),
            Self::App(app) => app.installed(api, scope).await,
        }
    }

    /// Returns the identities that this credential has used so far.
    pub(super) fn identities(&self) -> Vec<Arc<Identity>> {
        match self {
            Self::Token(identity) => vec![Arc::clone(identity)],
            Self::App(app) => {
                let found = app.found.lock().unwrap_or_else(PoisonError::into_inner);
                let installed = found.values().filter_map(|slot| slot.identity.load_full());
                std::iter::once(Arc::clone(&app.identity)).chain(installed).collect()
            }
        }
    }
}

impl App {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity: Arc::new(identity), found: Mutex::default() }
    }

    async fn installed(&self, api: &ApiClient, scope: &Scope) -> Result<Arc<Identity>, ApiFailure> {
        let owner = match scope {
            Scope::Repository { owner, .. } | Scope::Organization(owner) => owner.to_lowercase(),
            Scope::Enterprise(slug) => {
                let why = format!(
                    "an App cannot register runners of enterprise `{slug}`; add a classic token with `manage_runners:enterprise`"
                );
                return Err(ApiFailure::Denied { why });
            }
        };
        let slot = {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(found.entry(owner).or_default())
        };
        if let Some(identity) = slot.known() {
            return Ok(identity);
        }
        let mut last_failure = slot.searching.lock().await;
        if let Some(identity) = slot.known() {
            return Ok(identity);
        }
        if let Some((_, failure)) =
            last_failure.as_ref().filter(|(at, why)| at.elapsed() < failure_ttl(why))
        {
            return Err(failure.clone());
        }
        match self.search(api, scope).await {
            Ok(identity) => {
                let identity = Arc::new(identity);
                slot.identity.store(Some(Arc::clone(&identity)));
                Ok(identity)
            }
            Err(failure) => {
                *last_failure = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    async fn search(&self, api: &ApiClient, scope: &Scope) -> Result<Identity, ApiFailure> {
        let number = api.installation(&self.identity, scope).await?.id;
        let name = format!("installation {number} of {}", self.identity.name);
        let app = Arc::clone(&self.identity);
        let (tokens, gone) = (Tokens::default(), AtomicBool::new(false));
        let source = SecretSource::Installation { app, number, tokens, gone };
        Ok(api.identity(name, source))
    }
}

impl ApiClient {
    async fn installation(
        &self,
        app: &Identity,
        scope: &Scope,
    ) -> Result<wire::Installation, ApiFailure> {
        let answer = self.ask_app(app, &ApiRequest::get(route::installation(scope))).await?;
        match answer.status {
            200 => answer.read(),
            404 => Err(ApiFailure::Denied {
                why: format!(
                    "{} is not installed on `{scope}`; install it there, or add a token",
                    app.name
                ),
            }),
            _ => Err(answer.unexpected(&format!("cannot find the installation for `{scope}`"))),
        }
    }

    /// Asks again how much of an owner an identity is shown. A token counts as unrestricted: GitHub
    /// does not say which repositories a fine-grained one was created for.
    pub(super) async fn reach(
        &self,
        identity: &Identity,
        scope: &Scope,
    ) -> Result<Reach, ApiFailure> {
        let app = match &identity.source {
            SecretSource::Installation { app, .. } => app,
            SecretSource::Token(_) | SecretSource::App(_) => return Ok(Reach::Whole),
        };
        let selection = self.installation(app, scope).await?.repository_selection;
        Ok(if selection == "selected" { Reach::Selected } else { Reach::Whole })
    }
}

/// Tells how much of an owner an identity is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Whole,
    /// Only selected repositories; those outside the selection send it nothing and show it nothing.
    Selected,
}
