//! Several credentials, none of which may look everywhere: a 404 to a stranger proves nothing.

use ostler::demo::github::{Options, SimGitHub};
use ostler::github::{Credential, GitHub};
use ostler_actors::model::{Place, RunnerId, Scope, Sighting};
use ostler_actors::ports::{Deregistered, Forge as _, Minted, Roster as _, RunnerRef};

use super::github_support::{
    acme, adapter, app_of, job_id, order, removal, settings, start, token_of, web,
};

/// How often a call is made, so that the credential with the most room changes.
const OFTEN: usize = 12;

fn globex() -> Scope {
    Scope::Organization("globex".into())
}

fn guest(sim: &SimGitHub, owner: &str) -> Credential {
    Credential::token(sim.token_for(owner).into())
}

fn asking(sim: &SimGitHub, credentials: Vec<Credential>) -> GitHub {
    let mut all = settings(sim, token_of(sim));
    all.credentials = credentials;
    adapter(all)
}

fn exact(name: &str, minted: &Minted) -> RunnerRef {
    RunnerRef { name: name.into(), id: Some(minted.id) }
}

/// Registers a runner and queues a job with both owners; both must stay visible, and what is not
/// there absent, however often is asked.
async fn both_owners_are_seen(sim: &SimGitHub, github: &GitHub) {
    for (scope, owner) in [(acme(), "acme"), (globex(), "globex")] {
        let minted = github.mint(order(&scope, "m1")).await.expect("a credential may");
        let place = Place { owner: owner.into(), repository: "web".into(), enterprise: None };
        let job = sim.queue(&place, removal(&["linux"]));
        let unknown = RunnerRef { name: "m9".into(), id: Some(RunnerId(999_999)) };
        for _ in 0..OFTEN {
            let seen = github.runner(&scope, &exact("m1", &minted)).await;
            assert!(matches!(seen, Sighting::Seen(_)), "{owner}: {seen:?}");
            let seen = github.job(&job_id(job), &place, 0).await;
            assert!(matches!(seen, Sighting::Seen(_)), "{owner}: {seen:?}");
            assert_eq!(github.runner(&scope, &unknown).await, Sighting::Absent);
            assert_eq!(github.job(&job_id(999_999), &place, 0).await, Sighting::Absent);
        }
        assert_eq!(github.deregister(&scope, minted.id).await.unwrap(), Deregistered::Removed);
        assert_eq!(github.deregister(&scope, minted.id).await.unwrap(), Deregistered::NotFound);
    }
    assert!(sim.runners().is_empty());
}

#[tokio::test]
async fn a_credential_is_asked_only_about_its_scopes() {
    let sim = start(Options::default());
    let github = asking(
        &sim,
        vec![
            guest(&sim, "acme").within(vec![acme()]),
            guest(&sim, "globex").within(vec![globex()]),
        ],
    );
    both_owners_are_seen(&sim, &github).await;
    let strays = |path: &str| {
        let calls = sim.calls();
        calls.iter().any(|it| it.status == 404 && it.path == path)
    };
    assert!(!strays("/orgs/acme/actions/runners") && !strays("/orgs/globex/actions/runners"));
    let who = RunnerRef { name: "m1".into(), id: Some(RunnerId(1)) };
    let before = sim.calls().len();
    let seen = github.runner(&Scope::Organization("initech".into()), &who).await;
    assert!(matches!(&seen, Sighting::Unknown(why) if why.contains("no credential")), "{seen:?}");
    assert_eq!(sim.calls().len(), before, "no call was made");
}

#[tokio::test]
async fn a_credential_that_is_shown_nothing_leaves_the_answer_to_the_others() {
    let sim = start(Options::default());
    let github = asking(&sim, vec![guest(&sim, "acme"), guest(&sim, "globex")]);
    both_owners_are_seen(&sim, &github).await;
}

#[tokio::test]
async fn rights_that_were_taken_away_prove_nothing_absent() {
    let sim = start(Options::default());
    let token = sim.token_for("acme");
    let github = asking(&sim, vec![Credential::token(token.clone().into())]);
    let minted = github.mint(order(&acme(), "m1")).await.unwrap();
    let job = sim.queue(&web(), removal(&["linux"]));
    sim.shut_out(&token);
    let seen = github.runner(&acme(), &exact("m1", &minted)).await;
    assert!(matches!(&seen, Sighting::Unknown(why) if why.contains("may not look")), "{seen:?}");
    let seen = github.job(&job_id(job), &web(), 0).await;
    assert!(matches!(seen, Sighting::Unknown(_)), "{seen:?}");
    github.deregister(&acme(), minted.id).await.unwrap_err();
}

#[tokio::test]
async fn a_token_of_an_enterprise_reads_the_jobs_of_its_repositories() {
    let sim = start(Options::default());
    let enterprise = Scope::Enterprise("initech".into());
    let token = token_of(&sim).within(vec![enterprise.clone()]);
    let elsewhere = app_of(&sim).within(vec![globex()]);
    let github = asking(&sim, vec![elsewhere, token]);
    github.mint(order(&enterprise, "m1")).await.expect("the token may");
    let place = Place { enterprise: Some("initech".into()), ..web() };
    let job = sim.queue(&place, removal(&["linux"]));
    assert!(matches!(github.job(&job_id(job), &place, 0).await, Sighting::Seen(_)));
}
