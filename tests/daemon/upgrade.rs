//! The first release is replaced by this program under load: no machine is touched, every runner is
//! adopted, every job ends, every timeline is whole; and the way back is refused with a sentence.
//!
//! `make campaign NAME=upgrade` builds the first release and names it in `OSTLER_OLD`.

use std::path::PathBuf;

use ostler::demo::agent::Step;
use ostler::ports::{History as _, InstanceQuery, Page};
use ostler::store::{SCHEMA, SqlStore, upkeep};
use ostler_actors::model::{State, Subject, What};
use rustix::process::Signal;

use crate::support::daemon::{LONG_JOB, Stage, pool, until};
use crate::support::postgres::Postgres;

/// How many runners work when the daemon is replaced.
const RUNNERS: u32 = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_the_first_release_are_adopted_by_this_one_on_sqlite() {
    let Some(old) = first_release() else { return };
    replace_under_load(Stage::on_sqlite(&pool(2, RUNNERS)), old).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_of_the_first_release_are_adopted_by_this_one_on_postgresql() {
    let (Some(old), Some(server)) = (first_release(), Postgres::start()) else { return };
    replace_under_load(Stage::on(server.database(), &pool(2, RUNNERS)), old).await;
}

async fn replace_under_load(mut stage: Stage, old: PathBuf) {
    let new = std::mem::replace(&mut stage.program, old.clone());
    let mut daemon = stage.lead().await;
    let finished = stage.queue(Step::Succeed, 50);
    until("a first job is over", async || stage.is_over(finished)).await;
    let working: Vec<u64> = (0..RUNNERS).map(|_| stage.queue(Step::Succeed, LONG_JOB)).collect();
    stage.until_at_work(&working).await;
    // These wait for a place, and the last of them are queued while no daemon listens.
    for _ in 0..RUNNERS {
        stage.queue(Step::Succeed, 200);
    }
    let (machines, processes) = (stage.machines(), stage.processes());

    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0), "{}", daemon.log());
    for _ in 0..RUNNERS {
        stage.queue(Step::Succeed, 200);
    }
    stage.program = new;
    let mut daemon = stage.lead().await;
    let kept = stage.machines();
    assert!(machines.iter().all(|it| kept.contains(it)), "{machines:?} became {kept:?}");
    let alive = stage.processes();
    assert!(processes.iter().all(|it| alive.contains(it)), "a process of a machine is gone");
    let records = stage.records().await;
    let stats = upkeep::stats(stage.store()).await.expect("stats");
    assert_eq!(usize::try_from(stats.schema), Ok(SCHEMA));

    stage.until_all_jobs_are_over(&mut daemon).await;
    stage.check_jobs();
    stage.drain(&mut daemon).await;
    let page = Page { limit: 1_000, cursor: None };
    let instances = records.instances(&InstanceQuery::default(), &page).await.expect("rows").items;
    assert!(instances.len() > machines.len());
    for row in instances {
        check_timeline(&records, row.id.as_str()).await;
    }
    stage.check_logs(&[]);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.ended().await.code(), Some(0), "{}", daemon.log());

    stage.program = old;
    let mut back = stage.spawn();
    assert_ne!(back.ended().await.code(), Some(0));
    let log = back.log();
    assert!(log.contains("has schema 2 and this program knows 1"), "{log}");
    println!("{} machines kept, {} jobs over", machines.len(), stage.github.jobs().len());
}

/// Fails unless a timeline tells a whole life, in order and without a gap.
pub(super) async fn check_timeline(records: &SqlStore, name: &str) {
    let timeline = records.timeline_with_places(&Subject::Instance(name.into())).await;
    let events: Vec<_> = timeline.expect("a timeline").into_iter().map(|it| it.event).collect();
    let places: Vec<u32> = events.iter().map(|it| it.seq).collect();
    let expected: Vec<u32> = (1..).take(events.len()).collect();
    assert_eq!(places, expected, "`{name}` has a gap: {events:?}");
    assert!(matches!(events.first().map(|it| &it.what), Some(What::Wanted)), "{events:?}");
    let gone = |what: &What| matches!(what, What::Moved { to: State::Deleted, .. });
    assert!(events.iter().any(|it| gone(&it.what)), "`{name}` never ends: {events:?}");
}

/// Returns the first release's program; without one the test is skipped and says so.
pub(super) fn first_release() -> Option<PathBuf> {
    let named = std::env::var_os("OSTLER_OLD").map(PathBuf::from);
    if named.is_none() {
        println!("SKIPPED: OSTLER_OLD names no program; `make campaign NAME=upgrade` builds it");
    }
    named
}
