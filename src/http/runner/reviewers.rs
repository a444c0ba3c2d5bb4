//! Who can tell whose a machine's token is: the providers of the fleet that runs, and nobody while
//! none does.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ostler_actors::model::ProviderId;

use crate::providers::identity::Reviewer;

type Known = BTreeMap<ProviderId, Arc<dyn Reviewer>>;

/// Holds those who can tell whose a token is. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Reviewers(Arc<ArcSwapOption<Known>>);

impl Reviewers {
    /// Lets these tell, for as long as the guard lives.
    pub fn open(&self, known: BTreeMap<ProviderId, Arc<dyn Reviewer>>) -> Reviewing {
        self.0.store(Some(Arc::new(known)));
        Reviewing(self.clone())
    }

    /// Returns those who can tell; nothing while no fleet runs here.
    pub(super) fn now(&self) -> Option<Arc<Known>> {
        self.0.load_full()
    }
}

/// Keeps reviewers at the door; they leave when it is dropped.
#[must_use = "they leave when the guard is dropped"]
pub struct Reviewing(Reviewers);

impl Drop for Reviewing {
    fn drop(&mut self) {
        self.0.0.store(None);
    }
}
