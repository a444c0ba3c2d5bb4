//! How many processes of a provider run at once, and how fast they are started.
//!
//! Creates may take minutes, or hang for as long as they are let. They never take the last places:
//! one is kept for deletes and one for looks, as far as there are that many.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ostler_actors::ports::CreateSlot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::environ::Command;

pub(super) struct Gate {
    creates: Arc<Semaphore>,
    changes: Arc<Semaphore>,
    all: Arc<Semaphore>,
    /// How far apart two starts are.
    apart: Duration,
    /// When the next may start.
    next: Mutex<Instant>,
}

/// Holds a place; gives it back when dropped.
#[expect(dead_code, reason = "held, never read")]
pub(super) enum Pass {
    Places(Vec<OwnedSemaphorePermit>),
    /// The owner of the create holds them.
    Slot(CreateSlot),
}

impl Gate {
    /// Opens a gate for so many at once, so many a second.
    pub(super) fn new(concurrency: usize, starts_per_second: u32) -> Self {
        let all = concurrency.max(1);
        let changes = all.saturating_sub(1).max(1);
        let creates = changes.saturating_sub(1).max(1);
        let places = |many| Arc::new(Semaphore::new(many));
        let apart = match starts_per_second {
            0 => Duration::ZERO,
            many => Duration::from_secs(1) / many,
        };
        Self {
            creates: places(creates),
            changes: places(changes),
            all: places(all),
            apart,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a place, at most so long.
    pub(super) async fn enter(&self, command: Command, timeout: Duration) -> Option<Pass> {
        let places = tokio::time::timeout(timeout, self.wait(command)).await.ok().flatten()?;
        Some(Pass::Places(places))
    }

    /// Waits for a place for a create, for as long as it takes.
    pub(super) async fn take_slot(&self) -> CreateSlot {
        // The places are never closed.
        self.wait(Command::Create).await.map_or_else(CreateSlot::default, CreateSlot::held)
    }

    async fn wait(&self, command: Command) -> Option<Vec<OwnedSemaphorePermit>> {
        let lanes: &[&Arc<Semaphore>] = match command {
            Command::Create => &[&self.creates, &self.changes, &self.all],
            Command::Delete => &[&self.changes, &self.all],
            Command::Get | Command::List | Command::Version | Command::Interfaces => &[&self.all],
        };
        let mut held = Vec::with_capacity(lanes.len());
        for lane in lanes {
            held.push(Arc::clone(lane).acquire_owned().await.ok()?);
        }
        if !self.apart.is_zero() {
            tokio::time::sleep_until(self.next_slot()).await;
        }
        Some(held)
    }

    /// Takes the next moment at which a process may start.
    fn next_slot(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let next_slot = (*next).max(Instant::now());
        *next = next_slot + self.apart;
        next_slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT_WAIT: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn creates_that_hang_leave_a_place_for_deletes_and_one_for_reads() {
        let gate = Gate::new(4, 0);
        let mut held = Vec::new();
        while let Some(pass) = gate.enter(Command::Create, SHORT_WAIT).await {
            held.push(pass);
        }
        assert_eq!(held.len(), 2);
        held.push(gate.enter(Command::Delete, SHORT_WAIT).await.expect("a place for deletes"));
        assert!(gate.enter(Command::Delete, SHORT_WAIT).await.is_none());
        held.push(gate.enter(Command::Get, SHORT_WAIT).await.expect("a place for looks"));
        assert!(gate.enter(Command::Get, SHORT_WAIT).await.is_none(), "four at once, never more");
        held.clear();
        assert!(gate.enter(Command::Create, SHORT_WAIT).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn with_one_place_every_kind_of_call_gets_it_in_order() {
        let gate = Gate::new(1, 0);
        for command in [Command::Create, Command::Delete, Command::List] {
            let pass = gate.enter(command, SHORT_WAIT).await.expect("a place");
            assert!(gate.enter(Command::Get, SHORT_WAIT).await.is_none());
            drop(pass);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_spread_over_the_second() {
        let gate = Gate::new(100, 10);
        let began = Instant::now();
        let mut held = Vec::new();
        for _ in 0..21 {
            held.push(gate.enter(Command::Get, Duration::from_mins(1)).await.expect("a place"));
        }
        assert_eq!(began.elapsed().as_millis() / 100, 20);
    }
}
