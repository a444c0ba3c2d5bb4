//! The store's faults.

use std::sync::Arc;
use std::time::Duration;

use crate::model::Version;
use crate::ports::{InstanceRows, Records as _, SaveError};
use crate::testing::contract::{instance, saved};
use crate::testing::{Faults, Outside, Point, Seen, Shared, SimStore, in_virtual_time};

fn fresh() -> (Arc<Shared>, SimStore) {
    let shared = Shared::new(Outside::new(1, Faults::none()));
    let store = SimStore::new(Arc::clone(&shared));
    store.begin_lease();
    (shared, store)
}

#[test]
fn a_save_whose_answer_is_lost_is_durable_and_its_repetition_finds_itself() {
    in_virtual_time(async {
        let (shared, store) = fresh();
        let epoch = shared.lock().records.epoch();
        let row = instance("linux-1");
        shared.lock().script.lose_saves(1);
        let lost = InstanceRows::save(&store, saved(&row, epoch)).await;
        assert!(matches!(lost, Err(SaveError::Retry(_))), "{lost:?}");
        assert!(shared.lock().records.row(&row.id).is_some());
        InstanceRows::save(&store, saved(&row, epoch)).await.expect("the repetition");
        let outside = shared.lock();
        let saves = outside.observed.iter().filter(|it| matches!(it.what, Seen::Saved { .. }));
        assert_eq!(saves.count(), 1, "a repeated save is seen once");
    });
}

#[test]
fn a_failed_save_has_no_effect() {
    in_virtual_time(async {
        let (shared, store) = fresh();
        let epoch = shared.lock().records.epoch();
        shared.lock().script.fail_saves(1);
        let row = instance("linux-1");
        InstanceRows::save(&store, saved(&row, epoch)).await.expect_err("a failing save");
        assert_eq!(store.instance(&row.id).await.expect("a read"), None);
    });
}

#[test]
fn a_crash_before_a_save_loses_it_and_a_crash_after_keeps_it_and_neither_answers() {
    for (point, version) in [(Point::Before, None), (Point::After, Some(Version(1)))] {
        in_virtual_time(async {
            let (shared, store) = fresh();
            let epoch = shared.lock().records.epoch();
            let row = instance("linux-1");
            shared.lock().script.crash_at_save(1, point);
            let save = InstanceRows::save(&store, saved(&row, epoch));
            let answer = tokio::time::timeout(Duration::from_hours(24), save).await;
            assert!(answer.is_err(), "a dead daemon got an answer");
            let read = tokio::time::timeout(Duration::from_hours(24), store.controller()).await;
            assert!(read.is_err(), "a dead daemon got an answer");
            let durable = shared.lock().records.row(&row.id).map(|row| row.version);
            assert_eq!(durable, version);
        });
    }
}

#[test]
fn a_planned_panic_unwinds_the_writer_and_leaves_the_truth_usable() {
    in_virtual_time(async {
        let (shared, store) = fresh();
        shared.lock().faults.store.panics = 10_000;
        let epoch = shared.lock().records.epoch();
        let row = instance("linux-1");
        let local = tokio::task::LocalSet::new();
        let task = local.spawn_local(async move {
            InstanceRows::save(&store, saved(&row, epoch)).await.expect("a save");
        });
        let end = local.run_until(task).await;
        assert!(end.is_err_and(|error| error.is_panic()));
        assert_eq!(shared.lock().records.rows().count(), 0);
    });
}
