//! What was asked, and what is left: the figures behind the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(super) struct RequestTally(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl RequestTally {
    pub(super) fn count(&self, kind: &'static str, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((kind, status)).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
