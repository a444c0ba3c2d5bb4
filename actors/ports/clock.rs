//! Dates, chance and places to run: what must not come from the machine by itself.

use std::future::Future;
use std::pin::Pin;

use tokio::task::AbortHandle;

use crate::model::Timestamp;

/// Tells the date. Durations need no port: tokio's clock is pausable.
pub trait Clock: Send + Sync {
    /// Returns the date.
    fn now(&self) -> Timestamp;
}

/// Supplies unpredictability; seeded in simulation.
pub trait Chance: Send + Sync {
    /// Returns the next 64 random bits.
    fn bits(&self) -> u64;
}

/// A call to the outside that runs beside its actor.
pub type SpawnedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs calls to the outside where they do not hold up a mailbox.
pub trait Spawner: Send + Sync {
    /// Starts the task; the handle aborts it.
    fn spawn(&self, task: SpawnedTask) -> AbortHandle;
}
