//! `POST /runner/v1/dispatch`: a warm machine, pod or local process, asks for work.
//!
//! | answer | means |
//! |---|---|
//! | 200 `{jit_config}` | here is your work; asking again brings the same |
//! | 202 | your acknowledgement is noted |
//! | 204 | nothing within this turn, ask again |
//! | 410 | you should leave |
//! | 401 | the token proves nothing |
//! | 403 | it proves another machine |
//! | 503 | cannot tell now, ask again |
//!
//! The token is bound to one machine, by name and uid, and so is the answer: the owner of exactly that
//! instance is asked, and answers only after the ledger called the offer delivered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{AUTHORIZATION, CACHE_CONTROL};
use actix_web::{HttpRequest, HttpResponse, web};
use arc_swap::ArcSwapOption;
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::Dispatch;
use ostler_actors::mail::NoAnswer;
use ostler_actors::model::{Instance, InstanceId, ProviderId, State};
use ostler_actors::ports::{MachineAuth, MachineRef, MachineToken, TokenReview};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;
use tracing::debug;

use crate::http::AppState;
use crate::http::problem::problem;

/// How long one turn may take.
const POLL_TIMEOUT: Duration = Duration::from_secs(50);
/// How long a machine that asks before its creation is on record is kept waiting.
const UNRECORDED: Duration = Duration::from_secs(5);
const RECORD_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How large a question may be, and how long it may take.
const MAX_REQUEST_BYTES: usize = 4096;
const SLOW_BODY: Duration = Duration::from_secs(10);

/// What a machine may say beside its token: for whom it asks, so that only its own provider is asked.
#[derive(Default, Deserialize)]
struct Question {
    instance: Option<String>,
    /// Whether it acknowledges what it is handed: says so once it is safe on its disk.
    #[serde(default)]
    acknowledges: bool,
    /// Says that it has what it was handed, instead of asking for work.
    #[serde(default)]
    acknowledged: bool,
}

/// Answers a warm machine.
pub(super) async fn dispatch(
    app_state: web::Data<AppState>,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let until = Instant::now() + POLL_TIMEOUT;
    let Some(token) = bearer(&request) else {
        return problem(401, "send the machine's token as `Authorization: Bearer …`");
    };
    let question =
        match tokio::time::timeout(SLOW_BODY, payload.to_bytes_limited(MAX_REQUEST_BYTES)).await {
            Ok(Ok(Ok(body))) if body.is_empty() => Question::default(),
            Ok(Ok(Ok(body))) => match serde_json::from_slice(&body) {
                Ok(question) => question,
                Err(_) => {
                    return problem(400, "the body must be `{\"instance\": \"NAME\"}`, or empty");
                }
            },
            Ok(Ok(Err(_))) | Err(_) => return problem(400, "the body broke off"),
            Ok(Err(_)) => return problem(413, "the body is too large"),
        };
    let (provider, proven) = match whose(&app_state, &token, question.instance.as_deref()).await {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let row = match row_of(&app_state, proven.name.as_str()).await {
        Ok(row) => row,
        Err(answer) => return answer,
    };
    if row.provider != provider
        || row.machine != proven.name
        // Without the provider's id a token would prove a name alone, which a successor may bear.
        || proven.uid.is_none()
        || row.uid != proven.uid
    {
        debug!(instance.id = %row.id, "a machine asked for work that is not this instance's");
        return problem(403, "this token proves another machine than the instance's");
    }
    let instance = row.id.clone();
    if question.acknowledged {
        let _: Result<(), _> = app_state.fleet.tell(ToFleet::Acknowledged(instance));
        return HttpResponse::Accepted().finish();
    }
    let acknowledges = question.acknowledges;
    let patience = until.saturating_duration_since(Instant::now());
    let ask = |reply| ToFleet::Dispatch { instance, acknowledges, reply };
    match app_state.fleet.ask(ask, patience).await {
        Ok(Dispatch::Work(jit)) => HttpResponse::Ok()
            .insert_header((CACHE_CONTROL, "no-store"))
            .json(json!({ "jit_config": jit.reveal() })),
        Ok(Dispatch::Wait) | Err(NoAnswer::Late) => HttpResponse::NoContent().finish(),
        Ok(Dispatch::Leave) => {
            problem(410, "there is no work for this machine any more; it should leave")
        }
        Err(NoAnswer::Gone) => later("its owner is changing"),
    }
}

/// Finds out whose the token is: asks the provider of the named instance, or every one.
async fn whose(
    app_state: &AppState,
    token: &MachineToken,
    named: Option<&str>,
) -> Result<(ProviderId, MachineRef), HttpResponse> {
    let Some(providers) = app_state.machine_auth.now() else {
        return Err(later("this daemon does not lead"));
    };
    let of = named.and_then(|name| app_state.registry.instance(&InstanceId::from(name)));
    let of = of.map(|row| row.provider.clone()).filter(|id| providers.contains_key(id));
    let mut answer = problem(401, "no provider knows this token");
    for (id, auth) in providers.iter().filter(|(id, _)| of.as_ref().is_none_or(|of| of == *id)) {
        match auth.review(token).await {
            TokenReview::Belongs(machine) => return Ok((id.clone(), machine)),
            TokenReview::Refused(why) => answer = problem(401, &why),
            TokenReview::Unknown(why) => {
                debug!(provider.id = %id, "a token could not be reviewed: {why}");
                answer = later("its provider could not be asked about the token");
            }
        }
    }
    Err(answer)
}

/// Returns the instance a machine was made for, once its creation is on record.
async fn row_of(app_state: &AppState, name: &str) -> Result<Arc<Instance>, HttpResponse> {
    let id = InstanceId::from(name);
    let until = Instant::now() + UNRECORDED;
    loop {
        match app_state.registry.instance(&id) {
            Some(row) if row.uid.is_some() => return Ok(row),
            Some(_) if Instant::now() < until => tokio::time::sleep(RECORD_POLL_INTERVAL).await,
            Some(_) => return Err(later("the creation of this machine is not on record yet")),
            None => return Err(unowned(app_state, &id).await),
        }
    }
}

/// Answers a machine that is not on the board: it may leave only if it is not on record either.
async fn unowned(app_state: &AppState, id: &InstanceId) -> HttpResponse {
    match app_state.records.instance(id).await {
        Ok(Some(row)) if row.state != State::Deleted => later("its owner is starting"),
        Ok(_) => problem(410, "no instance of that name is on record; it should leave"),
        Err(_) => later("the records do not answer"),
    }
}

fn later(why: &str) -> HttpResponse {
    problem(503, &format!("{why}; ask again"))
}

fn bearer(request: &HttpRequest) -> Option<MachineToken> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (kind, token) = value.split_once(' ')?;
    let token = token.trim();
    (kind.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| MachineToken::new(token))
}

type ByProvider = BTreeMap<ProviderId, Arc<dyn MachineAuth>>;

/// Holds the providers that review tokens. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct MachineAuths(Arc<ArcSwapOption<ByProvider>>);

impl MachineAuths {
    /// Lets these review tokens for as long as the guard lives.
    pub fn open(&self, known: ByProvider) -> MachineAuthGuard {
        self.0.store(Some(Arc::new(known)));
        MachineAuthGuard(self.clone())
    }

    /// Returns the providers that review tokens; none while no fleet runs here.
    pub(super) fn now(&self) -> Option<Arc<ByProvider>> {
        self.0.load_full()
    }
}

/// Lets providers review tokens until it is dropped.
#[must_use = "tokens are refused when the guard is dropped"]
pub struct MachineAuthGuard(MachineAuths);

impl Drop for MachineAuthGuard {
    fn drop(&mut self) {
        self.0.0.store(None);
    }
}
