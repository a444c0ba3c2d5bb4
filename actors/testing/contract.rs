//! What every store must do, as a suite that any of them can be run through; what every forge
//! must do is in `forge.rs`, every provider in `provider.rs`.
//!
//! The doubles pass it here with their faults switched off; the real ones pass the same.

mod company;
mod forge;
#[expect(clippy::panic, reason = "a breach of the contract panics: its purpose")]
mod provider;
mod samples;

use std::future::Future;
use std::sync::Arc;

pub use company::{
    a_delivery_brought_by_many_is_new_once, a_late_repetition_changes_nothing,
    a_row_keeps_every_version_while_others_save, one_of_many_gets_a_machine,
    savers_at_once_are_answered_each_for_himself,
};
pub use forge::{BenchJob, ForgeBench, forge_contract};
pub use provider::{ProviderBench, Tells, provider_contract};
pub use samples::{
    delivery, event, exit_record, instance, job, job_id, notice, provisional_record, saved, stamp,
};

use crate::model::{
    DeliveryId, Epoch, ExitRecord, Instance, InstanceId, PoolId, PoolRow, ProviderId, State,
    Subject,
};
use crate::model::{Tail, Version, WriteId};
use crate::ports::{
    Acceptance, ExitRevision, Inbox, InstanceRows, InstanceSave, JobRows, JobSave, PoolRows,
    Records, SaveError,
};

pub trait Store: Records + InstanceRows + JobRows + PoolRows + Inbox {}

impl<S: Records + InstanceRows + JobRows + PoolRows + Inbox> Store for S {}

/// Makes stores to be put through the contract.
pub trait StoreBench {
    /// The kind of store.
    type Store: Store + 'static;

    /// Opens an empty store.
    fn open(&self) -> impl Future<Output = Arc<Self::Store>>;

    /// Takes the lease and returns its epoch.
    fn begin_lease(&self, store: &Self::Store) -> impl Future<Output = Epoch>;
}

/// Puts a store through the whole contract; panics at the first breach.
pub async fn store_contract(bench: &impl StoreBench) {
    a_row_is_read_as_it_was_saved(bench).await;
    a_save_of_another_version_is_refused(bench).await;
    a_repeated_save_counts_as_done(bench).await;
    an_old_epoch_cannot_write(bench).await;
    a_machine_has_one_live_owner(bench).await;
    a_deleted_row_is_kept_and_no_longer_live(bench).await;
    events_are_in_order_and_replaced_by_place(bench).await;
    a_refused_save_leaves_nothing(bench).await;
    deliveries_are_known_and_handled_once(bench).await;
    a_ledger_save_is_all_or_nothing_and_repeatable(bench).await;
    a_revised_verdict_replaces_its_record(bench).await;
    tombstones_stay_until_forgotten(bench).await;
    holders_are_remembered_for_ever(bench).await;
    a_strangers_holder_can_be_adopted(bench).await;
    pool_rows_are_replaced(bench).await;
    savers_at_once_are_answered_each_for_himself(bench).await;
    one_of_many_gets_a_machine(bench).await;
    a_delivery_brought_by_many_is_new_once(bench).await;
    a_row_keeps_every_version_while_others_save(bench).await;
    a_late_repetition_changes_nothing(bench).await;
}

/// A revision replaces the record of an end, keeps or drops the end of its log, and invents no record.
pub async fn a_revised_verdict_replaces_its_record(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let mut records = Vec::new();
    for name in ["linux-1", "linux-2"] {
        let row = instance(name);
        let record = provisional_record(&row);
        let mut save = saved(&row, epoch);
        save.exit = Some(record.clone());
        InstanceRows::save(&*store, save).await.expect("the row with its record");
        records.push(record);
    }
    let since = stamp(0);
    let mut found = store.provisional_exits(since).await.expect("a read");
    found.sort_by(|a, b| a.instance.cmp(&b.instance));
    let slim = |record: &ExitRecord| ExitRecord { tail: Tail::NotNeeded, ..record.clone() };
    assert_eq!(found, records.iter().map(slim).collect::<Vec<_>>());
    assert_eq!(store.provisional_exits(stamp(1_000_000)).await.expect("a read"), []);

    let gone = provisional_record(&instance("linux-9"));
    let revision = |record: &ExitRecord, drop_tail| ExitRevision {
        record: slim(&record.settled()),
        drop_tail,
    };
    let revisions =
        vec![revision(&records[0], true), revision(&records[1], false), revision(&gone, true)];
    let subject = Subject::Instance(records[0].instance.clone());
    let events = vec![event(&subject, crate::model::REVISION_PLACE + 1, 1)];
    let save = JobSave { revisions, events, epoch, write: WriteId(77), ..JobSave::default() };
    JobRows::save(&*store, save.clone()).await.expect("a save of the ledger");
    JobRows::save(&*store, save).await.expect("the same again");
    let read = async |id: &InstanceId| store.exit(id).await.expect("a read");
    let dropped = slim(&records[0].settled());
    assert_eq!(read(&records[0].instance).await, Some(dropped), "without its log");
    let kept = ExitRecord { tail: records[1].tail.clone(), ..records[1].settled() };
    assert_eq!(read(&records[1].instance).await, Some(kept), "with its log");
    assert_eq!(read(&gone.instance).await, None, "what is gone stays gone");
    assert_eq!(store.provisional_exits(since).await.expect("a read"), []);
    assert_eq!(store.timeline(&subject).await.expect("a read").len(), 1);
}

/// A row, its events and its end come back as they were saved.
pub async fn a_row_is_read_as_it_was_saved(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    let mut save = saved(&row, epoch);
    save.exit = Some(exit_record(&row));
    InstanceRows::save(&*store, save).await.expect("the first save of a row");
    assert_eq!(store.instance(&row.id).await.expect("a read"), Some(row.clone()));
    assert_eq!(store.live_instances(None).await.expect("a read"), std::slice::from_ref(&row));
    assert_eq!(store.live_instances(Some(&row.pool)).await.expect("a read").len(), 1);
    let other = PoolId::new("another");
    assert!(store.live_instances(Some(&other)).await.expect("a read").is_empty());
    assert_eq!(store.exit(&row.id).await.expect("a read"), Some(exit_record(&row)));
    let owner = store.owner_of(&row.provider, &row.machine).await.expect("a read");
    assert_eq!(owner, Some(row.id));
}

/// Only the version that is there can be replaced.
pub async fn a_save_of_another_version_is_refused(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    InstanceRows::save(&*store, saved(&row, epoch)).await.expect("the first save");
    let insert_again = InstanceSave { row: next(&row), ..saved(&row, epoch) };
    let answer = InstanceRows::save(&*store, insert_again).await;
    assert!(matches!(answer, Err(SaveError::Conflict { .. })), "{answer:?}");
    let mut from_the_future = saved(&next(&row), epoch);
    from_the_future.replaces = Version(7);
    let answer = InstanceRows::save(&*store, from_the_future).await;
    assert!(matches!(answer, Err(SaveError::Conflict { .. })), "{answer:?}");
    InstanceRows::save(&*store, saved(&next(&row), epoch)).await.expect("the next version");
}

/// A save whose answer was lost can be repeated.
pub async fn a_repeated_save_counts_as_done(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    for _ in 0..3 {
        InstanceRows::save(&*store, saved(&row, epoch)).await.expect("the same save again");
    }
    let second = next(&row);
    for _ in 0..2 {
        InstanceRows::save(&*store, saved(&second, epoch)).await.expect("the same save again");
    }
    let mut stranger = second.clone();
    stranger.write = WriteId(999);
    let answer = InstanceRows::save(&*store, saved(&stranger, epoch)).await;
    assert!(matches!(answer, Err(SaveError::Conflict { .. })), "{answer:?}");
}

/// When a newer lease is held, every writer of the older one is refused.
pub async fn an_old_epoch_cannot_write(bench: &impl StoreBench) {
    let store = bench.open().await;
    let old = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    InstanceRows::save(&*store, saved(&row, old)).await.expect("a save in time");
    let new = bench.begin_lease(&store).await;
    assert!(new > old);
    let late = InstanceRows::save(&*store, saved(&next(&row), old)).await;
    assert!(matches!(late, Err(SaveError::Fenced(epoch)) if epoch == old), "{late:?}");
    let jobs = JobSave { epoch: old, write: WriteId(1), ..JobSave::default() };
    let late = JobRows::save(&*store, jobs).await;
    assert!(matches!(late, Err(SaveError::Fenced(_))), "{late:?}");
    let late = PoolRows::save(&*store, pool_row(false), Vec::new(), old).await;
    assert!(matches!(late, Err(SaveError::Fenced(_))), "{late:?}");
    InstanceRows::save(&*store, saved(&next(&row), new)).await.expect("a save under the new lease");
}

/// Two live rows cannot own one machine; a deleted one owns nothing.
pub async fn a_machine_has_one_live_owner(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let first = instance("linux-1");
    InstanceRows::save(&*store, saved(&first, epoch)).await.expect("the first owner");
    let mut second = instance("linux-2");
    second.machine = first.machine.clone();
    let answer = InstanceRows::save(&*store, saved(&second, epoch)).await;
    assert!(matches!(answer, Err(SaveError::Owned { .. })), "{answer:?}");
    assert_eq!(store.instance(&second.id).await.expect("a read"), None);

    let mut elsewhere = second.clone();
    elsewhere.provider = ProviderId::new("another");
    elsewhere.id = "linux-3".into();
    InstanceRows::save(&*store, saved(&elsewhere, epoch)).await.expect("another provider's");

    let mut gone = next(&first);
    gone.state = State::Deleted;
    InstanceRows::save(&*store, saved(&gone, epoch)).await.expect("the first owner goes");
    InstanceRows::save(&*store, saved(&second, epoch)).await.expect("the second owner");
    let owner = store.owner_of(&second.provider, &second.machine).await.expect("a read");
    assert_eq!(owner, Some(second.id));
}

/// A deleted row stays readable and its name taken.
pub async fn a_deleted_row_is_kept_and_no_longer_live(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    InstanceRows::save(&*store, saved(&row, epoch)).await.expect("the first save");
    let mut gone = next(&row);
    gone.state = State::Deleted;
    InstanceRows::save(&*store, saved(&gone, epoch)).await.expect("the last save");
    assert!(store.live_instances(None).await.expect("a read").is_empty());
    assert_eq!(store.instance(&row.id).await.expect("a read"), Some(gone));
    let mut again = instance("linux-1");
    again.write = WriteId(55);
    let answer = InstanceRows::save(&*store, saved(&again, epoch)).await;
    assert!(matches!(answer, Err(SaveError::Conflict { .. })), "{answer:?}");
}

/// Timelines come in order; the same place is replaced, not doubled.
pub async fn events_are_in_order_and_replaced_by_place(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    let subject = Subject::Instance(row.id.clone());
    let mut save = saved(&row, epoch);
    save.events = vec![event(&subject, 1, 1), event(&subject, 0, 1)];
    InstanceRows::save(&*store, save).await.expect("a save");
    let mut save = saved(&next(&row), epoch);
    save.events = vec![event(&subject, 1, 4), event(&subject, 2, 1)];
    InstanceRows::save(&*store, save).await.expect("a save");
    let timeline = store.timeline(&subject).await.expect("a read");
    let places: Vec<(u32, u32)> = timeline.iter().map(|event| (event.seq, event.count)).collect();
    assert_eq!(places, [(0, 1), (1, 4), (2, 1)]);
    let other = Subject::Job(job_id(1));
    assert!(store.timeline(&other).await.expect("a read").is_empty());
}

/// A refused save writes neither row, nor events, nor the record of an end.
pub async fn a_refused_save_leaves_nothing(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let row = instance("linux-1");
    let subject = Subject::Instance(row.id.clone());
    let mut save = saved(&row, epoch);
    save.replaces = Version(3);
    save.events = vec![event(&subject, 0, 1)];
    save.exit = Some(exit_record(&row));
    InstanceRows::save(&*store, save).await.expect_err("a save of a version that is not there");
    assert_eq!(store.instance(&row.id).await.expect("a read"), None);
    assert_eq!(store.exit(&row.id).await.expect("a read"), None);
    assert!(store.timeline(&subject).await.expect("a read").is_empty());
}

/// A delivery is new once, waits until it is handled, and is known for ever.
pub async fn deliveries_are_known_and_handled_once(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let ids: Vec<DeliveryId> = ["b", "a", "c"].map(DeliveryId::from).to_vec();
    for (number, id) in (1..).zip(&ids) {
        let accepted = store.accept(id.clone(), notice(number)).await.expect("a delivery");
        assert_eq!(accepted, Acceptance::New);
    }
    let again = store.accept(ids[0].clone(), notice(1)).await.expect("a delivery again");
    assert_eq!(again, Acceptance::Known);
    let waiting = store.unhandled().await.expect("a read");
    let order: Vec<_> = waiting.iter().filter_map(|notice| notice.delivery.clone()).collect();
    assert_eq!(order, ids, "oldest first");
    let save =
        JobSave { handled: vec![ids[1].clone()], epoch, write: WriteId(4), ..JobSave::default() };
    JobRows::save(&*store, save).await.expect("a save");
    assert_eq!(store.unhandled().await.expect("a read").len(), 2);
    let again = store.accept(ids[1].clone(), notice(2)).await.expect("a delivery again");
    assert_eq!(again, Acceptance::Known);
    assert_eq!(store.unhandled().await.expect("a read").len(), 2);
}

/// A ledger save carries rows, tombstones, deliveries and events together, and repeats.
pub async fn a_ledger_save_is_all_or_nothing_and_repeatable(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let (open, over) = (job(1), samples::completed(job(2)));
    let subject = Subject::Job(open.id.clone());
    let save = JobSave {
        jobs: vec![open.clone(), over.clone()],
        tombstones: vec![(over.id.clone(), stamp(5))],
        events: vec![event(&subject, 0, 1)],
        epoch,
        write: WriteId(11),
        ..JobSave::default()
    };
    for _ in 0..2 {
        JobRows::save(&*store, save.clone()).await.expect("a save, and again");
    }
    assert_eq!(store.open_jobs().await.expect("a read"), std::slice::from_ref(&open));
    assert_eq!(store.job(&over.id).await.expect("a read"), Some(over.clone()));
    assert_eq!(store.tombstones().await.expect("a read"), [(over.id, stamp(5))]);
    assert_eq!(store.timeline(&subject).await.expect("a read").len(), 1);
    let mut closed = open.clone();
    closed.closed = Some(crate::model::Closure::Stale);
    let save = JobSave { jobs: vec![closed], epoch, write: WriteId(12), ..JobSave::default() };
    JobRows::save(&*store, save).await.expect("a save");
    assert!(store.open_jobs().await.expect("a read").is_empty());
}

/// Tombstones keep the first moment and go only when they may.
pub async fn tombstones_stay_until_forgotten(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    let after_crash = |number, at, write, forget| JobSave {
        tombstones: vec![(job_id(number), stamp(at))],
        forget_before: forget,
        epoch,
        write: WriteId(write),
        ..JobSave::default()
    };
    JobRows::save(&*store, after_crash(1, 10, 1, None)).await.expect("a save");
    JobRows::save(&*store, after_crash(1, 99, 2, None)).await.expect("a save");
    assert_eq!(store.tombstones().await.expect("a read"), [(job_id(1), stamp(10))]);
    JobRows::save(&*store, after_crash(2, 50, 3, Some(stamp(20)))).await.expect("a save");
    assert_eq!(store.tombstones().await.expect("a read"), [(job_id(2), stamp(50))]);
}

/// Every lease row is kept; the controller stays the same.
pub async fn holders_are_remembered_for_ever(bench: &impl StoreBench) {
    let store = bench.open().await;
    bench.begin_lease(&store).await;
    let first = store.controller().await.expect("a read");
    bench.begin_lease(&store).await;
    let second = store.controller().await.expect("a read");
    assert_eq!(first.id, second.id);
    assert_ne!(first.holder, second.holder);
    assert!(second.holders.contains(&first.holder) && second.holders.contains(&second.holder));
}

/// An adopted holder counts as ours, once, and the current one stays the current one.
pub async fn a_strangers_holder_can_be_adopted(bench: &impl StoreBench) {
    let store = bench.open().await;
    let old = bench.begin_lease(&store).await;
    let epoch = bench.begin_lease(&store).await;
    let before = store.controller().await.expect("a read");
    for _ in 0..2 {
        store.adopt_holder("stranger".into(), epoch).await.expect("an adoption");
    }
    let after = store.controller().await.expect("a read");
    assert_eq!(after.holder, before.holder);
    assert_eq!(after.holders.len(), before.holders.len() + 1);
    assert!(after.holders.contains(&"stranger".into()));
    let late = store.adopt_holder("another".into(), old).await;
    assert!(matches!(late, Err(SaveError::Fenced(_))), "{late:?}");
}

/// A pool's row is replaced by the next.
pub async fn pool_rows_are_replaced(bench: &impl StoreBench) {
    let store = bench.open().await;
    let epoch = bench.begin_lease(&store).await;
    for drained in [false, true] {
        PoolRows::save(&*store, pool_row(drained), Vec::new(), epoch).await.expect("a save");
    }
    assert_eq!(store.pools().await.expect("a read"), [pool_row(true)]);
}

fn pool_row(drained: bool) -> PoolRow {
    PoolRow { id: "linux".into(), drained, breaker: None, events: 3 }
}

fn next(row: &Instance) -> Instance {
    let mut next = row.clone();
    next.version = row.version.next();
    next.write = WriteId(row.write.0 + 1000);
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Faults, Outside, Shared, SimStore, in_virtual_time};

    struct Bench;

    impl StoreBench for Bench {
        type Store = SimStore;

        async fn open(&self) -> Arc<SimStore> {
            Arc::new(SimStore::new(Shared::new(Outside::new(1, Faults::none()))))
        }

        async fn begin_lease(&self, store: &SimStore) -> Epoch {
            store.begin_lease().0
        }
    }

    #[test]
    fn the_simulated_store_keeps_the_contract() {
        in_virtual_time(store_contract(&Bench));
    }
}
