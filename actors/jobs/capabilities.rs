//! The tool only the ledger may use, in a box only `jobs/` can open.

use std::sync::Arc;

use crate::ports::JobRows;

/// Holds the writing half of the job records. Anyone may carry it; its field is private to
/// `jobs/`, so job rows, offers and tombstones are written by the ledger alone.
#[derive(Clone)]
pub struct Capabilities {
    pub(super) rows: Arc<dyn JobRows>,
}

impl Capabilities {
    pub fn new(rows: Arc<dyn JobRows>) -> Self {
        Self { rows }
    }
}
