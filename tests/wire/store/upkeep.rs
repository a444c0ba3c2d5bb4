//! Backup and restore on and across both engines, pruning, the command line.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use ostler::ports::History as _;
use ostler::store::backup::{backup, restore};
use ostler::store::{SqlStore, upkeep};
use ostler_actors::model::{State, Subject, WriteId};
use ostler_actors::ports::{Inbox as _, InstanceRows, JobRows, JobSave, Records as _};
use ostler_actors::testing::contract::{
    delivery, event, exit_record, instance, job, job_id, notice, saved, stamp,
};

use super::{file, next, on_both, open, run};
use crate::support::postgres::Postgres;

/// Puts something into every table.
async fn furnish(url: &str) -> (Arc<SqlStore>, ostler::store::Lease) {
    let (store, lease) = open(url).await;
    let epoch = lease.epoch();
    let row = instance("linux-1");
    let mut save = saved(&row, epoch);
    save.events = vec![event(&Subject::Instance(row.id.clone()), 0, 1)];
    save.exit = Some(exit_record(&row));
    InstanceRows::save(&*store, save).await.expect("a save");
    let save = JobSave {
        jobs: (0..1_500).map(job).collect(),
        tombstones: vec![(job_id(u64::MAX), stamp(7))],
        epoch,
        write: WriteId(u64::MAX),
        ..JobSave::default()
    };
    JobRows::save(&*store, save).await.expect("a save");
    store.accept(delivery("guid"), notice(1)).await.expect("a delivery");
    store.set_cursor("polls", "it's \"here\"").await.expect("a note");
    (store, lease)
}

async fn check_furnished(store: &SqlStore, controller: &str) {
    let who = store.controller().await.expect("a read");
    assert_eq!(who.id.as_str(), controller);
    let row = instance("linux-1");
    assert_eq!(store.instance(&row.id).await.expect("a read"), Some(row.clone()));
    assert_eq!(store.exit(&row.id).await.expect("a read"), Some(exit_record(&row)));
    let timeline = store.timeline(&Subject::Instance(row.id.clone())).await.expect("a read");
    assert_eq!(timeline.len(), 1);
    assert_eq!(store.open_jobs().await.expect("a read").len(), 1_500);
    assert_eq!(store.tombstones().await.expect("a read"), [(job_id(u64::MAX), stamp(7))]);
    assert_eq!(store.unhandled().await.expect("a read").len(), 1);
    let place = store.cursor("polls").await.expect("a read");
    assert_eq!(place.as_deref(), Some("it's \"here\""));
}

#[test]
fn a_backup_taken_from_a_running_store_restores_into_either_engine() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Postgres::start();
    let mut sources = vec![file(folder.path())];
    sources.extend(server.as_ref().map(Postgres::database));
    for (number, source) in sources.iter().enumerate() {
        let kept = folder.path().join(format!("backup-{number}"));
        let controller = run(async {
            let (store, _lease) = furnish(source).await;
            backup(source, &kept).await.expect("a backup");
            let again = backup(source, &kept).await.expect_err("the file is there").to_string();
            assert!(again.contains("will not overwrite"), "{again}");
            store.controller().await.expect("a read").id
        });
        let copy = folder.path().join(format!("restored-{number}.db"));
        let mut targets = vec![format!("sqlite://{}", copy.display())];
        targets.extend(server.as_ref().map(Postgres::database));
        for target in targets {
            run(async {
                restore(&target, &kept).await.expect("a restore");
                let again = restore(&target, &kept).await.expect_err("it is full").to_string();
                assert!(again.contains("will not"), "{again}");
                let (store, lease) = open(&target).await;
                check_furnished(&store, controller.as_str()).await;
                assert_eq!(lease.epoch().0, 2, "epochs go on counting");
                // Numbers go on as well.
                store.accept(delivery("another"), notice(2)).await.expect("a delivery");
                let row = next(&instance("linux-1"));
                let mut save = saved(&row, lease.epoch());
                save.events = vec![event(&Subject::Instance(row.id.clone()), 1, 1)];
                InstanceRows::save(&*store, save).await.expect("a save");
            });
        }
    }
}

#[test]
fn a_restore_refuses_a_store_that_a_daemon_holds_and_a_file_that_is_no_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    run(async {
        let url = file(folder.path());
        let (_store, _lease) = furnish(&url).await;
        let kept = folder.path().join("backup");
        backup(&url, &kept).await.expect("a backup");
        let error = restore(&url, &kept).await.expect_err("a daemon runs").to_string();
        assert!(error.contains("stop the daemon first"), "{error}");
        let noise = folder.path().join("noise");
        std::fs::write(&noise, "noise ".repeat(1_000)).expect("a file");
        let elsewhere = format!("sqlite://{}/other.db", folder.path().display());
        let error = restore(&elsewhere, &noise).await.expect_err("no backup").to_string();
        assert!(error.contains("damaged"), "{error}");
        let error = restore(&elsewhere, Path::new("/nowhere")).await.expect_err("no file");
        assert!(error.to_string().contains("does not exist"), "{error}");
    });
}

#[test]
fn pruning_takes_what_ended_long_ago_a_bit_at_a_time_and_remembers_deliveries_for_eight_days() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        let epoch = lease.epoch();
        let day = Duration::from_hours(24);
        for number in 0..5 {
            let mut row = instance(&format!("linux-{number}"));
            let mut save = saved(&row, epoch);
            save.events = vec![event(&Subject::Instance(row.id.clone()), 0, 1)];
            save.exit = Some(exit_record(&row));
            InstanceRows::save(&*store, save).await.expect("a save");
            if number > 0 {
                row = next(&row);
                row.state = State::Deleted;
                row.since = stamp(number * 86_400);
                InstanceRows::save(&*store, saved(&row, epoch)).await.expect("a save");
            }
        }
        let mut over = job(1);
        over.closed = Some(ostler_actors::model::Closure::Stale);
        over.over_at = Some(stamp(0));
        store.accept(delivery("handled"), notice(1)).await.expect("a delivery");
        store.accept(delivery("waiting"), notice(2)).await.expect("a delivery");
        let save = JobSave {
            jobs: vec![over, job(2)],
            tombstones: vec![(job_id(1), stamp(0))],
            handled: vec![delivery("handled")],
            epoch,
            write: WriteId(1),
            ..JobSave::default()
        };
        JobRows::save(&*store, save).await.expect("a save");

        // Day 5, retention of one day: three have been gone longer, two may go a round.
        let now = stamp(5 * 86_400);
        let first = store.prune(day, now, 2).await.expect("a round");
        assert_eq!((first.instances, first.jobs), (2, 1));
        let second = store.prune(day, now, 2).await.expect("a round");
        assert_eq!((second.instances, second.tombstones), (1, 0), "tombstones stay eight days");
        assert!(store.prune(day, now, 2).await.expect("a round").is_nothing());
        assert_eq!(store.live_instances(None).await.expect("a read").len(), 1);
        let gone = instance("linux-1").id;
        assert_eq!(store.exit(&gone).await.expect("a read"), None);
        assert!(store.timeline(&Subject::Instance(gone)).await.expect("a read").is_empty());
        let rest = instance("linux-4").id;
        assert!(store.instance(&rest).await.expect("a read").is_some());

        let third = store.prune(day, stamp(9 * 86_400), 9).await.expect("a round");
        assert_eq!((third.tombstones, third.deliveries), (1, 0), "deliveries were taken today");
        // The database dates deliveries by its own clock, so tomorrow's tomorrow is far ahead.
        let far = ostler_actors::model::Timestamp::MAX;
        let last = store.prune(day, far, 9).await.expect("a round");
        assert_eq!(last.deliveries, 1, "what waits is never taken");
        assert_eq!(store.unhandled().await.expect("a read").len(), 1);
        assert_eq!(store.open_jobs().await.expect("a read").len(), 1);
    });
}

#[test]
fn giving_room_back_works_beside_a_running_daemon() {
    on_both(async |url| {
        let (store, _lease) = furnish(&url).await;
        upkeep::vacuum(&url).await.expect("room");
        let stats = upkeep::stats(&url).await.expect("stats");
        assert!(stats.bytes > 0);
        let jobs = stats.rows.iter().find(|(table, _)| table == "jobs, open");
        assert_eq!(jobs.map(|(_, count)| *count), Some(1_500));
        check_furnished(&store, &stats.controller).await;
    });
}

fn ostler(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ostler")).args(args).output().expect("ostler starts")
}

#[test]
fn the_command_line_backs_up_restores_vacuums_and_tells() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (kept, other) = (path("kept"), format!("sqlite://{}", path("other.db")));
    run(async { drop(furnish(&url).await) });
    let backup = ostler(&["store", "backup", "--store", &url, "--to", &kept]);
    assert!(backup.status.success(), "{backup:?}");
    let restore = ostler(&["store", "restore", "--store", &other, "--from", &kept]);
    assert!(restore.status.success(), "{restore:?}");
    assert!(ostler(&["store", "vacuum", "--store", &other]).status.success());
    let stats = ostler(&["store", "stats", "--store", &other]);
    let text = String::from_utf8_lossy(&stats.stdout);
    assert!(text.contains("jobs, open") && text.contains("1500"), "{text}");
    let stats = ostler(&["store", "stats", "--json", "--store", &other]);
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    assert_eq!(json["schema"], ostler::store::SCHEMA);
    let again = ostler(&["store", "backup", "--store", &url, "--to", &kept]);
    assert_eq!(again.status.code(), Some(1));
    let text = String::from_utf8_lossy(&again.stderr);
    assert!(text.contains("will not overwrite"), "{text}");
    let wrong = ostler(&["store", "stats", "--store", "mysql://x"]);
    assert_eq!(wrong.status.code(), Some(2), "a bad URL is a mistake of usage");
}
