//! What operators do when a machine is out of reach, or belongs to another daemon.

use std::fs;

use rustix::process::Signal;

use super::*;

/// Waits until one instance is idle; returns its name.
async fn one_idle(daemon: &mut Daemon) -> String {
    let idle = ["instances", "--state", "idle"];
    until("one is idle", async || json(daemon, &idle)["items"][0].is_object()).await;
    json(daemon, &idle)["items"][0]["name"].as_str().expect("a name").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_out_of_reach_is_forgotten_with_a_reason_and_stays_a_leak() {
    let mut stage = Stage::on_sqlite(&pool(1, 1));
    let mut daemon = stage.lead().await;
    let name = one_idle(&mut daemon).await;
    let unsaid = ask(&mut daemon, &["instance", "forget", &name]);
    assert_eq!(unsaid.status.code(), Some(2), "{unsaid:?}");
    let told = said(&mut daemon, &["instance", "forget", &name, "--why", "its host burnt down"]);
    assert!(told.starts_with(&format!("{name}: ")), "{told}");
    until("it is a leak", async || {
        said(&mut daemon, &["status"]).contains("! 1 machine without an owner")
    })
    .await;
    let life = said(&mut daemon, &["timeline", &name]);
    assert!(life.contains("its host burnt down") && life.contains("struck off"), "{life}");
    let again = ask(&mut daemon, &["instance", "forget", &name, "--why", "once more"]);
    assert_eq!(again.status.code(), Some(1), "it is gone: {again:?}");
    assert!(error(&again).contains("gone already"), "{again:?}");
    stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_created_after_a_backup_are_shown_and_adopted_only_on_request() {
    let mut stage = Stage::on_sqlite(&pool(0, 1));
    let mut first = stage.lead().await;
    first.signal(Signal::TERM);
    first.ended().await;
    // Everything of the database, as it lies there.
    let copy = |from: &str, to: &str| {
        for part in ["", "-wal"] {
            let (from, to) =
                (stage.path(&format!("{from}{part}")), stage.path(&format!("{to}{part}")));
            drop(fs::remove_file(&to));
            if from.exists() {
                fs::copy(from, to).expect("our files");
            }
        }
    };
    copy("ostler.db", "backup.db");

    stage.configure(&pool(1, 1));
    let mut second = stage.lead().await;
    let made = one_idle(&mut second).await;
    second.kill();
    drop(fs::remove_file(stage.path("ostler.db-shm")));
    copy("backup.db", "ostler.db");
    stage.configure(&pool(0, 1));

    let mut daemon = stage.lead().await;
    until("it is seen", async || {
        json(&mut daemon, &["status"])["foreign_machines"][0]["machine"] == *made
    })
    .await;
    let told = said(&mut daemon, &["status"]);
    assert!(told.contains("1 machine of another daemon") && told.contains("adopt"), "{told}");
    assert!(stage.machines().contains(&made), "it is left alone");
    let unsaid = ask(&mut daemon, &["adopt", "--foreign"]);
    assert_eq!(unsaid.status.code(), Some(2), "{unsaid:?}");
    let answer = said(&mut daemon, &["adopt", "--foreign", "--why", "the backup is older"]);
    assert!(answer.contains('1'), "{answer}");
    // Two listings a minute apart prove that no other daemon owns it.
    until("it is taken apart the safe way", async || {
        daemon.must_live();
        stage.machines().is_empty()
    })
    .await;
    until("nothing is foreign any more", async || json(&mut daemon, &["status"])["leaks"] == 0)
        .await;
    stage.leave();
}
