//! When a large fleet that is at rest is looked at less often.
//!
//! A round reads every record and every listed thing, so its cost grows with the fleet though nothing
//! may have changed. A source *rests* when its last complete round found every instance idle and had
//! nothing to say, and nothing was told on the board since that round began. Then the next round waits
//! as many ticks as there are thousands of records, at most ten. Anything that happens ends the rest at
//! the next tick; fleets of less than two thousand never rest.

use tokio::task::AbortHandle;

use crate::model::{Instance, State};

/// How many records are worth a tick of rest.
const A_TICK: usize = 1_000;
/// The longest rest, in ticks.
const MAX_REST_TICKS: usize = 10;

/// Holds the last round of a source.
pub(super) struct Round {
    effect: AbortHandle,
    /// How much had been told on the board when it began.
    reported: u64,
    /// Whether all that came of it was calm; none while nothing came of it.
    calm: Option<bool>,
    records: usize,
    rested: usize,
}

impl Round {
    pub(super) fn begun(effect: AbortHandle, reported: u64) -> Self {
        Self { effect, reported, calm: None, records: 0, rested: 0 }
    }

    /// Takes what one listing of the round brought.
    pub(super) fn note(&mut self, calm: bool, records: usize) {
        self.calm = Some(calm && self.calm.unwrap_or(true));
        self.records += records;
    }

    /// Lets a tick pass; returns whether the next round is to begin.
    pub(super) fn is_over(&mut self, reported: u64) -> bool {
        if !self.effect.is_finished() {
            return false;
        }
        self.rested += 1;
        let rests = self.calm == Some(true) && self.reported == reported;
        !rests || self.rested >= (self.records / A_TICK).clamp(1, MAX_REST_TICKS)
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.effect.abort();
    }
}

/// Returns whether nothing is expected of any instance: all are idle, and nobody wants one gone.
pub(super) fn at_rest(records: &[Instance]) -> bool {
    records.iter().all(|row| row.state == State::Idle && row.removal.is_none())
}
