//! The played GitHub of the bench, as a process of its own: the calls the daemon makes, signed
//! webhooks, and phantom runners.
//!
//! The simulated GitHub of the demo keeps every answer and looks at every runner on many calls; with
//! ten thousand runners it would be what is measured. This one answers in constant time. Its runners
//! are phantoms: `boot_ms` after a registration its runner is online and takes a job, `work_ms` later
//! the job is completed and the registration gone. No `boot_ms`: they never come online.
//!
//! `POST /_bench/setup`, `POST /_bench/queue`, `GET /_bench/state`, `GET /_bench/ping` are the
//! bench's own. A webhook that is not answered is sent again every half second, in the place of
//! GitHub's redelivery.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::http::StatusCode;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What webhooks are signed with.
pub(crate) const WEBHOOK_SECRET: &str = "a secret of the bench";
/// How many deliveries are under way at once.
const PARALLEL_DELIVERIES: usize = 64;

type Post = Client<HttpConnector, Full<web::Bytes>>;

/// Says how the phantoms behave and where webhooks go.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) hook: String,
    pub(crate) boot_ms: Option<u64>,
    /// None: a job is over when its runner is told to end.
    pub(crate) work_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// Says how many jobs to queue, and how fast; 0 a second is all at once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) count: u64,
    pub(crate) per_second: u64,
}

/// Shows how things stand.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Shown {
    pub(crate) runners: usize,
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) completed: usize,
    /// When each `queued` was sent first and answered, in order of sending, nanoseconds of the epoch.
    pub(crate) sent: Vec<(u64, u64)>,
    pub(crate) calls: BTreeMap<String, u64>,
    /// Jobs that ran more than once.
    pub(crate) doubled: usize,
    /// Answers to webhooks that were none or no 202.
    pub(crate) refused: u64,
}

#[derive(Default)]
struct State {
    setup: Setup,
    last: u64,
    runners: BTreeMap<u64, Runner>,
    names: HashMap<String, u64>,
    free: BTreeSet<u64>,
    queued: VecDeque<u64>,
    jobs: HashMap<u64, Job>,
    completed: usize,
    sent: Vec<(u64, u64)>,
    calls: BTreeMap<&'static str, u64>,
    refused: u64,
}

struct Runner {
    name: String,
    online: bool,
    job: Option<u64>,
}

struct Job {
    stage: &'static str,
    runner: Option<(u64, String)>,
    starts: u32,
}

#[derive(Clone)]
struct SimulatedForge {
    state: Arc<Mutex<State>>,
    client: Post,
    slots: Arc<Semaphore>,
}

/// Runs until it is killed; says its port first.
pub(crate) fn serve() -> std::io::Result<()> {
    actix_rt::System::new().block_on(async {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let slots = Arc::new(Semaphore::new(PARALLEL_DELIVERIES));
        let forge = SimulatedForge { state: Arc::default(), client, slots };
        let data = web::Data::new(forge);
        let server = HttpServer::new(move || {
            App::new()
                .app_data(data.clone())
                .route("/_bench/setup", web::post().to(setup))
                .route("/_bench/queue", web::post().to(queue))
                .route("/_bench/up", web::post().to(up))
                .route("/_bench/end", web::post().to(end))
                .route("/_bench/state", web::get().to(show))
                .route("/_bench/ping", web::get().to(async || HttpResponse::NoContent().finish()))
                .default_service(web::to(rest))
        })
        .workers(1)
        .bind(("127.0.0.1", 0))?;
        let port = server.addrs().first().map_or(0, std::net::SocketAddr::port);
        println!("{port}");
        server.run().await
    })
}

async fn setup(forge: web::Data<SimulatedForge>, setup: web::Json<Setup>) -> HttpResponse {
    forge.state().setup = setup.into_inner();
    HttpResponse::NoContent().finish()
}

async fn queue(forge: web::Data<SimulatedForge>, asked: web::Json<Queue>) -> HttpResponse {
    let forge = SimulatedForge::clone(&forge);
    let Queue { count, per_second } = asked.into_inner();
    actix_rt::spawn(async move {
        let began = tokio::time::Instant::now();
        for number in 0..count {
            if let Some(due) = (number * 1_000_000_000).checked_div(per_second) {
                tokio::time::sleep_until(began + Duration::from_nanos(due)).await;
            }
            forge.queue_one();
        }
    });
    HttpResponse::NoContent().finish()
}

/// Lets a runner come online; it takes a job if there is one.
async fn up(forge: web::Data<SimulatedForge>, named: web::Json<Named>) -> HttpResponse {
    let known = forge.state().names.get(&named.name).copied();
    let Some(runner) = known else { return HttpResponse::NotFound().finish() };
    forge.online(runner);
    HttpResponse::NoContent().finish()
}

/// Lets the job of a runner be over; answers when that was heard.
async fn end(forge: web::Data<SimulatedForge>, named: web::Json<Named>) -> HttpResponse {
    let ended = {
        let mut state = forge.state();
        let runner = state.names.get(&named.name).copied();
        let job = runner.and_then(|id| state.runners.get(&id)?.job);
        runner.zip(job).inspect(|(runner, job)| state.complete(*job, *runner))
    };
    let Some((_, job)) = ended else { return HttpResponse::NotFound().finish() };
    drop(forge.announce(job, None).await);
    HttpResponse::NoContent().finish()
}

async fn show(forge: web::Data<SimulatedForge>) -> HttpResponse {
    let state = forge.state();
    HttpResponse::Ok().json(Shown {
        runners: state.runners.len(),
        queued: state.queued.len(),
        running: state.jobs.values().filter(|job| job.stage == "in_progress").count(),
        completed: state.completed,
        sent: state.sent.clone(),
        calls: state.calls.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        doubled: state.jobs.values().filter(|job| job.starts > 1).count(),
        refused: state.refused,
    })
}

// The phantoms.
impl SimulatedForge {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_one(&self) {
        let (job, slot) = {
            let mut state = self.state();
            state.last += 1;
            let job = state.last;
            state.jobs.insert(job, Job { stage: "queued", runner: None, starts: 0 });
            state.queued.push_back(job);
            state.sent.push((nanos(), 0));
            (job, state.sent.len() - 1)
        };
        self.announce(job, Some(slot));
        self.assign();
    }

    fn registered(&self, runner: u64) {
        let Some(boot) = self.state().setup.boot_ms else { return };
        let forge = self.clone();
        actix_rt::spawn(async move {
            tokio::time::sleep(Duration::from_millis(boot)).await;
            forge.online(runner);
        });
    }

    fn online(&self, runner: u64) {
        {
            let mut state = self.state();
            let Some(known) = state.runners.get_mut(&runner) else { return };
            known.online = true;
            state.free.insert(runner);
        }
        self.assign();
    }

    /// Gives queued jobs to free runners.
    fn assign(&self) {
        loop {
            let (job, runner, work) = {
                let mut state = self.state();
                if state.queued.is_empty() {
                    return;
                }
                let Some(runner) = state.free.pop_first() else { return };
                let Some(name) = state.runners.get(&runner).map(|it| it.name.clone()) else {
                    continue;
                };
                let Some(job) = state.queued.pop_front() else { return };
                if let Some(runner) = state.runners.get_mut(&runner) {
                    runner.job = Some(job);
                }
                if let Some(job) = state.jobs.get_mut(&job) {
                    job.stage = "in_progress";
                    job.runner = Some((runner, name));
                    job.starts += 1;
                }
                (job, runner, state.setup.work_ms)
            };
            self.announce(job, None);
            let Some(work) = work else { continue };
            let forge = self.clone();
            actix_rt::spawn(async move {
                tokio::time::sleep(Duration::from_millis(work)).await;
                forge.state().complete(job, runner);
                forge.announce(job, None);
            });
        }
    }

    /// Sends a webhook, again and again until it is taken.
    fn announce(&self, job: u64, slot: Option<usize>) -> tokio::task::JoinHandle<()> {
        let (body, url) = {
            let state = self.state();
            (state.payload(job).to_string(), state.setup.hook.clone())
        };
        let forge = self.clone();
        actix_rt::spawn(async move {
            let key = hmac::Key::new(hmac::HMAC_SHA256, WEBHOOK_SECRET.as_bytes());
            let signature = hmac::sign(&key, body.as_bytes());
            let hex = hex(signature.as_ref());
            let guid = uuid::Uuid::new_v4().to_string();
            for _ in 0..240 {
                let Ok(slot_taken) = forge.slots.acquire().await else { return };
                let request = http::Request::post(&url)
                    .header("content-type", "application/json")
                    .header("x-github-event", "workflow_job")
                    .header("x-github-delivery", &guid)
                    .header("x-hub-signature-256", format!("sha256={hex}"))
                    .body(Full::new(web::Bytes::from(body.clone())))
                    .expect("a request");
                let wait_limit = Duration::from_secs(10);
                let answer = tokio::time::timeout(wait_limit, forge.client.request(request)).await;
                if let Ok(Ok(answer)) = answer {
                    let taken = answer.status() == 202;
                    // Read to the end, so that the connection can be used again.
                    drop(answer.into_body().collect().await);
                    if taken {
                        if let Some(entry) =
                            slot.and_then(|slot| forge.state().sent.get(slot).copied())
                        {
                            forge.state().sent[slot.unwrap_or_default()] = (entry.0, nanos());
                        }
                        return;
                    }
                }
                drop(slot_taken);
                forge.state().refused += 1;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    }
}

impl State {
    fn complete(&mut self, job: u64, runner: u64) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.stage = "completed";
        }
        self.completed += 1;
        self.unregister(runner);
    }

    fn unregister(&mut self, runner: u64) {
        if let Some(gone) = self.runners.remove(&runner) {
            self.names.remove(&gone.name);
        }
        self.free.remove(&runner);
    }

    fn payload(&self, id: u64) -> Value {
        let job = self.jobs.get(&id);
        let stage = job.map_or("queued", |job| job.stage);
        json!({
            "action": stage, "workflow_job": self.job(id),
            "repository": {"id": 1, "name": "web", "full_name": "acme/web", "owner": {"login": "acme", "id": 1}},
            "sender": {"login": "ada"},
        })
    }

    fn job(&self, id: u64) -> Value {
        let job = self.jobs.get(&id);
        let stage = job.map_or("queued", |job| job.stage);
        let (runner_id, runner_name) = job.and_then(|job| job.runner.clone()).unzip();
        json!({
            "id": id, "run_id": 1_000_000 + id, "run_attempt": 1, "name": "build", "status": stage,
            "conclusion": (stage == "completed").then_some("success"),
            "labels": ["self-hosted", "linux"], "runner_id": runner_id, "runner_name": runner_name,
            "created_at": "2026-01-02T03:04:05Z", "started_at": "2026-01-02T03:04:05Z",
            "completed_at": null, "html_url": "https://github.com/acme/web/actions/runs/1/job/2", "steps": [],
        })
    }

    fn runner(&self, id: u64) -> Value {
        let runner = self.runners.get(&id);
        json!({
            "id": id, "runner_group_id": 1, "name": runner.map(|it| it.name.as_str()), "os": "linux",
            "status": if runner.is_some_and(|it| it.online) { "online" } else { "offline" },
            "busy": runner.is_some_and(|it| it.job.is_some()), "ephemeral": true, "version": "2.336.0",
            "labels": [{"id": 1, "name": "self-hosted", "type": "custom"}, {"id": 2, "name": "linux", "type": "custom"}],
        })
    }
}

// The desk.
async fn rest(
    forge: web::Data<SimulatedForge>,
    request: HttpRequest,
    body: web::Bytes,
) -> HttpResponse {
    let path: Vec<&str> = request.path().split('/').filter(|it| !it.is_empty()).collect();
    let query: HashMap<&str, &str> =
        request.query_string().split('&').filter_map(|pair| pair.split_once('=')).collect();
    let (kind, status, answer) = match (request.method().as_str(), path.as_slice()) {
        ("GET", ["orgs", _, "actions", "runners"]) => ("list", 200, forge.list(&query)),
        ("POST", ["orgs", _, "actions", "runners", "generate-jitconfig"]) => {
            let (status, answer) = forge.register(&body);
            ("mint", status, answer)
        }
        ("GET", ["orgs", _, "actions", "runners", id]) => {
            let state = forge.state();
            let found = id.parse().ok().filter(|id| state.runners.contains_key(id));
            found.map_or(("runner", 404, not_found()), |id| ("runner", 200, state.runner(id)))
        }
        ("DELETE", ["orgs", _, "actions", "runners", id]) => {
            let (status, answer) = forge.remove(id);
            ("remove", status, answer)
        }
        ("GET", ["orgs", _, "actions", "runner-groups"]) => {
            let group = json!({"id": 1, "name": "Default", "default": true, "visibility": "all"});
            ("groups", 200, json!({"total_count": 1, "runner_groups": [group]}))
        }
        ("GET", ["repos", _, _, "actions", "jobs", id]) => {
            let state = forge.state();
            let found = id.parse().ok().filter(|id| state.jobs.contains_key(id));
            found.map_or(("job", 404, not_found()), |id| ("job", 200, state.job(id)))
        }
        ("GET", ["repos", _, _, "actions", "runs"]) => {
            ("runs", 200, json!({"total_count": 0, "workflow_runs": []}))
        }
        ("GET", ["orgs", _, "repos"]) => ("repos", 200, json!([])),
        _ => ("other", 404, not_found()),
    };
    *forge.state().calls.entry(kind).or_default() += 1;
    let text = if answer.is_null() { String::new() } else { answer.to_string() };
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let tag = format!("W/\"{:016x}\"", hasher.finish());
    let known = request.headers().get("if-none-match").and_then(|it| it.to_str().ok());
    if status == 200 && known == Some(tag.as_str()) {
        return HttpResponse::NotModified().insert_header(("etag", tag)).finish();
    }
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header(("etag", tag)).content_type("application/json").body(text)
}

impl SimulatedForge {
    fn list(&self, query: &HashMap<&str, &str>) -> Value {
        let state = self.state();
        if let Some(name) = query.get("name") {
            let found: Vec<Value> =
                state.names.get(*name).map(|id| state.runner(*id)).into_iter().collect();
            return json!({"total_count": found.len(), "runners": found});
        }
        let number =
            |key: &str, or: usize| query.get(key).and_then(|it| it.parse().ok()).unwrap_or(or);
        let (size, page) = (number("per_page", 30), number("page", 1).max(1));
        let ids = state.runners.keys().skip((page - 1) * size).take(size);
        let runners: Vec<Value> = ids.map(|id| state.runner(*id)).collect();
        json!({"total_count": state.runners.len(), "runners": runners})
    }

    fn register(&self, body: &[u8]) -> (u16, Value) {
        let asked: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = asked["name"].as_str().unwrap_or_default().to_owned();
        let (id, shape) = {
            let mut state = self.state();
            if state.names.contains_key(&name) {
                return (
                    409,
                    json!({"message": "Already exists - A runner with that name already exists."}),
                );
            }
            state.last += 1;
            let id = state.last;
            state.names.insert(name.clone(), id);
            state.runners.insert(id, Runner { name, online: false, job: None });
            (id, state.runner(id))
        };
        self.registered(id);
        let pack = |value: &Value| BASE64_STANDARD.encode(value.to_string());
        let files = json!({".runner": pack(&json!({"agentId": id})), ".credentials": pack(&json!({})), ".credentials_rsaparams": pack(&json!({}))});
        (201, json!({"runner": shape, "encoded_jit_config": pack(&files)}))
    }

    fn remove(&self, id: &str) -> (u16, Value) {
        let mut state = self.state();
        let Some(id) = id.parse().ok().filter(|id| state.runners.contains_key(id)) else {
            return (404, not_found());
        };
        if state.runners.get(&id).is_some_and(|it| it.job.is_some()) {
            return (
                422,
                json!({"message": "Runner is currently running a job and cannot be deleted."}),
            );
        }
        state.unregister(id);
        (204, Value::Null)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn not_found() -> Value {
    json!({"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"})
}

/// Returns the date in nanoseconds, the same in all processes of this machine.
pub(crate) fn nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default()
}
