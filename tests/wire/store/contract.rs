//! Both engines keep the contract that the simulated store keeps.

use std::sync::{Arc, Mutex};

use ostler::store::{Commit, Lease, Options, SqlStore};
use ostler_actors::model::Epoch;
use ostler_actors::ports::InstanceRows;
use ostler_actors::testing::contract::{StoreBench, instance, saved, store_contract};
use tempfile::TempDir;

use super::{LONG, file, on_both, run};
use crate::support::postgres::Postgres;

/// Opens files, and keeps the folders and the leases until the end.
struct Files {
    folders: Mutex<Vec<TempDir>>,
    leadership: Mutex<Option<Lease>>,
}

impl StoreBench for Files {
    type Store = SqlStore;

    async fn open(&self) -> Arc<SqlStore> {
        let folder = tempfile::tempdir().expect("a folder");
        let url = file(folder.path());
        self.folders.lock().expect("no panic").push(folder);
        Arc::new(SqlStore::open(&url, Options::default()).await.expect("a store"))
    }

    async fn begin_lease(&self, store: &SqlStore) -> Epoch {
        begin(&self.leadership, store).await
    }
}

/// Opens databases of one server.
struct Server {
    server: Postgres,
    leadership: Mutex<Option<Lease>>,
}

impl StoreBench for Server {
    type Store = SqlStore;

    async fn open(&self) -> Arc<SqlStore> {
        let url = self.server.database();
        Arc::new(SqlStore::open(&url, Options::default()).await.expect("a store"))
    }

    async fn begin_lease(&self, store: &SqlStore) -> Epoch {
        begin(&self.leadership, store).await
    }
}

async fn begin(leadership: &Mutex<Option<Lease>>, store: &SqlStore) -> Epoch {
    let before = leadership.lock().expect("no panic").take();
    if let Some(before) = before {
        before.release().await.expect("a release");
    }
    let lease = store.take_lease(LONG).await.expect("a lease");
    let epoch = lease.epoch();
    leadership.lock().expect("no panic").replace(lease);
    epoch
}

#[test]
fn sqlite_keeps_the_contract() {
    let bench = Files { folders: Mutex::default(), leadership: Mutex::default() };
    run(store_contract(&bench));
}

#[test]
fn postgres_keeps_the_contract() {
    let Some(server) = Postgres::start() else { return };
    run(store_contract(&Server { server, leadership: Mutex::default() }));
}

#[test]
fn a_lone_save_is_a_commit_of_its_own_and_a_crowd_shares_few() {
    on_both(async |url| {
        let commits = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&commits);
        let observer = move |commit: Commit| note.lock().expect("no panic").push(commit.size);
        let options = Options { observer: Some(Arc::new(observer)), ..Options::default() };
        let store = SqlStore::open(&url, options).await.expect("a store");
        let lease = store.take_lease(LONG).await.expect("a lease");
        let save = saved(&instance("lone"), lease.epoch());
        InstanceRows::save(&store, save).await.expect("a save");
        assert_eq!(std::mem::take(&mut *commits.lock().expect("no panic")), [1]);
        let mut crowd = tokio::task::JoinSet::new();
        for number in 0..500 {
            let save = saved(&instance(&format!("linux-{number}")), lease.epoch());
            let store = store.clone();
            crowd.spawn(async move { InstanceRows::save(&store, save).await });
        }
        while let Some(answer) = crowd.join_next().await {
            answer.expect("a saver").expect("a save");
        }
        let sizes = commits.lock().expect("no panic").clone();
        assert_eq!(sizes.iter().sum::<usize>(), 500);
        assert!(sizes.len() < 250, "{sizes:?}");
    });
}
