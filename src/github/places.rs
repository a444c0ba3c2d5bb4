//! Remembers which repositories are active: GitHub cannot list the jobs of an organization.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use ostler_actors::model::{Place, Scope};

/// How many repositories are remembered; the one without a job for longest is forgotten first.
const MAX_REPOSITORIES: NonZeroUsize = NonZeroUsize::new(2_000).expect("more than none");

/// The repositories that had jobs.
#[derive(Default)]
pub(super) struct Places(Mutex<ActiveRepositories>);

struct ActiveRepositories {
    places: LruCache<(String, String), Place>,
    /// Where the next round through a scope starts.
    rounds: BTreeMap<Scope, (String, String)>,
}

impl Default for ActiveRepositories {
    fn default() -> Self {
        Self { places: LruCache::sparse(MAX_REPOSITORIES), rounds: BTreeMap::new() }
    }
}

impl Places {
    pub(super) fn remember(&self, place: &Place) {
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(place);
        let old = active.places.pop(&key).and_then(|old| old.enterprise);
        let enterprise = place.enterprise.clone().or(old);
        active.places.put(key, Place { enterprise, ..place.clone() });
    }

    /// Forgets a repository until it has a job again.
    pub(super) fn forget(&self, place: &Place) {
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        active.places.pop(&key(place));
    }

    /// Returns the repositories of a scope; a scope that is one repository needs no memory.
    pub(super) fn of(&self, scope: &Scope) -> Vec<Place> {
        if let Scope::Repository { owner, name } = scope {
            let (owner, repository) = (owner.clone(), name.clone());
            return vec![Place { owner, repository, enterprise: None }];
        }
        let active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let covered = active.places.iter().filter(|(_, place)| scope.covers(place));
        // By name, as the rounds go; the cache itself is ordered by use.
        let covered: BTreeMap<_, _> = covered.collect();
        covered.into_values().cloned().collect()
    }

    /// Returns the repositories of a scope in the order of this round.
    pub(super) fn round(&self, scope: &Scope) -> Vec<Place> {
        let mut places = self.of(scope);
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begin) = active.rounds.remove(scope) {
            let at = places.iter().position(|place| key(place) >= begin).unwrap_or_default();
            places.rotate_left(at);
        }
        places
    }

    /// Starts the next round behind a repository that could not be read.
    pub(super) fn begin_next_round_after(&self, scope: &Scope, place: &Place) {
        let (owner, repository) = key(place);
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        active.rounds.insert(scope.clone(), (owner, repository + "\0"));
    }

    /// Starts the next round at a repository that this one did not reach.
    pub(super) fn begin_next_round_at(&self, scope: &Scope, place: &Place) {
        let mut active = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        active.rounds.insert(scope.clone(), key(place));
    }
}

/// Returns the key of a repository: GitHub ignores case in names.
pub(super) fn key(place: &Place) -> (String, String) {
    (place.owner.to_lowercase(), place.repository.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(repository: &str) -> Place {
        Place { owner: "Acme".into(), repository: repository.into(), enterprise: None }
    }

    #[test]
    fn a_round_that_was_stopped_goes_on_where_it_stopped() {
        let (places, scope) = (Places::default(), Scope::Organization("acme".into()));
        for name in ["c", "a", "B", "d"] {
            places.remember(&place(name));
        }
        let round = || places.round(&scope).into_iter().map(|it| it.repository).collect::<Vec<_>>();
        assert_eq!(round(), ["a", "B", "c", "d"]);
        places.begin_next_round_at(&scope, &place("c"));
        assert_eq!(round(), ["c", "d", "a", "B"]);
        assert_eq!(round(), ["a", "B", "c", "d"], "a whole round begins anew");
        places.begin_next_round_at(&scope, &place("c"));
        places.forget(&place("c"));
        assert_eq!(round(), ["d", "a", "B"]);
        places.begin_next_round_after(&scope, &place("a"));
        assert_eq!(round(), ["B", "d", "a"]);
        places.begin_next_round_after(&scope, &place("d"));
        assert_eq!(round(), ["a", "B", "d"]);
    }

    #[test]
    fn the_memory_is_bounded_and_forgets_the_longest_silent() {
        let places = Places::default();
        for number in 0..MAX_REPOSITORIES.get() + 10 {
            places.remember(&place(&number.to_string()));
            places.remember(&place("0"));
        }
        let kept = places.of(&Scope::Organization("acme".into()));
        assert_eq!(kept.len(), MAX_REPOSITORIES.get());
        assert!(kept.contains(&place("0")) && !kept.contains(&place("1")));
    }
}
