//! The writing halves of the port: encode, queue, wait for the commit.

use async_trait::async_trait;
use ostler_actors::model::{DeliveryId, Epoch, Event, HolderId, JobNotice, PoolRow};
use ostler_actors::ports::{
    Acceptance, Inbox, InstanceRows, InstanceSave, JobRows, JobSave, PoolRows, RecordKey,
    SaveError, StoreError,
};

use super::batch::{SaveAnswer, SaveOp};
use super::{SqlStore, rows};

#[async_trait]
impl InstanceRows for SqlStore {
    async fn save(&self, save: InstanceSave) -> Result<(), SaveError> {
        self.submit(SaveOp::Instance(Box::new(save.into()))).await.map(drop).map_err(Into::into)
    }
}

#[async_trait]
impl JobRows for SqlStore {
    async fn save(&self, save: JobSave) -> Result<(), SaveError> {
        self.submit(SaveOp::Jobs(Box::new(save.into()))).await.map(drop).map_err(Into::into)
    }
}

#[async_trait]
impl PoolRows for SqlStore {
    async fn save(&self, row: PoolRow, events: Vec<Event>, epoch: Epoch) -> Result<(), SaveError> {
        let events = events.iter().map(rows::event).collect();
        // Its row is kept as it is; its timeline tells all that the row would.
        let broken = self.quarantine.holds(&RecordKey::Pool(row.id.clone()));
        let op = SaveOp::Pool { epoch, row: (!broken).then(|| rows::pool(&row)), events };
        self.submit(op).await.map(drop).map_err(Into::into)
    }

    async fn adopt_holder(&self, holder: HolderId, epoch: Epoch) -> Result<(), SaveError> {
        let op = SaveOp::Holder { epoch, holder: holder.to_string() };
        self.submit(op).await.map(drop).map_err(Into::into)
    }
}

#[async_trait]
impl Inbox for SqlStore {
    async fn accept(
        &self,
        id: DeliveryId,
        mut notice: JobNotice,
    ) -> Result<Acceptance, StoreError> {
        notice.delivery = Some(id.clone());
        let op = SaveOp::Accept { delivery: id.to_string(), notice: rows::notice(&notice) };
        match self.submit(op).await {
            Ok(SaveAnswer::Accepted(acceptance)) => Ok(acceptance),
            Ok(SaveAnswer::Done) => Ok(Acceptance::Known),
            Err(failure) => Err(StoreError::Unavailable(SaveError::from(failure).to_string())),
        }
    }
}
