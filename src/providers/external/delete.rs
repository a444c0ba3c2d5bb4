//! Deleting a machine. A provider takes the deletion of nothing for a deletion; what it refuses is
//! looked for before it counts as a failure.

use ostler_actors::model::Sighting;
use ostler_actors::ports::{Deletion, MachineRef, ProviderError};

use super::call::End;
use super::environ::Command;
use super::look::NOT_FOUND;
use super::state::ProviderState;

/// The longest a deletion is waited for; its owner asks again after ten minutes.
const MAX_DELETE_SECONDS: u64 = 9 * 60 + 30;

impl ProviderState {
    /// Deletes a machine by the provider's id, or by its name where that is all there is.
    pub(super) async fn delete(&self, machine: &MachineRef) -> Result<Deletion, ProviderError> {
        let later = |why| ProviderError::Later { after: None, why };
        let pool = self.pool_of(&machine.name).await.map_err(later)?;
        let berth = self.berth(pool.as_ref()).await.map_err(later)?;
        let whom = machine.uid.as_deref().unwrap_or(machine.name.as_str());
        let timeout = self.look_timeout(MAX_DELETE_SECONDS);
        let spoken = self.call(Command::Delete, &berth, whom, None, timeout).await;
        let answer = match spoken.end {
            End::Code(0) => Ok(Deletion::Accepted),
            End::Code(NOT_FOUND) => Ok(Deletion::NotFound),
            End::Code(_) => match self.read(machine).await {
                Sighting::Absent => Ok(Deletion::NotFound),
                Sighting::Seen(view) if view.leaving => Ok(Deletion::Accepted),
                Sighting::Seen(_) => Err(later(spoken.story())),
                Sighting::Unknown(then) => Err(later(format!("{}; then {then}", spoken.story()))),
            },
            End::Signal(_)
            | End::Late(_)
            | End::Flood
            | End::NotStarted(_)
            | End::NoPlace(_)
            | End::Lost => Err(later(spoken.story())),
        };
        if answer.is_ok() {
            self.ordered().remove(&machine.name);
        }
        answer
    }
}
