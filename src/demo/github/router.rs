//! Where a call goes: one screen of addresses.

use std::collections::BTreeMap;

use ostler_actors::model::Scope;
use serde_json::{Value, json};

use super::gate::Caller;
use super::state::State;
use super::{apps, hooks, jobs, runners};

pub(super) struct Ask {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) segments: Vec<String>,
    pub(super) query: BTreeMap<String, String>,
    pub(super) bearer: String,
    pub(super) etag: Option<String>,
    pub(super) agent: String,
    pub(super) edition: String,
    pub(super) body: Value,
}

#[derive(Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
    /// A body that is not ours, as a proxy would write it.
    pub(super) raw: Option<&'static str>,
    /// Whether the caller is left waiting.
    pub(super) never: bool,
}

impl Reply {
    pub(super) fn new(status: u16, body: Value) -> Self {
        Self { status, body, ..Self::default() }
    }

    pub(super) fn error(status: u16, message: &str) -> Self {
        let docs = "https://docs.github.com/rest";
        Self::new(
            status,
            json!({"message": message, "documentation_url": docs, "status": status.to_string()}),
        )
    }

    pub(super) fn not_found() -> Self {
        Self::error(404, "Not Found")
    }
}

pub(super) fn answer(state: &mut State, caller: &Caller, ask: &Ask) -> Reply {
    let segments: Vec<&str> = ask.segments.iter().map(String::as_str).collect();
    let get = ask.method == "GET";
    match (ask.method.as_str(), segments.as_slice()) {
        ("GET", ["orgs", owner, "installation"] | ["repos", owner, _, "installation"]) => {
            apps::installation(state, caller, owner)
        }
        ("POST", ["app", "installations", id, "access_tokens"]) => apps::token(state, caller, id),
        ("GET", ["app"]) => apps::itself(state, caller),
        ("GET", ["app", "hook", "config"]) => hooks::of_app(state, caller),
        ("GET", ["app", "hook", "deliveries"]) => hooks::list(state, ask, None, None),
        ("POST", ["app", "hook", "deliveries", id, "attempts"]) => hooks::again(state, None, id),
        (_, ["repos", owner, name, rest @ ..]) => {
            let (owner, name) = ((*owner).to_owned(), (*name).to_owned());
            scoped(state, ask, &Scope::Repository { owner, name }, rest, get)
        }
        (_, ["orgs", owner, rest @ ..]) => {
            scoped(state, ask, &Scope::Organization((*owner).to_owned()), rest, get)
        }
        (_, ["enterprises", slug, rest @ ..]) => {
            scoped(state, ask, &Scope::Enterprise((*slug).to_owned()), rest, get)
        }
        _ => Reply::not_found(),
    }
}

fn scoped(state: &mut State, ask: &Ask, scope: &Scope, rest: &[&str], get: bool) -> Reply {
    match (ask.method.as_str(), rest) {
        ("GET", ["actions", "runners"]) => runners::list(state, ask, scope),
        ("POST", ["actions", "runners", "generate-jitconfig"]) => {
            runners::register(state, ask, scope)
        }
        ("POST", ["actions", "runners", "registration-token"]) => runners::token(state),
        ("GET", ["actions", "runners", "deprecations", version]) => {
            runners::deprecation(state, version)
        }
        ("GET", ["actions", "runners", id]) => runners::read(state, scope, id),
        ("DELETE", ["actions", "runners", id]) => runners::remove(state, scope, id),
        ("GET", ["actions", "runner-groups"]) => runners::groups(state, ask, scope),
        ("GET", []) => jobs::repository(scope),
        ("GET", ["repos"]) => jobs::repositories(state, ask, scope),
        ("GET", ["hooks"]) => hooks::all(state, ask, scope),
        ("POST", ["hooks"]) => hooks::create(state, ask, scope),
        ("PATCH", ["hooks", id]) => hooks::update(state, ask, scope, id),
        ("GET", ["hooks", id, "deliveries"]) => hooks::list(state, ask, Some(scope), Some(id)),
        ("POST", ["hooks", _, "deliveries", id, "attempts"]) => {
            hooks::again(state, Some(scope), id)
        }
        (_, ["actions", "jobs", id]) if get => jobs::job(state, scope, id),
        (_, ["actions", "runs"]) if get => jobs::runs(state, ask, scope),
        (_, ["actions", "runs", id]) if get => jobs::run(state, scope, id),
        (_, ["actions", "runs", id, "jobs"]) if get => jobs::of_run(state, ask, scope, id),
        _ => Reply::not_found(),
    }
}

/// Cuts one page out of a list and links to the next.
pub(super) fn page(state: &mut State, ask: &Ask, field: Option<&str>, all: Vec<Value>) -> Reply {
    let number = |key: &str, otherwise: usize| {
        ask.query.get(key).and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (size, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
    let total = all.len();
    let pages = total.div_ceil(size).max(1);
    let mut cut: Vec<Value> = all.into_iter().skip((page - 1) * size).take(size).collect();
    if page == pages && !cut.is_empty() && super::Lies::tell(&mut state.lies.short_lists) {
        cut.clear();
    }
    let body = match field {
        Some(field) => json!({"total_count": total, field: cut}),
        None => Value::Array(cut),
    };
    let mut reply = Reply::new(200, body);
    if page < pages {
        // Absolute, and on a host that does not exist: a client that follows it fails.
        let query = format!("per_page={size}&page={}", page + 1);
        let link = format!("<https://api.invalid{}?{query}>; rel=\"next\"", ask.path);
        reply.headers.push(("link", link));
    }
    reply
}
