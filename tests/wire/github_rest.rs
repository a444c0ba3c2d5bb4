//! Runners over REST: paging, prefixes, limits, and every number an answer may carry.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ostler::demo::github::Options;
use ostler::github::{GitHub, Settings};
use ostler_actors::model::{Observation, RunnerId, Scope, Sighting};
use ostler_actors::ports::{
    Deregistered, Forge as _, ForgeError, MintError, Roster as _, RunnerRef,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::github_support::{
    Counting, Wall, acme, adapter, app_of, count, mint, order, pair, removal, settings, start,
    take_job, token_of, web,
};

fn by_id(name: &str, id: RunnerId) -> RunnerRef {
    RunnerRef { name: name.into(), id: Some(id) }
}

fn by_name(name: &str) -> RunnerRef {
    RunnerRef { name: name.into(), id: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_and_fifty_runners_are_listed_on_three_pages_of_ours() {
    let sim = start(Options::default());
    let mut quick = settings(&sim, app_of(&sim));
    quick.jit_per_minute = 0;
    let github = adapter(quick);
    for number in 0..250 {
        mint(&github, &format!("m{number}")).await;
    }
    let Observation::Complete(runners) = github.runners(&acme()).await else { panic!("no list") };
    let ids: BTreeSet<_> = runners.iter().map(|runner| runner.id).collect();
    assert_eq!(ids.len(), 250);
    assert!(runners.iter().all(|runner| !runner.online && !runner.busy));
    assert_eq!(count(&sim, "GET", "/orgs/acme/actions/runners"), 3);
}

#[tokio::test]
async fn a_list_that_breaks_off_is_no_list() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    sim.lie(|lies| lies.short_lists = 1);
    assert!(matches!(github.runners(&acme()).await, Observation::Unusable(_)));
    assert!(matches!(github.runners(&acme()).await, Observation::Complete(all) if all.len() == 1));
}

#[tokio::test]
async fn an_enterprise_server_is_asked_below_its_prefix() {
    let options = Options { prefix: "/api/v3".into(), rate_limit: None, ..Options::default() };
    let sim = start(options);
    let github = adapter(settings(&sim, app_of(&sim)));
    let minted = mint(&github, "m1").await;
    let seen = github.runner(&acme(), &by_id("m1", minted.id)).await;
    assert!(matches!(seen, Sighting::Seen(view) if view.name == "m1".into()));
    assert!(github.figures().rates.is_empty(), "no limits are told, none are invented");
}

#[tokio::test]
async fn all_three_scopes_register_list_read_and_remove() {
    let sim = start(Options::default());
    let github = adapter(settings(&sim, token_of(&sim)));
    for scope in ["acme", "acme/web", "enterprises/initech"] {
        let scope: Scope = scope.parse().unwrap();
        let minted = github.mint(order(&scope, "m1")).await.expect("registered");
        let Sighting::Seen(view) = github.runner(&scope, &by_name("m1")).await else {
            panic!("not found by name in {scope}")
        };
        assert_eq!(view.id, minted.id);
        assert!(
            matches!(github.runners(&scope).await, Observation::Complete(all) if all.len() == 1)
        );
        assert_eq!(github.deregister(&scope, minted.id).await.unwrap(), Deregistered::Removed);
    }
    assert!(sim.runners().is_empty());
}

#[tokio::test]
async fn a_name_that_is_taken_is_distinguished_from_a_refusal() {
    let (_sim, github) = pair();
    mint(&github, "m1").await;
    let taken = github.mint(order(&acme(), "m1")).await;
    assert!(matches!(taken, Err(MintError::Taken(name)) if name == "m1".into()));
    let mut unlabelled = order(&acme(), "m2");
    unlabelled.labels = [""; 0].iter().collect();
    let refused = github.mint(unlabelled).await;
    assert!(matches!(refused, Err(MintError::Refused { why }) if why.contains("422")));
}

#[tokio::test]
async fn a_removal_tells_204_404_and_422_apart() {
    let (sim, github) = pair();
    let (idle, working) = (mint(&github, "m1").await, mint(&github, "m2").await);
    assert_eq!(github.deregister(&acme(), idle.id).await.unwrap(), Deregistered::Removed);
    assert_eq!(github.deregister(&acme(), idle.id).await.unwrap(), Deregistered::NotFound);
    sim.queue(&web(), removal(&["linux"]));
    take_job(&sim, &working.jit).await;
    assert_eq!(github.deregister(&acme(), working.id).await.unwrap(), Deregistered::Working);
    sim.lie(|lies| lies.nasty_204 = true);
    assert_eq!(github.deregister(&acme(), working.id).await.unwrap(), Deregistered::Removed);
}

#[tokio::test]
async fn a_404_that_github_did_not_write_is_not_absence() {
    let (sim, github) = pair();
    let minted = mint(&github, "m1").await;
    sim.lie(|lies| lies.proxy_404 = 2);
    let seen = github.runner(&acme(), &by_id("m1", minted.id)).await;
    assert!(matches!(seen, Sighting::Unknown(_)), "{seen:?}");
    let answer = github.deregister(&acme(), minted.id).await;
    assert!(matches!(answer, Err(ForgeError::Later { .. })), "{answer:?}");
    sim.lie(|lies| lies.false_404 = 1);
    assert_eq!(github.runner(&acme(), &by_id("m1", minted.id)).await, Sighting::Absent);
}

#[tokio::test]
async fn a_mint_whose_answer_was_lost_says_that_it_does_not_know() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    sim.lie(|lies| lies.lost_answers = 1);
    let lost = github.mint(order(&acme(), "m2")).await;
    assert!(matches!(lost, Err(MintError::Unanswered { .. })), "{lost:?}");
    assert!(matches!(github.runner(&acme(), &by_name("m2")).await, Sighting::Seen(_)));
}

#[tokio::test]
async fn a_server_that_is_silent_is_not_waited_for_longer_than_the_timeout() {
    let sim = start(Options::default());
    let mut impatient = settings(&sim, token_of(&sim));
    impatient.timeout = Duration::from_millis(300);
    let github = adapter(impatient);
    // A repository has no groups to look up: the first call is the registration itself.
    sim.lie(|lies| lies.silence = 1);
    let lost = github.mint(order(&"acme/web".parse().unwrap(), "m1")).await;
    assert!(matches!(lost, Err(MintError::Unanswered { .. })), "{lost:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_made_nothing() {
    let sim = start(Options::default());
    let mut settings = settings(&sim, token_of(&sim));
    // The port of a server that was stopped may be assigned to another test's server.
    settings.api_url = "http://127.0.0.1:9".into();
    let github = adapter(settings);
    let later = github.mint(order(&"acme/web".parse().unwrap(), "m1")).await;
    assert!(matches!(later, Err(MintError::Later { .. })), "{later:?}");
}

#[tokio::test]
async fn a_budget_that_is_spent_is_later_and_unknown_and_never_absence() {
    let sim = start(Options { rate_limit: Some(50), ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let minted = mint(&github, "m1").await;
    let who = by_id("m1", minted.id);
    let mut refused = 0;
    for _ in 0..60 {
        match github.runner(&acme(), &who).await {
            Sighting::Seen(_) => {}
            Sighting::Unknown(_) => refused += 1,
            Sighting::Absent => panic!("not being allowed to ask became absence"),
        }
    }
    assert!(refused > 0);
    // What was kept back for it lets the removal through.
    assert_eq!(github.deregister(&acme(), minted.id).await.unwrap(), Deregistered::Removed);
    let overdrawn = sim.calls().iter().filter(|call| call.status == 403).count();
    assert_eq!(overdrawn, 0, "GitHub never had to say no");
}

#[tokio::test]
async fn a_secondary_limit_silences_everything_for_as_long_as_asked() {
    let (sim, github) = pair();
    let minted = mint(&github, "m1").await;
    sim.lie(|lies| {
        lies.turned_away = 1;
        lies.retry_after = Some(90);
    });
    let asked = Instant::now();
    let later = github.mint(order(&acme(), "m2")).await;
    let Err(MintError::Later { after: Some(after), .. }) = later else { panic!("{later:?}") };
    assert_eq!(after, Duration::from_secs(90));
    let before = sim.calls().len();
    let later = github.deregister(&acme(), minted.id).await;
    let Err(ForgeError::Later { after: Some(after), .. }) = later else { panic!("{later:?}") };
    assert!(after + asked.elapsed() >= Duration::from_secs(90), "{after:?}");
    assert_eq!(sim.calls().len(), before, "silence means that nothing is sent");
}

#[tokio::test]
async fn a_runner_group_is_found_by_name_once() {
    let (sim, github) = pair();
    let group = sim.add_group(&acme(), "Big Machines");
    for name in ["m1", "m2"] {
        let mut order = order(&acme(), name);
        order.group = "big machines".into();
        github.mint(order).await.expect("registered");
    }
    assert!(sim.runners().iter().all(|runner| runner.group == group));
    assert_eq!(count(&sim, "GET", "/actions/runner-groups"), 1);
    let mut unknown = order(&acme(), "m3");
    unknown.group = "missing".into();
    let refused = github.mint(unknown).await;
    assert!(matches!(refused, Err(MintError::Refused { why }) if why.contains("`missing`")));
}

#[tokio::test]
async fn every_call_says_who_we_are() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    let said = |call: ostler::demo::github::SeenCall| (call.agent, call.edition);
    let said: BTreeSet<_> = sim.calls().into_iter().map(said).collect();
    let agent = format!("ostler/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(said, BTreeSet::from([(agent, "2022-11-28".to_owned())]));
}

#[tokio::test]
async fn what_fails_before_the_registration_is_sent_has_made_nothing() {
    let (sim, github) = pair();
    sim.lie(|lies| lies.errors = 1);
    let later = github.mint(order(&acme(), "m1")).await;
    assert!(matches!(later, Err(MintError::Later { .. })), "the installation: {later:?}");
    let sim = start(Options::default());
    let github = adapter(settings(&sim, token_of(&sim)));
    sim.lie(|lies| lies.errors = 1);
    let later = github.mint(order(&acme(), "m1")).await;
    assert!(matches!(later, Err(MintError::Later { .. })), "the group: {later:?}");
    sim.lie(|lies| lies.errors = 1);
    let repository: Scope = "acme/web".parse().unwrap();
    let unknown = github.mint(order(&repository, "m1")).await;
    assert!(matches!(unknown, Err(MintError::Unanswered { .. })), "itself: {unknown:?}");
}

#[tokio::test]
async fn calls_go_through_the_proxy_when_there_is_one() {
    let sim = start(Options::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut proxied = settings(&sim, token_of(&sim));
    proxied.proxy = Some(format!("http://{}", listener.local_addr().unwrap()));
    let tunnel = tokio::spawn(async move {
        let (mut inside, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(inside.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap().to_owned();
        let mut outside = TcpStream::connect(&target).await.unwrap();
        inside.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut inside, &mut outside).await);
        head
    });
    let github = adapter(proxied);
    mint(&github, "m1").await;
    drop(github);
    let head = tunnel.await.unwrap();
    assert!(head.starts_with("CONNECT 127.0.0.1:"), "{head}");
    assert_eq!(sim.runners().len(), 1);
}

#[tokio::test]
async fn settings_that_cannot_work_say_what_to_write() {
    let sim = start(Options::default());
    let clock = || Arc::new(Wall { ahead: Duration::ZERO });
    let refusal = |change: fn(&mut Settings)| {
        let mut settings = settings(&sim, token_of(&sim));
        change(&mut settings);
        let refused = GitHub::new(settings, clock(), Arc::new(Counting::default()));
        refused.err().expect("bad settings").to_string()
    };
    assert!(refusal(|it| it.api_url = "github.com".into()).contains("https://api.github.com"));
    assert!(refusal(|it| it.api_url = "ftp://github.com".into()).contains("api_url"));
    assert!(refusal(|it| it.proxy = Some("/nowhere".into())).contains("proxy"));
    assert!(refusal(|it| it.ca_pem = Some(b"no certificate".to_vec())).contains("ca"));
    assert!(refusal(|it| it.credentials.clear()).contains("token"));
}
