//! The durable records themselves, and the rules of a save. No faults here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{
    ControllerId, DeliveryId, Epoch, Event, ExitRecord, HolderId, Instance, InstanceId, Job, JobId,
    JobNotice, MachineName, OfferStage, PoolId, PoolRow, ProviderId, State, Subject, Tail,
    Timestamp, WriteId,
};
use crate::ports::{
    Acceptance, Controller, ExitRevision, InstanceSave, JobSave, QuarantinedRow, RecordKey,
    SaveError,
};
use crate::testing::observed::{Refused, Seen};

/// Holds what is durable.
pub struct MemoryRecords {
    controller: ControllerId,
    holders: Vec<HolderId>,
    epoch: Epoch,
    pub(super) rows: BTreeMap<InstanceId, Arc<Instance>>,
    pub(super) live: BTreeSet<InstanceId>,
    pub(super) owners: BTreeMap<(ProviderId, MachineName), InstanceId>,
    pub(super) exits: BTreeMap<InstanceId, ExitRecord>,
    pub(super) jobs: BTreeMap<JobId, Arc<Job>>,
    pub(super) open: BTreeSet<JobId>,
    pub(super) tombstones: BTreeMap<JobId, Timestamp>,
    pub(super) pools: BTreeMap<PoolId, PoolRow>,
    pub(super) inbox: BTreeMap<DeliveryId, u64>,
    pub(super) unhandled: BTreeMap<u64, (DeliveryId, JobNotice)>,
    pub(super) timelines: BTreeMap<Subject, BTreeMap<u32, Event>>,
    /// Live rows that cannot be decoded now.
    quarantined: BTreeSet<InstanceId>,
    ledger_writes: BTreeSet<WriteId>,
    delivered: BTreeSet<InstanceId>,
    lifetimes: u64,
    saves: u64,
}

impl MemoryRecords {
    pub fn new(seed: u64) -> Self {
        Self {
            controller: ControllerId::new(format!("controller-{seed}")),
            holders: Vec::new(),
            epoch: Epoch(0),
            rows: BTreeMap::new(),
            live: BTreeSet::new(),
            owners: BTreeMap::new(),
            exits: BTreeMap::new(),
            jobs: BTreeMap::new(),
            open: BTreeSet::new(),
            tombstones: BTreeMap::new(),
            pools: BTreeMap::new(),
            inbox: BTreeMap::new(),
            unhandled: BTreeMap::new(),
            timelines: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            ledger_writes: BTreeSet::new(),
            delivered: BTreeSet::new(),
            lifetimes: 0,
            saves: 0,
        }
    }

    /// Takes the lease: writes under older epochs are refused from now on.
    pub fn begin_lease(&mut self) -> (Epoch, HolderId) {
        self.epoch = self.epoch.next();
        let holder = HolderId::new(format!("holder-{}", self.epoch));
        self.holders.push(holder.clone());
        (self.epoch, holder)
    }

    /// Returns who we are.
    pub fn controller(&self) -> Controller {
        Controller {
            id: self.controller.clone(),
            holder: self.holders.last().cloned().unwrap_or_else(|| HolderId::new("unknown")),
            holders: self.holders.clone(),
        }
    }

    /// Returns the epoch that may write.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns a row, deleted or not.
    pub fn row(&self, id: &InstanceId) -> Option<&Arc<Instance>> {
        self.rows.get(id)
    }

    /// Iterates all rows, deleted ones included.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.rows.values()
    }

    /// Iterates the rows that are not `deleted`.
    pub fn live_rows(&self) -> impl Iterator<Item = &Arc<Instance>> {
        self.live.iter().filter_map(|id| self.rows.get(id))
    }

    /// Returns the live row that owns a machine.
    pub fn owner(&self, provider: &ProviderId, machine: &MachineName) -> Option<&Arc<Instance>> {
        let key = (provider.clone(), machine.clone());
        self.owners.get(&key).and_then(|id| self.rows.get(id))
    }

    /// Returns whether the record of an end is durable.
    pub fn has_exit(&self, id: &InstanceId) -> bool {
        self.exits.contains_key(id)
    }

    /// Returns the record of an end.
    pub fn exit(&self, id: &InstanceId) -> Option<&ExitRecord> {
        self.exits.get(id)
    }

    /// Returns a job's row.
    pub fn job(&self, id: &JobId) -> Option<&Arc<Job>> {
        self.jobs.get(id)
    }

    /// Iterates all job rows.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// Returns whether an operator drained a pool.
    pub fn is_drained(&self, pool: &PoolId) -> bool {
        self.pools.get(pool).is_some_and(|row| row.drained)
    }

    /// Iterates the job rows that are neither over nor closed.
    pub fn open_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.open.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Returns whether the forge's `completed` of a job is remembered.
    pub fn is_tombstone(&self, id: &JobId) -> bool {
        self.tombstones.contains_key(id)
    }

    /// Iterates a timeline in order.
    pub fn timeline(&self, of: &Subject) -> impl Iterator<Item = &Event> {
        self.timelines.get(of).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns how many accepted deliveries are not handled.
    pub fn unhandled_count(&self) -> usize {
        self.unhandled.len()
    }

    /// Returns how many deliveries were ever accepted.
    pub fn accepted_count(&self) -> usize {
        self.inbox.len()
    }

    /// Returns how many instances came to their end.
    pub fn lifetimes(&self) -> u64 {
        self.lifetimes
    }

    /// Returns whether an offer to an instance was ever durably delivered.
    pub fn was_delivered(&self, id: &InstanceId) -> bool {
        self.delivered.contains(id)
    }

    /// Returns how many saves were committed or refused.
    pub fn saves(&self) -> u64 {
        self.saves
    }

    /// Forgets an instance altogether, as a backup does that was made before it.
    pub(in crate::testing) fn lose(&mut self, id: &InstanceId) -> Option<Arc<Instance>> {
        let row = self.rows.remove(id)?;
        self.live.remove(id);
        self.owners.remove(&(row.provider.clone(), row.machine.clone()));
        self.timelines.remove(&Subject::Instance(id.clone()));
        Some(row)
    }

    /// Makes a row undecodable until it is repaired.
    pub(in crate::testing) fn quarantine(&mut self, id: InstanceId) {
        self.quarantined.insert(id);
    }

    /// Repairs every row that cannot be decoded; the next start reads them.
    pub(in crate::testing) fn repair(&mut self) {
        self.quarantined.clear();
    }

    /// Returns the instances whose rows cannot be decoded.
    pub fn quarantined(&self) -> &BTreeSet<InstanceId> {
        &self.quarantined
    }

    /// Returns what the columns of a row that cannot be decoded still say.
    pub(super) fn quarantined_row(&self, id: &InstanceId) -> Option<QuarantinedRow> {
        let row = self.rows.get(self.quarantined.get(id)?)?;
        Some(QuarantinedRow {
            key: RecordKey::Instance(id.clone()),
            pool: Some(row.pool.clone()),
            machine: Some((row.provider.clone(), row.machine.clone())),
            why: "expected value at line 1 column 1".into(),
        })
    }

    /// Saves an instance's row; says what was seen.
    pub(in crate::testing) fn save_instance(
        &mut self,
        save: InstanceSave,
    ) -> Result<Option<Seen>, SaveError> {
        self.saves += 1;
        if save.epoch != self.epoch {
            return Err(SaveError::Fenced(save.epoch));
        }
        let row = save.row;
        let before = self.rows.get(&row.id);
        if let Some(before) = before
            && before.write == row.write
            && before.version == row.version
        {
            return Ok(None);
        }
        let version = before.map_or_else(Default::default, |before| before.version);
        if version != save.replaces || row.version <= version {
            return Err(SaveError::Conflict { id: row.id.to_string() });
        }
        let key = (row.provider.clone(), row.machine.clone());
        let lives = row.state != State::Deleted;
        match self.owners.get(&key) {
            Some(owner) if *owner != row.id => {
                if lives {
                    return Err(SaveError::Owned { machine: row.machine });
                }
            }
            Some(_) if !lives => {
                self.owners.remove(&key);
            }
            None if lives => {
                self.owners.insert(key, row.id.clone());
            }
            Some(_) | None => {}
        }
        let before_lived = self.live.contains(&row.id);
        let with_exit = save.exit.is_some();
        if let Some(exit) = save.exit {
            self.exits.insert(row.id.clone(), exit);
        }
        self.upsert(save.events);
        if lives {
            self.live.insert(row.id.clone());
        } else {
            self.live.remove(&row.id);
            self.lifetimes += u64::from(before_lived);
        }
        let after = Arc::new(row);
        let before = self.rows.insert(after.id.clone(), Arc::clone(&after));
        Ok(Some(Seen::Saved { before, after, epoch: save.epoch, with_exit }))
    }

    /// Saves what the ledger decided; says what was seen.
    pub(super) fn save_jobs(&mut self, save: JobSave) -> Result<Option<Seen>, SaveError> {
        self.saves += 1;
        if save.epoch != self.epoch {
            return Err(SaveError::Fenced(save.epoch));
        }
        if !self.ledger_writes.insert(save.write) {
            return Ok(None);
        }
        let mut jobs = Vec::with_capacity(save.jobs.len());
        for job in save.jobs {
            if job.is_live() {
                self.open.insert(job.id.clone());
            } else {
                self.open.remove(&job.id);
            }
            if let Some(open) = job.open_offer().filter(|it| it.stage == OfferStage::Delivered) {
                self.delivered.insert(open.instance.clone());
            }
            let after = Arc::new(job);
            let before = self.jobs.insert(after.id.clone(), Arc::clone(&after));
            jobs.push((before, after));
        }
        if let Some(before) = save.forget_before {
            self.tombstones.retain(|_, at| *at >= before);
        }
        let tombstones = save.tombstones.iter().map(|(id, _)| id.clone()).collect();
        for (id, at) in save.tombstones {
            self.tombstones.entry(id).or_insert(at);
        }
        for delivery in save.handled {
            if let Some(place) = self.inbox.get(&delivery) {
                self.unhandled.remove(place);
            }
        }
        for ExitRevision { record, drop_tail } in save.revisions {
            if let Some(known) = self.exits.get_mut(&record.instance) {
                let tail = if drop_tail { Tail::NotNeeded } else { known.tail.clone() };
                *known = ExitRecord { tail, ..record };
            }
        }
        self.upsert(save.events);
        Ok(Some(Seen::JobsSaved { jobs, tombstones, epoch: save.epoch }))
    }

    /// Saves a pool's row.
    pub(super) fn save_pool(
        &mut self,
        row: PoolRow,
        events: Vec<Event>,
        epoch: Epoch,
    ) -> Result<Option<Seen>, SaveError> {
        self.saves += 1;
        if epoch != self.epoch {
            return Err(SaveError::Fenced(epoch));
        }
        self.upsert(events);
        self.pools.insert(row.id.clone(), row.clone());
        Ok(Some(Seen::PoolSaved(row)))
    }

    /// Counts a stranger's holder among ours; the current one stays the last.
    pub(super) fn adopt_holder(
        &mut self,
        holder: HolderId,
        epoch: Epoch,
    ) -> Result<Option<Seen>, SaveError> {
        self.saves += 1;
        if epoch != self.epoch {
            return Err(SaveError::Fenced(epoch));
        }
        if !self.holders.contains(&holder) {
            self.holders.insert(0, holder);
        }
        Ok(None)
    }

    pub(crate) fn accept(&mut self, id: DeliveryId, mut notice: JobNotice) -> Acceptance {
        if self.inbox.contains_key(&id) {
            return Acceptance::Known;
        }
        let place = self.inbox.len() as u64;
        notice.delivery = Some(id.clone());
        self.inbox.insert(id.clone(), place);
        self.unhandled.insert(place, (id, notice));
        Acceptance::New
    }

    fn upsert(&mut self, events: Vec<Event>) {
        for event in events {
            if let Some(timeline) = self.timelines.get_mut(&event.subject) {
                timeline.insert(event.seq, event);
            } else {
                let subject = event.subject.clone();
                self.timelines.insert(subject, BTreeMap::from([(event.seq, event)]));
            }
        }
    }
}

/// Returns what a refused save shows, if it ends its writer.
pub(super) fn refusal(error: &SaveError) -> Option<Seen> {
    let (id, why) = match error {
        SaveError::Retry(_) => return None,
        SaveError::Conflict { id } => (id.clone(), Refused::Conflict),
        SaveError::Owned { machine } => (machine.to_string(), Refused::Owned),
        SaveError::Fenced(epoch) => (format!("epoch {epoch}"), Refused::Fenced),
    };
    Some(Seen::SaveRefused { id, why })
}
