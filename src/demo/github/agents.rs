//! How simulated runners get their work.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::server::Shared;

/// How long a runner waits for work in one call.
const POLL_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn listen(shared: web::Data<Arc<Shared>>, request: HttpRequest) -> HttpResponse {
    let Some(runner) = who(&shared, &request) else { return leave() };
    let _listening = Listening::begin(Arc::clone(&shared), runner);
    let until = Instant::now() + POLL_TIMEOUT;
    let mut changes = shared.changes();
    loop {
        {
            let state = shared.state();
            if let Some(job) = state.job_of(runner) {
                return HttpResponse::Ok().json(json!({
                    "id": job.id, "run": job.run, "name": job.plan.name,
                    "repository": format!("{}/{}", job.place.owner, job.place.repository),
                    "script": job.plan.script,
                }));
            }
            if !state.runners.contains_key(&runner) {
                return leave();
            }
        }
        if tokio::time::timeout_at(until, changes.changed()).await.is_err() {
            return HttpResponse::NoContent().finish();
        }
    }
}

/// Says that the job goes on.
pub(super) async fn renew(shared: web::Data<Arc<Shared>>, request: HttpRequest) -> HttpResponse {
    let Some(runner) = who(&shared, &request) else { return leave() };
    let mut state = shared.state();
    let job = state.job_of(runner).map(|job| job.id);
    match job.and_then(|id| state.jobs.get_mut(&id)) {
        Some(job) => {
            job.renewed = Some(Instant::now());
            HttpResponse::NoContent().finish()
        }
        None => leave(),
    }
}

pub(super) async fn done(
    shared: web::Data<Arc<Shared>>,
    request: HttpRequest,
    body: web::Json<Value>,
) -> HttpResponse {
    let Some(runner) = who(&shared, &request) else { return leave() };
    let how = body.get("conclusion").and_then(Value::as_str).unwrap_or("success").to_owned();
    let job = shared.state().job_of(runner).map(|job| job.id);
    let Some(job) = job else { return leave() };
    shared.change(|state| state.finish(job, &how));
    HttpResponse::NoContent().finish()
}

fn leave() -> HttpResponse {
    HttpResponse::Gone().finish()
}

/// Finds the runner that a JIT config, or the token in it, belongs to.
fn who(shared: &Shared, request: &HttpRequest) -> Option<u64> {
    let bearer = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let mut state = shared.state();
    let runner = *state.secrets.get(bearer.strip_prefix("Bearer ")?)?;
    if let Some(runner) = state.runners.get_mut(&runner) {
        runner.seen = Some(Instant::now());
    }
    Some(runner)
}

/// Counts a connection that waits for work, until it ends in whatever way.
struct Listening(Arc<Shared>, u64);

impl Listening {
    fn begin(shared: Arc<Shared>, runner: u64) -> Self {
        shared.change(|state| {
            if let Some(runner) = state.runners.get_mut(&runner) {
                runner.listening += 1;
            }
            state.assign();
        });
        Self(shared, runner)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(runner) = self.0.state().runners.get_mut(&self.1) {
            runner.listening = runner.listening.saturating_sub(1);
            runner.seen = Some(Instant::now());
        }
    }
}
