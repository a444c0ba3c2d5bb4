//! One request as one identity: secret, permit, call, and what the answer teaches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::answer::{ApiAnswer, ApiFailure};
use super::api::{ApiClient, ApiRequest};
use super::client::ApiCall;
use super::governor::{Lane, Permit, RateLimitHeaders};
use super::identity::{Identity, SecretSource, Token};
use super::route;
use super::watch;
use super::wire;

/// How long a fresh installation token is good for when GitHub does not say.
const TOKEN_LIFE: Duration = Duration::from_mins(50);
/// From this many seconds on, a clock difference is logged.
const CLOCK_SKEW_SECONDS: i64 = 30;

impl ApiClient {
    /// Asks as one identity; a token that GitHub no longer knows is replaced once.
    pub(super) async fn ask_as(
        &self,
        identity: &Identity,
        lane: Lane,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        let secrets = match &identity.source {
            SecretSource::Token(secret) => {
                return self.accepted(identity, lane, secret, question).await;
            }
            SecretSource::App(_) => return self.ask_signed(identity, lane, question).await,
            SecretSource::Installation { tokens, .. } => tokens,
        };
        let token = secrets
            .get(|| self.fetch_token(identity))
            .await
            .map_err(ApiFailure::before_the_call)?;
        let answer = self.exchange(identity, lane, &token.secret, question).await?;
        if answer.status != 401 {
            return Ok(answer);
        }
        secrets.forget(&token);
        let token = secrets
            .get(|| self.fetch_token(identity))
            .await
            .map_err(ApiFailure::before_the_call)?;
        self.accepted(identity, lane, &token.secret, question).await
    }

    /// Asks with a signature. When a wrong clock spoilt it, the answer has the right time for another.
    async fn ask_signed(
        &self,
        app: &Identity,
        lane: Lane,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        let SecretSource::App(key) = &app.source else {
            return Err(ApiFailure::Denied { why: format!("{} is not an App", app.name) });
        };
        let ahead = self.watch.seconds_ahead();
        let signed = key.sign(self.watch.second_there())?;
        let answer = self.exchange(app, lane, &signed, question).await?;
        if answer.status != 401 || self.watch.seconds_ahead() == ahead {
            return self.refuse_401(app, answer);
        }
        let signed = key.sign(self.watch.second_there())?;
        self.accepted(app, lane, &signed, question).await
    }

    /// Asks as an App for what every later call needs.
    pub(super) async fn ask_app(
        &self,
        app: &Identity,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        self.ask_signed(app, Lane::Remove, question).await
    }

    async fn fetch_token(&self, identity: &Identity) -> Result<Token, ApiFailure> {
        let SecretSource::Installation { app, number, gone, .. } = &identity.source else {
            return Err(ApiFailure::Denied { why: format!("{} has no tokens", identity.name) });
        };
        let question = ApiRequest::post(route::access_tokens(*number), None);
        let answer = self.ask_app(app, &question).await?;
        gone.store(answer.status == 404, Ordering::Relaxed);
        if answer.status != 201 {
            return Err(answer.unexpected(&format!("cannot get a token for {}", identity.name)));
        }
        let token: wire::InstallationToken = answer.read()?;
        let there = watch::date(&answer.headers);
        let life = token.expires_at.zip(there).map(|(ends, there)| {
            Duration::from_secs((ends.as_second() - there.as_second()).max(0).unsigned_abs())
        });
        debug!(identity = %identity.name, "fetched a token");
        Ok(Token {
            secret: SecretString::from(token.token),
            ends: Instant::now() + life.unwrap_or(TOKEN_LIFE),
        })
    }

    async fn accepted(
        &self,
        identity: &Identity,
        lane: Lane,
        secret: &SecretString,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        let answer = self.exchange(identity, lane, secret, question).await?;
        self.refuse_401(identity, answer)
    }

    /// Waits for a permit, sends, and updates budget, clock, cache and figures from the answer.
    async fn exchange(
        &self,
        identity: &Identity,
        lane: Lane,
        secret: &SecretString,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        let permit = identity.governor.admit(lane).await.map_err(|held| ApiFailure::Held {
            after: Some(held.after),
            why: format!("GitHub is not called now: {}", held.why),
        })?;
        if question.gate.is_some_and(|gate| !gate.send()) {
            let why = "it is not wanted any more".into();
            return Err(ApiFailure::Held { after: None, why });
        }
        let path = question.route.path.as_str();
        let known = question.etags.and_then(|etags| etags.find(&identity.name, path));
        let call = ApiCall {
            method: question.method.clone(),
            path,
            bearer: secret,
            etag: known.as_ref().map(|known| known.tag.as_str()),
            body: question.body.as_ref(),
        };
        // Boxed, because it is large and few are under way: thousands may wait for a permit.
        let answer =
            Box::pin(self.sent(permit, &identity.name, question.route.kind, &call)).await?;
        match (answer.status, known) {
            (304, Some(known)) => {
                Ok(ApiAnswer { status: 200, body: known.body.to_vec(), ..answer })
            }
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
        who: &str,
        kind: &'static str,
        call: &ApiCall<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        permit.sent();
        let sent = self.client.send(call).await;
        self.tally.count(kind, sent.as_ref().map_or(0, |answer| answer.status));
        self.judge_call(who, sent.as_ref());
        let answer = sent?;
        self.compare_clocks(&answer);
        let headers = RateLimitHeaders::read(&answer);
        permit.record(&headers);
        if headers.turned_away {
            let after = headers.retry_after.or(headers.reset_in);
            let why = format!("GitHub limited us: {}", answer.message());
            return Err(ApiFailure::Held { after, why });
        }
        Ok(answer)
    }

    /// Reports how a call went. A 401 is judged by its caller, who may have another token.
    fn judge_call(&self, who: &str, sent: Result<&ApiAnswer, &ApiFailure>) {
        match sent {
            Ok(answer) if answer.status == 401 => {}
            Ok(answer) if answer.status >= 500 => {
                let error = format!("GitHub answered {}", answer.message());
                self.health.failed(who, &error, self.watch.here());
            }
            Ok(_) => self.health.served(who),
            Err(failure) => self.health.failed(who, &failure.clone().why(), self.watch.here()),
        }
    }

    fn refuse_401(&self, identity: &Identity, answer: ApiAnswer) -> Result<ApiAnswer, ApiFailure> {
        if answer.status != 401 {
            return Ok(answer);
        }
        let why = format!(
            "GitHub does not accept {}: {}; renew the credential",
            identity.name,
            answer.message()
        );
        self.health.failed(&identity.name, &why, self.watch.here());
        Err(ApiFailure::Denied { why })
    }

    fn compare_clocks(&self, answer: &ApiAnswer) {
        let before = self.watch.seconds_ahead();
        self.watch.compare(&answer.headers);
        let ahead = self.watch.seconds_ahead();
        if ahead.abs() >= CLOCK_SKEW_SECONDS && before.abs() < CLOCK_SKEW_SECONDS {
            warn!(
                seconds = ahead,
                "our clock is {ahead} s ahead of GitHub's (negative: behind); set it by NTP"
            );
        }
    }
}
