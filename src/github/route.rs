//! Addresses of what we ask for, and the bounded names they are counted under.

use std::fmt::Write as _;

use ostler_actors::model::{Place, RunnerId, RunnerName, Scope};

/// Holds an address below the API's root.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// The name it is counted under.
    pub(super) kind: &'static str,
    pub(super) path: String,
}

/// How many items a page holds: the most that GitHub gives.
pub(super) const PAGE_ITEMS: usize = 100;

fn route(kind: &'static str, path: String) -> Route {
    Route { kind, path }
}

impl Route {
    /// Adds a parameter to the query.
    pub(super) fn with(mut self, key: &str, value: &str) -> Self {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        self.path.push(mark);
        self.path.push_str(key);
        self.path.push('=');
        self.path.push_str(&escape(value));
        self
    }

    /// Asks for one page of a list.
    pub(super) fn page(self, number: usize) -> Self {
        self.with("per_page", &PAGE_ITEMS.to_string()).with("page", &number.to_string())
    }
}

pub(super) fn runners(scope: &Scope) -> Route {
    route("runners", format!("{}/actions/runners", of(scope)))
}

pub(super) fn runners_named(scope: &Scope, name: &RunnerName) -> Route {
    let list = route("runner_by_name", format!("{}/actions/runners", of(scope)));
    list.with("name", name.as_str())
}

pub(super) fn runner(scope: &Scope, id: RunnerId) -> Route {
    route("runner", format!("{}/actions/runners/{id}", of(scope)))
}

pub(super) fn jit_config(scope: &Scope) -> Route {
    route("generate_jitconfig", format!("{}/actions/runners/generate-jitconfig", of(scope)))
}

pub(super) fn runner_groups(scope: &Scope) -> Route {
    route("runner_groups", format!("{}/actions/runner-groups", of(scope)))
}

pub(super) fn registration_token(scope: &Scope) -> Route {
    route("registration_token", format!("{}/actions/runners/registration-token", of(scope)))
}

pub(super) fn deprecation(scope: &Scope, version: &str) -> Route {
    let path = format!("{}/actions/runners/deprecations/{}", of(scope), escape(version));
    route("runner_deprecation", path)
}

pub(super) fn repository(place: &Place) -> Route {
    route("repository", at(place))
}

pub(super) fn installation(scope: &Scope) -> Route {
    route("installation", format!("{}/installation", of(scope)))
}

pub(super) fn access_tokens(installation: u64) -> Route {
    route("access_tokens", format!("/app/installations/{installation}/access_tokens"))
}

pub(super) fn repositories(organization: &str) -> Route {
    let list = route("repositories", format!("/orgs/{}/repos", escape(organization)));
    // By the one date that never changes: sorted by another, a repository could move to a page that
    // was read already and be missed.
    list.with("sort", "created").with("direction", "asc")
}

pub(super) fn hooks(scope: &Scope) -> Route {
    route("hooks", format!("{}/hooks", of(scope)))
}

pub(super) fn hook(scope: &Scope, id: u64) -> Route {
    route("hook", format!("{}/hooks/{id}", of(scope)))
}

pub(super) fn job(place: &Place, number: u64) -> Route {
    route("job", format!("{}/actions/jobs/{number}", at(place)))
}

pub(super) fn run(place: &Place, number: u64) -> Route {
    route("run", format!("{}/actions/runs/{number}", at(place)))
}

pub(super) fn runs(place: &Place, status: &str) -> Route {
    route("runs", format!("{}/actions/runs", at(place))).with("status", status)
}

pub(super) fn run_jobs(place: &Place, run: u64) -> Route {
    route("run_jobs", format!("{}/actions/runs/{run}/jobs", at(place))).with("filter", "latest")
}

/// Returns the address of a scope.
pub(super) fn of(scope: &Scope) -> String {
    match scope {
        Scope::Repository { owner, name } => format!("/repos/{}/{}", escape(owner), escape(name)),
        Scope::Organization(owner) => format!("/orgs/{}", escape(owner)),
        Scope::Enterprise(slug) => format!("/enterprises/{}", escape(slug)),
    }
}

/// Returns what only an identity with access can read: the list that the requested thing belongs to.
/// None where a 404 is never taken for absence.
pub(super) fn proof(scope: &Scope, asked: &Route) -> Option<Route> {
    let home = of(scope);
    let below = asked.path.strip_prefix(&home)?;
    let list = if below.starts_with("/actions/runners") {
        "runners"
    } else if below.starts_with("/actions/jobs/") || below.starts_with("/actions/runs") {
        "runs"
    } else {
        return None;
    };
    Some(route("access", format!("{home}/actions/{list}")).with("per_page", "1"))
}

/// Makes a route of another file's path.
pub(super) fn other(kind: &'static str, path: String) -> Route {
    route(kind, path)
}

fn at(place: &Place) -> String {
    format!("/repos/{}/{}", escape(&place.owner), escape(&place.repository))
}

/// Escapes everything that could end a segment of a path or a value of a query.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    // A lone dot or two would climb to another address.
    if escaped.bytes().all(|byte| byte == b'.') { escaped.replace('.', "%2E") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let name = RunnerName::new("a&b=c d/é");
        let path = runners_named(&"acme/..".parse().unwrap(), &name).page(2).path;
        assert_eq!(
            path,
            "/repos/acme/%2E%2E/actions/runners?name=a%26b%3Dc%20d%2F%C3%A9&per_page=100&page=2"
        );
    }
}
