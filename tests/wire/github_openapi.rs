//! Both sides against GitHub's own description: what we send, and what the simulation answers.

use std::collections::BTreeSet;

use ostler::demo::github::{Options, SeenCall, SimGitHub, SimHookOwner};
use ostler::github::{GitHub, HookSpec};
use ostler::ports::{HookRef, ScopeCheck};
use ostler_actors::model::{Place, Scope};
use ostler_actors::ports::{Forge as _, Roster as _, RunnerRef};
use serde_json::Value;

use super::github_data;
use super::github_schema::check;
use super::github_support::{
    adapter, agent, app_of, job_id, order, removal, settings, start, take_job, token_of, web,
};

#[tokio::test]
async fn every_call_and_every_answer_is_as_github_describes_it() {
    let Some(spec) = github_data::openapi() else { return };
    let sim = start(Options::default());
    let mut both = settings(&sim, app_of(&sim));
    both.credentials.push(token_of(&sim));
    let github = adapter(both);
    for scope in ["acme", "acme/web", "enterprises/initech"] {
        everything(&sim, &github, &scope.parse().unwrap()).await;
    }
    let mut kinds = BTreeSet::new();
    let mut breaches = BTreeSet::new();
    for call in sim.calls() {
        match operation(&spec, &call) {
            Some((template, operation)) => {
                kinds.insert(format!("{} {template} {}", call.method, call.status));
                breaches.extend(judge(&spec, operation, &call));
            }
            None => {
                breaches.insert(format!("{} {} is not described", call.method, call.path));
            }
        }
    }
    assert!(breaches.is_empty(), "{breaches:#?}");
    assert!(kinds.len() >= 30, "too little was tried: {kinds:#?}");
}

/// Does everything the adapter can do in a scope, the sad answers included.
async fn everything(sim: &SimGitHub, github: &GitHub, scope: &Scope) {
    let place = Place { enterprise: Some("initech".into()), ..web() };
    github.remember(&place);
    let owner = SimHookOwner::Scope(scope.clone());
    let hook = sim.add_hook(owner, "http://127.0.0.1:9/unknown", "hush");
    let app = sim.add_hook(SimHookOwner::App, "http://127.0.0.1:9/unknown", "hush");
    let idle = github.mint(order(scope, "m1")).await.unwrap();
    let busy = github.mint(order(scope, "m2")).await.unwrap();
    assert!(github.mint(order(scope, "m1")).await.is_err());
    let mut unlabelled = order(scope, "m3");
    unlabelled.labels = [""; 0].iter().collect();
    assert!(github.mint(unlabelled).await.is_err());
    let job = sim.queue(&place, removal(&["linux"]));
    let run = sim.jobs().iter().find(|it| it.id == job).unwrap().run;
    drop(github.job(&job_id(job), &place, run).await);
    take_job(sim, &busy.jit).await;
    drop(github.runners(scope).await);
    for id in [None, Some(busy.id)] {
        drop(github.runner(scope, &RunnerRef { name: "m2".into(), id }).await);
    }
    drop(github.work_of(scope, &RunnerRef { name: "m2".into(), id: None }).await);
    drop(github.open_jobs(scope).await);
    drop(github.open_jobs(scope).await);
    for id in [busy.id, idle.id, idle.id] {
        github.deregister(scope, id).await.unwrap();
    }
    agent(sim, "done", &busy.jit, r#"{"conclusion":"success"}"#).await;
    drop(github.job(&job_id(job), &place, run).await);
    drop(github.job(&job_id(1), &place, run).await);
    sim.until(|sim| sim.attempts(app).iter().all(|attempt| attempt.status != 0)).await;
    sim.until(|sim| sim.attempts(hook).iter().all(|attempt| attempt.status != 0)).await;
    if !matches!(scope, Scope::Enterprise(_)) {
        let of_scope = HookRef::Scope { scope: scope.clone(), id: hook };
        assert!(!github.sweep_deliveries(&of_scope, None).await.unwrap().asked_again.is_empty());
        github.sweep_deliveries(&HookRef::Shared, None).await.unwrap();
        let url = "http://127.0.0.1:9/another";
        let secret = "hush".to_owned().into();
        for _ in 0..2 {
            let removal = HookSpec { url, secret: &secret };
            github.install_hook(scope, &removal).await.unwrap();
        }
        assert_eq!(github.hooks_to(scope, url).await.unwrap().len(), 1);
        let removal = ScopeCheck { scope, groups: &["Default"], url: Some(url) };
        assert!(github.try_scope(&removal).await.iter().all(|it| it.what != "settings"));
        sim.lie(|lies| lies.version_ends = Some(jiff::Timestamp::now()));
        let ending = github.ending_versions(scope, &["runner:2.300.0"], jiff::Timestamp::now());
        assert_eq!(ending.await.len(), 1);
        assert!(github.app_hook_to("http://127.0.0.1:9/unknown").await.unwrap().is_some());
    }
}

/// Finds the operation of a call by its path.
fn operation<'a>(spec: &'a Value, call: &SeenCall) -> Option<(&'a str, &'a Value)> {
    let fits = |template: &str| {
        let (parts, path) = (template.split('/'), call.path.split('/'));
        parts.clone().count() == path.clone().count()
            && parts.zip(path).all(|(part, text)| part == text || part.starts_with('{'))
    };
    let paths = spec["paths"].as_object()?;
    let mut found: Vec<_> = paths.iter().filter(|(template, _)| fits(template)).collect();
    found.sort_by_key(|(template, _)| template.matches('{').count());
    let (template, item) = found.first()?;
    item.get(call.method.to_lowercase()).map(|operation| (template.as_str(), operation))
}

fn judge(spec: &Value, operation: &Value, call: &SeenCall) -> Vec<String> {
    let at = format!("{} {}", call.method, operation["operationId"].as_str().unwrap_or("?"));
    let mut breaches = Vec::new();
    let known: BTreeSet<&str> = operation["parameters"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|parameter| resolve(spec, parameter)["name"].as_str())
        .collect();
    for key in call.query.keys().filter(|key| !known.contains(key.as_str())) {
        breaches.push(format!("{at}: the parameter `{key}` is not described"));
    }
    let request = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !request.is_null() && !call.body.is_null() {
        // A request that is refused for its shape was sent wrong on purpose.
        if call.status != 422 {
            check(spec, request, &call.body, &format!("{at} request"), &mut breaches);
        }
    } else if !call.body.is_null() {
        breaches.push(format!("{at}: a body is not described"));
    }
    let answers = &operation["responses"][call.status.to_string()];
    if answers.is_null() && call.status < 300 {
        breaches.push(format!("{at}: {} is not described", call.status));
    }
    let schema = &resolve(spec, answers)["content"]["application/json"]["schema"];
    if !schema.is_null() {
        check(spec, schema, &call.answer, &format!("{at} {}", call.status), &mut breaches);
    }
    breaches
}

pub(super) fn resolve<'a>(spec: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => resolve(spec, spec.pointer(&reference[1..]).unwrap_or(&Value::Null)),
        None => value,
    }
}
