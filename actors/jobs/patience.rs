//! Reads and saves that do not give up: a store failure never ends the ledger.

use std::time::Duration;

use tracing::warn;

use super::Capabilities;
use super::memory::REMEMBERED;
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
    let mut pause = Pause::default();
    loop {
        match try_recollect(base, since).await {
            Ok(memory) => return memory,
            Err(why) => warn!("the ledger cannot open yet: {why}"),
        }
        pause.wait().await;
    }
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
    let mut pause = Pause::default();
    loop {
        match capabilities.rows.save(save.clone()).await {
            Err(SaveError::Retry(why)) => warn!("jobs are not saved yet: {why}"),
            done @ (Ok(())
            | Err(
                SaveError::Conflict { .. } | SaveError::Owned { .. } | SaveError::Fenced(_),
            )) => return done,
        }
        pause.wait().await;
    }
}

/// Waits longer each time: 100 ms doubling to 5 s.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    async fn wait(&mut self) {
        let length = Duration::from_millis(100).saturating_mul(1 << self.0.min(6));
        self.0 += 1;
        tokio::time::sleep(length.min(Duration::from_secs(5))).await;
    }
}
