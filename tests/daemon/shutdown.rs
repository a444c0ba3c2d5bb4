//! Starting and stopping: machines are never touched, and what cannot work says so and exits.

use std::net::TcpListener;

use ostler::demo::agent::Step;
use rustix::process::Signal;

use crate::support::daemon::{LONG_JOB, Stage, pool, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_is_stopped_leaves_its_machines_and_takes_them_up_later() {
    let stage = Stage::on_sqlite(&pool(1, 6));
    let mut daemon = stage.lead().await;
    let jobs: Vec<u64> = (0..4).map(|_| stage.queue(Step::Succeed, LONG_JOB)).collect();
    stage.until_at_work(&jobs).await;
    let (machines, processes) = (stage.machines(), stage.processes());

    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0), "{}", daemon.log());
    assert!(!daemon.log().contains("cut short"), "{}", daemon.log());
    let (kept, alive) = (stage.machines(), stage.processes());
    assert!(machines.iter().all(|name| kept.contains(name)), "{machines:?} became {kept:?}");
    assert!(processes.iter().all(|pid| alive.contains(pid)), "a process of a machine is gone");

    let mut next = stage.lead().await;
    stage.until_all_jobs_are_over(&mut next).await;
    stage.drain(&mut next).await;
    stage.check_jobs();
    stage.check_logs(&[]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_on_the_same_file_stands_by_and_takes_over() {
    let mut stage = Stage::on_sqlite(&pool(1, 2));
    let first = stage.lead().await;
    let mut second = stage.spawn();
    until("the second stands by", async || {
        second.must_live();
        second.ready().is_some_and(|it| (it.status, it.stage()) == (503, "standby"))
    })
    .await;
    first.kill();
    stage.until_it_leads(&mut second).await;
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_cannot_be_used_ends_with_2_and_says_why() {
    let stage = Stage::on_sqlite("[[pool]]\nname = \"linux\"\nmaks = 3\n");
    let mut daemon = stage.spawn();
    assert_eq!(daemon.ended().await.code(), Some(2));
    let log = daemon.log();
    assert!(log.contains("maks") && log.contains("ostler.toml"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_another_program_has_ends_with_1_and_says_so() {
    let stage = Stage::on_sqlite(&pool(0, 1));
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("a port").to_string();
    let taken = stage.base().replace("127.0.0.1:0", &address);
    stage.write_config(&format!("{taken}\n{}", pool(0, 1)));
    let mut daemon = stage.spawn();
    assert_eq!(daemon.ended().await.code(), Some(1));
    let log = daemon.log();
    let sentence = format!("cannot listen on `{address}`; another program may use it");
    assert!(log.contains(&sentence), "{log}");
}
