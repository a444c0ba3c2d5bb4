//! The tool only the fleet may use.

use std::sync::Arc;

use crate::ports::PoolRows;

/// Holds the writing half of pool rows; its field is private to `fleet/`.
#[derive(Clone)]
pub struct Capabilities {
    pub(super) rows: Arc<dyn PoolRows>,
}

impl Capabilities {
    pub fn new(rows: Arc<dyn PoolRows>) -> Self {
        Self { rows }
    }
}
