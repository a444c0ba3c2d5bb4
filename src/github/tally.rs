//! What was asked, and what is left: the figures behind the metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::delivery_stats::Heard;
use super::versions::EndingVersion;

/// Holds the figures of one GitHub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Calls so far by kind and status; status 0 is a call without an answer.
    pub requests: BTreeMap<(&'static str, u16), u64>,
    /// Budgets as GitHub told them.
    pub rates: Vec<RateFigure>,
    /// How well webhooks are heard.
    pub heard: Heard,
    /// By how many seconds our clock is ahead of GitHub's.
    pub clock_ahead_seconds: i64,
    /// Versions of the runner in use that GitHub will soon send no more jobs.
    pub ending: Vec<EndingVersion>,
}

/// Holds the budget of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateFigure {
    pub identity: String,
    /// Of what, in GitHub's word.
    pub resource: &'static str,
    /// How much an hour.
    pub limit: u32,
    /// How much is left.
    pub left: u32,
    /// How long until it begins anew.
    pub resets_in: Duration,
}

#[derive(Default)]
pub(super) struct Tally(Mutex<BTreeMap<(&'static str, u16), u64>>);

impl Tally {
    pub(super) fn count(&self, kind: &'static str, status: u16) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((kind, status)).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
