//! Finds the number of a runner group by its name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ostler_actors::model::Scope;
use tokio::time::Instant;

use super::GitHub;
use super::failure::Failure;
use super::governor::Lane;
use super::paging::List;
use super::route;
use super::wire;

/// The group every scope begins with.
const DEFAULT: u64 = 1;
/// How long a number is believed.
const GOOD_FOR: Duration = Duration::from_mins(10);

/// Holds the numbers found.
#[derive(Default)]
pub(super) struct Groups {
    found: Mutex<BTreeMap<(Scope, String), (u64, Instant)>>,
    /// One looks a name up, the others wait for it.
    looking: tokio::sync::Mutex<()>,
}

impl Groups {
    fn find(&self, key: &(Scope, String)) -> Option<u64> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.get(key).filter(|(_, at)| at.elapsed() < GOOD_FOR).map(|(id, _)| *id)
    }

    fn keep(&self, key: (Scope, String), id: u64) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(key, (id, Instant::now()));
    }

    /// Forgets a number that GitHub did not take.
    pub(super) fn forget(&self, scope: &Scope) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|(of, _), _| of != scope);
    }
}

impl GitHub {
    /// Returns the number of a group. Repositories have only the default one; so have
    /// organizations whose plan knows no groups, where the list itself is missing.
    pub(super) async fn group(&self, scope: &Scope, name: &str) -> Result<u64, Failure> {
        let default = name.is_empty() || name.eq_ignore_ascii_case("default");
        if matches!(scope, Scope::Repository { .. }) {
            return if default { Ok(DEFAULT) } else { Err(unknown_group(scope, name)) };
        }
        let key = (scope.clone(), name.to_lowercase());
        if let Some(id) = self.groups.find(&key) {
            return Ok(id);
        }
        let _turn = self.groups.looking.lock().await;
        if let Some(id) = self.groups.find(&key) {
            return Ok(id);
        }
        let list = List {
            scope,
            lane: Lane::Remove,
            route: route::runner_groups(scope),
            field: "runner_groups",
            etags: Some(&self.etags),
        };
        let id = match self.api.list::<wire::Group>(list).await {
            Ok(groups) => groups
                .into_iter()
                .find(|group| {
                    group.name.eq_ignore_ascii_case(name) || (default && group.id == DEFAULT)
                })
                .map(|group| group.id)
                .ok_or_else(|| unknown_group(scope, name))?,
            Err(Failure::Denied { .. }) if default => DEFAULT,
            Err(failure) => return Err(failure.before_the_call()),
        };
        self.groups.keep(key, id);
        Ok(id)
    }
}

fn unknown_group(scope: &Scope, name: &str) -> Failure {
    let why =
        format!("`{scope}` has no runner group `{name}`; create it, or change `runner_group`");
    Failure::Denied { why }
}
