//! Asks GitHub as the identity that serves a scope best.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use ostler_actors::model::Scope;
use ostler_actors::ports::{Chance, Clock};
use secrecy::SecretString;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::answer::Answer;
use super::apps::{Account, App};
use super::client::{Call, Client};
use super::etags::Etags;
use super::failure::Failure;
use super::governor::{Governor, Lane, Limits, Permit, Resource, Told};
use super::identity::{Identity, Source, Token};
use super::route::{self, Route};
use super::settings::{BadSettings, Credential, Settings};
use super::tally::{Figures, RateFigure, Tally};
use super::watch::{self, Watch};
use super::wire;

/// How long a fresh installation token is good for when GitHub does not say.
const TOKEN_LIFE: Duration = Duration::from_mins(50);
/// From this many seconds on a wrong clock is worth a word.
const SKEW: i64 = 30;

/// Holds everything that asking takes.
pub(super) struct Hub {
    client: Client,
    watch: Watch,
    accounts: Vec<Account>,
    limits: Limits,
    chance: Arc<dyn Chance>,
    tally: Tally,
}

/// Holds one question.
pub(super) struct Question<'a> {
    pub(super) method: Method,
    pub(super) route: Route,
    pub(super) body: Option<Value>,
    /// Where unchanged answers are remembered, if they may be.
    pub(super) etags: Option<&'a Etags>,
}

impl<'a> Question<'a> {
    pub(super) fn get(route: Route) -> Self {
        Self { method: Method::GET, route, body: None, etags: None }
    }

    pub(super) fn remembered(route: Route, etags: &'a Etags) -> Self {
        Self { etags: Some(etags), ..Self::get(route) }
    }

    pub(super) fn post(route: Route, body: Option<Value>) -> Self {
        Self { method: Method::POST, route, body, etags: None }
    }

    pub(super) fn remove(route: Route) -> Self {
        Self { method: Method::DELETE, route, body: None, etags: None }
    }
}

impl Hub {
    pub(super) fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        chance: Arc<dyn Chance>,
    ) -> Result<Self, BadSettings> {
        let client = Client::new(&settings)?;
        let limits =
            Limits { jit_per_minute: settings.jit_per_minute, poll_budget: settings.poll_budget };
        let mut hub = Self {
            client,
            watch: Watch::new(clock),
            accounts: Vec::new(),
            limits,
            chance,
            tally: Tally::default(),
        };
        for (number, credential) in settings.credentials.into_iter().enumerate() {
            let account = match credential {
                Credential::Token(secret) => {
                    let name = format!("token {}", number + 1);
                    Account::Token(Arc::new(hub.identity(name, Source::Token(secret))))
                }
                Credential::App { client_id, private_key } => {
                    let key = Arc::new(super::keys::AppKey::new(&client_id, &private_key)?);
                    let name = format!("App {client_id}");
                    Account::App(App::new(hub.identity(name, Source::App(key))))
                }
            };
            hub.accounts.push(account);
        }
        if hub.accounts.is_empty() { Err(BadSettings::Nobody) } else { Ok(hub) }
    }

    /// Makes an identity with a budget of its own.
    pub(super) fn identity(&self, name: String, source: Source) -> Identity {
        let governor = Governor::new(self.limits, Arc::clone(&self.chance));
        Identity { name, governor, source }
    }

    /// Asks as whoever may act in the scope and has the most room.
    pub(super) async fn ask(
        &self,
        scope: &Scope,
        lane: Lane,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let mut able = self.able(scope).await.map_err(Failure::before_the_call)?;
        able.sort_by(|a, b| b.governor.room(lane).total_cmp(&a.governor.room(lane)));
        let mut first: Option<Failure> = None;
        for identity in able {
            match self.ask_as(&identity, lane, question).await {
                // Turned away before anything happened: another identity may be let in.
                Err(failure @ (Failure::Held { .. } | Failure::Denied { .. })) => {
                    first.get_or_insert(failure);
                }
                Err(failure @ Failure::Lost { .. }) => return Err(failure),
                Ok(answer) => return Ok(answer),
            }
        }
        Err(first.unwrap_or_else(|| nobody(scope)))
    }

    /// Returns the Apps among the credentials, for what belongs to no installation.
    pub(super) fn apps(&self) -> Vec<Arc<Identity>> {
        let apps = self.accounts.iter().filter_map(|account| match account {
            Account::App(app) => Some(Arc::clone(&app.identity)),
            Account::Token(_) => None,
        });
        apps.collect()
    }

    /// Returns who may act in the scope.
    async fn able(&self, scope: &Scope) -> Result<Vec<Arc<Identity>>, Failure> {
        let mut able = Vec::new();
        let mut failure = None;
        for account in &self.accounts {
            match account.for_scope(self, scope).await {
                Ok(identity) => able.push(identity),
                Err(why) => failure = Some(why),
            }
        }
        if able.is_empty() { Err(failure.unwrap_or_else(|| nobody(scope))) } else { Ok(able) }
    }

    /// Asks as one identity; a token that GitHub no longer knows is replaced once.
    pub(super) async fn ask_as(
        &self,
        identity: &Identity,
        lane: Lane,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let secrets = match &identity.source {
            Source::Token(secret) => return self.accepted(identity, lane, secret, question).await,
            Source::App(_) => return self.ask_signed(identity, lane, question).await,
            Source::Installation { tokens, .. } => tokens,
        };
        let token =
            secrets.get(|| self.fetch_token(identity)).await.map_err(Failure::before_the_call)?;
        let answer = self.exchange(identity, lane, &token.secret, question).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        secrets.forget(&token);
        let token =
            secrets.get(|| self.fetch_token(identity)).await.map_err(Failure::before_the_call)?;
        self.accepted(identity, lane, &token.secret, question).await
    }

    /// Asks with a signature; when a wrong clock spoilt it, its answer told the right time.
    async fn ask_signed(
        &self,
        app: &Identity,
        lane: Lane,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let Source::App(key) = &app.source else {
            return Err(Failure::Denied { why: format!("{} is not an App", app.name) });
        };
        let ahead = self.watch.seconds_ahead();
        let signed = key.sign(self.watch.second_there())?;
        let answer = self.exchange(app, lane, &signed, question).await?;
        if answer.status != 401 || self.watch.seconds_ahead() == ahead {
            return refuse_401(app, answer);
        }
        let signed = key.sign(self.watch.second_there())?;
        self.accepted(app, lane, &signed, question).await
    }

    /// Asks as an App for what every later call needs.
    pub(super) async fn ask_app(
        &self,
        app: &Identity,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        self.ask_signed(app, Lane::Remove, question).await
    }

    async fn fetch_token(&self, identity: &Identity) -> Result<Token, Failure> {
        let Source::Installation { app, number, .. } = &identity.source else {
            return Err(Failure::Denied { why: format!("{} has no tokens", identity.name) });
        };
        let question = Question::post(route::access_tokens(*number), None);
        let answer = self.ask_app(app, &question).await?;
        if answer.status != 201 {
            return Err(answer.unexpected(&format!("cannot get a token for {}", identity.name)));
        }
        let told: wire::InstallationToken = answer.read()?;
        let there = watch::date(&answer.headers);
        let life = told.expires_at.zip(there).map(|(ends, there)| {
            Duration::from_secs((ends.as_second() - there.as_second()).max(0).unsigned_abs())
        });
        debug!(identity = %identity.name, "fetched a token");
        Ok(Token {
            secret: SecretString::from(told.token),
            ends: Instant::now() + life.unwrap_or(TOKEN_LIFE),
        })
    }

    async fn accepted(
        &self,
        identity: &Identity,
        lane: Lane,
        secret: &SecretString,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        refuse_401(identity, self.exchange(identity, lane, secret, question).await?)
    }

    /// Waits for leave, sends, and lets budget, clock, memory and figures learn from the answer.
    async fn exchange(
        &self,
        identity: &Identity,
        lane: Lane,
        secret: &SecretString,
        question: &Question<'_>,
    ) -> Result<Answer, Failure> {
        let permit = identity.governor.admit(lane).await.map_err(|held| Failure::Held {
            after: Some(held.after),
            why: format!("GitHub is not asked now: {}", held.why),
        })?;
        let path = question.route.path.as_str();
        let known = question.etags.and_then(|etags| etags.find(&identity.name, path));
        let call = Call {
            method: question.method.clone(),
            path,
            bearer: secret,
            etag: known.as_ref().map(|known| known.tag.as_str()),
            body: question.body.as_ref(),
        };
        let answer = self.sent(permit, question.route.kind, &call).await?;
        match (answer.status, known) {
            (304, Some(known)) => Ok(Answer { status: 200, body: known.body.to_vec(), ..answer }),
            (200, _) => {
                if let (Some(etags), Some(tag)) = (question.etags, answer.header("etag")) {
                    etags.keep(&identity.name, path, tag, &answer.body);
                }
                Ok(answer)
            }
            _ => Ok(answer),
        }
    }

    async fn sent(
        &self,
        mut permit: Permit<'_>,
        kind: &'static str,
        call: &Call<'_>,
    ) -> Result<Answer, Failure> {
        permit.sent();
        let sent = self.client.send(call).await;
        self.tally.count(kind, sent.as_ref().map_or(0, |answer| answer.status));
        let answer = sent?;
        self.compare_clocks(&answer);
        let told = Told::read(&answer);
        permit.told(&told);
        if told.turned_away {
            let after = told.retry_after.or(told.reset_in);
            let why = format!("GitHub turned us away: {}", answer.message());
            return Err(Failure::Held { after, why });
        }
        Ok(answer)
    }

    fn compare_clocks(&self, answer: &Answer) {
        let before = self.watch.seconds_ahead();
        self.watch.compare(&answer.headers);
        let ahead = self.watch.seconds_ahead();
        if ahead.abs() >= SKEW && before.abs() < SKEW {
            warn!(
                seconds = ahead,
                "our clock is {ahead} s ahead of GitHub's (negative: behind); set it by NTP"
            );
        }
    }

    /// Returns our date.
    pub(super) fn date(&self) -> jiff::Timestamp {
        self.watch.here()
    }

    pub(super) fn figures(&self) -> Figures {
        let mut rates = Vec::new();
        for identity in self.accounts.iter().flat_map(Account::identities) {
            for resource in [Resource::Core, Resource::Registration] {
                if let Some((limit, left)) = identity.governor.left(resource) {
                    let (name, resource) = (identity.name.clone(), resource.word());
                    rates.push(RateFigure { identity: name, resource, limit, left });
                }
            }
        }
        let requests = self.tally.counts();
        Figures { requests, rates, clock_ahead_seconds: self.watch.seconds_ahead() }
    }
}

fn refuse_401(identity: &Identity, answer: Answer) -> Result<Answer, Failure> {
    if answer.status == 401 {
        let why = format!(
            "GitHub does not accept {}: {}; renew the credential",
            identity.name,
            answer.message()
        );
        return Err(Failure::Denied { why });
    }
    Ok(answer)
}

fn nobody(scope: &Scope) -> Failure {
    Failure::Denied { why: format!("no credential may act in `{scope}`; add one for it") }
}
