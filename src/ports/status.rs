//! What the daemon says about itself: whether it leads, what is wrong with its configuration, and
//! whether saves succeed (reading may still work when a disk is full, and then nothing moves).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
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

/// Names where the daemon is in its own life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It opens its store and its HTTP server.
    #[default]
    Starting,
    /// Another daemon holds the lease.
    Standby,
    /// It holds the lease and acts.
    Leading,
    /// It was asked to stop.
    Stopping,
}

/// Shows the daemon from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Where it is in its life.
    pub stage: Stage,
    /// Since when; nothing before it entered any.
    #[serde(skip)]
    pub since: Option<Instant>,
    /// Why the last edit of the configuration is not in force.
    pub config_problem: Option<String>,
}

/// Holds what the daemon says about itself.
#[derive(Debug, Default)]
pub struct Status(watch::Sender<Shown>);

impl Status {
    /// Returns what is shown.
    pub fn shown(&self) -> Shown {
        self.0.borrow().clone()
    }

    /// Returns what tells of every change.
    pub fn follow(&self) -> watch::Receiver<Shown> {
        self.0.subscribe()
    }

    pub fn enter(&self, stage: Stage) {
        self.0.send_modify(|shown| {
            if shown.stage != stage || shown.since.is_none() {
                shown.since = Some(Instant::now());
            }
            shown.stage = stage;
        });
    }

    /// Notes what came of the last edit of the configuration.
    pub fn config(&self, problem: Option<String>) {
        self.0.send_modify(|shown| shown.config_problem = problem);
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
