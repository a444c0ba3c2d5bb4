//! Who we are to GitHub: tokens, installations, clocks.

use std::sync::Arc;
use std::time::Duration;

use ostler::demo::github::Options;
use ostler::github::{Credential, GitHub};
use ostler_actors::model::{Observation, Scope, Sighting};
use ostler_actors::ports::{Forge as _, MintError, Roster as _, RunnerRef};

use super::github_support::{
    Counting, Wall, acme, adapter, app_of, count, mint, order, pair, settings, start, token_of,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_first_calls_at_once_find_one_installation_and_fetch_one_token() {
    let sim = start(Options::default());
    let mut unshaped = settings(&sim, app_of(&sim));
    unshaped.jit_per_minute = 0;
    let github = adapter(unshaped);
    let calls = (0..50).map(|number| {
        let github = github.clone();
        tokio::spawn(async move { github.mint(order(&acme(), &format!("m{number}"))).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().expect("each is registered");
    }
    assert_eq!(sim.runners().len(), 50);
    assert_eq!(count(&sim, "GET", "/installation"), 1);
    assert_eq!(count(&sim, "POST", "/access_tokens"), 1);
    assert_eq!(count(&sim, "GET", "/actions/runner-groups"), 1);
}

#[tokio::test]
async fn a_token_that_github_drops_is_replaced_within_the_call() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    sim.lie(|lies| lies.dropped_tokens = true);
    mint(&github, "m2").await;
    assert_eq!(count(&sim, "POST", "/access_tokens"), 2);
    assert_eq!(sim.runners().len(), 2, "the refused call made nothing");
}

#[tokio::test]
async fn an_app_that_was_installed_anew_is_found_anew() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    sim.reinstall("acme");
    let refused = github.mint(order(&acme(), "m2")).await;
    assert!(matches!(refused, Err(MintError::Refused { .. })), "{refused:?}");
    mint(&github, "m2").await;
}

#[tokio::test]
async fn a_clock_that_is_an_hour_ahead_is_measured_and_does_not_lock_us_out() {
    let sim = start(Options::default());
    let clock = Arc::new(Wall { ahead: Duration::from_hours(1) });
    let settings = settings(&sim, app_of(&sim));
    let github = GitHub::new(settings, clock, Arc::new(Counting::default())).unwrap();
    mint(&github, "m1").await;
    let ahead = github.figures().clock_ahead_seconds;
    assert!((3_598..=3_602).contains(&ahead), "{ahead}");
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_nothing_is_proven_by_it() {
    let sim = start(Options::default());
    let github = adapter(settings(&sim, Credential::token("ghp_wrong".to_owned().into())));
    let refused = github.mint(order(&acme(), "m1")).await;
    let Err(MintError::Refused { why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("401") && !why.contains("ghp_wrong"), "{why}");
    let who = RunnerRef { name: "m1".into(), id: None };
    assert!(matches!(github.runner(&acme(), &who).await, Sighting::Unknown(_)));
    assert!(matches!(github.runners(&acme()).await, Observation::Unusable(_)));
}

#[tokio::test]
async fn an_app_that_is_not_installed_says_where_to_install_it() {
    let (_sim, github) = pair();
    let refused = github.mint(order(&Scope::Organization("other".into()), "m1")).await;
    let Err(MintError::Refused { why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("not installed on `other`"), "{why}");
}

#[tokio::test]
async fn an_enterprise_is_served_by_a_token_and_not_by_an_app() {
    let sim = start(Options::default());
    let mut both = settings(&sim, app_of(&sim));
    let enterprise = Scope::Enterprise("initech".into());
    let refused = adapter(settings(&sim, app_of(&sim))).mint(order(&enterprise, "m1")).await;
    assert!(matches!(refused, Err(MintError::Refused { why }) if why.contains("enterprise")));
    both.credentials.push(token_of(&sim));
    adapter(both).mint(order(&enterprise, "m1")).await.expect("the token may");
}

#[tokio::test]
async fn several_credentials_share_the_load() {
    let sim = start(Options { rate_limit: Some(40), ..Options::default() });
    let mut both = settings(&sim, app_of(&sim));
    both.credentials.push(token_of(&sim));
    let github = adapter(both);
    let gone = RunnerRef { name: "m1".into(), id: Some(ostler_actors::model::RunnerId(7)) };
    for _ in 0..60 {
        assert_eq!(github.runner(&acme(), &gone).await, Sighting::Absent);
    }
    let rates = github.figures().rates;
    let used = rates.iter().filter(|rate| rate.resource == "core" && rate.left < 30).count();
    assert_eq!(used, 2, "{rates:?}");
}

#[tokio::test]
async fn no_secret_is_ever_printed() {
    let sim = start(Options::default());
    let (_, key) = sim.app();
    for credential in [app_of(&sim), token_of(&sim)] {
        let text = format!("{credential:?}");
        assert!(!text.contains(&sim.token()) && !text.contains(&key[40..80]), "{text}");
    }
    let bad = Credential::app("Iv1", "hunter2".to_owned().into());
    let clock = Arc::new(Wall { ahead: Duration::ZERO });
    let refused = GitHub::new(settings(&sim, bad), clock, Arc::new(Counting::default()));
    let text = refused.err().map(|error| format!("{error} {error:?}")).expect("a bad key");
    assert!(text.contains("Iv1") && !text.contains("hunter2"), "{text}");
}
