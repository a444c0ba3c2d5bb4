//! Where a provider's watch ends: at the fleet's door.

use crate::fleet::ToFleet;
use crate::mail::ActorRef;
use crate::model::{MachineName, MachineView, ProviderId};
use crate::ports::MachineSink;

/// Passes what one provider sees to the fleet.
pub(super) struct Sink {
    pub(super) provider: ProviderId,
    pub(super) fleet: ActorRef<ToFleet>,
}

impl MachineSink for Sink {
    fn seen(&self, view: MachineView) {
        // A lost sighting is found again by the next listing.
        let _: Result<(), _> = self.fleet.tell(ToFleet::Seen(self.provider.clone(), view));
    }

    fn missed(&self, machine: MachineName) {
        let _: Result<(), _> = self.fleet.tell(ToFleet::Missed(self.provider.clone(), machine));
    }
}
