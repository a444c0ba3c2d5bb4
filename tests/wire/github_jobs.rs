//! Jobs over REST: read, found by runner, found by asking.

use std::sync::Arc;
use std::time::Duration;

use ostler::demo::github::{Options, SimStage};
use ostler_actors::model::{
    Conclusion, JobFact, JobReading, NamedRunner, Observation, Place, Scope, Sighting,
};
use ostler_actors::ports::{Forge as _, Roster as _, RunnerRef};

use super::github_support::{
    acme, adapter, agent, app_of, count, job_id, labels, mint, order, pair, removal, settings,
    start, take_job, token_of, web,
};

fn runner(name: &str) -> RunnerRef {
    RunnerRef { name: name.into(), id: None }
}

#[tokio::test]
async fn a_job_is_read_through_its_whole_life() {
    let (sim, github) = pair();
    let minted = mint(&github, "m1").await;
    let number = sim.queue(&web(), removal(&["linux"]));
    let (id, run) = (job_id(number), sim.jobs()[0].run);
    let reading = |fact, runner: Option<&str>, run_over| {
        let runner = runner.map(|name| NamedRunner { name: name.into(), id: Some(minted.id) });
        Sighting::Seen(JobReading { fact, runner, run_over })
    };
    assert_eq!(github.job(&id, &web(), run).await, reading(JobFact::Queued, None, false));
    assert_eq!(take_job(&sim, &minted.jit).await, number);
    assert_eq!(github.job(&id, &web(), run).await, reading(JobFact::InProgress, Some("m1"), false));
    let (status, _) = agent(&sim, "done", &minted.jit, r#"{"conclusion":"failure"}"#).await;
    assert_eq!(status, 204);
    let over = JobFact::Completed(Conclusion::Failure);
    assert_eq!(github.job(&id, &web(), run).await, reading(over, Some("m1"), true));
    assert_eq!(github.job(&job_id(9_999), &web(), 1).await, Sighting::Absent);
}

#[tokio::test]
async fn a_queued_job_under_a_finished_run_says_so() {
    let (sim, github) = pair();
    let number = sim.queue(&web(), removal(&["linux"]));
    sim.end_run_of(number);
    let seen = github.job(&job_id(number), &web(), sim.jobs()[0].run).await;
    let Sighting::Seen(reading) = seen else { panic!("{seen:?}") };
    assert!(reading.run_over && reading.fact == JobFact::Queued);
}

#[tokio::test]
async fn the_job_of_a_runner_is_found_even_after_its_registration_is_gone() {
    let (sim, github) = pair();
    let minted = mint(&github, "m1").await;
    mint(&github, "m2").await;
    let number = sim.queue(&web(), removal(&["linux"]));
    assert_eq!(github.work_of(&acme(), &runner("m1")).await, Sighting::Absent);
    take_job(&sim, &minted.jit).await;
    assert_eq!(github.work_of(&acme(), &runner("m1")).await, Sighting::Seen(job_id(number)));
    assert_eq!(github.work_of(&acme(), &runner("m2")).await, Sighting::Absent);
    sim.lie(|lies| lies.nasty_204 = true);
    github.deregister(&acme(), minted.id).await.unwrap();
    assert_eq!(github.work_of(&acme(), &runner("m1")).await, Sighting::Seen(job_id(number)));
    sim.finish(number, "success");
    assert_eq!(github.work_of(&acme(), &runner("m1")).await, Sighting::Absent);
}

#[tokio::test]
async fn not_being_able_to_look_everywhere_is_not_absence_of_work() {
    let (sim, github) = pair();
    mint(&github, "m1").await;
    sim.queue(&web(), removal(&["linux"]));
    sim.lie(|lies| lies.errors = 1);
    assert!(matches!(github.work_of(&acme(), &runner("m1")).await, Sighting::Unknown(_)));
    let m1 = runner("m1").name;
    let (_, why) = github.doubt_about(&m1).expect("what is not known is kept for who asks why");
    assert!(why.contains("500") || why.contains("502"), "{why}");
    assert_eq!(github.work_of(&acme(), &runner("m1")).await, Sighting::Absent);
    assert_eq!(github.doubt_about(&m1), None, "an answer ends the doubt");
    let token = adapter(settings(&sim, token_of(&sim)));
    let enterprise = Scope::Enterprise("initech".into());
    token.mint(order(&enterprise, "m1")).await.unwrap();
    let seen = token.work_of(&enterprise, &runner("m1")).await;
    assert!(matches!(seen, Sighting::Unknown(_)), "no repository is known: {seen:?}");
}

#[tokio::test]
async fn open_jobs_of_remembered_repositories_are_listed_with_what_they_want() {
    let (sim, github) = pair();
    let minted = mint(&github, "m1").await;
    let first = sim.queue(&web(), removal(&["linux"]));
    assert_eq!(github.open_jobs(&acme()).await, Observation::Complete(vec![]), "never heard of it");
    github.remember(&web());
    take_job(&sim, &minted.jit).await;
    let second = sim.queue_beside(first, removal(&["linux", "gpu"])).unwrap();
    let done = sim.queue(&web(), removal(&["linux"]));
    sim.finish(done, "cancelled");
    let elsewhere = Place { owner: "other".into(), ..web() };
    sim.queue(&elsewhere, removal(&["linux"]));
    let Observation::Complete(open) = github.open_jobs(&acme()).await else { panic!("no list") };
    let named = NamedRunner { name: "m1".into(), id: Some(minted.id) };
    let told: Vec<_> =
        open.iter().map(|it| (it.id.number, it.fact.clone(), it.runner.clone())).collect();
    assert_eq!(told, [(first, JobFact::InProgress, Some(named)), (second, JobFact::Queued, None)]);
    assert_eq!(open[1].labels, ["gpu", "linux"].iter().collect());
    assert_eq!((&open[1].place, open[1].delivery.is_none()), (&web(), true));
}

#[tokio::test]
async fn asking_again_for_what_has_not_changed_is_free() {
    let sim = start(Options { rate_limit: Some(1_000), ..Options::default() });
    let github = adapter(settings(&sim, app_of(&sim)));
    github.remember(&web());
    sim.queue(&web(), removal(&["linux"]));
    let first = github.open_jobs(&acme()).await;
    let left = |github: &ostler::github::GitHub| {
        let rates = github.figures().rates;
        rates.iter().find(|rate| rate.identity.starts_with("installation")).map(|rate| rate.left)
    };
    let before = left(&github);
    for _ in 0..5 {
        assert_eq!(github.open_jobs(&acme()).await, first);
    }
    assert_eq!(left(&github), before);
    let unchanged = sim.calls().iter().filter(|call| call.status == 304).count();
    assert_eq!(unchanged, 15);
    let another = sim.queue(&web(), removal(&["linux"]));
    let Observation::Complete(open) = github.open_jobs(&acme()).await else { panic!("no list") };
    assert!(open.iter().any(|notice| notice.id.number == another), "news is not hidden by a tag");
}

#[tokio::test]
async fn a_repository_that_was_deleted_does_not_hide_the_others() {
    let sim = start(Options::default());
    let github = adapter(settings(&sim, token_of(&sim)));
    let number = sim.queue(&web(), removal(&["linux"]));
    github.remember(&web());
    github.remember(&Place { repository: "..".into(), ..web() });
    let Observation::Complete(open) = github.open_jobs(&acme()).await else { panic!("no list") };
    assert_eq!(open[0].id, job_id(number));
    assert!(count(&sim, "GET", "/actions/runs") > 0);
}

#[tokio::test]
async fn a_poll_of_many_repositories_stays_in_its_share_and_tells_what_it_got() {
    let sim = start(Options { rate_limit: Some(400), ..Options::default() });
    let github = adapter(settings(&sim, token_of(&sim)));
    let places: Vec<Place> =
        (0..20).map(|it| Place { repository: format!("r{it:02}"), ..web() }).collect();
    for place in &places {
        sim.queue(place, removal(&["linux"]));
        github.remember(place);
    }
    // The first answer tells the limit: 40 listings an hour, 10 of them at once.
    github.runner(&acme(), &runner("unknown")).await;
    let Observation::Complete(first) = github.open_jobs(&acme()).await else { panic!("nothing") };
    assert!((2..6).contains(&first.len()), "{}", first.len());
    assert!(matches!(github.open_jobs(&acme()).await, Observation::Unusable(_)));
    assert!(sim.calls().len() <= 12, "{}", sim.calls().len());
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_now_does_not_hold_up_the_next_round() {
    let (sim, github) = pair();
    for name in ["a", "b"] {
        let place = Place { repository: name.into(), ..web() };
        sim.queue(&place, removal(&["linux"]));
        github.remember(&place);
    }
    github.runner(&acme(), &runner("unknown")).await;
    sim.lie(|lies| lies.errors = 1);
    assert!(matches!(github.open_jobs(&acme()).await, Observation::Unusable(_)));
    let Observation::Complete(open) = github.open_jobs(&acme()).await else { panic!("nothing") };
    assert_eq!(open.len(), 2);
}

#[tokio::test]
async fn a_job_whose_runner_falls_silent_is_lost() {
    let sim = start(Options { lease: Duration::from_secs(3), ..Options::default() });
    let github = adapter(settings(&sim, app_of(&sim)));
    let minted = mint(&github, "m1").await;
    let number = sim.queue(&web(), removal(&["linux"]));
    take_job(&sim, &minted.jit).await;
    sim.until(|sim| sim.jobs()[0].stage == SimStage::Completed("failure".into())).await;
    let (status, _) = agent(&sim, "renew", &minted.jit, "").await;
    assert_eq!(status, 410, "the runner is told to leave");
    let seen = github.job(&job_id(number), &web(), sim.jobs()[0].run).await;
    assert!(matches!(seen, Sighting::Seen(reading) if reading.fact.is_over()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_is_run_once_by_a_runner_that_has_its_labels() {
    let sim = Arc::new(start(Options::default()));
    let mut unshaped = settings(&sim, app_of(&sim));
    unshaped.jit_per_minute = 0;
    let github = adapter(unshaped);
    let mut runners = Vec::new();
    for number in 0..40 {
        let mut order = order(&acme(), &format!("m{number}"));
        order.labels =
            labels(if number % 2 == 0 { &["linux", "small"] } else { &["linux", "gpu"] });
        let minted = github.mint(order).await.unwrap();
        let sim = Arc::clone(&sim);
        runners.push(tokio::spawn(async move {
            take_job(&sim, &minted.jit).await;
            let (status, _) = agent(&sim, "done", &minted.jit, r#"{"conclusion":"success"}"#).await;
            assert_eq!(status, 204);
        }));
    }
    for number in 0..40 {
        sim.queue(&web(), removal(if number < 20 { &["gpu"] } else { &["small"] }));
    }
    for runner in runners {
        runner.await.unwrap();
    }
    let jobs = sim.jobs();
    let success = SimStage::Completed("success".into());
    assert!(jobs.iter().all(|job| job.starts == 1 && job.stage == success));
    for job in &jobs {
        let (_, name) = job.runner.as_ref().unwrap();
        let has_gpu = name.trim_start_matches('m').parse::<u32>().unwrap() % 2 == 1;
        assert_eq!(has_gpu, job.plan.labels == labels(&["gpu"]), "{name} took {}", job.id);
    }
    assert!(sim.runners().is_empty(), "ephemeral registrations go with their jobs");
}
