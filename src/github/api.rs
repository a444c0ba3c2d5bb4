//! Asks GitHub as the identity that serves a scope best.
//!
//! A credential is used only for its scopes. Where several serve a scope they share the load, and
//! one that GitHub shows nothing proves nothing: the next is asked.

use std::sync::Arc;

use http::Method;
use ostler_actors::model::Scope;
use ostler_actors::ports::{Chance, Clock, MintGate};
use serde_json::Value;

use super::access::Proofs;
use super::answer::{ApiAnswer, ApiFailure};
use super::apps::{Account, App};
use super::client::GitHubClient;
use super::etags::Etags;
use super::governor::{Governor, Lane, Limits, Resource};
use super::identity::{Identity, SecretSource};
use super::route::{self, Route};
use super::settings::{Auth, BadSettings, Settings};
use super::tally::RequestTally;
use super::watch::ForgeClock;
use crate::ports::{CallHealth, ForgeFigures, RateBudget, WebhookFigures};

/// Everything that a request takes.
pub(super) struct ApiClient {
    pub(super) client: GitHubClient,
    pub(super) watch: ForgeClock,
    accounts: Vec<ScopedCredential>,
    limits: Limits,
    chance: Arc<dyn Chance>,
    pub(super) tally: RequestTally,
    /// Which identities are refused or get no answer.
    pub(super) health: CallHealth,
}

/// One credential and its scopes; every scope when none is named.
struct ScopedCredential {
    scopes: Vec<Scope>,
    account: Account,
}

impl ScopedCredential {
    fn covers(&self, scope: &Scope) -> bool {
        self.scopes.is_empty() || self.scopes.iter().any(|one| one.reaches(scope))
    }

    fn is_of_an_enterprise(&self) -> bool {
        self.scopes.iter().any(|one| matches!(one, Scope::Enterprise(_)))
    }
}

pub(super) struct ApiRequest<'a> {
    pub(super) method: Method,
    pub(super) route: Route,
    pub(super) body: Option<Value>,
    /// Where unchanged answers are remembered, if they may be.
    pub(super) etags: Option<&'a Etags>,
    /// What decides, when its turn has come, whether it is sent at all.
    pub(super) gate: Option<&'a MintGate>,
}

impl ApiRequest<'_> {
    pub(super) fn get(route: Route) -> Self {
        Self { method: Method::GET, route, body: None, etags: None, gate: None }
    }

    pub(super) fn post(route: Route, body: Option<Value>) -> Self {
        Self { method: Method::POST, route, body, etags: None, gate: None }
    }

    pub(super) fn patch(route: Route, body: Value) -> Self {
        Self { method: Method::PATCH, route, body: Some(body), etags: None, gate: None }
    }

    pub(super) fn remove(route: Route) -> Self {
        Self { method: Method::DELETE, route, body: None, etags: None, gate: None }
    }
}

impl ApiClient {
    pub(super) fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        let client = GitHubClient::new(&settings)?;
        let limits =
            Limits { jit_per_minute: settings.jit_per_minute, poll_budget: settings.poll_budget };
        let mut api = Self {
            client,
            watch: ForgeClock::new(clock),
            accounts: Vec::new(),
            limits,
            chance,
            tally: RequestTally::default(),
            health: CallHealth::default(),
        };
        for (number, credential) in settings.credentials.into_iter().enumerate() {
            let account = match credential.auth {
                Auth::Token(secret) => {
                    let name = format!("token {}", number + 1);
                    Account::Token(Arc::new(api.identity(name, SecretSource::Token(secret))))
                }
                Auth::App { client_id, private_key } => {
                    let key = Arc::new(super::identity::AppKey::new(&client_id, &private_key)?);
                    let name = format!("App {client_id}");
                    Account::App(App::new(api.identity(name, SecretSource::App(key))))
                }
            };
            api.accounts.push(ScopedCredential { scopes: credential.scopes, account });
        }
        if api.accounts.is_empty() { Err(BadSettings::NoCredential) } else { Ok(api) }
    }

    /// Creates an identity with a budget of its own.
    pub(super) fn identity(&self, name: String, source: SecretSource) -> Identity {
        let governor = Governor::new(self.limits, Arc::clone(&self.chance));
        Identity { name, governor, source, proofs: Proofs::default() }
    }

    /// Asks as the identity of the scope that has the most budget left.
    pub(super) async fn ask(
        &self,
        scope: &Scope,
        lane: Lane,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        self.ask_any(scope, lane, question).await.map(|(_, answer)| answer)
    }

    /// Asks as the identity of the scope that has the most budget left, and returns it too: two
    /// identities may be shown different things.
    pub(super) async fn ask_any(
        &self,
        scope: &Scope,
        lane: Lane,
        question: &ApiRequest<'_>,
    ) -> Result<(Arc<Identity>, ApiAnswer), ApiFailure> {
        let mut able = self.able(scope).await.map_err(ApiFailure::before_the_call)?;
        able.sort_by(|a, b| b.governor.room(lane).total_cmp(&a.governor.room(lane)));
        let proof = route::proof(scope, &question.route);
        let (mut first, mut missing) = (None, None);
        for identity in able {
            match self.ask_as(&identity, lane, question).await {
                // Turned away before anything happened: another identity may be let in.
                Err(failure @ (ApiFailure::Held { .. } | ApiFailure::Denied { .. })) => {
                    first = first.or(Some(failure));
                }
                Err(failure @ ApiFailure::Lost { .. }) => return Err(failure),
                // GitHub says the same of what is not there and of what is not shown.
                Ok(answer) if answer.denies() => match &proof {
                    None => missing = missing.or(Some((identity, answer))),
                    Some(proof) => match self.prove_access(&identity, scope, proof).await {
                        Ok(()) => return Ok((identity, answer)),
                        Err(failure) => first = first.or(Some(failure)),
                    },
                },
                Ok(answer) => return Ok((identity, answer)),
            }
        }
        match (first, missing) {
            (None, Some(missing)) => Ok(missing),
            (failure, _) => Err(failure.unwrap_or_else(|| no_credential(scope))),
        }
    }

    /// Returns the Apps among the credentials, for what belongs to no installation.
    pub(super) fn apps(&self) -> Vec<Arc<Identity>> {
        let apps = self.accounts.iter().filter_map(|credential| match &credential.account {
            Account::App(app) => Some(Arc::clone(&app.identity)),
            Account::Token(_) => None,
        });
        apps.collect()
    }

    /// Returns the identities that serve the scope.
    async fn able(&self, scope: &Scope) -> Result<Vec<Arc<Identity>>, ApiFailure> {
        let mut able = Vec::new();
        let mut failure = None;
        for account in self.covering(scope) {
            match account.for_scope(self, scope).await {
                Ok(identity) => able.push(identity),
                Err(why) => failure = Some(why),
            }
        }
        if able.is_empty() {
            Err(failure.unwrap_or_else(|| no_credential(scope)))
        } else {
            Ok(able)
        }
    }

    /// Returns the credentials for the scope. The repositories of an enterprise do not bear its
    /// name, so where no credential names one, those of enterprises are asked: a 404 without access
    /// proves nothing.
    fn covering(&self, scope: &Scope) -> Vec<&Account> {
        let named: Vec<_> =
            self.accounts.iter().filter(|credential| credential.covers(scope)).collect();
        let credentials = if named.is_empty() && !matches!(scope, Scope::Enterprise(_)) {
            self.accounts.iter().filter(|credential| credential.is_of_an_enterprise()).collect()
        } else {
            named
        };
        credentials.into_iter().map(|credential| &credential.account).collect()
    }

    pub(super) fn figures(&self) -> ForgeFigures {
        let mut rates = Vec::new();
        for identity in self.accounts.iter().flat_map(|credential| credential.account.identities())
        {
            for resource in [Resource::Core, Resource::Registration] {
                if let Some((limit, left, resets_in)) = identity.governor.left(resource) {
                    let (identity, resource) = (identity.name.clone(), resource.as_str());
                    rates.push(RateBudget { identity, resource, limit, left, resets_in });
                }
            }
        }
        let requests = self.tally.counts();
        let clock_ahead_seconds = self.watch.seconds_ahead();
        ForgeFigures {
            requests,
            rates,
            clock_ahead_seconds,
            webhooks: WebhookFigures::default(),
            ending: Vec::new(),
            troubles: self.health.troubles(),
        }
    }
}

fn no_credential(scope: &Scope) -> ApiFailure {
    ApiFailure::Denied { why: format!("no credential may act in `{scope}`; add one for it") }
}
