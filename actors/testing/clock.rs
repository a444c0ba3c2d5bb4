//! Dates, chance, a place to run, and a seal that seals nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::outside::Shared;
use crate::model::Timestamp;
use crate::ports::{Chance, Clock, Jit, Seal, SpawnedTask, Spawner};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_mins(1);
pub const HOUR: Duration = Duration::from_hours(1);

/// Milliseconds since the world began: the one virtual time.
pub type Moment = u64;

/// The date at which every world begins: 2026-01-01.
const DAWN: i64 = 1_767_225_600_000;

/// Returns the date of a moment.
pub fn date(moment: Moment) -> Timestamp {
    let millis = DAWN.saturating_add(i64::try_from(moment).unwrap_or(i64::MAX));
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

/// Returns how many milliseconds a duration has.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the virtual date: the world's dawn plus tokio's paused time.
#[derive(Clone, Copy)]
pub struct SimClock(Instant);

impl SimClock {
    /// Starts a clock at the dawn of a world; needs a runtime with paused time.
    pub fn new() -> Self {
        Self(Instant::now())
    }

    pub fn moment(&self) -> Moment {
        millis(self.0.elapsed())
    }

    /// Returns when a moment is, for sleeping until it.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.0 + Duration::from_millis(moment)
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        date(self.moment())
    }
}

/// Supplies the actors' unpredictability from the world's seed.
pub struct SimChance(pub(super) Arc<Shared>);

impl Chance for SimChance {
    fn bits(&self) -> u64 {
        self.0.lock().chance.bits()
    }
}

/// Runs effects in the daemon's own set of tasks, so that a crash ends them all.
pub struct SimSpawner;

impl Spawner for SimSpawner {
    fn spawn(&self, task: SpawnedTask) -> AbortHandle {
        tokio::task::spawn_local(task).abort_handle()
    }
}

pub struct SimSeal;

impl Seal for SimSeal {
    fn seal(&self, jit: &Jit) -> String {
        format!("sealed:{}", jit.reveal())
    }

    fn open(&self, sealed: &str) -> Option<Jit> {
        sealed.strip_prefix("sealed:").map(Jit::new)
    }
}

/// Runs a story in virtual time, to its end, on this thread.
///
/// # Panics
/// If the thread is inside a runtime already.
pub fn in_virtual_time<T>(story: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime without I/O needs nothing from the machine")
        .block_on(story)
}
