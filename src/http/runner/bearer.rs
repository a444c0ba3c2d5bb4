//! Who a machine is, and whether it is still heard.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpRequest, HttpResponse};
use ostler_actors::fleet::ToFleet;
use ostler_actors::instance::MachineCall;
use ostler_actors::model::{Instance, Refusal, State};
use ostler_actors::ports::Jit;
use serde_json::json;

use super::Boot;
use crate::http::AppState;
use crate::tokens::Bearer;

/// How long the owner of an instance may take to answer; clients ask again after 5xx.
pub(super) const OWNER_TIMEOUT: Duration = Duration::from_secs(10);

/// A machine that is being set up.
pub(super) struct Caller {
    pub(super) bearer: Bearer,
    pub(super) row: Arc<Instance>,
    pub(super) boot: Arc<Boot>,
}

impl Caller {
    /// Returns who calls, or the answer for a caller that may not.
    pub(super) async fn of(
        request: &HttpRequest,
        app_state: &AppState,
    ) -> Result<Self, Box<HttpResponse>> {
        let token = token(request);
        let bearer = token.and_then(|token| app_state.tokens.as_ref()?.check(token));
        let (bearer, row) = row_of(bearer, app_state, is_set_up).await?;
        let Some(boot) = app_state.boot(row.pool.as_str()) else {
            let why = format!("pool `{}` is configured no more", row.pool);
            return Err(failure(409, "there is nothing to set up", Some(&why)).into());
        };
        Ok(Self { bearer, row, boot })
    }

    /// Tells the instance's owner what its machine says; returns the JIT config if it asked for it.
    pub(super) async fn say(
        self,
        app_state: &AppState,
        call: MachineCall,
    ) -> Result<Option<Jit>, Box<HttpResponse>> {
        let Bearer { instance, attempt } = self.bearer;
        let message = |reply| ToFleet::MachineCalled { instance, attempt, call, reply };
        match app_state.fleet.ask(message, OWNER_TIMEOUT).await {
            Ok(Ok(jit)) => Ok(jit),
            Ok(Err(Refusal::Unsettled)) | Err(_) => Err(later().into()),
            Ok(Err(_)) => Err(unheard().into()),
        }
    }
}

/// Returns the instance that a token speaks for, or the answer for a caller that may not.
pub(super) async fn row_of(
    bearer: Option<Bearer>,
    app_state: &AppState,
    is_heard: fn(&Instance) -> bool,
) -> Result<(Bearer, Arc<Instance>), Box<HttpResponse>> {
    let Some(bearer) = bearer else { return Err(unheard().into()) };
    let Some(row) = app_state.registry.instance(&bearer.instance) else {
        return Err(unknown(&bearer, app_state, is_heard).await.into());
    };
    if row.mints != bearer.attempt || !is_heard(&row) {
        return Err(unheard().into());
    }
    Ok((bearer, row))
}

/// Returns the token a caller sent.
pub(super) fn token(request: &HttpRequest) -> Option<&str> {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    header.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim)
}

/// Answers a machine whose owner is not on the board: he may be about to take it over, after a
/// restart or elsewhere, and a machine that is refused gives up for good.
async fn unknown(
    bearer: &Bearer,
    app_state: &AppState,
    is_heard: fn(&Instance) -> bool,
) -> HttpResponse {
    match app_state.records.instance(&bearer.instance).await {
        Ok(Some(row)) if is_heard(&row) => later(),
        Ok(_) => unheard(),
        Err(_) => later(),
    }
}

/// Returns whether a machine is being set up, as far as its owner showed, and may prove itself with
/// what it came with.
fn is_set_up(row: &Instance) -> bool {
    match row.state {
        State::Creating | State::Starting => row.witness_since.is_none(),
        State::PendingCreate
        | State::Idle
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => false,
    }
}

/// Returns an error as GARM's clients know it.
pub(super) fn failure(status: u16, error: &str, details: Option<&str>) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut body = json!({ "error": error });
    if let (Some(details), Some(body)) = (details, body.as_object_mut()) {
        body.insert("details".into(), details.into());
    }
    HttpResponse::build(status).json(body)
}

pub(super) fn unheard() -> HttpResponse {
    failure(401, "Authentication failed", None)
}

pub(super) fn later() -> HttpResponse {
    failure(503, "not now", Some("this daemon cannot answer at the moment; ask again"))
}
