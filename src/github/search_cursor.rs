//! Remembers who was seen at work where, so that a search too large for one round can be ended in
//! several, and one search serves all who ask.
//!
//! A runner whose registration is gone can be given nothing new. What it was given before it went
//! is at work within [`SETTLES`], or never will be. So a repository that was looked into later than
//! that, and in which no job named the runner, is cleared of it for good. A runner that is still
//! registered is cleared by nothing but the search that is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_actors::model::{Place, RunnerName};
use tokio::time::Instant;

use super::places::key;

/// How long after its registration went a runner may still begin what it had been given.
const SETTLES: Duration = Duration::from_mins(2);
/// How many runners and repositories are remembered; then all is begun anew.
const MAX_REMEMBERED: usize = 50_000;

/// Holds what was seen, and since when.
#[derive(Default)]
pub(super) struct SearchCursor(Mutex<Searches>);

#[derive(Default)]
struct Searches {
    searches: BTreeMap<(String, String), Look>,
    gone: BTreeMap<RunnerName, Instant>,
}

struct Look {
    begun: Instant,
    at_work: BTreeSet<RunnerName>,
}

impl SearchCursor {
    /// Notes that a runner is registered: it may be given work at any time.
    pub(super) fn is_registered(&self, name: &RunnerName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).gone.remove(name);
    }

    /// Notes that a runner is not registered; returns from when on looks clear it.
    pub(super) fn is_gone(&self, name: &RunnerName, now: Instant) -> Instant {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.gone.len() >= MAX_REMEMBERED {
            known.gone.clear();
        }
        *known.gone.entry(name.clone()).or_insert(now) + SETTLES
    }

    /// Notes who was at work in a repository when a look began.
    pub(super) fn note(&self, place: &Place, begun: Instant, at_work: BTreeSet<RunnerName>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.searches.len() >= MAX_REMEMBERED {
            known.searches.clear();
        }
        known.searches.insert(key(place), Look { begun, at_work });
    }

    /// Tells whether a look that began late enough saw the runner not at work in a repository.
    pub(super) fn clears(&self, place: &Place, name: &RunnerName, from: Instant) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = known.searches.get(&key(place));
        // A further mint of the same machine is the same runner.
        let works = |look: &Look| look.at_work.iter().any(|it| it.is_of(name.as_str()));
        look.is_some_and(|look| look.begun >= from && !works(look))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_look_after_the_registration_went_and_settled_clears_a_runner() {
        let (searches, name, start) =
            (SearchCursor::default(), RunnerName::new("x"), Instant::now());
        let place = Place { owner: "Acme".into(), repository: "Web".into(), enterprise: None };
        let from = searches.is_gone(&name, start);
        assert!(!searches.clears(&place, &name, from), "nobody looked");
        searches.note(&place, start + SETTLES / 2, BTreeSet::new());
        assert!(!searches.clears(&place, &name, from), "its worker may have begun since");
        searches.note(&place, from, BTreeSet::from([name.clone()]));
        assert!(!searches.clears(&place, &name, from), "it was at work");
        searches.note(&place, from, BTreeSet::new());
        assert!(
            searches.clears(&place, &name, searches.is_gone(&name, from)),
            "the first time counts"
        );
        searches.is_registered(&name);
        assert!(!searches.clears(&place, &name, searches.is_gone(&name, from)), "it came back");
    }
}
