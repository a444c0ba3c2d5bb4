//! The records. `Records` reads; each owner has one small writing trait of its own.
//!
//! A save is one transaction: the row, checked by version and epoch, together with its
//! events. A save that is repeated with the same write id counts as done.
//!
//! A row that cannot be decoded is in *quarantine*: lists leave it out, a read of it alone says
//! [`StoreError::Unreadable`], it stays in the store as it is, and [`Records::quarantined`] names it.

use std::fmt;

use async_trait::async_trait;

use crate::model::{
    ControllerId, DeliveryId, Epoch, Event, ExitRecord, HolderId, Instance, InstanceId, Job, JobId,
    JobNotice, MachineName, PoolId, PoolRow, ProviderId, Subject, Timestamp, Version, WriteId,
};

/// Reads the records. Safe to hand to anyone.
///
/// Lists leave out what cannot be decoded.
#[async_trait]
pub trait Records: Send + Sync {
    /// Returns who we are and every holder we ever had.
    async fn controller(&self) -> Result<Controller, StoreError>;

    /// Returns the pools as the fleet remembers them.
    async fn pools(&self) -> Result<Vec<PoolRow>, StoreError>;

    /// Returns every instance that is not `deleted`, of one pool or of all.
    async fn live_instances(&self, pool: Option<&PoolId>) -> Result<Vec<Instance>, StoreError>;

    /// Returns one instance, deleted or not.
    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, StoreError>;

    /// Returns the live instance that owns a machine.
    async fn owner_of(
        &self,
        provider: &ProviderId,
        machine: &MachineName,
    ) -> Result<Option<InstanceId>, StoreError>;

    /// Returns the jobs that are neither over nor closed.
    async fn open_jobs(&self) -> Result<Vec<Job>, StoreError>;

    /// Returns the jobs that were closed locally (never completed) at or after `since`; an
    /// execution may reopen them.
    async fn closed_jobs(&self, since: Timestamp) -> Result<Vec<Job>, StoreError>;

    /// Returns one job, open or not.
    async fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError>;

    /// Returns the jobs the forge called completed, still remembered against late news.
    async fn tombstones(&self) -> Result<Vec<(JobId, Timestamp)>, StoreError>;

    /// Returns deliveries that were accepted and not yet handled, oldest first.
    async fn unhandled(&self) -> Result<Vec<JobNotice>, StoreError>;

    /// Returns a timeline in order.
    async fn timeline(&self, of: &Subject) -> Result<Vec<Event>, StoreError>;

    /// Returns the record of an end.
    async fn exit(&self, id: &InstanceId) -> Result<Option<ExitRecord>, StoreError>;

    /// Returns the records of ends at or after `since` whose verdicts are provisional, without the ends
    /// of their logs.
    async fn provisional_exits(&self, since: Timestamp) -> Result<Vec<ExitRecord>, StoreError>;

    /// Returns the rows that could not be decoded when they were last read, in order. A read that
    /// lists a kind of rows brings the entries of that kind up to date.
    fn quarantined(&self) -> Vec<QuarantinedRow>;
}

/// Names a row of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// The row of an instance.
    Instance(InstanceId),
    /// The row of a job.
    Job(JobId),
    /// The row of a pool.
    Pool(PoolId),
    /// The record of an end.
    Exit(InstanceId),
    /// A delivery that is not handled.
    Delivery(DeliveryId),
    /// An event, by its place in a timeline.
    Event(Subject, u32),
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(id) => write!(f, "the row of instance `{id}`"),
            Self::Job(id) => write!(f, "the row of job `{id}`"),
            Self::Pool(id) => write!(f, "the row of pool `{id}`"),
            Self::Exit(id) => write!(f, "the exit record of instance `{id}`"),
            Self::Delivery(id) => write!(f, "delivery `{id}`"),
            Self::Event(Subject::Instance(id), place) => {
                write!(f, "event {place} of instance `{id}`")
            }
            Self::Event(Subject::Job(id), place) => write!(f, "event {place} of job `{id}`"),
            Self::Event(Subject::Pool(id), place) => write!(f, "event {place} of pool `{id}`"),
        }
    }
}

/// Shows a row that cannot be decoded, by what its indexed columns still say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedRow {
    /// Which row.
    pub key: RecordKey,
    /// Its pool, where a column names one.
    pub pool: Option<PoolId>,
    /// The provider and the name of its machine, where it may have one.
    pub machine: Option<(ProviderId, MachineName)>,
    /// Why it cannot be decoded.
    pub why: String,
}

impl QuarantinedRow {
    /// Returns the instance whose row it is, unless that is over.
    pub fn live_instance(&self) -> Option<&InstanceId> {
        match &self.key {
            RecordKey::Instance(id) => self.machine.is_some().then_some(id),
            RecordKey::Job(_)
            | RecordKey::Pool(_)
            | RecordKey::Exit(_)
            | RecordKey::Delivery(_)
            | RecordKey::Event(..) => None,
        }
    }

    /// Returns the job whose row it is.
    pub fn job(&self) -> Option<&JobId> {
        match &self.key {
            RecordKey::Job(id) => Some(id),
            RecordKey::Instance(_)
            | RecordKey::Pool(_)
            | RecordKey::Exit(_)
            | RecordKey::Delivery(_)
            | RecordKey::Event(..) => None,
        }
    }
}

impl fmt::Display for QuarantinedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be decoded and is set aside: {}", self.key, self.why)
    }
}

/// Tells who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// This installation.
    pub id: ControllerId,
    /// The current leadership.
    pub holder: HolderId,
    /// Every leadership there ever was, the current one included.
    pub holders: Vec<HolderId>,
}

/// Writes instance rows. Only an instance's owner holds one.
#[async_trait]
pub trait InstanceRows: Send + Sync {
    /// Saves the row with its events and, if given, the record of its end.
    async fn save(&self, save: InstanceSave) -> Result<(), SaveError>;
}

/// Holds one transaction of an instance.
#[derive(Clone, Debug)]
pub struct InstanceSave {
    /// The row as it shall be; its version is the new one, its `write` marks this save.
    pub row: Instance,
    /// The version it replaces; zero inserts.
    pub replaces: Version,
    /// The epoch that writes.
    pub epoch: Epoch,
    /// New or repeated events.
    pub events: Vec<Event>,
    /// The record of the end.
    pub exit: Option<ExitRecord>,
}

/// Writes job rows, offers and tombstones. Only the ledger holds one.
#[async_trait]
pub trait JobRows: Send + Sync {
    /// Saves all of it or nothing.
    async fn save(&self, save: JobSave) -> Result<(), SaveError>;
}

/// Holds one transaction of the ledger.
#[derive(Clone, Debug, Default)]
pub struct JobSave {
    /// Rows as they shall be.
    pub jobs: Vec<Job>,
    /// Jobs that the forge called completed, with the moment we learned it.
    pub tombstones: Vec<(JobId, Timestamp)>,
    /// Deliveries that are dealt with by this.
    pub handled: Vec<DeliveryId>,
    /// New or repeated events.
    pub events: Vec<Event>,
    /// Tombstones older than this may go.
    pub forget_before: Option<Timestamp>,
    /// The epoch that writes.
    pub epoch: Epoch,
    /// Verdicts that were revised.
    pub revisions: Vec<ExitRevision>,
    /// Marks this save.
    pub write: WriteId,
}

/// Holds the record of an end as a revision of its verdict leaves it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExitRevision {
    /// The record; its tail is not written. One that is not stored any more is not written at all.
    pub record: ExitRecord,
    /// Whether the end of the log is not needed after all.
    pub drop_tail: bool,
}

/// Writes pool rows. Only the fleet holds one.
#[async_trait]
pub trait PoolRows: Send + Sync {
    /// Saves a pool's row with its events.
    async fn save(&self, row: PoolRow, events: Vec<Event>, epoch: Epoch) -> Result<(), SaveError>;

    /// Counts a foreign holder among ours, because an operator said so; what it created is
    /// ours from then on. One that is known already changes nothing.
    async fn adopt_holder(&self, holder: HolderId, epoch: Epoch) -> Result<(), SaveError>;
}

/// Takes deliveries. Append-only, so the webhook listener may hold it.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Makes a delivery durable; a known one changes nothing.
    async fn accept(&self, id: DeliveryId, notice: JobNotice) -> Result<Acceptance, StoreError>;
}

/// Tells what became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is durable now.
    New,
    /// It was known already.
    Known,
}

/// Tells why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Worth repeating.
    #[error("store did not answer: {0}")]
    Unavailable(String),
    /// The row is there and cannot be decoded; it is in quarantine.
    #[error("{0}")]
    Unreadable(Box<QuarantinedRow>),
}

/// Tells why a save did not count; named by what the writer does next.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// Repeat it, with the same write id, for ever.
    #[error("store did not take the save: {0}")]
    Retry(String),
    /// Another writer changed the row: this one is not its owner any more.
    #[error("row of `{id}` is at another version than the writer believes")]
    Conflict {
        /// Which row.
        id: String,
    },
    /// The machine belongs to another live row.
    #[error("machine `{machine}` has an owner already")]
    Owned {
        /// Which machine.
        machine: MachineName,
    },
    /// A newer epoch has begun: stop causing effects.
    #[error("epoch {0} is over")]
    Fenced(Epoch),
}
