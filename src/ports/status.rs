//! What the daemon says about itself: whether it leads, and what is wrong with it.

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

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
        self.0.send_modify(|shown| shown.stage = stage);
    }

    /// Notes what came of the last edit of the configuration.
    pub fn config(&self, problem: Option<String>) {
        self.0.send_modify(|shown| shown.config_problem = problem);
    }
}
