//! Remembers when runners were registered: what happened long before is not theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use ostler_actors::model::RunnerName;

/// How many are remembered; the oldest go first.
const KEPT: usize = 20_000;

/// Holds the dates.
#[derive(Default)]
pub(super) struct Births(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_name: BTreeMap<RunnerName, Timestamp>,
    by_date: BTreeSet<(Timestamp, RunnerName)>,
}

impl Births {
    /// Notes a registration; a name is used once.
    pub(super) fn note(&self, name: &RunnerName, at: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = known.by_name.insert(name.clone(), at) {
            known.by_date.remove(&(old, name.clone()));
        }
        known.by_date.insert((at, name.clone()));
        if known.by_name.len() > KEPT
            && let Some((_, oldest)) = known.by_date.pop_first()
        {
            known.by_name.remove(&oldest);
        }
    }

    /// Returns when a runner was registered, if we did it and it was not too long ago.
    pub(super) fn of(&self, name: &RunnerName) -> Option<Timestamp> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_name.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_bounded_and_forgets_the_oldest() {
        let births = Births::default();
        let name = |number: usize| RunnerName::new(format!("r{number}"));
        for number in 0..KEPT + 2 {
            let at = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
            births.note(&name(number), at);
        }
        assert_eq!((births.of(&name(0)), births.of(&name(1))), (None, None));
        assert!(births.of(&name(2)).is_some() && births.of(&name(KEPT + 1)).is_some());
    }
}
