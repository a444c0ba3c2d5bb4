//! Whether the process lives and does its work (`/healthz`, `/readyz`), and its figures (`/metrics`):
//! figures are open to this machine, to others with a token.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, web};
use jiff::Timestamp;
use ostler_actors::mail::lost_messages;
use ostler_actors::model::elapsed;
use serde_json::json;

use super::AppState;
use super::problem::Problem;
use super::readiness::{Facts, readiness};
use crate::ports::{ConcernKind, Stage};
use crate::telemetry::metrics::{Board, BoardPool, MEDIA_TYPE};

/// How long the store may take for one small read.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Says that the process lives.
pub(super) async fn alive() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body("ok\n")
}

/// Says whether it may be sent webhooks, with `?leader` whether it leads; the details are for people.
pub(super) async fn ready(app_state: web::Data<AppState>, request: HttpRequest) -> HttpResponse {
    let shown = app_state.status.shown();
    let now = app_state.clock.now();
    let read = tokio::time::timeout(PROBE_TIMEOUT, app_state.records.controller()).await;
    let store = match read {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some(why.to_string()),
        Err(_) => Some(format!("the store did not answer in {} s", PROBE_TIMEOUT.as_secs())),
    };
    let failing = app_state.saves.failing();
    let saves =
        failing.as_ref().map(|(time, why)| format!("failing for {} s: {why}", time.as_secs()));
    let mut troubles: Vec<_> =
        store.iter().map(|_| ("the store answers".to_owned(), now)).collect();
    troubles
        .extend(failing.map(|(time, _)| ("the store takes saves".to_owned(), before(now, time))));
    let quarantined = app_state.records.quarantined();
    let foreign = app_state.registry.foreign();
    let facts = Facts {
        stage: shown.stage,
        since: shown.since.map_or(now, |since| before(now, since.elapsed())),
        store: troubles,
        ledger: app_state.registry.ledger(),
        pools: app_state.settling(),
        now,
    };
    let readiness = readiness(&facts);
    let leader = request.query_string().split('&').any(|it| matches!(it, "leader" | "leader="));
    let ready = if leader { readiness.leader } else { readiness.ready };
    let body = json!({
        "ready": ready,
        "stage": shown.stage,
        "since": facts.since,
        "waits_for": readiness.waits_for,
        "store": store.unwrap_or_else(|| "ok".into()),
        "saves": saves.unwrap_or_else(|| "ok".into()),
        "config": shown.config_problem.unwrap_or_else(|| "ok".into()),
        "foreign_machines": foreign.keys().map(ToString::to_string).collect::<Vec<_>>(),
        "quarantined": quarantined.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "violations": app_state.registry.violations(),
    });
    let mut answer = if ready { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    answer.json(body)
}

/// Returns the moment so long before another.
fn before(now: Timestamp, time: Duration) -> Timestamp {
    now.checked_sub(time).unwrap_or(now)
}

/// Headers by which a proxy on this machine says that it forwards a request.
const FORWARDED: [&str; 3] = ["Forwarded", "X-Forwarded-For", "X-Real-IP"];

/// Writes the figures.
pub(super) async fn metrics(
    app_state: web::Data<AppState>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let peer = request.peer_addr().map(|address| address.ip());
    let forwarded = FORWARDED.iter().any(|name| request.headers().contains_key(*name));
    if forwarded || !peer.is_some_and(|peer| peer.to_canonical().is_loopback()) {
        app_state.gate.admit(request.headers(), request.method(), peer)?;
    }
    let text = app_state.metrics.written(&app_state.board());
    Ok(HttpResponse::Ok().content_type(MEDIA_TYPE).body(text))
}

impl AppState {
    /// Returns the pools of the configuration, and whether each has looked at its machines.
    fn settling(&self) -> Vec<(String, Option<bool>)> {
        let views = self.registry.pools();
        let settled = |name: &str| {
            views.iter().find(|view| view.id.as_str() == name).map(|view| view.settled)
        };
        let config = self.config.load();
        config.pools.iter().map(|pool| (pool.name.clone(), settled(&pool.name))).collect()
    }

    /// Reads the board off for the figures.
    fn board(&self) -> Board {
        let now = self.clock.now();
        let config = self.config.load();
        let mut pools: BTreeMap<String, BoardPool> =
            config.pools.iter().map(|pool| (pool.name.clone(), BoardPool::default())).collect();
        for view in self.registry.pools() {
            let pool = pools.entry(view.id.to_string()).or_default();
            pool.states = view.states;
            pool.stuck = view.stuck;
            pool.oldest_seconds = view.oldest.map_or(0.0, |at| elapsed(at, now).as_secs_f64());
        }
        for ((pool, state), count) in
            self.registry.count_jobs(|job| (job.pool.clone(), job.state()))
        {
            let name = pool.as_ref().map_or("none", |pool| pool.as_str());
            *pools.entry(name.to_owned()).or_default().jobs.entry(state).or_default() += count;
        }
        let forges = self.forges.load();
        let figures = forges.iter().map(|(id, forge)| (id.to_string(), forge.monitor.figures()));
        let mut concerns: BTreeMap<&'static str, u32> =
            ConcernKind::ALL.into_iter().map(|kind| (kind.as_str(), 0)).collect();
        for concern in self.concerns() {
            *concerns.entry(concern.kind.as_str()).or_default() += 1;
        }
        Board {
            concerns,
            pools,
            forges: figures.collect(),
            now,
            request_counts: self.registry.request_counts(),
            leaks: self.leaks(),
            violations: self.registry.violations(),
            lost_messages: lost_messages(),
            leader: u8::from(self.status.shown().stage == Stage::Leading),
        }
    }
}
