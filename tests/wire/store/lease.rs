//! One daemon at a time, on either engine; the next one begins at once when it can be sure.

use std::time::Duration;

use jiff::Timestamp;
use ostler::store::{LeaseStatus, Options, SqlStore};
use ostler_actors::ports::{InstanceRows, Records as _, SaveError};
use ostler_actors::testing::contract::{instance, saved};

use super::crash::Child;
use super::{EAGER, file, next, on_both, open, run};
use crate::support::HANG_LIMIT;
use crate::support::cut::{Moment, Wire};
use crate::support::postgres::Postgres;

#[test]
fn a_standby_waits_until_the_lease_is_given_back_and_then_fences_the_old_holder() {
    on_both(async |url| {
        let (store, lease) = open(&url).await;
        assert!(lease.may_act());
        let row = instance("linux-1");
        InstanceRows::save(&*store, saved(&row, lease.epoch())).await.expect("a save");

        let other = SqlStore::open(&url, Options::default()).await.expect("a second daemon");
        let standby = tokio::spawn(async move {
            let lease = other.take_lease(EAGER).await.expect("a lease");
            (other, lease)
        });
        let news = lease.watch();
        tokio::time::timeout(Duration::from_millis(700), async {
            while !standby.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect_err("two holders at once");
        let old = lease.epoch();
        lease.release().await.expect("a release");
        assert_eq!(*news.borrow(), LeaseStatus::Lost);
        let (other, lease) = standby.await.expect("the standby");
        assert_eq!(lease.epoch().0, old.0 + 1);
        let late = InstanceRows::save(&*store, saved(&next(&row), old)).await;
        assert!(matches!(late, Err(SaveError::Fenced(epoch)) if epoch == old), "{late:?}");
        let holders = other.controller().await.expect("a read");
        assert_eq!(holders.holder, *lease.holder());
        assert_eq!(holders.holders.len(), 2);
    });
}

#[test]
fn a_holder_killed_on_this_host_is_replaced_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Postgres::start();
    for url in [Some(file(folder.path())), server.as_ref().map(Postgres::database)] {
        let Some(url) = url else { continue };
        let child = Child::saving(&url);
        child.kill_after(1);
        run(async {
            let opening = tokio::time::timeout(HANG_LIMIT, open(&url)).await;
            let (_store, lease) = opening.expect("waits for the lease of a dead holder");
            assert_eq!(lease.epoch().0, 2);
        });
    }
}

#[test]
fn a_holder_cut_off_from_the_server_stops_acting_before_another_may_begin() {
    let Some(mut server) = Postgres::start() else { return };
    let url = server.database();
    run(async {
        let store = SqlStore::open(&url, Options::default()).await.expect("a store");
        let length = Duration::from_secs(9);
        let lease = store.take_lease(length).await.expect("a lease");
        let mut news = lease.watch();
        // Longer than the lease: it is being renewed.
        tokio::time::sleep(length + length / 6).await;
        assert!(lease.may_act() && lease.renew().await.expect("a renewal"));
        server.kill();
        // The time is taken before the look, because the test itself may be delayed after it.
        let mut acted_at = Timestamp::now();
        loop {
            let looked_at = Timestamp::now();
            if !lease.may_act() {
                break;
            }
            acted_at = looked_at;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let lost =
            tokio::time::timeout(HANG_LIMIT, news.wait_for(|it| *it == LeaseStatus::Lost)).await;
        lost.expect("the end is told").expect("the end is told");
        assert!(!lease.may_act());
        // The server runs on this machine, so its clock is ours; its row holds the last renewal.
        server.launch();
        let another_may_begin = server.sql("t0", "select expires_at from lease");
        let another_may_begin = another_may_begin.parse().expect("µs");
        assert!(acted_at.as_microsecond() < another_may_begin, "acted though another might begin");
    });
}

#[test]
fn a_lapsed_lease_is_taken_by_the_servers_clock_and_not_before() {
    let Some(server) = Postgres::start() else { return };
    let url = server.database();
    run(async {
        let store = SqlStore::open(&url, Options::default()).await.expect("a store");
        let length = Duration::from_secs(2);
        let silent = store.take_lease(length).await.expect("a lease");
        let epoch = silent.epoch();
        // Dropped, not released: like a process that hangs.
        drop(silent);
        let lease = store.take_lease(length).await.expect("a lease");
        assert_eq!(lease.epoch().0, epoch.0 + 1);
        let between = server.sql("t0", "select max(taken_at) - min(taken_at) from holders");
        let between = Duration::from_micros(between.parse().expect("µs"));
        assert!(between >= length, "taken from a living holder after {between:?}");
    });
}

#[test]
fn a_holder_whose_lock_file_was_taken_away_learns_that_it_lost_the_lease() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = file(folder.path());
    run(async {
        let (_store, lease) = open(&url).await;
        assert!(lease.renew().await.expect("a look"));
        std::fs::remove_file(folder.path().join("ostler.db.lock")).expect("the lock file");
        assert!(!lease.renew().await.expect("a look"));
        assert_eq!(*lease.watch().borrow(), LeaseStatus::Lost);
        assert!(!lease.may_act());
    });
}

#[test]
fn a_lease_is_never_taken_between_the_check_of_the_epoch_and_its_commit() {
    let Some(server) = Postgres::start() else { return };
    run(async {
        let wire = Wire::to(server.socket());
        let old = server.database_behind(wire.folder());
        let direct = old.replace(&wire.folder().display().to_string(), &server.folder());
        let store = SqlStore::open(&old, Options::default()).await.expect("a store");
        // Short, because the server ends a session that is silent in a transaction for three seconds.
        let length = Duration::from_millis(500);
        let silent = store.take_lease(length).await.expect("a lease");
        let (epoch, row) = (silent.epoch(), instance("linux-1"));
        wire.cut_at(Moment::Held);
        let (late, save) = (store.clone(), saved(&row, epoch));
        let saving = tokio::spawn(async move { InstanceRows::save(&late, save).await });
        while !wire.was_cut() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // From here on the holder does not renew, and the lease lapses while the commit is on its way.
        drop(silent);
        let other = SqlStore::open(&direct, Options::default()).await.expect("a second daemon");
        let standby = tokio::spawn(async move {
            let lease = other.take_lease(EAGER).await.expect("a lease");
            (other, lease)
        });
        // The standby finds the lease lapsed, and waits for the row that the commit has locked.
        let waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        while server.sql("t0", waits) == "0" {
            assert!(
                !standby.is_finished(),
                "a lease was taken under a commit of the holder before"
            );
        }
        assert!(!standby.is_finished(), "a lease was taken under a commit of the holder before");
        wire.let_go();
        saving.await.expect("the saver").expect("a save that came first");
        let (other, lease) = standby.await.expect("the standby");
        assert_eq!(lease.epoch().0, epoch.0 + 1);
        assert_eq!(other.instance(&row.id).await.expect("a read"), Some(row.clone()));
        let late = InstanceRows::save(&store, saved(&next(&row), epoch)).await;
        assert!(matches!(late, Err(SaveError::Fenced(_))), "{late:?}");
    });
}
