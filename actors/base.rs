//! What every actor uses: clock, chance, spawner, records, registry.

use std::sync::Arc;

use crate::model::{Epoch, WriteId};
use crate::ports::{Chance, Clock, Records, Spawner};
use crate::registry::Registry;

/// Holds what every actor may use; nothing in it can change the world.
#[derive(Clone)]
pub struct Base {
    pub clock: Arc<dyn Clock>,
    pub chance: Arc<dyn Chance>,
    pub spawner: Arc<dyn Spawner>,
    pub records: Arc<dyn Records>,
    pub registry: Arc<Registry>,
    /// The epoch of the lease that every save carries; the store refuses an older one.
    pub epoch: Epoch,
}

impl Base {
    /// Returns an id for one save, so that the store recognises a repetition.
    pub(crate) fn write_id(&self) -> WriteId {
        WriteId(self.chance.bits())
    }
}
