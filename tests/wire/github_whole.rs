//! The decisive look where no machine can say: the whole organization, or nothing is said.

use std::collections::BTreeSet;

use ostler::demo::github::{Options, SimHookOwner};
use ostler::ports::HookRef;
use ostler_actors::model::{Place, Scope, Sighting};
use ostler_actors::ports::{Forge as _, Roster as _, RunnerRef};

use super::github_support::{
    acme, adapter, count, job_id, mint, pair, removal, settings, start, take_job, token_of, web,
};

fn who(name: &str) -> RunnerRef {
    RunnerRef { name: name.into(), id: None }
}

fn place(number: usize) -> Place {
    Place { repository: format!("r{number:04}"), ..web() }
}

#[tokio::test]
async fn a_job_in_an_unknown_repository_is_found_among_hundreds() {
    let sim = start(Options { rate_limit: None, ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let long_ago = jiff::Timestamp::from_second(1).unwrap();
    for number in 0..350 {
        sim.add_repository(&place(number), long_ago);
    }
    let minted = mint(&github, "m1").await;
    // Begun by the clock or by hand: no push, no webhook.
    let number = sim.queue(&Place { repository: "quiet".into(), ..web() }, removal(&["linux"]));
    sim.lie(|lies| lies.pushed_at = Some(long_ago));
    take_job(&sim, &minted.jit).await;
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Seen(job_id(number)));
    sim.lie(|lies| lies.nasty_204 = true);
    github.deregister(&acme(), minted.id).await.unwrap();
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Seen(job_id(number)));
    sim.finish(number, "success");
    let before = sim.calls().len();
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Absent);
    // Questions that the search before no longer waited for may still arrive: paths are counted.
    let calls = sim.calls().split_off(before);
    let asked: BTreeSet<String> =
        calls.into_iter().map(|it| it.path).filter(|it| it.ends_with("/actions/runs")).collect();
    assert_eq!(asked.len(), 351, "every one was asked");
}

#[tokio::test]
async fn a_list_or_a_repository_that_does_not_answer_leaves_it_unknown() {
    let (sim, github) = pair();
    for number in 0..150 {
        sim.add_repository(&place(number), jiff::Timestamp::now());
    }
    let unknown = async || {
        let seen = github.work_of(&acme(), &who("m1")).await;
        assert!(matches!(seen, Sighting::Unknown(_)), "{seen:?}");
    };
    for path in ["/orgs/acme/repos", "/repos/acme/r0149/actions/runs"] {
        sim.lie(|lies| lies.forbidden = vec![path]);
        unknown().await;
    }
    sim.lie(|lies| lies.forbidden.clear());
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Absent);
}

#[tokio::test]
async fn an_app_on_selected_repositories_finds_jobs_but_rules_none_out() {
    let (sim, github) = pair();
    for name in ["web", "hidden"] {
        let place = Place { repository: name.into(), ..web() };
        sim.add_repository(&place, jiff::Timestamp::now());
    }
    let minted = mint(&github, "m1").await;
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Absent);
    sim.lie(|lies| lies.selected = Some(vec!["web".into()]));
    let number = sim.queue(&Place { repository: "hidden".into(), ..web() }, removal(&["linux"]));
    take_job(&sim, &minted.jit).await;
    let seen = github.work_of(&acme(), &who("m1")).await;
    let told = matches!(&seen, Sighting::Unknown(why) if why.contains("install it on all"));
    assert!(told, "{seen:?}");
    sim.lie(|lies| lies.selected = None);
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Seen(job_id(number)));
}

#[tokio::test]
async fn a_large_organization_is_searched_in_rounds_once_the_registration_is_gone() {
    let sim = start(Options { rate_limit: None, ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    for number in 0..1_400 {
        sim.add_repository(&place(number), jiff::Timestamp::now());
    }
    let looked = |sim: &ostler::demo::github::SimGitHub| count(sim, "GET", "/actions/runs");
    let unknown = async |name: &str, says: &str| {
        let seen = github.work_of(&acme(), &who(name)).await;
        assert!(matches!(&seen, Sighting::Unknown(why) if why.contains(says)), "{seen:?}");
    };
    let minted = mint(&github, "m1").await;
    for _ in 0..2 {
        unknown("m1", "1384 are still to be searched").await;
    }
    github.deregister(&acme(), minted.id).await.unwrap();
    unknown("m1", "1384 are still to be searched").await;
    assert!(looked(&sim) < 60, "what proves nothing is not asked");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_mins(3)).await;
    tokio::time::resume();
    unknown("m1", "800 are still to be searched").await;
    unknown("m1", "200 are still to be searched").await;
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Absent);
    let searched = looked(&sim);
    assert!((1_400..1_460).contains(&searched), "{searched}: everywhere, once");
}

#[tokio::test]
async fn in_an_enterprise_jobs_are_found_but_never_ruled_out() {
    let sim = start(Options { rate_limit: None, ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let scope = Scope::Enterprise("initech".into());
    github.remember(&Place { enterprise: Some("initech".into()), ..web() });
    let seen = github.work_of(&scope, &who("m1")).await;
    assert!(matches!(&seen, Sighting::Unknown(why) if why.contains("ruled out")), "{seen:?}");
}

#[tokio::test]
async fn hooks_are_found_by_address_and_an_app_has_its_own() {
    let url = "http://127.0.0.1:9/webhooks/github";
    let web: Scope = "acme/web".parse().unwrap();
    let scopes = [acme(), web.clone(), Scope::Enterprise("initech".into())];
    let (sim, github) = pair();
    let id = sim.add_hook(SimHookOwner::Scope(web.clone()), url, "hush");
    sim.add_hook(SimHookOwner::Scope(acme()), "http://127.0.0.1:9/elsewhere", "hush");
    let found = github.hooks_that_reach(url, &scopes).await;
    assert_eq!(found, (vec![HookRef::Scope { scope: web.clone(), id }], vec![]));
    sim.lie(|lies| lies.forbidden = vec!["/orgs/acme/hooks"]);
    let (hooks, unseen) = github.hooks_that_reach(url, &scopes).await;
    assert_eq!((hooks.len(), unseen.len()), (1, 1), "one that cannot be seen hides no other");
    sim.add_hook(SimHookOwner::App, url, "hush");
    assert_eq!(github.hooks_that_reach(url, &scopes).await, (vec![HookRef::Shared], vec![]));
}
