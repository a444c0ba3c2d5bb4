//! Which providers can prove the token of a machine: those of the fleet that runs, none while no
//! fleet runs here.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use ostler_actors::model::ProviderId;
use ostler_actors::ports::MachineAuth;

type ByProvider = BTreeMap<ProviderId, Arc<dyn MachineAuth>>;

/// Holds the providers that review tokens. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct MachineAuths(Arc<ArcSwapOption<ByProvider>>);

impl MachineAuths {
    /// Lets these review tokens for as long as the guard lives.
    pub fn open(&self, known: ByProvider) -> MachineAuthGuard {
        self.0.store(Some(Arc::new(known)));
        MachineAuthGuard(self.clone())
    }

    /// Returns the providers that review tokens; none while no fleet runs here.
    pub(super) fn now(&self) -> Option<Arc<ByProvider>> {
        self.0.load_full()
    }
}

/// Lets providers review tokens until it is dropped.
#[must_use = "tokens are refused when the guard is dropped"]
pub struct MachineAuthGuard(MachineAuths);

impl Drop for MachineAuthGuard {
    fn drop(&mut self) {
        self.0.0.store(None);
    }
}
