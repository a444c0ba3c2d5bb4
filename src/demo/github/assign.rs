//! Who gets which job, how jobs move, and how simulated runners ask for their work.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::AUTHORIZATION;
use actix_web::{HttpRequest, HttpResponse, web};
use ostler_actors::model::Place;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::server::Shared;
use super::state::{JobPlan, Lies, SimJob, SimRunner, SimStage, State};

/// How long a runner that fell silent is still called online.
const ONLINE_FOR: Duration = Duration::from_mins(1);

impl SimRunner {
    /// Returns whether it is connected.
    pub fn is_online(&self) -> bool {
        self.listening > 0 || self.seen.is_some_and(|at| at.elapsed() < ONLINE_FOR)
    }

    /// Returns whether it may get a job.
    fn fits(&self, job: &SimJob) -> bool {
        self.scope.covers(&job.place) && self.labels.serve(&job.plan.labels)
    }
}

impl State {
    /// Queues a job, into the run of another if one is given.
    pub(super) fn queue(
        &mut self,
        place: Place,
        mut plan: JobPlan,
        stage: SimStage,
        run: Option<u64>,
    ) -> u64 {
        let id = self.number();
        let run = run.unwrap_or_else(|| self.number());
        if plan.name.is_empty() {
            plan.name = format!("job {id}");
        }
        let job = SimJob {
            id,
            run,
            place,
            plan,
            stage,
            runner: None,
            queued_at: self.date(),
            started_at: None,
            completed_at: None,
            dead_run: false,
            renewed: None,
            starts: 0,
        };
        if job.stage == SimStage::Queued {
            self.queued.insert(id);
        }
        self.jobs.insert(id, job);
        self.announce(id);
        self.assign();
        id
    }

    /// Lets a held job go.
    pub(super) fn release(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id).filter(|job| job.stage == SimStage::Waiting) {
            job.stage = SimStage::Queued;
            self.queued.insert(id);
            self.announce(id);
            self.assign();
        }
    }

    /// Gives every queued job to some idle runner that listens and has the labels.
    pub(super) fn assign(&mut self) {
        let idle = self.runners.values().filter(|it| it.job.is_none() && it.listening > 0);
        let mut idle: Vec<u64> = idle.map(|it| it.id).collect();
        let mut turns: Vec<u64> = self.queued.iter().copied().collect();
        if self.lies.reordered > 0 {
            turns.reverse();
        }
        for id in turns {
            if idle.is_empty() {
                return;
            }
            let Some(job) = self.jobs.get(&id) else { continue };
            let fits = |runner: &u64| self.runners.get(runner).is_some_and(|it| it.fits(job));
            // Not always the oldest: a runner made for one job routinely gets another.
            let turn = usize::try_from(id).unwrap_or_default() % idle.len();
            idle.rotate_left(turn);
            if let Some(at) = idle.iter().position(fits) {
                let runner = idle.swap_remove(at);
                if self.passes_over(runner, id) {
                    Lies::tell(&mut self.lies.reordered);
                }
                self.start(id, runner);
            }
        }
    }

    /// Returns whether an older job waits that the runner could have had.
    fn passes_over(&self, runner: u64, id: u64) -> bool {
        let older = self.queued.range(..id).filter_map(|older| self.jobs.get(older));
        self.runners.get(&runner).is_some_and(|it| older.into_iter().any(|job| it.fits(job)))
    }

    fn start(&mut self, id: u64, runner: u64) {
        let now = self.date();
        let Some(taker) = self.runners.get_mut(&runner) else { return };
        taker.job = Some(id);
        let name = taker.name.clone();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.stage = SimStage::InProgress;
        job.runner = Some((runner, name));
        job.started_at = Some(now);
        job.renewed = Some(Instant::now());
        job.starts += 1;
        self.queued.remove(&id);
        self.at_work.insert(runner, id);
        self.announce(id);
    }

    /// Ends a job; the ephemeral registration that ran it goes with it.
    pub(super) fn finish(&mut self, id: u64, conclusion: &str) {
        let now = self.date();
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if matches!(job.stage, SimStage::Completed(_)) {
            return;
        }
        job.stage = SimStage::Completed(conclusion.to_owned());
        job.completed_at = Some(now);
        let runner = job.runner.as_ref().map(|(runner, _)| *runner);
        self.queued.remove(&id);
        self.announce(id);
        if let Some(runner) = runner {
            self.at_work.remove(&runner);
            self.unregister(runner);
        }
    }

    /// Removes a registration; a job that runs there goes on.
    pub(super) fn unregister(&mut self, runner: u64) {
        self.runners.remove(&runner);
        // A job under way must still be able to end, so its secret outlives its registration.
        if !self.at_work.contains_key(&runner) {
            self.secrets.retain(|_, of| *of != runner);
        }
    }

    /// Returns the job that a runner has, registered or not.
    pub(super) fn job_of(&self, runner: u64) -> Option<&SimJob> {
        self.at_work.get(&runner).and_then(|job| self.jobs.get(job))
    }

    /// Gives up jobs whose runner has fallen silent; tells whether there were any.
    pub(super) fn lose_silent_jobs(&mut self) -> bool {
        let lease = self.lease;
        let running = self.at_work.values().filter_map(|job| self.jobs.get(job));
        let silent = running.filter(|job| job.renewed.is_some_and(|at| at.elapsed() > lease));
        let lost: Vec<u64> = silent.map(|job| job.id).collect();
        for id in &lost {
            self.finish(*id, "failure");
        }
        !lost.is_empty()
    }
}

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
