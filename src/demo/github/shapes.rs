//! GitHub's JSON, with every field its own description requires.

use jiff::Timestamp;
use ostler_actors::model::Scope;
use serde_json::{Map, Value, json};

use super::jobs::run_status;
use super::state::{Attempt, SimHook, SimJob, SimRunner, SimStage, State};

const API: &str = "https://api.github.com";
const SITE: &str = "https://github.com";
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// Addresses that a repository carries, all below its own.
const REPOSITORY_URLS: &[&str] = &[
    "archive",
    "assignees",
    "blobs",
    "branches",
    "collaborators",
    "comments",
    "commits",
    "compare",
    "contents",
    "contributors",
    "deployments",
    "downloads",
    "events",
    "forks",
    "git_commits",
    "git_refs",
    "git_tags",
    "hooks",
    "issue_comment",
    "issue_events",
    "issues",
    "keys",
    "labels",
    "languages",
    "merges",
    "milestones",
    "notifications",
    "pulls",
    "releases",
    "stargazers",
    "statuses",
    "subscribers",
    "subscription",
    "tags",
    "teams",
    "trees",
];
/// Addresses that a user carries.
const USER_URLS: &[&str] = &[
    "events",
    "followers",
    "following",
    "gists",
    "organizations",
    "received_events",
    "repos",
    "starred",
    "subscriptions",
];

fn with_urls(mut thing: Value, base: &str, names: &[&str]) -> Value {
    let fields: Map<String, Value> =
        names.iter().map(|name| (format!("{name}_url"), json!(format!("{base}/{name}")))).collect();
    if let Value::Object(thing) = &mut thing {
        thing.extend(fields);
    }
    thing
}

pub(super) fn runner(runner: &SimRunner) -> Value {
    let labels = runner.labels.iter().enumerate();
    let label = |(at, name): (usize, &str)| json!({"id": at + 1, "name": name, "type": "custom"});
    json!({
        "id": runner.id,
        "runner_group_id": runner.group,
        "name": runner.name,
        "os": "linux",
        "status": if runner.is_online() { "online" } else { "offline" },
        "busy": runner.job.is_some(),
        "ephemeral": true,
        "version": "2.336.0",
        "labels": labels.map(label).collect::<Vec<_>>(),
    })
}

pub(super) fn group(id: u64, name: &str) -> Value {
    json!({
        "id": id, "name": name, "visibility": "all", "default": id == 1, "inherited": false,
        "allows_public_repositories": false, "runners_url": format!("{API}/runner-groups/{id}/runners"),
    })
}

/// Shows a user or an organization.
pub(super) fn owner(login: &str) -> Value {
    let base = format!("{API}/users/{login}");
    let owner = json!({
        "login": login, "id": 1, "node_id": "U_1", "gravatar_id": "", "site_admin": false,
        "avatar_url": format!("{SITE}/{login}.png"), "html_url": format!("{SITE}/{login}"),
        "type": "Organization", "url": base,
    });
    with_urls(owner, &base, USER_URLS)
}

pub(super) fn repository(login: &str, name: &str) -> Value {
    let base = format!("{API}/repos/{login}/{name}");
    let repository = json!({
        "id": 1, "node_id": "R_1", "name": name, "full_name": format!("{login}/{name}"),
        "private": true, "fork": false, "description": null, "owner": owner(login),
        "html_url": format!("{SITE}/{login}/{name}"), "url": base,
    });
    with_urls(repository, &base, REPOSITORY_URLS)
}

/// Shows a repository with everything that is said of one alone.
pub(super) fn whole(login: &str, name: &str) -> Value {
    let mut shape = repository(login, name);
    let now = second(Timestamp::UNIX_EPOCH);
    let more = json!({
        "archived": false, "disabled": false, "created_at": now, "updated_at": now, "pushed_at": now,
        "default_branch": "main", "homepage": null, "language": null, "license": null,
        "mirror_url": null, "clone_url": format!("{SITE}/{login}/{name}.git"),
        "git_url": format!("git://github.com/{login}/{name}.git"),
        "ssh_url": format!("git@github.com:{login}/{name}.git"),
        "svn_url": format!("{SITE}/{login}/{name}"),
    });
    if let (Value::Object(shape), Value::Object(more)) = (&mut shape, more) {
        shape.extend(more);
        let counts = ["forks", "network", "open_issues", "stargazers", "subscribers", "watchers"];
        shape.extend(counts.map(|name| (format!("{name}_count"), json!(0))));
        shape.extend(["forks", "open_issues", "size", "watchers"].map(|it| (it.into(), json!(0))));
        let has = ["discussions", "issues", "pages", "projects", "wiki"];
        shape.extend(has.map(|name| (format!("has_{name}"), json!(false))));
    }
    shape
}

/// Shows a repository in a list, where it is said when it was pushed to.
pub(super) fn listed(login: &str, name: &str, id: usize, pushed_at: Timestamp) -> Value {
    let mut shape = repository(login, name);
    if let Value::Object(shape) = &mut shape {
        shape.insert("id".into(), json!(id));
        shape.insert("pushed_at".into(), json!(second(pushed_at)));
    }
    shape
}

pub(super) fn installation(id: u64, login: &str) -> Value {
    let now = second(Timestamp::UNIX_EPOCH);
    json!({
        "id": id, "app_id": 1, "app_slug": "ostler", "target_id": 1, "target_type": "Organization",
        "single_file_name": null, "repository_selection": "all", "events": ["workflow_job"],
        "access_tokens_url": format!("{API}/app/installations/{id}/access_tokens"),
        "html_url": format!("{SITE}/organizations/{login}/settings/installations/{id}"),
        "repositories_url": format!("{API}/installation/repositories"), "account": owner(login),
        "permissions": {"organization_self_hosted_runners": "write", "actions": "read"},
        "created_at": now, "updated_at": now, "suspended_by": null, "suspended_at": null,
    })
}

pub(super) fn app(client_id: &str) -> Value {
    let now = second(Timestamp::UNIX_EPOCH);
    json!({
        "id": 1, "slug": "ostler", "node_id": "A_1", "client_id": client_id, "owner": owner("acme"),
        "name": "ostler", "description": null, "external_url": SITE,
        "html_url": format!("{SITE}/apps/ostler"), "created_at": now, "updated_at": now,
        "permissions": {"organization_self_hosted_runners": "write", "actions": "read"},
        "events": ["workflow_job"],
    })
}

/// Shows a hook; its secret is covered.
pub(super) fn hook(scope: &Scope, hook: &SimHook) -> Value {
    let now = second(Timestamp::UNIX_EPOCH);
    let kind = match scope {
        Scope::Repository { .. } => "Repository",
        Scope::Organization(_) | Scope::Enterprise(_) => "Organization",
    };
    let base = match scope {
        Scope::Repository { .. } => format!("{API}/repos/{scope}/hooks/{}", hook.id),
        Scope::Organization(_) | Scope::Enterprise(_) => {
            format!("{API}/orgs/{scope}/hooks/{}", hook.id)
        }
    };
    json!({
        "id": hook.id, "type": kind, "name": "web", "active": hook.active, "events": hook.events,
        "config": hook_config(hook), "created_at": now, "updated_at": now, "url": base,
        "test_url": format!("{base}/test"), "ping_url": format!("{base}/pings"),
        "deliveries_url": format!("{base}/deliveries"),
        "last_response": {"code": null, "status": "unused", "message": null},
    })
}

/// Shows where a hook sends and how.
pub(super) fn hook_config(hook: &SimHook) -> Value {
    let mut config =
        json!({"url": hook.url, "content_type": hook.content_type, "insecure_ssl": "0"});
    if let (false, Value::Object(config)) = (hook.secret.is_empty(), &mut config) {
        config.insert("secret".into(), json!("********"));
    }
    config
}

pub(super) fn job(state: &State, job: &SimJob) -> Value {
    let (repository, id) = (base(job), job.id);
    let conclusion = match &job.stage {
        SimStage::Completed(how) => json!(how),
        SimStage::Waiting | SimStage::Queued | SimStage::InProgress => Value::Null,
    };
    let runner = job.runner.as_ref();
    let group = runner.map(|(id, _)| state.runners.get(id).map_or(1, |it| it.group));
    json!({
        "id": id, "run_id": job.run, "run_attempt": 1, "node_id": format!("CR_{id}"),
        "run_url": format!("{API}{repository}/actions/runs/{}", job.run),
        "head_sha": SHA, "head_branch": "main", "workflow_name": "CI", "name": job.plan.name,
        "url": format!("{API}{repository}/actions/jobs/{id}"),
        "html_url": format!("{SITE}/{}/{}/actions/runs/{}/job/{id}", job.place.owner, job.place.repository, job.run),
        "check_run_url": format!("{API}{repository}/check-runs/{id}"),
        "status": job.stage.label(), "conclusion": conclusion, "steps": [],
        "created_at": second(job.queued_at),
        "started_at": second(job.started_at.unwrap_or(job.queued_at)),
        "completed_at": job.completed_at.map(second),
        "labels": job.plan.labels.iter().collect::<Vec<_>>(),
        "runner_id": runner.map(|(id, _)| id), "runner_name": runner.map(|(_, name)| name),
        "runner_group_id": group, "runner_group_name": group.map(|_| "Default"),
    })
}

/// Shows a run by its jobs.
pub(super) fn run(_: &State, jobs: &[&SimJob]) -> Value {
    let Some(first) = jobs.first() else { return Value::Null };
    let (id, repository) = (first.run, base(first));
    let status = run_status(jobs);
    let url = format!("{API}{repository}/actions/runs/{id}");
    let at = second(first.queued_at);
    let place = &first.place;
    let author = json!({"name": "Ada", "email": "ada@example.com"});
    let run = json!({
        "id": id, "node_id": format!("WFR_{id}"), "head_branch": "main", "run_number": id,
        "run_attempt": 1, "display_title": first.plan.name, "event": "push", "status": status,
        "conclusion": if status == "completed" { json!("success") } else { Value::Null },
        "head_sha": SHA, "path": ".github/workflows/ci.yml", "workflow_id": 1, "url": url,
        "html_url": format!("{SITE}/{}/{}/actions/runs/{id}", place.owner, place.repository),
        "created_at": at, "updated_at": at, "pull_requests": [],
        "head_commit": {
            "id": SHA, "tree_id": SHA, "message": "Change it", "timestamp": at,
            "author": author, "committer": author,
        },
        "head_repository": self::repository(&place.owner, &place.repository),
        "repository": self::repository(&place.owner, &place.repository),
    });
    let urls = ["jobs", "logs", "check_suite", "cancel", "rerun", "artifacts", "workflow"];
    with_urls(run, &url, &urls)
}

/// Writes what a webhook tells of a job.
pub(super) fn payload(state: &State, it: &SimJob) -> Value {
    let place = &it.place;
    let mut payload = json!({
        "action": it.stage.label(),
        "workflow_job": job(state, it),
        "repository": repository(&place.owner, &place.repository),
        "organization": {"login": place.owner, "id": 1},
        "sender": owner("ada"),
    });
    if let (Some(slug), Value::Object(payload)) = (&place.enterprise, &mut payload) {
        payload.insert("enterprise".into(), json!({"id": 1, "slug": slug, "name": slug}));
    }
    payload
}

/// Shows an attempt to deliver.
pub(super) fn attempt(it: &Attempt) -> Value {
    let status = if (200..300).contains(&it.status) { "OK" } else { "Invalid HTTP Response" };
    json!({
        "id": it.id, "guid": it.guid, "delivered_at": it.at.to_string(), "redelivery": it.redelivery,
        "duration": 0.1, "status": status, "status_code": it.status, "event": it.event,
        "action": it.action, "installation_id": 1, "repository_id": 1,
    })
}

fn base(job: &SimJob) -> String {
    let (owner, name) = (job.place.owner.clone(), job.place.repository.clone());
    format!("/repos/{}", Scope::Repository { owner, name })
}

/// Writes a date as GitHub does, in whole seconds.
pub(super) fn second(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or_default().to_string()
}
