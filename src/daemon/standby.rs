//! Waiting for the lease: deliveries are taken, edits are applied, and a stop is noticed.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::{Daemon, StartError, stopped};
use crate::config::watch::ConfigChange;
use crate::store::{Lease, OpenError, SqlStore};

impl Daemon {
    /// Waits until the lease is ours; nothing if the daemon shall stop first.
    pub(super) async fn stand_by(
        &mut self,
        config_changes: &mut mpsc::Receiver<ConfigChange>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<Lease>, StartError> {
        // An edit of `[store]` takes a restart, so the length stays what it is.
        let taking = take(self.store.clone(), self.config.store.lease, self.starting);
        let mut taking = std::pin::pin!(taking);
        loop {
            tokio::select! {
                taken = &mut taking => return taken.map(Some).map_err(StartError::Lease),
                () = stopped(stop) => return Ok(None),
                Some(config_changes) = config_changes.recv() => self.apply_in_standby(config_changes).await,
            }
        }
    }
}

/// Takes the lease. One who is strict gives up when the first try fails; another has led before
/// and outlasts a store that is away for longer than a lease.
async fn take(store: SqlStore, length: Duration, strict: bool) -> Result<Lease, OpenError> {
    loop {
        match store.take_lease(length).await {
            Err(why) if !strict && !matches!(why, OpenError::Newer { .. }) => {
                warn!("still standing by: {why}");
                tokio::time::sleep(length / 10).await;
            }
            taken => return taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Options;

    /// Long enough not to lapse, short enough to try again soon.
    const LENGTH: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn only_the_first_leadership_is_given_up_when_the_lease_cannot_be_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ostler.db");
        let url = format!("sqlite://{}", file.display());
        let store = SqlStore::open(&url, Options::default()).await.expect("a store");
        // A folder where the lock should be: asking fails, as it does while a server is away.
        let lock = folder.path().join("ostler.db.lock");
        if lock.exists() {
            std::fs::remove_file(&lock).expect("no lock");
        }
        std::fs::create_dir(&lock).expect("an obstacle");
        assert!(take(store.clone(), LENGTH, true).await.is_err(), "the start is strict");

        let waiting = tokio::spawn(take(store.clone(), LENGTH, false));
        assert!(store.take_lease(LENGTH).await.is_err(), "the obstacle is still there");
        assert!(!waiting.is_finished());
        std::fs::remove_dir(&lock).expect("no obstacle");
        let lease = waiting.await.expect("a standby").expect("a lease");
        lease.release().await.expect("a release");
    }
}
