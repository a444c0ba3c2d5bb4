//! Who may ask, how often, and what is lied about before anybody answers.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};

use super::apps;
use super::router::{self, Ask, Reply};
use super::state::Lies;
use super::state::{SeenCall, State};

/// How many calls are remembered.
const REMEMBERED: usize = 20_000;

pub(super) enum Caller {
    /// The one with the token.
    Token,
    /// One with a token that is shown a single owner.
    Guest(String),
    App,
    /// An installation of it.
    Installation(u64),
}

impl Caller {
    fn key(&self) -> String {
        match self {
            Self::Token => "token".into(),
            Self::Guest(owner) => format!("guest of {owner}"),
            Self::App => "app".into(),
            Self::Installation(id) => format!("installation {id}"),
        }
    }
}

/// Takes a call through the gate to the desk, and writes it down.
pub(super) fn admit(state: &mut State, ask: &Ask) -> Reply {
    let mut reply = checked(state, ask);
    if reply.status == 200 && ask.method == "GET" {
        tag(ask, &mut reply);
    }
    let date = state.date().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    reply.headers.push(("date", date));
    if state.calls.len() >= REMEMBERED {
        state.calls.drain(..REMEMBERED / 2);
    }
    state.calls.push(SeenCall {
        at: state.date(),
        method: ask.method.clone(),
        path: ask.path.clone(),
        query: ask.query.clone(),
        agent: ask.agent.clone(),
        edition: ask.edition.clone(),
        body: ask.body.clone(),
        status: reply.status,
        answer: reply.body.clone(),
    });
    reply
}

fn checked(state: &mut State, ask: &Ask) -> Reply {
    if Lies::tell(&mut state.lies.silence) {
        return Reply { never: true, ..Reply::default() };
    }
    let over = state.lies.errors_after.as_mut().is_some_and(|left| !Lies::tell(left));
    if over || Lies::tell(&mut state.lies.errors) {
        return Reply::error(502, "Server Error");
    }
    let Some(caller) = caller(state, ask) else { return Reply::error(401, "Bad credentials") };
    if Lies::tell(&mut state.lies.turned_away) {
        let mut reply = Reply::error(403, "You have exceeded a secondary rate limit.");
        let seconds = state.lies.retry_after.map(|it| ("retry-after", it.to_string()));
        reply.headers.extend(seconds);
        return reply;
    }
    let resource = resource(ask);
    if let Some(limit) = state.rate_limit
        && spent(state, &caller, resource).1 >= limit
    {
        let mut reply = Reply::error(403, "API rate limit exceeded for this installation.");
        reply.headers.extend(rate_headers(state, &caller, resource, limit));
        return reply;
    }
    let mut reply = match lie_about(state, ask) {
        Some(lie) => lie,
        None if !is_shown(state, &caller, ask) => Reply::not_found(),
        None => router::answer(state, &caller, ask),
    };
    let unchanged = ask.etag.is_some() && reply.status == 200 && ask.etag == Some(etag(&reply));
    if let Some(limit) = state.rate_limit {
        if !unchanged {
            let (until, used) = spent(state, &caller, resource);
            state.spent.insert((caller.key(), resource), (until, used + 1));
        }
        reply.headers.extend(rate_headers(state, &caller, resource, limit));
    }
    let changes = ask.method != "GET" && reply.status < 300;
    if changes && Lies::tell(&mut state.lies.lost_answers) {
        return Reply::error(502, "Server Error");
    }
    reply
}

/// Finds out who calls; tokens of installations end after an hour.
fn caller(state: &State, ask: &Ask) -> Option<Caller> {
    if ask.bearer == state.token {
        return Some(Caller::Token);
    }
    if let Some(owner) = state.guests.get(&ask.bearer) {
        return Some(Caller::Guest(owner.clone()));
    }
    let now = state.date();
    match state.tokens.get(&ask.bearer) {
        Some((id, ends)) if now < *ends && !state.lies.dropped_tokens => {
            Some(Caller::Installation(*id))
        }
        Some(_) => None,
        None => apps::signed(state, &ask.bearer).then_some(Caller::App),
    }
}

/// Tells whether the caller may see what it asks about; the rest is not there for it.
fn is_shown(state: &State, caller: &Caller, ask: &Ask) -> bool {
    match caller {
        Caller::Installation(_) => match (&state.lies.selected, ask.segments.as_slice()) {
            (Some(selected), [repos, _, name, ..]) if repos == "repos" => selected.contains(name),
            _ => true,
        },
        Caller::Guest(owner) => {
            ask.segments.get(1).is_some_and(|it| it.eq_ignore_ascii_case(owner))
        }
        Caller::Token | Caller::App => true,
    }
}

fn lie_about(state: &mut State, ask: &Ask) -> Option<Reply> {
    let segments: Vec<&str> = ask.segments.iter().map(String::as_str).collect();
    if state.lies.forbidden.iter().any(|ending| ask.path.ends_with(ending)) {
        return Some(Reply::error(403, "Resource not accessible by integration"));
    }
    if state.lies.missing.iter().any(|ending| ask.path.ends_with(ending)) {
        return Some(Reply::not_found());
    }
    let one = matches!(segments.as_slice(), [.., "actions", "runners" | "jobs", id] if id.parse::<u64>().is_ok());
    if !one {
        return None;
    }
    if !state.denied.contains(&ask.path) && Lies::tell(&mut state.lies.false_404) {
        state.denied.insert(ask.path.clone());
        return Some(Reply::not_found());
    }
    if Lies::tell(&mut state.lies.proxy_404) {
        let raw = Some("<html><body>no such page here</body></html>");
        return Some(Reply { status: 404, raw, ..Reply::default() });
    }
    if ask.method == "DELETE" && Lies::tell(&mut state.lies.false_422) {
        return Some(Reply::error(422, "Runner is currently running a job and cannot be deleted."));
    }
    None
}

fn resource(ask: &Ask) -> &'static str {
    if ask.path.ends_with("/generate-jitconfig") { "actions_runner_registration" } else { "core" }
}

/// Returns the end of the caller's hour and what it has spent of it.
fn spent(state: &State, caller: &Caller, resource: &'static str) -> (Timestamp, u32) {
    let now = state.date();
    let hour = SignedDuration::from_hours(1);
    let fresh = (now.checked_add(hour).unwrap_or(Timestamp::MAX), 0);
    let known = state.spent.get(&(caller.key(), resource)).copied();
    known.filter(|(until, _)| now < *until).unwrap_or(fresh)
}

fn rate_headers(
    state: &State,
    caller: &Caller,
    resource: &'static str,
    limit: u32,
) -> Vec<(&'static str, String)> {
    let (until, used) = spent(state, caller, resource);
    vec![
        ("x-ratelimit-limit", limit.to_string()),
        ("x-ratelimit-remaining", limit.saturating_sub(used).to_string()),
        ("x-ratelimit-used", used.to_string()),
        ("x-ratelimit-reset", until.as_second().to_string()),
        ("x-ratelimit-resource", resource.to_owned()),
    ]
}

fn etag(reply: &Reply) -> String {
    let mut hasher = DefaultHasher::new();
    reply.body.to_string().hash(&mut hasher);
    format!("W/\"{:016x}\"", hasher.finish())
}

/// Puts a tag on an answer; a caller that has it already gets 304.
fn tag(ask: &Ask, reply: &mut Reply) {
    let tag = etag(reply);
    if ask.etag.as_ref() == Some(&tag) {
        reply.status = 304;
        reply.body = serde_json::Value::Null;
    }
    reply.headers.push(("etag", tag));
}
