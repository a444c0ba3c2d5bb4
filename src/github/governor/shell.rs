//! Waits as the budget decides, and counts how many calls are under way.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_actors::ports::Chance;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

use super::{Budget, Lane, Limits, RateLimitHeaders, Resource, Ruling};

/// GitHub allows a hundred calls at once; the urgent have half of them to themselves.
const MAX_ROUTINE_CALLS: usize = 48;

/// Lets calls of one identity through, by lane.
pub struct Governor {
    budget: Mutex<Budget>,
    urgent: Semaphore,
    patient: Semaphore,
    chance: Arc<dyn Chance>,
}

/// Tells that a call may not be made: nothing was asked, nothing is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// When it may be worth asking again.
    pub after: Duration,
    /// What stands in the way.
    pub why: &'static str,
}

impl Governor {
    /// Makes one for a fresh identity.
    pub fn new(limits: Limits, chance: Arc<dyn Chance>) -> Self {
        Self {
            budget: Mutex::new(Budget::new(limits)),
            urgent: Semaphore::new(MAX_ROUTINE_CALLS),
            patient: Semaphore::new(MAX_ROUTINE_CALLS),
            chance,
        }
    }

    /// Waits until a call of this lane may be made, or tells that it may not be.
    pub async fn admit(&self, lane: Lane) -> Result<Permit<'_>, Held> {
        let room = match lane {
            Lane::Remove | Lane::Mint => &self.urgent,
            Lane::Check | Lane::List => &self.patient,
        };
        let wait = self.place(lane).await?;
        // From here on the place is ours, and a caller who gives up gives it back.
        let mut permit = Permit { governor: self, lane, slot: None, state: Granted::Unsent };
        sleep(wait).await;
        if let Some(after) = self.budget().quiet(Instant::now()) {
            return Err(Held { after, why: "GitHub asked for silence" });
        }
        permit.slot = room.acquire().await.ok();
        Ok(permit)
    }

    async fn place(&self, lane: Lane) -> Result<Duration, Held> {
        loop {
            let ruling = self.budget().ask(lane, Instant::now(), self.chance.bits());
            match ruling {
                Ruling::Go { wait } => return Ok(wait),
                Ruling::Again { wait } => sleep(wait).await,
                Ruling::Refuse { after, why } => return Err(Held { after, why }),
            }
        }
    }

    /// Returns the share of the budget this lane may still spend.
    pub fn room(&self, lane: Lane) -> f64 {
        self.budget().room(lane, Instant::now())
    }

    /// Returns limit and remainder of an account and the time until it begins anew, where known.
    pub fn left(&self, resource: Resource) -> Option<(u32, u32, Duration)> {
        let (limit, left, ends) = self.budget().left(resource)?;
        Some((limit, left, ends.saturating_duration_since(Instant::now())))
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Allows one call. Dropped unused, it gives its place back; used, it must be told the answer.
pub struct Permit<'a> {
    governor: &'a Governor,
    lane: Lane,
    slot: Option<SemaphorePermit<'a>>,
    state: Granted,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Granted {
    Unsent,
    Sent,
    Answered,
}

impl Permit<'_> {
    /// Notes that the call goes out now: what it costs is spent, answered or not.
    pub fn sent(&mut self) {
        self.state = Granted::Sent;
    }

    /// Records what the answer said about the budget.
    pub fn record(mut self, headers: &RateLimitHeaders) {
        self.state = Granted::Answered;
        self.governor.budget().record(self.lane, headers, Instant::now());
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        drop(self.slot.take());
        match self.state {
            Granted::Unsent => self.governor.budget().unsent(self.lane),
            Granted::Sent => self.governor.budget().lost(),
            Granted::Answered => {}
        }
    }
}
