//! Local processes that are bound late: warm and unregistered until a job is offered to them.

use ostler::demo::agent::Step;
use ostler_actors::model::{Instance, OfferEnd, State, What};
use ostler_actors::ports::Records as _;

use crate::support::daemon::{LONG_JOB, Stage, until};

fn warm(min_idle: u32, max: u32) -> Stage {
    Stage::with_port(&format!(
        "[[pool]]\nname = \"linux\"\nbinding = \"late\"\nlabels = [\"self-hosted\", \"linux\"]\n\
         min_idle = {min_idle}\nmax = {max}\n"
    ))
}

/// Waits until so many are warm, and returns them by name.
async fn until_warm(stage: &Stage, many: usize) -> Vec<Instance> {
    let records = stage.records().await;
    let mut warm = Vec::new();
    until("machines are warm", async || {
        warm = records.live_instances(None).await.expect("a read");
        warm.retain(|row| row.state == State::Idle);
        warm.len() == many
    })
    .await;
    records.close().await;
    warm
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_process_has_no_registration_and_waits_for_the_next_daemon() {
    // No third one may be made, which would be heard before those that look for the new daemon.
    let stage = warm(2, 2);
    let daemon = stage.lead().await;
    let before = until_warm(&stage, 2).await;
    assert_eq!(stage.github.runners().len(), 0, "no runner is registered without a job");
    assert_eq!(stage.living_runners(), 0, "no runner began");
    daemon.kill();

    let mut daemon = stage.lead().await;
    let after = until_warm(&stage, 2).await;
    let names = |rows: &[Instance]| rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "the warm ones were kept");

    let job = stage.queue(Step::Succeed, LONG_JOB);
    stage.until_at_work(&[job]).await;
    let runs_on = stage.job(job).runner.expect("it runs").1;
    assert!(before.iter().any(|row| row.id.as_str() == runs_on), "{runs_on} was not warm");
    let ticket = stage.path("machines").join(&runs_on).join("ticket");
    assert!(!ticket.exists(), "a ticket that brought work is torn up");
    // The job outlives this daemon too.
    daemon.kill();
    daemon = stage.lead().await;
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.drain(&mut daemon).await;
    stage.check_logs(&[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_github_shuffles_among_warm_processes_are_all_served_once() {
    let stage = warm(0, 4);
    stage.github.lie(|lies| lies.reordered = 4);
    let mut daemon = stage.lead().await;
    for _ in 0..8 {
        stage.queue(Step::Succeed, 700);
    }
    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.drain(&mut daemon).await;
    stage.check_logs(&[]);
    let logs = stage.logs();
    let records = stage.records().await;
    let events = ostler::ports::History::events_after(&records, 0, 10_000).await.expect("a read");
    let displaced = events.iter().filter(|it| {
        let overruled = |why| matches!(why, OfferEnd::Displaced | OfferEnd::TakenElsewhere);
        matches!(it.event.what, What::Unoffered { why, .. } if overruled(why))
    });
    assert!(displaced.count() > 0, "no job was displaced:\n{logs}");
    records.close().await;
}
