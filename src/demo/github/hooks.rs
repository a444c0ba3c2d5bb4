//! Hooks: what is sent to whom, what became of it, and sending it again.
//!
//! Webhooks are signed and sent over HTTP, one connection each.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use http::Request;
use ostler_actors::model::Scope;
use serde_json::{Value, json};

use super::gate::Caller;
use super::router::{Ask, Reply, page};
use super::server::Shared;
use super::shapes;
use super::state::Lies;
use super::state::{Attempt, Delivery, SimHook, SimHookOwner, State, same_scope};
use crate::client::{CallLimits, HttpClient};

impl SimHook {
    fn tells_of_jobs(&self) -> bool {
        self.active && self.events.iter().any(|event| event == "workflow_job" || event == "*")
    }

    /// Takes what a caller wants changed.
    fn take(&mut self, plan: &Value) {
        let config = &plan["config"];
        let take = |field: &mut String, name: &str| {
            if let Some(text) = config[name].as_str() {
                text.clone_into(field);
            }
        };
        take(&mut self.url, "url");
        take(&mut self.content_type, "content_type");
        take(&mut self.secret, "secret");
        if let Some(events) = plan["events"].as_array() {
            self.events = events.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        }
        self.active = plan["active"].as_bool().unwrap_or(self.active);
    }
}

impl State {
    /// Writes to every hook that hears of the job.
    pub(super) fn announce(&mut self, id: u64) {
        let Some(job) = self.jobs.get(&id) else { return };
        let hears = |owner: &SimHookOwner| match owner {
            SimHookOwner::App => {
                self.installations.values().any(|it| it.eq_ignore_ascii_case(&job.place.owner))
            }
            SimHookOwner::Scope(scope) => scope.covers(&job.place),
        };
        let hooks: Vec<u64> = self
            .hooks
            .values()
            .filter(|it| it.tells_of_jobs() && hears(&it.owner))
            .map(|it| it.id)
            .collect();
        let (action, body) = (job.stage.label().to_owned(), shapes::payload(self, job).to_string());
        for hook in hooks {
            let attempt = Attempt {
                id: self.number(),
                guid: uuid::Uuid::new_v4().to_string(),
                at: self.date(),
                redelivery: false,
                status: 0,
                event: "workflow_job",
                action: action.clone(),
                job: id,
            };
            self.post(Delivery { hook, attempt, body: body.clone() });
        }
    }

    fn post(&mut self, mut delivery: Delivery) {
        let lost = Lies::tell(&mut self.lies.lost_webhooks);
        if lost {
            delivery.attempt.status = 502;
        }
        self.deliveries.push(delivery);
        if !lost {
            self.outbox.push(self.deliveries.len() - 1);
        }
    }
}

/// Shows the App's own hook to it.
pub(super) fn of_app(state: &State, caller: &Caller) -> Reply {
    let found = state.hooks.values().find(|hook| hook.owner == SimHookOwner::App);
    match (caller, found) {
        (Caller::App, Some(hook)) => Reply::new(200, shapes::hook_config(hook)),
        (Caller::App | Caller::Token | Caller::Guest(_) | Caller::Installation(_), _) => {
            Reply::not_found()
        }
    }
}

/// Lists the hooks of a scope.
pub(super) fn all(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let own = state.hooks.values().filter(|hook| is_of(hook, scope));
    let all = own.map(|hook| shapes::hook(scope, hook)).collect();
    page(state, ask, None, all)
}

/// Makes a hook and tries it, as GitHub does.
pub(super) fn create(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let mut hook = SimHook::new(state.number(), SimHookOwner::Scope(scope.clone()), "", "");
    hook.content_type = "form".into();
    hook.events = vec!["push".into()];
    hook.take(&ask.body);
    let taken = state.hooks.values().any(|it| is_of(it, scope) && it.url == hook.url);
    if hook.url.is_empty() || ask.body["name"] != "web" || taken {
        return Reply::error(422, "Validation Failed");
    }
    let (id, shape) = (hook.id, shapes::hook(scope, &hook));
    state.hooks.insert(id, hook);
    let attempt = Attempt {
        id: state.number(),
        guid: uuid::Uuid::new_v4().to_string(),
        at: state.date(),
        redelivery: false,
        status: 0,
        event: "ping",
        action: String::new(),
        job: 0,
    };
    let body = json!({"zen": "Keep it logically awesome.", "hook_id": id, "hook": shape});
    state.post(Delivery { hook: id, attempt, body: body.to_string() });
    Reply::new(201, shape)
}

pub(super) fn update(state: &mut State, ask: &Ask, scope: &Scope, id: &str) -> Reply {
    let found = id.parse::<u64>().ok().and_then(|id| state.hooks.get_mut(&id));
    let Some(hook) = found.filter(|hook| is_of(hook, scope)) else { return Reply::not_found() };
    hook.take(&ask.body);
    Reply::new(200, shapes::hook(scope, hook))
}

fn is_of(hook: &SimHook, scope: &Scope) -> bool {
    matches!(&hook.owner, SimHookOwner::Scope(own) if same_scope(own, scope))
}

/// Lists the attempts of a hook, newest first, by cursor.
pub(super) fn list(state: &State, ask: &Ask, scope: Option<&Scope>, hook: Option<&str>) -> Reply {
    let hook = hook.and_then(|id| id.parse::<u64>().ok());
    let wanted = |delivery: &&Delivery| belongs(state, delivery, scope, hook);
    let before = ask.query.get("cursor").and_then(|text| text.strip_prefix("v1_"));
    let before = before.and_then(|text| text.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let size = ask.query.get("per_page").and_then(|text| text.parse().ok()).unwrap_or(30);
    let mut rest = state.deliveries.iter().rev().filter(wanted).filter(|it| it.attempt.id < before);
    let page: Vec<&Attempt> = rest.by_ref().take(size).map(|it| &it.attempt).collect();
    let mut reply = Reply::new(200, page.iter().map(|it| shapes::attempt(it)).collect());
    if let (Some(last), Some(_)) = (page.last(), rest.next()) {
        let query = format!("per_page={size}&cursor=v1_{}", last.id);
        let link = format!("<https://api.invalid{}?{query}>; rel=\"next\"", ask.path);
        reply.headers.push(("link", link));
    }
    reply
}

/// Sends a delivery again, under the same GUID.
pub(super) fn again(state: &mut State, scope: Option<&Scope>, id: &str) -> Reply {
    let id = id.parse().unwrap_or(0_u64);
    let old = state.deliveries.iter().find(|it| it.attempt.id == id);
    let Some(old) = old.filter(|it| belongs(state, it, scope, None)) else {
        return Reply::not_found();
    };
    let (hook, body, old) = (old.hook, old.body.clone(), old.attempt.clone());
    let (id, at) = (state.number(), state.date());
    let attempt = Attempt { id, at, redelivery: true, status: 0, ..old };
    state.post(Delivery { hook, attempt, body });
    Reply::new(202, Value::Object(serde_json::Map::new()))
}

fn belongs(state: &State, delivery: &Delivery, scope: Option<&Scope>, hook: Option<u64>) -> bool {
    let Some(of) = state.hooks.get(&delivery.hook) else { return false };
    let owner = match (&of.owner, scope) {
        (SimHookOwner::App, None) => true,
        (SimHookOwner::Scope(own), Some(scope)) => same_scope(own, scope),
        (SimHookOwner::App, Some(_)) | (SimHookOwner::Scope(_), None) => false,
    };
    owner && hook.is_none_or(|hook| hook == delivery.hook)
}

/// GitHub waits ten seconds for an answer, and reads nothing of it but the status.
const DELIVERY: CallLimits = CallLimits { timeout: Duration::from_secs(10), body_bytes: 0 };

/// Sends what is in the outbox, each delivery beside the others.
pub(super) fn send_all(shared: &Arc<Shared>) {
    let outbox = std::mem::take(&mut shared.state().outbox);
    if outbox.is_empty() {
        return;
    }
    let client = HttpClient::plain(DELIVERY);
    for index in outbox {
        let (shared, client) = (Arc::clone(shared), client.clone());
        actix_rt::spawn(async move {
            let Some(request) = request(&shared, index) else { return };
            let sent = client.open(request).await;
            let status = sent.map_or(502, |answer| answer.status().as_u16());
            if let Some(delivery) = shared.state().deliveries.get_mut(index) {
                delivery.attempt.status = status;
            }
            shared.changed();
        });
    }
}

/// Writes the request of one delivery.
fn request(shared: &Shared, index: usize) -> Option<Request<Vec<u8>>> {
    let state = shared.state();
    let delivery = state.deliveries.get(index)?;
    let hook = state.hooks.get(&delivery.hook)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, hook.secret.as_bytes());
    let signature = hmac::sign(&key, delivery.body.as_bytes());
    let request = Request::post(&hook.url)
        .header("Connection", "close")
        .header("User-Agent", "GitHub-Hookshot/simulated")
        .header("Content-Type", "application/json")
        .header("X-GitHub-Event", delivery.attempt.event)
        .header("X-GitHub-Delivery", delivery.attempt.guid.as_str())
        .header("X-GitHub-Hook-ID", delivery.hook)
        .header("X-Hub-Signature-256", format!("sha256={}", hex(signature.as_ref())));
    request.body(delivery.body.as_bytes().to_vec()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
