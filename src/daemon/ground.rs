//! Dates, chance and errands of the real world.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::ports::{Chance, Clock, Errand, Spawner};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::store::Lease;

/// How often an errand that may not begin looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Tells the date of this machine.
pub(super) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Draws from the operating system.
pub(super) struct SystemChance;

impl Chance for SystemChance {
    fn word(&self) -> u64 {
        // A version 4 UUID carries 122 random bits; the fixed six are folded over random ones.
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        high ^ low.rotate_left(23)
    }
}

/// Runs errands on the shared threads, and begins none while the lease is nearly over: an errand
/// that begins must be able to end before somebody else may act.
pub(super) struct LeasedSpawner {
    threads: Handle,
    lease: Arc<Lease>,
}

impl LeasedSpawner {
    /// Makes a spawner for one tenure.
    pub(super) fn new(threads: Handle, lease: Arc<Lease>) -> Self {
        Self { threads, lease }
    }
}

impl Spawner for LeasedSpawner {
    fn spawn(&self, errand: Errand) -> AbortHandle {
        let lease = Arc::clone(&self.lease);
        self.threads.spawn(when_allowed(lease, errand)).abort_handle()
    }
}

async fn when_allowed(lease: Arc<Lease>, errand: Errand) {
    // A tenure that is lost ends its fleet, and with it this errand.
    while !lease.may_act() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // An errand that is under way must not keep an orderly end from giving the lease back.
    drop(lease);
    errand.await;
}
