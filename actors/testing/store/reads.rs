//! Reading the records: it may fail, stall, or be where the daemon crashes.

use async_trait::async_trait;

use super::SimStore;
use crate::model::{
    Event, ExitRecord, Instance, InstanceId, Job, JobId, JobNotice, MachineName, PoolId, PoolRow,
    ProviderId, Subject, Tail, Timestamp,
};
use crate::ports::{Controller, QuarantinedRow, Records, StoreError};
use crate::testing::outside::{Outside, sleep_millis};
use crate::testing::store::MemoryRecords;

impl SimStore {
    async fn look<R: Send>(
        &self,
        what: &'static str,
        read: impl FnOnce(&MemoryRecords) -> R + Send,
    ) -> Result<R, StoreError> {
        let wait = self.0.call(|outside| outside.before_read(what)).await;
        sleep_millis(wait).await;
        self.0
            .call(|outside| {
                if outside.strikes(outside.faults.store.read_fails, "store read fails") {
                    return Err(StoreError::Unavailable(format!("cannot read {what}")));
                }
                Ok(read(&outside.records))
            })
            .await
    }
}

impl Outside {
    fn before_read(&mut self, what: &'static str) -> u64 {
        self.log("store read", what, 0);
        let rate = self.faults.store.crash_reading;
        self.may_crash(rate, "crash at a read");
        self.store_wait()
    }
}

#[async_trait]
impl Records for SimStore {
    async fn controller(&self) -> Result<Controller, StoreError> {
        self.look("controller", MemoryRecords::controller).await
    }

    async fn pools(&self) -> Result<Vec<PoolRow>, StoreError> {
        self.look("pools", |records| records.pools.values().cloned().collect()).await
    }

    async fn live_instances(&self, pool: Option<&PoolId>) -> Result<Vec<Instance>, StoreError> {
        let blank = |outside: &mut Outside| outside.script.blank_records_until > outside.now();
        if pool.is_none() && self.0.call(blank).await {
            return Ok(Vec::new());
        }
        self.look("live instances", |records| {
            records
                .live_rows()
                .filter(|row| pool.is_none_or(|pool| row.pool == *pool))
                .filter(|row| !records.quarantined().contains(&row.id))
                .map(|row| Instance::clone(row))
                .collect()
        })
        .await
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, StoreError> {
        self.look("instance", |records| match records.quarantined_row(id) {
            Some(row) => Err(StoreError::Unreadable(Box::new(row))),
            None => Ok(records.row(id).map(|row| Instance::clone(row))),
        })
        .await?
    }

    async fn owner_of(
        &self,
        provider: &ProviderId,
        machine: &MachineName,
    ) -> Result<Option<InstanceId>, StoreError> {
        self.look("owner", |records| records.owner(provider, machine).map(|row| row.id.clone()))
            .await
    }

    async fn open_jobs(&self) -> Result<Vec<Job>, StoreError> {
        self.look("open jobs", |records| records.open_jobs().map(|job| Job::clone(job)).collect())
            .await
    }

    async fn closed_jobs(&self, since: Timestamp) -> Result<Vec<Job>, StoreError> {
        self.look("closed jobs", |records| {
            let closed = records
                .jobs()
                .filter(|job| job.closed.is_some() && job.over_at.is_some_and(|at| at >= since));
            closed.map(|job| Job::clone(job)).collect()
        })
        .await
    }

    async fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.look("job", |records| records.job(id).map(|job| Job::clone(job))).await
    }

    async fn tombstones(&self) -> Result<Vec<(JobId, Timestamp)>, StoreError> {
        self.look("tombstones", |records| {
            records.tombstones.iter().map(|(id, at)| (id.clone(), *at)).collect()
        })
        .await
    }

    async fn unhandled(&self) -> Result<Vec<JobNotice>, StoreError> {
        self.look("inbox", |records| {
            records.unhandled.values().map(|(_, notice)| notice.clone()).collect()
        })
        .await
    }

    async fn timeline(&self, of: &Subject) -> Result<Vec<Event>, StoreError> {
        self.look("timeline", |records| records.timeline(of).cloned().collect()).await
    }

    async fn exit(&self, id: &InstanceId) -> Result<Option<ExitRecord>, StoreError> {
        self.look("exit", |records| records.exit(id).cloned()).await
    }

    async fn provisional_exits(&self, since: Timestamp) -> Result<Vec<ExitRecord>, StoreError> {
        self.look("provisional exits", |records| {
            let provisional =
                |record: &&ExitRecord| record.at >= since && record.provisional.is_some();
            let slim = |record: &ExitRecord| ExitRecord { tail: Tail::NotNeeded, ..record.clone() };
            records.exits.values().filter(provisional).map(slim).collect()
        })
        .await
    }

    fn quarantined(&self) -> Vec<QuarantinedRow> {
        let records = &self.0.lock().records;
        records.quarantined().iter().filter_map(|id| records.quarantined_row(id)).collect()
    }
}
