//! The store: its contract on SQLite and on PostgreSQL, its faults, its upkeep.

mod contract;
mod crash;
mod faults;
mod history;
mod lease;
mod migrations;
mod quarantine;
mod upkeep;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler::store::{Lease, Options, SqlStore};
use ostler_actors::model::{Instance, WriteId};
use ostler_actors::ports::{InstanceRows, InstanceSave, SaveError};

use crate::support::postgres::Postgres;

/// How long a lease lasts in tests that do not wait for its end: longer than `HANG_LIMIT`.
const LONG: Duration = Duration::from_hours(1);
/// The lease of a standby, which looks for a free lease ten times in one of its own.
const EAGER: Duration = Duration::from_secs(10);

/// Runs a test on a runtime like the daemon's.
fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(story)
}

/// Returns the URL of a file in a folder.
fn file(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("ostler.db").display())
}

/// Runs a story on both engines, each empty.
fn on_both<F: Future<Output = ()>>(story: impl Fn(String) -> F) {
    let folder = tempfile::tempdir().expect("a folder");
    run(story(file(folder.path())));
    if let Some(server) = Postgres::start() {
        run(story(server.database()));
    }
}

/// Opens a store and takes the lease.
async fn open(url: &str) -> (Arc<SqlStore>, Lease) {
    let store = SqlStore::open(url, Options::default()).await.expect("a store");
    let lease = store.take_lease(LONG).await.expect("a lease");
    (Arc::new(store), lease)
}

/// Returns the row after this one.
fn next(row: &Instance) -> Instance {
    let mut next = row.clone();
    next.version = row.version.next();
    next.write = WriteId(row.write.0.wrapping_mul(31).wrapping_add(row.version.0));
    next
}

/// Saves as the core does: again, with the same mark, until the store answers.
async fn save_until_done(store: &SqlStore, save: InstanceSave) -> Result<(), SaveError> {
    loop {
        match InstanceRows::save(store, save.clone()).await {
            Err(SaveError::Retry(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            answer => return answer,
        }
    }
}
