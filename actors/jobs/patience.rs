//! Reads and saves that do not give up: a store failure never ends the ledger.

use tracing::warn;

use super::Capabilities;
use super::memory::REMEMBERED;
use crate::backoff::until_some;
use crate::base::Base;
use crate::model::{Instance, Job, JobId, JobNotice, Timestamp};
use crate::ports::{JobSave, SaveError, StoreError};

/// What the store remembers at the start.
pub(super) struct Memory {
    pub(super) open: Vec<Job>,
    pub(super) closed: Vec<Job>,
    pub(super) tombstones: Vec<(JobId, Timestamp)>,
    pub(super) unhandled: Vec<JobNotice>,
    pub(super) live: Vec<Instance>,
}

/// Reads all of it, again and again until the store answers.
pub(super) async fn recollect(base: &Base, now: Timestamp) -> Memory {
    let since = now.checked_sub(REMEMBERED).unwrap_or(Timestamp::MIN);
    until_some(|| async {
        let memory = try_recollect(base, since).await;
        memory.inspect_err(|why| warn!("the ledger cannot open yet: {why}")).ok()
    })
    .await
}

async fn try_recollect(base: &Base, since: Timestamp) -> Result<Memory, StoreError> {
    Ok(Memory {
        open: base.records.open_jobs().await?,
        closed: base.records.closed_jobs(since).await?,
        tombstones: base.records.tombstones().await?,
        unhandled: base.records.unhandled().await?,
        live: base.records.live_instances(None).await?,
    })
}

/// Saves, again and again until it is durable or somebody else is the writer.
pub(super) async fn save_for_ever(
    capabilities: &Capabilities,
    save: JobSave,
) -> Result<(), SaveError> {
    until_some(|| async {
        match capabilities.rows.save(save.clone()).await {
            Err(SaveError::Retry(why)) => {
                warn!("jobs are not saved yet: {why}");
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
