//! Tries, without changing anything, whether a scope can be served: one finding for each right.
//!
//! Whether runners may be registered is tried by asking for a registration token, which expires
//! unused in an hour; nothing else tells a right to write from a right to read.

use ostler_actors::model::{Place, Scope};
use ostler_actors::ports::{Finding, Grade};

use super::GitHub;
use super::answer::{ApiAnswer, ApiFailure};
use super::api::ApiRequest;
use super::apps::Reach;
use super::governor::Lane;
use super::hooks::faults;
use super::paging::List;
use super::route::{self, Route};
use super::wire;
use crate::ports::{HookRef, HookView, ScopeCheck};

/// From this many seconds on a wrong clock is a fault.
const CLOCK_SKEW_SECONDS: i64 = 30;

impl GitHub {
    /// Tries everything a scope needs.
    pub async fn try_scope(&self, spec: &ScopeCheck<'_>) -> Vec<Finding> {
        let scope = spec.scope;
        let credential = self.try_credential(scope).await;
        let refused = credential.grade == Grade::Wrong;
        let mut findings = vec![credential];
        if refused {
            return findings;
        }
        findings.push(self.try_registering(scope).await);
        findings.extend(self.try_reading(scope).await);
        for group in spec.groups {
            findings.push(self.try_group(scope, group).await);
        }
        findings.push(match spec.url {
            Some(url) => self.try_hook(scope, url).await,
            None => Finding::new(
                "hook",
                Grade::Doubt,
                "no `http.public_url` or no `webhook_secret`: jobs are found by asking, up to a minute late",
            ),
        });
        findings.push(clock(self.figures().clock_ahead_seconds));
        findings
    }

    async fn try_credential(&self, scope: &Scope) -> Finding {
        let question = route::runners(scope).with("per_page", "1");
        match self.probe(scope, ApiRequest::get(question)).await {
            Ok(answer) if answer.status == 200 => {
                Finding::new("credential", Grade::Ok, "accepted, and runners can be listed")
            }
            Ok(answer) => {
                let right = runners_right(scope);
                let says = format!(
                    "runners cannot be listed ({}); the credential needs {right}",
                    answer.message()
                );
                Finding::new("credential", Grade::Wrong, says)
            }
            Err(failure) => Finding::new("credential", Grade::Wrong, failure.why()),
        }
    }

    async fn try_registering(&self, scope: &Scope) -> Finding {
        let question = ApiRequest::post(route::registration_token(scope), None);
        match self.probe(scope, question).await {
            Ok(answer) if answer.status == 201 => {
                Finding::new("runners", Grade::Ok, "may be registered and removed")
            }
            Ok(answer) => {
                let right = runners_right(scope);
                let says = format!(
                    "may not be registered ({}); the credential needs {right}",
                    answer.message()
                );
                Finding::new("runners", Grade::Wrong, says)
            }
            Err(failure) => Finding::new("runners", Grade::Wrong, failure.why()),
        }
    }

    /// Tries to see repositories, and the runs of one of them.
    async fn try_reading(&self, scope: &Scope) -> Vec<Finding> {
        let (place, seen) = match self.one_repository(scope).await {
            Ok((Some(place), reach)) => {
                let says = format!("`{}/{}` can be seen", place.owner, place.repository);
                (place, of_reach(&says, reach))
            }
            Ok((None, _)) => {
                let says = match scope {
                    Scope::Enterprise(_) => {
                        "GitHub does not list those of an enterprise: jobs are heard of by webhook alone, and \
                         idle machines without a witness are never let go; pools of organizations know more"
                    }
                    Scope::Repository { .. } | Scope::Organization(_) => {
                        "none can be seen, so jobs could not be read; give the credential access to the \
                         repositories that use these runners (`Metadata: read`)"
                    }
                };
                return vec![Finding::new("repositories", Grade::Doubt, says)];
            }
            Err(why) => return vec![Finding::new("repositories", Grade::Wrong, why)],
        };
        let of = Scope::Repository { owner: place.owner.clone(), name: place.repository.clone() };
        let route = route::runs(&place, "in_progress").with("per_page", "1");
        let jobs = match self.probe(&of, ApiRequest::get(route)).await {
            Ok(answer) if answer.status == 200 => Finding::new("jobs", Grade::Ok, "can be read"),
            Ok(answer) => Finding::new(
                "jobs",
                Grade::Wrong,
                format!(
                    "cannot be read ({}); the credential needs `Actions: read` (classic: `repo`)",
                    answer.message()
                ),
            ),
            Err(failure) => Finding::new("jobs", Grade::Wrong, failure.why()),
        };
        vec![seen, jobs]
    }

    /// Finds one repository that can be seen, and whether the others can.
    async fn one_repository(&self, scope: &Scope) -> Result<(Option<Place>, Reach), String> {
        let denied = |answer: &ApiAnswer| {
            format!("cannot be seen ({}); the credential needs `Metadata: read`", answer.message())
        };
        match scope {
            Scope::Repository { owner, name } => {
                let place =
                    Place { owner: owner.clone(), repository: name.clone(), enterprise: None };
                let question = ApiRequest::get(route::repository(&place));
                let answer = self.probe(scope, question).await.map_err(ApiFailure::why)?;
                if answer.status != 200 {
                    return Err(denied(&answer));
                }
                Ok((Some(place), Reach::Whole))
            }
            Scope::Organization(owner) => {
                let route: Route = route::repositories(owner).with("per_page", "1");
                let asked = self.api.ask_any(scope, Lane::Check, &ApiRequest::get(route)).await;
                let (identity, answer) = asked.map_err(ApiFailure::why)?;
                if answer.status != 200 {
                    return Err(denied(&answer));
                }
                let reach = self.api.reach(&identity, scope).await.map_err(ApiFailure::why)?;
                let first = answer.read::<Vec<wire::Repository>>().map_err(ApiFailure::why)?;
                let place = |it: wire::Repository| Place {
                    owner: owner.clone(),
                    repository: it.name,
                    enterprise: None,
                };
                Ok((first.into_iter().next().map(place), reach))
            }
            Scope::Enterprise(_) => Ok((None, Reach::Whole)),
        }
    }

    async fn try_group(&self, scope: &Scope, name: &str) -> Finding {
        if let Err(failure) = self.group(scope, name).await {
            return Finding::new("group", Grade::Wrong, failure.why());
        }
        if matches!(scope, Scope::Repository { .. }) {
            return Finding::new("group", Grade::Ok, format!("`{name}` is there"));
        }
        let route = route::runner_groups(scope);
        let list = List { scope, lane: Lane::Check, route, field: "runner_groups", etags: None };
        let groups = self.api.list::<wire::Group>(list).await.unwrap_or_default();
        let group = groups.iter().find(|group| group.name.eq_ignore_ascii_case(name));
        group.map_or_else(
            || Finding::new("group", Grade::Ok, format!("`{name}` is there")),
            of_group,
        )
    }

    async fn try_hook(&self, scope: &Scope, url: &str) -> Finding {
        let (hook, which) = match self.reaching(scope, url).await {
            Ok(Some(found)) => found,
            Ok(None) => {
                let says = format!("none sends to {url}; run `ostler hook install`");
                return Finding::new("hook", Grade::Wrong, says);
            }
            Err(why) => return Finding::new("hook", Grade::Doubt, why),
        };
        let log = match self.hook_log(&which).await {
            Ok(log) => log,
            Err(why) => return Finding::new("hook", Grade::Doubt, why),
        };
        let faults = faults(&hook, &log);
        if !faults.is_empty() {
            return Finding::new("hook", Grade::Wrong, faults.join("; also "));
        }
        match log.first() {
            Some(_) => Finding::new(
                "hook",
                Grade::Ok,
                "its last delivery was taken: address and secret are right",
            ),
            None => Finding::new(
                "hook",
                Grade::Doubt,
                "it has sent nothing yet, so its secret is not tried",
            ),
        }
    }

    /// Finds the hook that serves a scope: the App's own, or the scope's.
    async fn reaching(
        &self,
        scope: &Scope,
        url: &str,
    ) -> Result<Option<(HookView, HookRef)>, String> {
        if let Some(hook) = self.app_hook_to(url).await? {
            return Ok(Some((hook, HookRef::Shared)));
        }
        let found = self.hooks_to(scope, url).await?;
        let with_id = |hook: HookView| {
            let id = hook.id?;
            Some((hook, HookRef::Scope { scope: scope.clone(), id }))
        };
        Ok(found.into_iter().find_map(with_id))
    }

    async fn probe(
        &self,
        scope: &Scope,
        question: ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        self.api.ask(scope, Lane::Check, &question).await
    }
}

/// Judges how much can be seen.
fn of_reach(says: &str, reach: Reach) -> Finding {
    match reach {
        Reach::Whole => Finding::new("repositories", Grade::Ok, says),
        Reach::Selected => {
            let says = format!(
                "{says}, but the App is installed on selected repositories only: jobs of the others are not \
                 heard of, and idle machines without a witness are never let go; install it on all repositories"
            );
            Finding::new("repositories", Grade::Doubt, says)
        }
    }
}

/// Judges who is let into a group.
fn of_group(group: &wire::Group) -> Finding {
    let name = &group.name;
    let mut limits = Vec::new();
    if group.visibility == "selected" {
        limits.push("to selected repositories only; jobs of others wait for ever");
    }
    if group.restricted_to_workflows {
        limits.push("to selected workflows only; jobs of others wait for ever");
    }
    if !limits.is_empty() {
        let says = format!("`{name}` is open {}", limits.join(", and "));
        return Finding::new("group", Grade::Doubt, says);
    }
    // GitHub's own default, and a good one: worth a word, no doubt.
    let public = match group.allows_public_repositories {
        Some(false) => "; public repositories are not let in",
        Some(true) | None => "",
    };
    Finding::new("group", Grade::Ok, format!("`{name}` is there{public}"))
}

fn runners_right(scope: &Scope) -> &'static str {
    match scope {
        Scope::Repository { .. } => "`Administration: write` of the repository (classic: `repo`)",
        Scope::Organization(_) => {
            "`Self-hosted runners: write` of the organization (classic: `admin:org`)"
        }
        Scope::Enterprise(_) => "`manage_runners:enterprise`, on a classic token",
    }
}

/// Judges our clock by GitHub's.
fn clock(ahead: i64) -> Finding {
    let says = match ahead {
        0 => "agrees with GitHub's".to_owned(),
        1.. => format!("is {ahead} s ahead of GitHub's; set it by NTP"),
        ..0 => format!("is {} s behind GitHub's; set it by NTP", ahead.unsigned_abs()),
    };
    let grade = match ahead.abs() {
        0..=5 => Grade::Ok,
        6..CLOCK_SKEW_SECONDS => Grade::Doubt,
        _ => Grade::Wrong,
    };
    Finding::new("clock", grade, says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_how_wrong_it_is_either_way() {
        for (ahead, grade) in [
            (0, Grade::Ok),
            (5, Grade::Ok),
            (-6, Grade::Doubt),
            (29, Grade::Doubt),
            (30, Grade::Wrong),
            (-90, Grade::Wrong),
        ] {
            assert_eq!(clock(ahead).grade, grade, "{ahead}");
        }
    }
}
