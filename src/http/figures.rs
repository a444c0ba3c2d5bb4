//! `GET /metrics`: figures for Prometheus; open to this machine, to others with a token.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::mail::lost_messages;
use ostler_actors::model::elapsed;

use super::AppState;
use super::problem::Problem;
use crate::ports::Stage;
use crate::telemetry::metrics::{Board, BoardPool, MEDIA_TYPE};

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
        Board {
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
