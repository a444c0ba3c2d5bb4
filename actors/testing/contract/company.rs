//! What savers may expect of each other's company, and what a repeated save may do.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Store, StoreBench, delivery, event, instance, job, next, notice, saved};
use crate::model::{Closure, Epoch, Instance, PoolRow, Subject, Version, WriteId};
use crate::ports::{
    Acceptance, Inbox as _, InstanceRows, InstanceSave, JobRows, JobSave, PoolRows, Records as _,
    SaveError,
};

const SAVERS: usize = 64;

/// Many save at once; each is answered for his own save, and the mishap of one is his alone.
pub async fn savers_at_once_are_answered_each_for_himself(bench: &impl StoreBench) {
    let store = bench.open().await;
    let old = bench.begin_lease(&store).await;
    let epoch = bench.begin_lease(&store).await;
    let mut savers = JoinSet::new();
    for number in 0..SAVERS {
        let (save, expected) = mixed(number, epoch, old);
        let store = Arc::clone(&store);
        savers.spawn(async move {
            let id = save.row.id.clone();
            let answer = InstanceRows::save(&*store, save).await;
            // What was answered can be read, by anyone, at once.
            let found = store.instance(&id).await.expect("a read");
            (expected, answer, found)
        });
    }
    while let Some(detail) = savers.join_next().await {
        let (expected, answer, found) = detail.expect("a saver");
        let as_expected = match expected {
            Fate::Done => answer.is_ok() && found.is_some(),
            Fate::Conflict => matches!(answer, Err(SaveError::Conflict { .. })) && found.is_none(),
            Fate::Fenced => matches!(answer, Err(SaveError::Fenced(_))) && found.is_none(),
        };
        assert!(as_expected, "expected {expected:?}, got {answer:?} and {found:?}");
    }
    let lives = store.live_instances(None).await.expect("a read").len();
    assert_eq!(lives, (0..SAVERS).filter(|n| mixed(*n, epoch, old).1 == Fate::Done).count());
}

/// Of many who want one machine at once, one gets it.
pub async fn one_of_many_gets_a_machine(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let mut savers = JoinSet::new();
    for number in 0..SAVERS {
        let store = Arc::clone(&store);
        savers.spawn(async move {
            let mut row = instance(&format!("linux-{number}"));
            row.machine = "coveted".into();
            InstanceRows::save(&*store, saved(&row, epoch)).await
        });
    }
    let mut owners = 0;
    while let Some(detail) = savers.join_next().await {
        let answer = detail.expect("a saver");
        assert!(matches!(answer, Ok(()) | Err(SaveError::Owned { .. })), "{answer:?}");
        owners += usize::from(answer.is_ok());
    }
    assert_eq!(owners, 1);
    assert_eq!(store.live_instances(None).await.expect("a read").len(), 1);
}

/// Of many who bring one delivery at once, one brings it.
pub async fn a_delivery_brought_by_many_is_new_once(bench: &impl StoreBench) {
    let store = bench.open().await;
    let mut bringers = JoinSet::new();
    for _ in 0..SAVERS {
        let store = Arc::clone(&store);
        bringers.spawn(async move { store.accept(delivery("guid"), notice(1)).await });
    }
    let mut new = 0;
    while let Some(detail) = bringers.join_next().await {
        let acceptance = detail.expect("a bringer").expect("a delivery");
        new += usize::from(acceptance == Acceptance::New);
    }
    assert_eq!(new, 1);
    assert_eq!(store.unhandled().await.expect("a read").len(), 1);
}

/// A row goes from hand to hand as fast as it can be saved; no version is lost on the way.
pub async fn a_row_keeps_every_version_while_others_save(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let mut savers = JoinSet::new();
    for number in 0..8 {
        savers.spawn(save_twenty_versions(Arc::clone(&store), format!("linux-{number}"), epoch));
    }
    while let Some(detail) = savers.join_next().await {
        let last = detail.expect("a saver");
        assert_eq!(store.instance(&last.id).await.expect("a read").as_ref(), Some(&last));
        let subject = Subject::Instance(last.id.clone());
        let places = store.timeline(&subject).await.expect("a read");
        let places: Vec<u32> = places.iter().map(|event| event.seq).collect();
        assert_eq!(places, (0..20).collect::<Vec<_>>(), "of `{}`", last.id);
    }
}

/// A save that is repeated after its answer was lost changes nothing, whatever came after it.
pub async fn a_late_repetition_changes_nothing(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let subject = Subject::Pool("linux".into());
    let first = JobSave { jobs: vec![job(1)], epoch, write: WriteId(1), ..JobSave::default() };
    JobRows::save(&*store, first.clone()).await.expect("a save");
    let mut closed = job(1);
    closed.closed = Some(Closure::Stale);
    let second =
        JobSave { jobs: vec![closed.clone()], epoch, write: WriteId(2), ..JobSave::default() };
    JobRows::save(&*store, second).await.expect("a save");
    JobRows::save(&*store, first).await.expect("the first one again");
    assert_eq!(store.job(&closed.id).await.expect("a read"), Some(closed), "an old save came back");

    let row = instance("linux-1");
    InstanceRows::save(&*store, saved(&row, epoch)).await.expect("a save");
    let mut again = saved(&row, epoch);
    again.events = vec![event(&Subject::Instance(row.id.clone()), 0, 1)];
    InstanceRows::save(&*store, again).await.expect("the same save again");
    let timeline = store.timeline(&Subject::Instance(row.id)).await.expect("a read");
    assert!(timeline.is_empty(), "a repetition wrote something");

    let pool = PoolRow { id: "linux".into(), drained: true, breaker: None, events: 1 };
    for count in [1, 2] {
        let events = vec![event(&subject, 0, count)];
        PoolRows::save(&*store, pool.clone(), events, epoch).await.expect("a save");
    }
    let timeline = store.timeline(&subject).await.expect("a read");
    assert_eq!(timeline.iter().map(|event| event.count).collect::<Vec<_>>(), [2]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Conflict,
    Fenced,
}

/// Returns the n-th save of a mixed crowd, and what must become of it.
fn mixed(number: usize, epoch: Epoch, old: Epoch) -> (InstanceSave, Fate) {
    let mut save = saved(&instance(&format!("linux-{number}")), epoch);
    match number % 8 {
        3 => {
            save.replaces = Version(5);
            (save, Fate::Conflict)
        }
        6 => (InstanceSave { epoch: old, ..save }, Fate::Fenced),
        _ => (save, Fate::Done),
    }
}

async fn save_twenty_versions(store: Arc<impl Store>, id: String, epoch: Epoch) -> Instance {
    let mut row = instance(&id);
    for place in 0..20 {
        let mut save = saved(&row, epoch);
        save.events = vec![event(&Subject::Instance(row.id.clone()), place, 1)];
        InstanceRows::save(&*store, save).await.expect("the next version");
        if place < 19 {
            row = next(&row);
        }
    }
    row
}
