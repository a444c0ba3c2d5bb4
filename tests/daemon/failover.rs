//! Two daemons on one PostgreSQL: one leads, one stands by, and no job notices who.

use ostler::demo::agent::Step;
use ostler::ports::{History as _, InstanceQuery, Page};
use ostler_actors::ports::Records as _;
use rustix::process::Signal;

use crate::support::daemon::{Daemon, LONG_JOB, Stage, pool, until};
use crate::support::http::Client;
use crate::support::postgres::Postgres;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_from_a_killed_leader_and_no_job_is_touched() {
    let Some(server) = Postgres::start() else { return };
    let stage = Stage::on(server.database(), &pool(1, 6));
    let leader = stage.lead().await;
    let mut standby = stand_by(&stage).await;
    stands_by_ready_for_webhooks_alone(&mut standby);
    let jobs: Vec<u64> = (0..4).map(|_| stage.queue(Step::Succeed, LONG_JOB)).collect();
    stage.until_at_work(&jobs).await;
    // From now on the standby takes the deliveries: durably, for the leader.
    stage.point_hook_at(standby.address().expect("it listens"));
    let heard = stage.answers().len();
    stage.queue(Step::Succeed, 300);
    stage.queue(Step::Kill, 300);
    until("the standby has answered", async || {
        let answers = stage.answers();
        answers.len() >= heard + 2 && answers.iter().all(|status| *status != 0)
    })
    .await;
    assert!(stage.answers()[heard..].iter().all(|status| *status == 202), "{:?}", stage.answers());

    leader.kill();
    stage.until_it_leads(&mut standby).await;
    end(&stage, standby, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_slept_too_long_stands_by_and_disturbs_no_other() {
    let Some(server) = Postgres::start() else { return };
    let stage = Stage::on(server.database(), &pool(1, 6));
    let mut sleeper = stage.lead().await;
    let mut second = stand_by(&stage).await;
    let jobs: Vec<u64> = (0..3).map(|_| stage.queue(Step::Succeed, LONG_JOB)).collect();
    stage.until_at_work(&jobs).await;

    sleeper.signal(Signal::STOP);
    stage.until_it_leads(&mut second).await;
    stage.queue(Step::Succeed, 300);
    sleeper.signal(Signal::CONT);
    until("the sleeper stands by", async || {
        assert_eq!(second.ready().expect("it answers").status, 200, "the new leader is disturbed");
        sleeper.ready().is_some_and(|it| (it.status, it.stage()) == (503, "standby"))
    })
    .await;
    stage.until_all_jobs_are_over(&mut second).await;
    assert_eq!(sleeper.stage(), "standby");

    // Having lost the lease once does not keep it from leading again.
    second.kill();
    stage.until_it_leads(&mut sleeper).await;
    stage.queue(Step::Succeed, 300);
    end(&stage, sleeper, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_stopped_gives_its_lease_back_at_once() {
    let Some(server) = Postgres::start() else { return };
    let mut stage = Stage::on(server.database(), "");
    // The leader's lease lapses long after this test, so the standby can only lead if it was given
    // back. The standby has the usual lease, and looks ten times in one.
    let usual = stage.base();
    let longer = usual.replace("lease = \"15s\"", "lease = \"1h\"");
    assert_ne!(longer, usual);
    stage.write_config(&format!("{longer}\n{}", pool(2, 3)));
    let mut leader = stage.lead().await;
    stage.write_config(&format!("{usual}\n{}", pool(2, 3)));
    let mut standby = stand_by(&stage).await;
    until("runners are ready", async || stage.github.runners().len() == 2).await;

    leader.signal(Signal::TERM);
    assert_eq!(leader.ended().await.code(), Some(0), "{}", leader.log());
    stage.until_it_leads(&mut standby).await;
    assert!(!leader.log().contains("lapses by itself"), "{}", leader.log());
    stage.leave();
}

/// Starts a second daemon, which has to wait.
async fn stand_by(stage: &Stage) -> Daemon {
    let mut daemon = stage.spawn();
    until("a second daemon stands by", async || {
        daemon.must_live();
        daemon.ready().is_some_and(|it| (it.status, it.stage()) == (503, "standby"))
    })
    .await;
    daemon
}

/// A standby takes webhooks, so it is ready; it leads nothing, and sends machines to dial anew.
fn stands_by_ready_for_webhooks_alone(standby: &mut Daemon) {
    let ready = standby.takes_webhooks().expect("it answers");
    assert_eq!((ready.status, ready.stage()), (200, "standby"), "{ready:?}");
    assert_eq!(standby.ready().expect("it answers").status, 503, "asked for the leader");
    let client = Client::new(standby.address().expect("it listens"));
    for call in [
        "POST /runner/v1/dispatch",
        "POST /runner/v1/callbacks/status",
        "GET /runner/v1/metadata/install-script/",
    ] {
        // It would gladly keep its connection.
        let token = "Authorization: Bearer anything\r\nContent-Length: 0";
        let answer = client.raw(&format!("{call} HTTP/1.1\r\nHost: x\r\n{token}\r\n\r\n"));
        let closes = answer.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
        assert!(answer.status == 503 && closes, "{call}: {answer:?}");
    }
}

/// Lets everything end, then looks whether anything was lost, doubled or touched.
async fn end(stage: &Stage, mut leader: Daemon, holders: usize) {
    stage.until_all_jobs_are_over(&mut leader).await;
    stage.drain(&mut leader).await;
    stage.check_jobs();
    stage.check_logs(&[]);
    assert_eq!(leader.ready().expect("it answers").body["violations"], 0);
    let records = stage.records().await;
    assert_eq!(records.controller().await.expect("a read").holders.len(), holders);
    let page = Page { limit: 1000, cursor: None };
    let rows = records.instances(&InstanceQuery::default(), &page).await.expect("a read").items;
    // One for each job and one that is kept idle; more would have been made twice.
    let (most, made) = (stage.github.jobs().len() + 2, rows.len());
    assert!(made <= most, "{made} machines for {most}");
    records.close().await;
}
