//! How the ledger reads and writes its records: a store failure never ends it, and only the
//! ledger writes job rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::finished::FINISHED_RETENTION;
use crate::backoff::until_some;
use crate::base::Base;
use crate::model::{ExitRecord, Instance, Job, JobId, JobNotice, Timestamp};
use crate::ports::{JobRows, JobSave, SaveError, StoreError};

/// How long ago a machine may have ended whose verdict no ledger has settled: while no daemon ran, none
/// was settled.
const UNSETTLED_RETENTION: Duration = Duration::from_hours(24);

/// Holds the writing half of the job records. Anyone may carry it; its field is private to
/// `jobs/`, so job rows, offers and tombstones are written by the ledger alone.
#[derive(Clone)]
pub struct JobCapabilities {
    rows: Arc<dyn JobRows>,
}

impl JobCapabilities {
    pub fn new(rows: Arc<dyn JobRows>) -> Self {
        Self { rows }
    }

    /// Saves, and repeats that until the save is durable or another daemon is the writer.
    pub(super) async fn save(&self, save: JobSave) -> Result<(), SaveError> {
        until_some(|| async {
            match self.rows.save(save.clone()).await {
                Err(SaveError::Retry(why)) => {
                    warn!("jobs: save failed, will be repeated: {why}");
                    None
                }
                done @ (Ok(())
                | Err(
                    SaveError::Conflict { .. } | SaveError::Owned { .. } | SaveError::Fenced(_),
                )) => Some(done),
            }
        })
        .await
    }
}

/// What the store holds when the ledger starts.
pub(super) struct StoredJobs {
    pub(super) open: Vec<Job>,
    pub(super) closed: Vec<Job>,
    pub(super) tombstones: Vec<(JobId, Timestamp)>,
    /// Notices that were accepted and never handled.
    pub(super) unhandled: Vec<JobNotice>,
    /// Rows of instances that are not deleted.
    pub(super) live: Vec<Instance>,
    /// Records of ends whose verdicts are not settled.
    pub(super) provisional: Vec<ExitRecord>,
    /// Jobs whose rows cannot be decoded.
    pub(super) quarantined: BTreeSet<JobId>,
}

/// Reads all of it, and repeats that until the store answers.
pub(super) async fn load(base: &Base, now: Timestamp) -> StoredJobs {
    let since = now.checked_sub(FINISHED_RETENTION).unwrap_or(Timestamp::MIN);
    until_some(|| async {
        let stored = try_load(base, since, now).await;
        stored.inspect_err(|why| warn!("jobs: load failed, will be repeated: {why}")).ok()
    })
    .await
}

async fn try_load(base: &Base, since: Timestamp, now: Timestamp) -> Result<StoredJobs, StoreError> {
    let ended_since = now.checked_sub(UNSETTLED_RETENTION).unwrap_or(Timestamp::MIN);
    Ok(StoredJobs {
        open: base.records.open_jobs().await?,
        closed: base.records.closed_jobs(since).await?,
        tombstones: base.records.tombstones().await?,
        unhandled: base.records.unhandled().await?,
        live: base.records.live_instances(None).await?,
        provisional: base.records.provisional_exits(ended_since).await?,
        quarantined: base
            .records
            .quarantined()
            .iter()
            .filter_map(|row| row.job().cloned())
            .collect(),
    })
}
