//! Whether saves succeed: reading may still work when a disk is full, and then nothing moves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Shows whether saves succeed. The writer notes it; clones share it.
#[derive(Clone, Debug, Default)]
pub struct SaveHealth(Arc<Mutex<Option<Failing>>>);

#[derive(Debug)]
struct Failing {
    since: Instant,
    why: String,
}

impl SaveHealth {
    /// Returns for how long no save has succeeded, and why the last one did not; nothing when the
    /// last one did.
    pub fn failing(&self) -> Option<(Duration, String)> {
        let failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failing.as_ref().map(|it| (it.since.elapsed(), it.why.clone()))
    }

    /// Notes that the database took a batch.
    pub fn succeeded(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes that it did not; the first of several failures dates them all.
    pub fn failed(&self, why: &str) {
        let mut failing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failing.as_ref().map_or_else(Instant::now, |it| it.since);
        *failing = Some(Failing { since, why: why.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_dates_all_until_a_save_succeeds() {
        let health = SaveHealth::default();
        assert_eq!(health.failing(), None);
        health.failed("disk full");
        tokio::time::advance(Duration::from_secs(3)).await;
        health.failed("still full");
        assert_eq!(health.failing(), Some((Duration::from_secs(3), "still full".into())));
        health.clone().succeeded();
        assert_eq!(health.failing(), None);
    }
}
