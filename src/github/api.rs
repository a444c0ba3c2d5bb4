//! Asks GitHub as the identity that serves a scope best.
//!
//! A credential is asked only about the scopes it is for. Where several are, they share the load,
//! and one that GitHub shows nothing to answers for nobody: the next is asked.

use std::sync::Arc;

use http::Method;
use ostler_actors::model::Scope;
use ostler_actors::ports::{Chance, Clock};
use serde_json::Value;

use super::access::Proofs;
use super::answer::Answer;
use super::apps::{Account, App};
use super::client::Client;
use super::etags::Etags;
use super::failure::Failure;
use super::governor::{Governor, Lane, Limits, Resource};
use super::identity::{Identity, Source};
use super::route::{self, Route};
use super::settings::{Auth, BadSettings, Settings};
use super::tally::Tally;
use super::watch::Watch;
use crate::ports::{ForgeFigures, RateBudget, WebhookFigures};

/// Holds everything that asking takes.
pub(super) struct ApiClient {
    pub(super) client: Client,
    pub(super) watch: Watch,
    accounts: Vec<ScopedCredential>,
    limits: Limits,
    chance: Arc<dyn Chance>,
    pub(super) tally: Tally,
}

/// Holds one credential and where it is used; everywhere when no scope is named.
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

pub(super) struct Question<'a> {
    pub(super) method: Method,
    pub(super) route: Route,
    pub(super) body: Option<Value>,
    /// Where unchanged answers are remembered, if they may be.
    pub(super) etags: Option<&'a Etags>,
}

impl Question<'_> {
    pub(super) fn get(route: Route) -> Self {
        Self { method: Method::GET, route, body: None, etags: None }
    }

    pub(super) fn post(route: Route, body: Option<Value>) -> Self {
        Self { method: Method::POST, route, body, etags: None }
    }

    pub(super) fn patch(route: Route, body: Value) -> Self {
        Self { method: Method::PATCH, route, body: Some(body), etags: None }
    }

    pub(super) fn remove(route: Route) -> Self {
        Self { method: Method::DELETE, route, body: None, etags: None }
    }
}

impl ApiClient {
    pub(super) fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        let client = Client::new(&settings)?;
        let limits =
            Limits { jit_per_minute: settings.jit_per_minute, poll_budget: settings.poll_budget };
        let mut api = Self {
            client,
            watch: Watch::new(clock),
            accounts: Vec::new(),
            limits,
            chance,
            tally: Tally::default(),
        };
        for (number, credential) in settings.credentials.into_iter().enumerate() {
            let account = match credential.auth {
                Auth::Token(secret) => {
                    let name = format!("token {}", number + 1);
                    Account::Token(Arc::new(api.identity(name, Source::Token(secret))))
                }
                Auth::App { client_id, private_key } => {
                    let key = Arc::new(super::keys::AppKey::new(&client_id, &private_key)?);
                    let name = format!("App {client_id}");
                    Account::App(App::new(api.identity(name, Source::App(key))))
                }
            };
            api.accounts.push(ScopedCredential { scopes: credential.scopes, account });
        }
        if api.accounts.is_empty() { Err(BadSettings::Nobody) } else { Ok(api) }
    }

    /// Makes an identity with a budget of its own.
    pub(super) fn identity(&self, name: String, source: Source) -> Identity {
        let governor = Governor::new(self.limits, Arc::clone(&self.chance));
        Identity { name, governor, source, proofs: Proofs::default() }
    }

    /// Asks as whoever may act in the scope and has the most room.
    pub(super) async fn ask(
        &self,
        scope: &Scope,
        lane: Lane,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        self.ask_somebody(scope, lane, question).await.map(|(_, answer)| answer)
    }

    /// Asks as whoever may act in the scope and has the most room, and says as whom: two
    /// identities may be shown different things.
    pub(super) async fn ask_somebody(
        &self,
        scope: &Scope,
        lane: Lane,
        question: &Question<'_>,
    ) -> Result<(Arc<Identity>, Answer), Failure> {
        let mut able = self.able(scope).await.map_err(Failure::before_the_call)?;
        able.sort_by(|a, b| b.governor.room(lane).total_cmp(&a.governor.room(lane)));
        let proof = route::proof(scope, &question.route);
        let (mut first, mut missing) = (None, None);
        for identity in able {
            match self.ask_as(&identity, lane, question).await {
                // Turned away before anything happened: another identity may be let in.
                Err(failure @ (Failure::Held { .. } | Failure::Denied { .. })) => {
                    first = first.or(Some(failure));
                }
                Err(failure @ Failure::Lost { .. }) => return Err(failure),
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
            (failure, _) => Err(failure.unwrap_or_else(|| nobody(scope))),
        }
    }

    /// Returns the Apps among the credentials, for what belongs to no installation.
    pub(super) fn apps(&self) -> Vec<Arc<Identity>> {
        let apps = self.accounts.iter().filter_map(|seat| match &seat.account {
            Account::App(app) => Some(Arc::clone(&app.identity)),
            Account::Token(_) => None,
        });
        apps.collect()
    }

    /// Returns who may act in the scope.
    async fn able(&self, scope: &Scope) -> Result<Vec<Arc<Identity>>, Failure> {
        let mut able = Vec::new();
        let mut failure = None;
        for account in self.covering(scope) {
            match account.for_scope(self, scope).await {
                Ok(identity) => able.push(identity),
                Err(why) => failure = Some(why),
            }
        }
        if able.is_empty() { Err(failure.unwrap_or_else(|| nobody(scope))) } else { Ok(able) }
    }

    /// Returns the credentials for the scope. The repositories of an enterprise do not bear its
    /// name, so where nobody is named for one, those of enterprises are asked: a 404 to somebody
    /// without access proves nothing.
    fn covering(&self, scope: &Scope) -> Vec<&Account> {
        let named: Vec<_> = self.accounts.iter().filter(|seat| seat.covers(scope)).collect();
        let seats = if named.is_empty() && !matches!(scope, Scope::Enterprise(_)) {
            self.accounts.iter().filter(|seat| seat.is_of_an_enterprise()).collect()
        } else {
            named
        };
        seats.into_iter().map(|seat| &seat.account).collect()
    }

    pub(super) fn figures(&self) -> ForgeFigures {
        let mut rates = Vec::new();
        for identity in self.accounts.iter().flat_map(|seat| seat.account.identities()) {
            for resource in [Resource::Core, Resource::Registration] {
                if let Some((limit, left, resets_in)) = identity.governor.left(resource) {
                    let (identity, resource) = (identity.name.clone(), resource.word());
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
        }
    }
}

fn nobody(scope: &Scope) -> Failure {
    Failure::Denied { why: format!("no credential may act in `{scope}`; add one for it") }
}
