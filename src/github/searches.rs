//! Remembers searches for work: which runners were seen at work where, and what GitHub could not say.
//!
//! A search too large for one round is finished in several, and one search serves all callers.
//!
//! A runner whose registration is gone can be given nothing new. What it was given before is at work
//! within [`SETTLE_TIME`], or never will be. So a repository that was searched later than that, and in
//! which no job named the runner, is cleared of it for good. A runner that is still registered is
//! cleared by nothing but the search that is under way.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use lru::LruCache;
use ostler_actors::model::{JobId, Place, RunnerName, Sighting};
use tokio::time::Instant;

use super::places::key;

/// How long after its registration was removed a runner may still begin an assigned job.
const SETTLE_TIME: Duration = Duration::from_mins(2);
/// How many runners, and how many repositories, are remembered. One that is forgotten is searched for
/// once more, which is never wrong.
const MAX_SEARCHED: NonZeroUsize = NonZeroUsize::new(50_000).expect("more than none");

/// The searches of repositories, and the runners whose registration is gone.
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
    /// Records that a runner is registered: it may be given work at any time.
    pub(super) fn is_registered(&self, name: &RunnerName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).gone.pop(name);
    }

    /// Records that a runner is not registered; returns from when on searches clear it.
    pub(super) fn is_gone(&self, name: &RunnerName, now: Instant) -> Instant {
        let mut searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *searched.gone.get_or_insert(name.clone(), || now) + SETTLE_TIME
    }

    /// Records which runners were at work in a repository when a search began.
    pub(super) fn record(&self, place: &Place, begun: Instant, at_work: BTreeSet<RunnerName>) {
        let mut searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        searched.searches.put(key(place), RepositorySearch { begun, at_work });
    }

    /// Returns whether a search that began late enough saw that the runner is not at work there.
    pub(super) fn clears(&self, place: &Place, name: &RunnerName, from: Instant) -> bool {
        let searched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let look = searched.searches.peek(&key(place));
        // A further mint of the same machine is the same runner.
        let works = |look: &RepositorySearch| look.at_work.iter().any(|it| it.is_of(name.as_str()));
        look.is_some_and(|look| look.begun >= from && !works(look))
    }
}

/// How many runners are remembered; the one longest unchanged is forgotten first.
const MAX_RUNNERS: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// Since when, and why, it is unknown whether a runner works.
pub(super) struct UnknownRunners(Mutex<LruCache<RunnerName, (Timestamp, String)>>);

impl Default for UnknownRunners {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_RUNNERS)))
    }
}

impl UnknownRunners {
    /// Records the result of a look: a doubt replaces the last one, an answer ends it.
    pub(super) fn record(&self, name: &RunnerName, seen: &Sighting<JobId>, now: Timestamp) {
        let mut unknown_runners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Sighting::Unknown(why) => {
                unknown_runners.put(name.clone(), (now, why.clone()));
            }
            Sighting::Seen(_) | Sighting::Absent => {
                unknown_runners.pop(name);
            }
        }
    }

    /// Returns the doubt about a runner.
    pub(super) fn about(&self, name: &RunnerName) -> Option<(Timestamp, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).peek(name).cloned()
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
        assert!(!searches.clears(&place, &name, from), "no search yet");
        searches.record(&place, start + SETTLE_TIME / 2, BTreeSet::new());
        assert!(!searches.clears(&place, &name, from), "its worker may have begun since");
        searches.record(&place, from, BTreeSet::from([name.clone()]));
        assert!(!searches.clears(&place, &name, from), "it was at work");
        searches.record(&place, from, BTreeSet::new());
        assert!(
            searches.clears(&place, &name, searches.is_gone(&name, from)),
            "the first time counts"
        );
        searches.is_registered(&name);
        assert!(!searches.clears(&place, &name, searches.is_gone(&name, from)), "it came back");
    }

    #[test]
    fn a_doubt_stands_until_an_answer_comes() {
        let (unknown_runners, runner) = (UnknownRunners::default(), RunnerName::new("linux-1"));
        let at = |second| Timestamp::from_second(second).unwrap();
        let unknown = |why: &str| Sighting::Unknown(why.into());
        unknown_runners.record(&runner, &unknown("no access"), at(1));
        unknown_runners.record(&runner, &unknown("no answer"), at(2));
        assert_eq!(unknown_runners.about(&runner), Some((at(2), "no answer".into())));
        assert_eq!(unknown_runners.about(&RunnerName::new("linux-2")), None);
        unknown_runners.record(&runner, &Sighting::Absent, at(3));
        assert_eq!(unknown_runners.about(&runner), None);
    }
}
