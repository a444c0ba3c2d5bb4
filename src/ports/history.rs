//! What surfaces read of the records beyond the core's own reads: lists in pages, timelines as they
//! grow, the audit log. Implemented by the store.
//!
//! Pages run from the newest to the oldest by what never changes about a row, so rows that come
//! or change meanwhile neither repeat nor hide others.

use async_trait::async_trait;
use ostler_actors::model::{
    Event, ExitRecord, Instance, Job, JobState, PoolId, ProviderId, State, Subject, Timestamp,
    VerdictClass,
};
use ostler_actors::ports::StoreError;

/// Asks for a part of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// How many at most.
    pub limit: u32,
    /// Where the last page ended; nothing for the first.
    pub cursor: Option<String>,
}

/// Holds a part of a list.
#[derive(Clone, Debug)]
pub struct Paged<T> {
    /// The items, newest first.
    pub items: Vec<T>,
    /// Where the next page begins; nothing if this was the last.
    pub next_cursor: Option<String>,
}

/// Holds an event with its place among all events.
#[derive(Clone, Debug)]
pub struct Sequenced {
    /// Its place; an event that is repeated moves to a new one.
    pub seq: i64,
    pub event: Event,
}

/// Narrows a list of instances.
#[derive(Clone, Debug, Default)]
pub struct InstanceQuery {
    /// Of this pool only.
    pub pool: Option<PoolId>,
    /// In this state only.
    pub state: Option<State>,
}

/// Narrows a list of jobs.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// In this state only.
    pub state: Option<JobState>,
}

/// Narrows a list of ends.
#[derive(Clone, Debug, Default)]
pub struct DeathQuery {
    /// With this verdict only.
    pub verdict: Option<VerdictClass>,
    /// Of this pool only.
    pub pool: Option<PoolId>,
    /// Recorded at or after this only.
    pub since: Option<Timestamp>,
}

/// Reads what the core itself never asks for.
#[async_trait]
pub trait History: Send + Sync {
    /// Lists instances, deleted ones included, by the date of their creation.
    async fn instances(
        &self,
        which: &InstanceQuery,
        page: &Page,
    ) -> Result<Paged<Instance>, StoreError>;

    /// Lists jobs by when we first heard of them.
    async fn jobs(&self, which: &JobQuery, page: &Page) -> Result<Paged<Job>, StoreError>;

    /// Lists ends, without their log tails.
    async fn deaths(
        &self,
        which: &DeathQuery,
        page: &Page,
    ) -> Result<Paged<ExitRecord>, StoreError>;

    /// Returns the events behind a place, in order.
    async fn events_after(&self, seq: i64, limit: u32) -> Result<Vec<Sequenced>, StoreError>;

    /// Returns a timeline in order, each event with its place among all events.
    async fn timeline_with_places(&self, of: &Subject) -> Result<Vec<Sequenced>, StoreError>;

    /// Returns how many instances operators struck off, among those still on record.
    async fn forgotten(&self) -> Result<u64, StoreError>;

    /// Returns the pools that ever had a machine of a provider, as far as records go back.
    async fn pools_of(&self, provider: &ProviderId) -> Result<Vec<PoolId>, StoreError>;

    /// Returns the last place that was given out; zero if none was.
    async fn last_event(&self) -> Result<i64, StoreError>;

    /// Writes an operator's action to the audit log.
    async fn audit(&self, entry: AuditEntry) -> Result<(), StoreError>;

    /// Lists the audit log.
    async fn audits(&self, page: &Page) -> Result<Paged<Audited>, StoreError>;

    /// Returns how far a source was read.
    async fn cursor(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Remembers how far a source was read.
    async fn set_cursor(&self, name: &str, value: &str) -> Result<(), StoreError>;
}

/// Holds one entry to be written to the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The name on the token.
    pub who: String,
    /// The action, in a word or two (`pool.drain`).
    pub what: String,
    /// To what, and why, for people.
    pub detail: String,
}

/// Holds an entry of the audit log as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// Its place in the log.
    pub seq: i64,
    /// When, by the database's clock.
    pub at: Timestamp,
    pub entry: AuditEntry,
}
