//! The decisive look where no machine can say: the whole organization, or nothing is said.

use std::collections::BTreeSet;

use ostler::demo::github::{Options, SimHookOwner};
use ostler::github::Hook;
use ostler_actors::model::{Place, Scope, Sighting};
use ostler_actors::ports::{Forge as _, Roster as _, RunnerRef};

use super::github_support::{
    acme, adapter, count, job_id, mint, pair, settings, start, take_job, token_of, web, wish,
};

fn who(name: &str) -> RunnerRef {
    RunnerRef { name: name.into(), id: None }
}

fn place(number: usize) -> Place {
    Place { repository: format!("r{number:04}"), ..web() }
}

#[tokio::test]
async fn a_job_in_a_repository_nobody_heard_of_is_found_among_hundreds() {
    let sim = start(Options { rate_limit: None, ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let long_ago = jiff::Timestamp::from_second(1).unwrap();
    for number in 0..350 {
        sim.add_repository(&place(number), long_ago);
    }
    let minted = mint(&github, "m1").await;
    // Begun by the clock or by hand: no push, no webhook.
    let number = sim.queue(&Place { repository: "quiet".into(), ..web() }, wish(&["linux"]));
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
async fn idle_runners_of_a_large_organization_can_still_be_let_go() {
    let sim = start(Options { rate_limit: None, ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let now = jiff::Timestamp::now();
    let last_week = now - std::time::Duration::from_hours(7 * 24);
    for number in 0..1_200 {
        sim.add_repository(&place(number), if number % 100 == 0 { now } else { last_week });
    }
    github.remember(&place(5));
    mint(&github, "m1").await;
    assert_eq!(github.work_of(&acme(), &who("m1")).await, Sighting::Absent);
    assert_eq!(count(&sim, "GET", "/actions/runs"), 13, "pushed to lately, and heard of");
    assert_eq!(count(&sim, "GET", "/orgs/acme/repos"), 13, "every page is read");
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
    assert_eq!(found, (vec![Hook::Scope { scope: web.clone(), id }], vec![]));
    sim.lie(|lies| lies.forbidden = vec!["/orgs/acme/hooks"]);
    let (hooks, unseen) = github.hooks_that_reach(url, &scopes).await;
    assert_eq!((hooks.len(), unseen.len()), (1, 1), "one that cannot be seen hides no other");
    sim.add_hook(SimHookOwner::App, url, "hush");
    assert_eq!(github.hooks_that_reach(url, &scopes).await, (vec![Hook::App], vec![]));
}
