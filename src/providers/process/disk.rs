//! Work that waits for a disk, beside the threads that must not wait.
//!
//! A disk that hangs keeps every thread that asks it, for as long as it hangs: no call can be
//! taken back. So a provider has a few hands for it and no more; who finds all of them taken waits,
//! and his own deadline ends that. Removing whole trees takes long on a healthy disk too, and has
//! hands of its own, so that looking never waits for it.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// How many threads one provider's brief work may hold, and as many its removals.
const HANDS: usize = 8;

/// Holds the hands of one provider.
pub(super) struct Disk {
    brief: Arc<Semaphore>,
    removing: Arc<Semaphore>,
}

impl Default for Disk {
    fn default() -> Self {
        let hands = || Arc::new(Semaphore::new(HANDS));
        Self { brief: hands(), removing: hands() }
    }
}

impl Disk {
    /// Looks at files, or writes a few.
    pub(super) async fn brief<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, String> {
        beside(&self.brief, work).await
    }

    pub(super) async fn remove<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, String> {
        beside(&self.removing, work).await
    }
}

async fn beside<R: Send + 'static>(
    hands: &Arc<Semaphore>,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, String> {
    let did_not_end = |error: &dyn std::fmt::Display| format!("it did not end: {error}");
    let hand = Arc::clone(hands).acquire_owned().await.map_err(|error| did_not_end(&error))?;
    // The hand is free when the work is over, not when its caller has gone away.
    let held = move || {
        let _hand = hand;
        work()
    };
    tokio::task::spawn_blocking(held).await.map_err(|error| did_not_end(&error))
}
