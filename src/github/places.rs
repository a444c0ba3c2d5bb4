//! Remembers which repositories are active: GitHub cannot list the jobs of an organization.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use ostler_actors::model::{Place, Scope};

/// How many repositories are remembered; the ones longest silent go first.
const KEPT: usize = 2_000;

/// Holds the repositories that jobs were heard of.
#[derive(Default)]
pub(super) struct Places(Mutex<Known>);

#[derive(Default)]
struct Known {
    places: BTreeMap<(String, String), (Place, u64)>,
    heard: u64,
}

impl Places {
    pub(super) fn remember(&self, place: &Place) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.heard += 1;
        let heard = known.heard;
        let key = key(place);
        let old = known.places.remove(&key).and_then(|(old, _)| old.enterprise);
        let enterprise = place.enterprise.clone().or(old);
        known.places.insert(key, (Place { enterprise, ..place.clone() }, heard));
        if known.places.len() > KEPT {
            let oldest = known.places.iter().min_by_key(|(_, (_, heard))| *heard);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                known.places.remove(&oldest);
            }
        }
    }

    /// Forgets a repository until it is heard of again.
    pub(super) fn forget(&self, place: &Place) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.places.remove(&key(place));
    }

    /// Returns the repositories of a scope; a repository is one even if nothing was heard of it.
    pub(super) fn of(&self, scope: &Scope) -> Vec<Place> {
        if let Scope::Repository { owner, name } = scope {
            let (owner, repository) = (owner.clone(), name.clone());
            return vec![Place { owner, repository, enterprise: None }];
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = known.places.values().map(|(place, _)| place);
        places.filter(|place| scope.covers(place)).cloned().collect()
    }
}

fn key(place: &Place) -> (String, String) {
    (place.owner.to_lowercase(), place.repository.to_lowercase())
}
