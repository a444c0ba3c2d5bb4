//! Work that ended without a name: which jobs it may have been.
//!
//! A runner that served a job and ended, while every notice of that job was lost, leaves a job
//! behind that looks as if it still waited: demand for a machine that nothing will use. Which job
//! it was, nothing of ours can tell; but the forge serves old jobs before young ones, so the oldest
//! open jobs of its pool are asked about.

use std::collections::BTreeMap;
use std::time::Duration;

use super::open_jobs::OpenJobs;
use crate::model::{JobId, PoolId, Timestamp, is_due};

/// How many jobs are asked about for one instance.
const MAX_SUSPECTS: usize = 4;
/// How long a job that was asked about is not asked about again for this reason.
const ASK_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Remembers which jobs were asked about lately, so that instances that end together have other
/// jobs asked about.
#[derive(Default)]
pub(super) struct UnnamedWork {
    asked: BTreeMap<JobId, Timestamp>,
}

impl UnnamedWork {
    /// Returns the oldest jobs of a pool that no runner is known to serve, once an instance of it
    /// worked and ended.
    pub(super) fn suspects(
        &mut self,
        pool: &PoolId,
        jobs: &OpenJobs,
        now: Timestamp,
    ) -> Vec<JobId> {
        self.asked.retain(|_, at| !is_due(*at, ASK_AGAIN_AFTER, now));
        let index = jobs.index();
        let mut open: Vec<_> =
            index.queued(pool).into_iter().chain(index.blocked(pool)).flatten().collect();
        open.sort();
        let open = open.into_iter().map(|(_, job)| job);
        let suspects: Vec<JobId> =
            open.filter(|job| !self.asked.contains_key(*job)).take(MAX_SUSPECTS).cloned().collect();
        self.asked.extend(suspects.iter().map(|job| (job.clone(), now)));
        suspects
    }
}
