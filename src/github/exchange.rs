//! One question, asked as one identity: secret, leave, call, and what is learnt from the answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use secrecy::SecretString;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::answer::Answer;
use super::api::{ApiClient, Question};
use super::client::Call;
use super::failure::Failure;
use super::governor::{Lane, Permit, RateLimitHeaders};
use super::identity::{Identity, Source, Token};
use super::route;
use super::watch;
use super::wire;

/// How long a fresh installation token is good for when GitHub does not say.
const TOKEN_LIFE: Duration = Duration::from_mins(50);
/// From this many seconds on a wrong clock is worth a word.
const SKEW: i64 = 30;

impl ApiClient {
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
        let Source::Installation { app, number, gone, .. } = &identity.source else {
            return Err(Failure::Denied { why: format!("{} has no tokens", identity.name) });
        };
        let question = Question::post(route::access_tokens(*number), None);
        let answer = self.ask_app(app, &question).await?;
        gone.store(answer.status == 404, Ordering::Relaxed);
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
        // Boxed, because it is large and few are under way: thousands may be waiting for leave.
        let answer = Box::pin(self.sent(permit, question.route.kind, &call)).await?;
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
        let headers = RateLimitHeaders::read(&answer);
        permit.record(&headers);
        if headers.turned_away {
            let after = headers.retry_after.or(headers.reset_in);
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
