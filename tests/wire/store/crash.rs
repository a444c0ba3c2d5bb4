//! What survives: nothing acknowledged is lost, nothing is half applied.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ostler::store::SqlStore;
use ostler_actors::model::{Epoch, Instance, InstanceId, Subject};
use ostler_actors::ports::{InstanceRows, Records as _, SaveError};
use ostler_actors::testing::contract::{event, instance, saved};

use super::{file, next, open, run, save_until_done};
use crate::support::cut::{Moment, Wire};
use crate::support::postgres::Postgres;

const SAVERS: usize = 40;
const STORE: &str = "OSTLER_TEST_STORE";

/// Is another process that saves as fast as it can and prints what was acknowledged.
pub(super) struct Child(std::process::Child);

impl Child {
    /// Starts it on a store.
    pub(super) fn saving(url: &str) -> Self {
        let myself = std::env::current_exe().expect("this test");
        let child = Command::new(myself)
            .args(["--ignored", "--exact", "--nocapture", "wire::store::crash::a_child_that_saves"])
            .env(STORE, url)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("a child"))
    }

    /// Kills it after so many acknowledged saves; returns the last version of each row.
    pub(super) fn kill_after(mut self, saves: usize) -> BTreeMap<String, u64> {
        let out = BufReader::new(self.0.stdout.take().expect("its output"));
        let mut acknowledged = BTreeMap::new();
        let mut count = 0;
        for line in out.lines().map_while(Result::ok) {
            let Some(("saved", save)) = line.split_once(' ') else { continue };
            let (id, version) = save.split_once(' ').expect("a row and a version");
            let version = version.parse().expect("a version");
            acknowledged.insert(id.to_owned(), version);
            count += 1;
            if count == saves {
                // What it says after this, up to its death, counts as well.
                self.0.kill().expect("our child");
            }
        }
        self.0.wait().expect("its end");
        assert!(count >= saves, "the child ended after {count} saves");
        acknowledged
    }
}

#[test]
#[ignore = "is run as a child by other tests"]
fn a_child_that_saves() {
    let Ok(url) = std::env::var(STORE) else { return };
    run(async {
        let (store, lease) = open(&url).await;
        let stop = Arc::new(AtomicBool::new(false));
        let savers = start_savers(&store, lease.epoch(), &stop, |row| {
            println!("saved {} {}", row.id, row.version);
        });
        for saver in savers {
            saver.await.expect("a saver");
        }
    });
}

/// Starts savers that each take a row from version to version, one event a version.
fn start_savers(
    store: &Arc<SqlStore>,
    epoch: Epoch,
    stop: &Arc<AtomicBool>,
    acknowledged: fn(&Instance),
) -> Vec<tokio::task::JoinHandle<Instance>> {
    let saver = |number: usize| {
        let (store, stop) = (Arc::clone(store), Arc::clone(stop));
        tokio::spawn(async move {
            let mut row = instance(&format!("linux-{number}"));
            loop {
                let mut save = saved(&row, epoch);
                let place = u32::try_from(row.version.0).expect("few versions");
                save.events = vec![event(&Subject::Instance(row.id.clone()), place, 1)];
                save_until_done(&store, save).await.expect("no conflict with oneself");
                acknowledged(&row);
                if stop.load(Ordering::Relaxed) {
                    return row;
                }
                row = next(&row);
            }
        })
    };
    (0..SAVERS).map(saver).collect()
}

/// Checks that a row is at a version and its timeline has every version up to it, once.
async fn check_whole(store: &SqlStore, id: &str, at_least: u64) {
    let id = InstanceId::new(id);
    let row = store.instance(&id).await.expect("a read").expect("an acknowledged row");
    assert!(row.version.0 >= at_least, "`{id}` lost {at_least}, is at {}", row.version);
    let timeline = store.timeline(&Subject::Instance(id.clone())).await.expect("a read");
    let places: Vec<u64> = timeline.iter().map(|event| event.seq.into()).collect();
    let all: Vec<u64> = (1..=row.version.0).collect();
    assert_eq!(places, all, "row and timeline of `{id}` disagree");
}

#[test]
fn killing_the_process_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Postgres::start();
    for url in [Some(file(folder.path())), server.as_ref().map(Postgres::database)] {
        let Some(url) = url else { continue };
        let acknowledged = Child::saving(&url).kill_after(1_000);
        run(async {
            let (store, lease) = open(&url).await;
            for (id, version) in &acknowledged {
                check_whole(&store, id, *version).await;
            }
            // The next leader goes on where the last one was cut.
            for row in store.live_instances(None).await.expect("a read") {
                let save = saved(&next(&row), lease.epoch());
                InstanceRows::save(&*store, save).await.expect("the next version");
            }
        });
    }
}

#[test]
fn losing_the_connection_in_a_batch_or_in_commit_neither_loses_nor_doubles_a_save() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    run(async {
        let (store, lease) = open(&url).await;
        let stop = Arc::new(AtomicBool::new(false));
        let savers = start_savers(&store, lease.epoch(), &stop, |_| {});
        let mut cut = 0;
        // At random moments, so some fall into COMMIT; what must hold holds at any moment.
        while cut < 40 {
            let killed = server.sql(
                "postgres",
                "select count(pg_terminate_backend(pid)) from pg_stat_activity
                  where application_name = 'ostler' and (query ilike '%insert%' or query = 'commit' or state like '%transaction%')",
            );
            cut += killed.parse::<u32>().expect("a number");
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        stop.store(true, Ordering::Relaxed);
        for saver in savers {
            let row = saver.await.expect("a saver");
            let held = store.instance(&row.id).await.expect("a read").expect("the row");
            assert_eq!(held, row, "the last acknowledged save is what is there");
            check_whole(&store, row.id.as_str(), row.version.0).await;
        }
    });
}

#[test]
fn a_commit_whose_answer_was_lost_is_found_by_its_repetition_and_one_never_made_is_made() {
    let Some(server) = Postgres::start() else { return };
    run(async {
        let wire = Wire::to(server.socket());
        let (store, lease) = open(&server.database_behind(wire.folder())).await;
        for (moment, durable) in [(Moment::BeforeCommit, "0"), (Moment::AfterCommit, "1")] {
            let rows = [1, 2].map(|number| instance(&format!("{moment:?}-{number}")));
            let saves = rows.map(|row| {
                let mut save = saved(&row, lease.epoch());
                save.events = vec![event(&Subject::Instance(row.id), 1, 1)];
                save
            });
            wire.cut_at(moment);
            // The two are queued together, so that one batch holds both.
            let (one, two) = tokio::join!(
                InstanceRows::save(&*store, saves[0].clone()),
                InstanceRows::save(&*store, saves[1].clone()),
            );
            assert!(wire.was_cut());
            let lost = |answer: &Result<(), SaveError>| matches!(answer, Err(SaveError::Retry(_)));
            assert!(lost(&one) || lost(&two), "{one:?}, {two:?}");
            for (save, answer) in saves.iter().zip([&one, &two]).filter(|(_, it)| lost(it)) {
                let count = format!("select count(*) from instances where id = '{}'", save.row.id);
                assert_eq!(server.sql("t0", &count), durable, "{moment:?}: {answer:?}");
            }
            for save in saves {
                let id = save.row.id.to_string();
                save_until_done(&store, save).await.expect("the repetition");
                check_whole(&store, &id, 1).await;
            }
        }
    });
}

#[test]
fn killing_the_server_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = Postgres::start() else { return };
    let url = server.database();
    run(async {
        let (store, lease) = open(&url).await;
        let stop = Arc::new(AtomicBool::new(false));
        let savers = start_savers(&store, lease.epoch(), &stop, |_| {});
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.kill();
            server.launch();
        }
        stop.store(true, Ordering::Relaxed);
        for saver in savers {
            let row = saver.await.expect("a saver");
            let held = store.instance(&row.id).await.expect("a read").expect("the row");
            assert_eq!(held, row, "the last acknowledged save is what is there");
            check_whole(&store, row.id.as_str(), row.version.0).await;
        }
    });
}

#[test]
fn a_closed_store_finishes_what_is_queued_and_refuses_later_saves() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        let (store, lease) = open(&url).await;
        let stop = Arc::new(AtomicBool::new(true));
        let savers = start_savers(&store, lease.epoch(), &stop, |_| {});
        for saver in savers {
            saver.await.expect("a saver");
        }
        store.close().await;
        let late = InstanceRows::save(&*store, saved(&instance("late"), lease.epoch())).await;
        assert!(matches!(late, Err(SaveError::Retry(_))), "{late:?}");
        lease.release().await.expect("a release");
        let (store, _lease) = open(&url).await;
        assert_eq!(store.live_instances(None).await.expect("a read").len(), SAVERS);
    });
}
