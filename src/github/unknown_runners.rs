//! Remembers what GitHub could not say about runners, for people who ask why a machine is kept.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use lru::LruCache;
use ostler_actors::model::{JobId, RunnerName, Sighting};

/// How many runners are remembered; the one longest without news is forgotten first.
const MAX_RUNNERS: NonZeroUsize = NonZeroUsize::new(10_000).expect("more than none");

/// Holds since when, and why, it is not known whether a runner works.
pub(super) struct UnknownRunners(Mutex<LruCache<RunnerName, (Timestamp, String)>>);

impl Default for UnknownRunners {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_RUNNERS)))
    }
}

impl UnknownRunners {
    /// Takes note of what came of a look: a doubt replaces the last one, an answer ends it.
    pub(super) fn note(&self, name: &RunnerName, seen: &Sighting<JobId>, now: Timestamp) {
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

    /// Returns the doubt that stands about a runner.
    pub(super) fn about(&self, name: &RunnerName) -> Option<(Timestamp, String)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).peek(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_stands_until_an_answer_comes() {
        let (unknown_runners, runner) = (UnknownRunners::default(), RunnerName::new("linux-1"));
        let at = |second| Timestamp::from_second(second).unwrap();
        let unknown = |why: &str| Sighting::Unknown(why.into());
        unknown_runners.note(&runner, &unknown("no access"), at(1));
        unknown_runners.note(&runner, &unknown("no answer"), at(2));
        assert_eq!(unknown_runners.about(&runner), Some((at(2), "no answer".into())));
        assert_eq!(unknown_runners.about(&RunnerName::new("linux-2")), None);
        unknown_runners.note(&runner, &Sighting::Absent, at(3));
        assert_eq!(unknown_runners.about(&runner), None);
    }
}
