//! The records, in memory: durable across crashes of the daemon, unreliable to talk to.

mod memory_records;
mod reads;
mod writes;

pub use memory_records::MemoryRecords;

use std::sync::Arc;

use super::outside::Shared;
use crate::model::{Epoch, HolderId};

/// Serves the records from the truth, with faults.
#[derive(Clone)]
pub struct SimStore(Arc<Shared>);

impl SimStore {
    /// Makes a handle onto the records.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

impl SimStore {
    /// Takes the lease: older writers are fenced.
    pub fn begin_lease(&self) -> (Epoch, HolderId) {
        self.0.lock().records.begin_lease()
    }
}
