//! What every actor stands on: dates, chance, a place to run errands, records, the board.

use std::sync::Arc;

use crate::model::{Epoch, WriteId};
use crate::ports::{Chance, Clock, Records, Spawner};
use crate::registry::Registry;

/// Holds what every actor may use; nothing in it can change the world.
#[derive(Clone)]
pub struct Base {
    /// Tells the date.
    pub clock: Arc<dyn Clock>,
    /// Supplies unpredictability.
    pub chance: Arc<dyn Chance>,
    /// Runs calls to the outside.
    pub spawner: Arc<dyn Spawner>,
    /// Reads the records.
    pub records: Arc<dyn Records>,
    /// The board.
    pub registry: Arc<Registry>,
    /// The tenure of the lease we write under.
    pub epoch: Epoch,
}

impl Base {
    /// Returns a mark for one save.
    pub(crate) fn write_id(&self) -> WriteId {
        WriteId(self.chance.bits())
    }
}
