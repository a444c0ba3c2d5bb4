//! Registrations: list, read, register, remove.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ostler_actors::model::{Labels, Scope};
use serde_json::{Value, json};

use super::router::{Ask, Reply, page};
use super::shapes;
use super::state::Lies;
use super::state::{SimRunner, State, same_scope};

/// The group that is always there.
const DEFAULT: u64 = 1;

pub(super) fn list(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let name = ask.query.get("name");
    let all = state.runners.values().filter(|it| same_scope(&it.scope, scope));
    let named = all.filter(|it| name.is_none_or(|name| it.name.eq_ignore_ascii_case(name)));
    let mut runners: Vec<Value> = named.map(shapes::runner).collect();
    for shown in &mut runners {
        age(shown, &mut state.lies);
    }
    page(state, ask, Some("runners"), runners)
}

pub(super) fn read(state: &mut State, scope: &Scope, id: &str) -> Reply {
    let runner = id.parse().ok().and_then(|id| state.runner_in(scope, id));
    let Some(mut shown) = runner.map(shapes::runner) else { return Reply::not_found() };
    age(&mut shown, &mut state.lies);
    Reply::new(200, shown)
}

/// Tells `busy` the wrong way round, if that lie is left.
fn age(shown: &mut Value, lies: &mut Lies) {
    if Lies::tell(&mut lies.stale_busy) {
        shown["busy"] = json!(shown["busy"] != json!(true));
    }
}

pub(super) fn remove(state: &mut State, scope: &Scope, id: &str) -> Reply {
    let Some(runner) = id.parse().ok().and_then(|id| state.runner_in(scope, id)) else {
        return Reply::not_found();
    };
    let (id, busy) = (runner.id, runner.job.is_some());
    if busy && !state.lies.nasty_204 {
        return Reply::error(422, "Runner is currently running a job and cannot be deleted.");
    }
    state.unregister(id);
    Reply::new(204, Value::Null)
}

pub(super) fn groups(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let own = state.groups.iter().filter(|(of, _, _)| same_scope(of, scope));
    let default = (DEFAULT, "Default".to_owned());
    let all = std::iter::once(default).chain(own.map(|(_, id, name)| (*id, name.clone())));
    let mut groups: Vec<Value> = all.map(|(id, name)| shapes::group(id, &name)).collect();
    for group in &mut groups {
        for (key, value) in &state.lies.groups_are {
            group[*key] = value.clone();
        }
    }
    page(state, ask, Some("runner_groups"), groups)
}

pub(super) fn register(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let text = |name: &str| ask.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, group) = (text("name").to_owned(), ask.body.get("runner_group_id"));
    let labels = ask.body.get("labels").and_then(Value::as_array).cloned().unwrap_or_default();
    let labels: Labels = labels.iter().filter_map(Value::as_str).collect();
    let group = group.and_then(Value::as_u64).unwrap_or_default();
    let known = group == DEFAULT
        || state.groups.iter().any(|(of, id, _)| *id == group && same_scope(of, scope));
    if name.is_empty() || name.len() > 64 || labels.is_empty() || !known {
        return Reply::error(422, "Validation Failed");
    }
    if state.runners.values().any(|it| it.name == name && same_scope(&it.scope, scope)) {
        return Reply::error(409, "Already exists - A runner with that name already exists.");
    }
    let id = state.number();
    let runner = SimRunner {
        id,
        name,
        scope: scope.clone(),
        labels,
        group,
        job: None,
        listening: 0,
        seen: None,
    };
    let (jit, secret) = jit_config(state, &runner);
    state.secrets.insert(jit.clone(), id);
    state.secrets.insert(secret, id);
    let shape = shapes::runner(&runner);
    state.runners.insert(id, runner);
    Reply::new(201, json!({"runner": shape, "encoded_jit_config": jit}))
}

/// Gives out a token that could register runners; nothing here takes one.
pub(super) fn token(state: &State) -> Reply {
    let token = format!("A{}", uuid::Uuid::new_v4().simple());
    let ends = state.date().checked_add(jiff::SignedDuration::from_hours(1)).unwrap_or_default();
    Reply::new(201, json!({"token": token, "expires_at": shapes::second(ends)}))
}

/// Tells when a version ends, if it does.
pub(super) fn deprecation(state: &State, version: &str) -> Reply {
    match state.lies.version_ends {
        Some(ends) => Reply::new(
            200,
            json!({"runner_version": version, "runtime_deprecates_at": shapes::second(ends)}),
        ),
        None => Reply::not_found(),
    }
}

/// Makes a JIT config of the real shape: base64 of a map from file names to base64 contents.
fn jit_config(state: &State, runner: &SimRunner) -> (String, String) {
    let secret = format!("sim_{}", uuid::Uuid::new_v4().simple());
    let settings = json!({
        "agentId": runner.id,
        "agentName": runner.name,
        "ephemeral": true,
        "gitHubUrl": format!("{}/{}", state.url, runner.scope),
        "serverUrl": state.url,
        "workFolder": "_work",
    });
    let credentials = json!({"scheme": "OAuth", "data": {"token": secret}});
    let pack = |value: &Value| BASE64_STANDARD.encode(value.to_string());
    let files = json!({
        ".runner": pack(&settings),
        ".credentials": pack(&credentials),
        ".credentials_rsaparams": pack(&json!({})),
    });
    (pack(&files), secret)
}
