//! Hooks: what is sent to whom, what became of it, and sending it again.

use ostler_actors::model::Scope;
use serde_json::Value;

use super::desk::{Ask, Reply};
use super::lies::Lies;
use super::shapes;
use super::state::{Attempt, Delivery, SimHookOwner, State};

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
        let hooks: Vec<u64> =
            self.hooks.iter().filter(|(_, hook)| hears(&hook.owner)).map(|(id, _)| *id).collect();
        let (action, body) = (job.stage.word().to_owned(), shapes::payload(self, job).to_string());
        for hook in hooks {
            let attempt = Attempt {
                id: self.number(),
                guid: uuid::Uuid::new_v4().to_string(),
                at: self.date(),
                redelivery: false,
                status: 0,
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
        (SimHookOwner::Scope(own), Some(scope)) => super::state::same_scope(own, scope),
        (SimHookOwner::App, Some(_)) | (SimHookOwner::Scope(_), None) => false,
    };
    owner && hook.is_none_or(|hook| hook == delivery.hook)
}
