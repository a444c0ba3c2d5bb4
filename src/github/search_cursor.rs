//! Remembers who was seen at work where, so that a search too large for one round can be ended in
//! several, and one search serves all who ask.
//!
//! A runner whose registration is gone can be given nothing new. What it was given before it went
//! is at work within [`SETTLE_TIME`], or never will be. So a repository that was looked into later than
//! that, and in which no job named the runner, is cleared of it for good. A runner that is still
//! registered is cleared by nothing but the search that is under way.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use ostler_actors::model::{Place, RunnerName};
use tokio::time::Instant;

use super::places::key;

/// How long after its registration went a runner may still begin what it had been given.
const SETTLE_TIME: Duration = Duration::from_mins(2);
/// How many runners, and how many repositories, are remembered. One that is forgotten is searched for
/// once more, which is never wrong.
const MAX_SEARCHED: NonZeroUsize = NonZeroUsize::new(50_000).expect("more than none");

/// Holds what was seen, and since when.
#[derive(Default)]
pub(super) struct SearchCursor(Mutex<Searches>);

struct Searches {
    searches: LruCache<(String, String), RepositorySearch>,
    gone: LruCache<RunnerName, Instant>,
}

impl Default for Searches {
    fn default() -> Self {
        Self { searches: LruCache::sparse(MAX_SEARCHED), gone: LruCache::sparse(MAX_SEARCHED) }
    }
}

struct RepositorySearch {
    begun: Instant,
    at_work: BTreeSet<RunnerName>,
}

impl SearchCursor {
    /// Notes that a runner is registered: it may be given work at any time.
    pub(super) fn is_registered(&self, name: &RunnerName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).gone.pop(name);
    }

    /// Notes that a runner is not registered; returns from when on looks clear it.
    pub(super) fn is_gone(&self, name: &RunnerName, now: Instant) -> Instant {
        let mut searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *searched.gone.get_or_insert(name.clone(), || now) + SETTLE_TIME
    }

    /// Notes who was at work in a repository when a look began.
    pub(super) fn note(&self, place: &Place, begun: Instant, at_work: BTreeSet<RunnerName>) {
        let mut searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        searched.searches.put(key(place), RepositorySearch { begun, at_work });
    }

    /// Tells whether a look that began late enough saw the runner not at work in a repository.
    pub(super) fn clears(&self, place: &Place, name: &RunnerName, from: Instant) -> bool {
        let searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = searched.searches.peek(&key(place));
        // A further mint of the same machine is the same runner.
        let works = |look: &RepositorySearch| look.at_work.iter().any(|it| it.is_of(name.as_str()));
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
        searches.note(&place, start + SETTLE_TIME / 2, BTreeSet::new());
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
