//! What is on record about machines. A provider of this kind keeps no stamp of ours beyond ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{
    ControllerId, Instance, InstanceId, MachineName, PoolId, ProviderId, Stamp,
};
use ostler_actors::ports::{Controller, QuarantinedRow, Records, StoreError};

use crate::ports::History;

/// Knows which machines were ordered, and for whom.
#[async_trait]
pub trait MachineRecords: Send + Sync {
    /// Returns who we are.
    async fn controller(&self) -> Result<ControllerId, String>;

    /// Returns the pools that have machines, or may have.
    async fn pools(&self) -> Result<Vec<PoolId>, String>;

    /// Returns the pools that ever had machines: one may come to be after its pool has gone.
    async fn past_pools(&self) -> Result<Vec<PoolId>, String> {
        Ok(Vec::new())
    }

    /// Returns the stamps of those machines that are on record.
    async fn stamps(
        &self,
        machines: &[MachineName],
    ) -> Result<BTreeMap<MachineName, Stamp>, String>;
}

/// Reads the records of the store.
pub(super) struct Recorded {
    records: Arc<dyn Records>,
    history: Arc<dyn History>,
    provider: ProviderId,
}

impl Recorded {
    /// Makes the book of one provider.
    pub(super) fn new(
        records: Arc<dyn Records>,
        history: Arc<dyn History>,
        provider: ProviderId,
    ) -> Self {
        Self { records, history, provider }
    }

    async fn row(&self, machine: &MachineName) -> Result<Option<Instance>, StoreError> {
        let id = match self.records.owner_of(&self.provider, machine).await? {
            Some(owner) => owner,
            // Its first owner had its name; it may be deleted by now.
            None => InstanceId::new(machine.as_str()),
        };
        let row = self.records.instance(&id).await?;
        let ordered = |row: &Instance| row.create_called_at.is_some() || row.adopted;
        Ok(row.filter(|row| row.provider == self.provider && ordered(row)))
    }
}

#[async_trait]
impl MachineRecords for Recorded {
    async fn controller(&self) -> Result<ControllerId, String> {
        self.records.controller().await.map(|it| it.id).map_err(|error| error.to_string())
    }

    async fn pools(&self) -> Result<Vec<PoolId>, String> {
        let told = |error: StoreError| error.to_string();
        let live = self.records.live_instances(None).await.map_err(told)?;
        let ours = live.into_iter().filter(|row| row.provider == self.provider);
        Ok(ours.map(|row| row.pool).collect())
    }

    async fn past_pools(&self) -> Result<Vec<PoolId>, String> {
        self.history.pools_of(&self.provider).await.map_err(|error| error.to_string())
    }

    async fn stamps(
        &self,
        machines: &[MachineName],
    ) -> Result<BTreeMap<MachineName, Stamp>, String> {
        let told = |error: StoreError| error.to_string();
        if machines.is_empty() {
            return Ok(BTreeMap::new());
        }
        let controller = self.records.controller().await.map_err(told)?;
        let mut live = BTreeMap::new();
        if machines.len() > 1 {
            let rows = self.records.live_instances(None).await.map_err(told)?;
            let ours = rows.into_iter().filter(|row| row.provider == self.provider);
            live.extend(ours.map(|row| (row.machine.clone(), row)));
        }
        let mut stamps = BTreeMap::new();
        for machine in machines {
            let stamp = match live.remove(machine) {
                Some(row) => Some(stamp(&row, &controller)),
                None => match self.row(machine).await {
                    // It is ours, whatever else its row says; one bad row hides no other machine.
                    Err(StoreError::Unreadable(row)) => Some(quarantined(*row, &controller)),
                    row => row.map_err(told)?.map(|row| stamp(&row, &controller)),
                },
            };
            stamps.extend(stamp.map(|stamp| (machine.clone(), stamp)));
        }
        Ok(stamps)
    }
}

/// Returns the same for a row that cannot be decoded.
fn quarantined(row: QuarantinedRow, controller: &Controller) -> Stamp {
    Stamp {
        controller: Some(controller.id.clone()),
        holder: Some(controller.holder.clone()),
        instance: row.live_instance().cloned(),
        pool: row.pool,
    }
}

/// Returns what would be stamped on a machine of this row. Which of our leaderships ordered is not
/// on record; that it was one of ours the row itself proves.
fn stamp(row: &Instance, controller: &Controller) -> Stamp {
    Stamp {
        controller: Some(controller.id.clone()),
        holder: Some(controller.holder.clone()),
        pool: Some(row.pool.clone()),
        instance: Some(row.id.clone()),
    }
}
