//! Saving: it may fail, stall, lose its answer, take the daemon down before or after, or
//! make its writer panic.

use std::panic::resume_unwind;

use async_trait::async_trait;

use super::{SimStore, memory_records};
use crate::model::{DeliveryId, Epoch, Event, HolderId, JobNotice, PoolRow};
use crate::ports::{
    Acceptance, Inbox, InstanceRows, InstanceSave, JobRows, JobSave, PoolRows, SaveError,
    StoreError,
};
use crate::testing::observed::Seen;
use crate::testing::outside::{Outside, sleep_millis};

/// Tells what a save will meet.
enum Gate {
    Go(u64),
    Fail(u64),
    Panic,
}

type Saved = Result<Option<Seen>, SaveError>;

impl SimStore {
    async fn commit<S>(
        &self,
        save: S,
        whom: fn(&S) -> &str,
        apply: impl FnOnce(&mut Outside, S) -> Saved + Send,
    ) -> Result<(), SaveError>
    where
        S: Send + Sync,
    {
        match self.0.call(|outside| outside.gate(whom(&save))).await {
            Gate::Panic => resume_unwind(Box::new("a planned panic of the writer")),
            Gate::Fail(wait) => {
                sleep_millis(wait).await;
                return Err(SaveError::Retry("the store is away".into()));
            }
            Gate::Go(wait) => sleep_millis(wait).await,
        }
        self.0.call(|outside| outside.commit(save, apply)).await
    }
}

impl Outside {
    fn gate(&mut self, whom: &str) -> Gate {
        self.log("save", whom, 0);
        if self.script.crashes_before() {
            self.crash("scripted crash before a save");
        }
        let rate = self.faults.store.crash_before;
        self.may_crash(rate, "crash before a save");
        if self.strikes(self.faults.store.panics, "writer panics") {
            return Gate::Panic;
        }
        let wait = self.store_wait();
        if self.script.fails_save() || self.strikes(self.faults.store.save_fails, "save fails") {
            return Gate::Fail(wait);
        }
        Gate::Go(wait)
    }

    pub(super) fn store_wait(&mut self) -> u64 {
        if self.strikes(self.faults.store.stalls, "store stalls") {
            return self.dice.between(1_000, 30_000);
        }
        if self.dice.hits(self.faults.store.slow) { self.dice.between(1, 50) } else { 0 }
    }

    fn commit<S>(
        &mut self,
        save: S,
        apply: impl FnOnce(&mut Self, S) -> Saved,
    ) -> Result<(), SaveError> {
        let done = apply(self, save);
        match done {
            Ok(seen) => {
                if let Some(seen) = seen {
                    self.observe(seen);
                }
            }
            Err(error) => {
                self.log("save refused", &error.to_string(), 0);
                if let Some(seen) = memory_records::refusal(&error) {
                    self.observe(seen);
                }
                return Err(error);
            }
        }
        if self.script.crashes_after() {
            self.crash("scripted crash after a save");
        }
        let rate = self.faults.store.crash_after;
        self.may_crash(rate, "crash after a save");
        if self.script.loses_save() || self.strikes(self.faults.store.save_lost, "save answer lost")
        {
            return Err(SaveError::Retry("no answer from the store".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl InstanceRows for SimStore {
    async fn save(&self, save: InstanceSave) -> Result<(), SaveError> {
        self.commit(
            save,
            |save| save.row.id.as_str(),
            |outside, save| {
                let (state, version) = (save.row.state, save.row.version.0);
                let id = save.row.id.clone();
                let why = outside.trace.tells_stories().then(|| story(&save.events));
                let done = outside.records.save_instance(save);
                if let Ok(Some(_)) = &done {
                    outside.log(state.as_str(), id.as_str(), version);
                    let at = outside.date();
                    for line in why.into_iter().flatten() {
                        outside.trace.aside(at, || line);
                    }
                }
                done
            },
        )
        .await
    }
}

#[async_trait]
impl JobRows for SimStore {
    async fn save(&self, save: JobSave) -> Result<(), SaveError> {
        self.commit(
            save,
            |_| "ledger",
            |outside, save| {
                for job in &save.jobs {
                    let state = job.state() as u64;
                    outside.log("job row", "", job.id.number << 4 | state);
                }
                let why = outside.trace.tells_stories().then(|| story(&save.events));
                let at = outside.date();
                for line in why.into_iter().flatten() {
                    outside.trace.aside(at, || line);
                }
                outside.records.save_jobs(save)
            },
        )
        .await
    }
}

fn story(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| format!("{:?}: {}", event.subject, event.what)).collect()
}

#[async_trait]
impl PoolRows for SimStore {
    async fn save(&self, row: PoolRow, events: Vec<Event>, epoch: Epoch) -> Result<(), SaveError> {
        self.commit(
            (row, events, epoch),
            |(row, _, _)| row.id.as_str(),
            |outside, (row, events, epoch)| outside.records.save_pool(row, events, epoch),
        )
        .await
    }

    async fn adopt_holder(&self, holder: HolderId, epoch: Epoch) -> Result<(), SaveError> {
        self.commit(
            (holder, epoch),
            |(holder, _)| holder.as_str(),
            |outside, (holder, epoch)| outside.records.adopt_holder(holder, epoch),
        )
        .await
    }
}

#[async_trait]
impl Inbox for SimStore {
    async fn accept(&self, id: DeliveryId, notice: JobNotice) -> Result<Acceptance, StoreError> {
        let wait = self.0.call(Outside::store_wait).await;
        sleep_millis(wait).await;
        self.0.call(|outside| outside.accept(id, notice)).await
    }
}

impl Outside {
    /// Takes a delivery, or fails before or after it is durable.
    pub(in crate::testing) fn accept(
        &mut self,
        id: DeliveryId,
        notice: JobNotice,
    ) -> Result<Acceptance, StoreError> {
        if self.strikes(self.faults.store.inbox_fails, "inbox fails") {
            return Err(StoreError::Unavailable("the inbox is away".into()));
        }
        self.log("inbox", id.as_str(), 0);
        let accepted = self.records.accept(id, notice);
        if std::mem::take(&mut self.script.crash_at_delivery) {
            self.crash("scripted crash after a delivery");
        }
        let rate = self.faults.store.crash_after;
        self.may_crash(rate, "crash after an inbox write");
        if self.strikes(self.faults.store.inbox_fails / 2, "inbox answer lost") {
            return Err(StoreError::Unavailable("no answer from the inbox".into()));
        }
        Ok(accepted)
    }
}
