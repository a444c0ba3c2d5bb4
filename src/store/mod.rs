//! The records, durable: SQLite by default, PostgreSQL when one machine is not enough.
//!
//! ```text
//!  InstanceRows ─┐                  ┌── one transaction ──────────────────────────┐
//!  JobRows ──────┤   queue   writer │ read epoch and rows → decide → write → COMMIT│ → answers
//!  PoolRows ─────┼─────────▶ task ──┤  (link)              (batch, pure)          │
//!  Inbox, Audit ─┘                  └─────────────────────────────────────────────┘
//!  Records, History ──────────────▶ a few reading connections
//! ```
//!
//! *One writer.* A task owns the writing connection. It takes whatever queued up while its last
//! commit ran and commits that together, so a thousand savers pay for a handful of commits and a
//! lone one starts at once. Which save is in conflict, fenced or a repetition is decided in memory
//! (`batch`) from what the transaction read; it is an answer to one saver, never an SQL error
//! that fails the others. Each saver is answered after the commit that holds its save.
//!
//! *Repeating is safe.* A save carries a write id which is stored with it. When the connection is
//! lost in the middle of COMMIT it is unknown whether the save counted; the saver repeats it, and the
//! store finds the mark or writes it.
//!
//! *One leader.* Every save names its epoch, which is compared inside the same transaction with the
//! `lease` row (`lease_row`); a newer epoch therefore ends all older writers, whatever they believe.
//!
//! *One text for two engines.* Values are text and 64-bit numbers, bodies are JSON, batches travel
//! as one JSON argument per statement. What differs between the engines is a handful of pieces in
//! `sql` and one folder of migrations each, equally numbered, forward only.
//!
//! *One bad row stops nothing.* A row that cannot be decoded is left out, named and counted
//! (`quarantine`); it stays in its table as it is, and nothing writes over it.
//!
//! *One backup format.* A backup is a SQLite store file, whatever engine it was taken from, so it
//! can be restored into either ([`backup`]).

pub mod backup;
mod batch;
mod error;
mod history;
mod host;
mod lease;
mod lease_row;
mod link;
mod location;
mod migrate;
mod quarantine;
mod reads;
mod rows;
mod saves;
mod seal;
mod sql;
pub mod upkeep;
mod writer;

pub use error::OpenError;
pub(crate) use host::uptime;
pub use lease::{Lease, LeaseStatus};
pub use location::StoreLocation;
pub use migrate::SCHEMA;
pub use seal::{AesSeal, SealError};
pub use writer::Commit;

use std::sync::Arc;
use std::time::Duration;

use ostler_actors::ports::StoreError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::ports::SaveHealth;
use link::{Link, Readers, text};
use quarantine::Quarantine;
use sql::{Sql, sql};
use writer::{Writer, WriterRequest};

/// How many saves may wait for the writer before their savers wait for a place in the queue.
const MAX_QUEUED_SAVES: usize = 16_384;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// What a commit survives on SQLite; PostgreSQL has its own setting.
    pub durability: Durability,
    /// How many saves share a commit at most.
    pub batch: usize,
    /// How many connections read.
    pub readers: u32,
    /// How long PostgreSQL may take for one batch before it counts as away.
    pub call_timeout: Duration,
    /// Is called after every commit.
    pub observer: Option<Arc<dyn Fn(Commit) + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            batch: 4_096,
            readers: 4,
            call_timeout: Duration::from_secs(10),
            observer: None,
        }
    }
}

/// What a commit on SQLite survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The power may fail.
    #[default]
    Full,
    /// The process may be killed; a power cut may take the last commits.
    Normal,
}

/// Keeps the records in a database. Clones share it.
#[derive(Clone)]
pub struct SqlStore {
    place: Arc<StoreLocation>,
    readers: Readers,
    queue: mpsc::Sender<WriterRequest>,
    writer: Arc<std::sync::Mutex<Option<JoinHandle<()>>>>,
    health: SaveHealth,
    quarantine: Arc<Quarantine>,
}

impl SqlStore {
    /// Opens a store, creating it where there is none. An older schema is upgraded by
    /// [`SqlStore::take_lease`], because another daemon may still write it.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        const NAME: Sql = sql!(
            "insert into identity (one, controller, created_at) values (1, $1, " now ")
             on conflict (one) do nothing"
        );
        let place = Arc::new(StoreLocation::parse(url)?);
        let mut link = Link::open(&place, options.durability).await?;
        migrate::open(&mut link, &place).await?;
        let controller = Uuid::new_v4().to_string();
        link.run(NAME, vec![text(controller)]).await.map_err(|e| OpenError::failed(&place, e))?;
        let readers = Readers::open(&place, options.readers).await?;
        let (queue, requests) = mpsc::channel(MAX_QUEUED_SAVES);
        let health = SaveHealth::default();
        let writer = Writer::new(Arc::clone(&place), link, options, health.clone());
        let task = tokio::spawn(writer.serve(requests));
        let writer = Arc::new(std::sync::Mutex::new(Some(task)));
        Ok(Self { place, readers, queue, writer, health, quarantine: Arc::default() })
    }

    /// Returns where the store is, without secrets.
    pub fn place(&self) -> &StoreLocation {
        &self.place
    }

    /// Returns what shows whether saves succeed.
    pub fn health(&self) -> SaveHealth {
        self.health.clone()
    }

    /// Stops the writer once everything queued is durable, and closes the connections.
    /// A later save, through this handle or a clone, fails with `Retry`.
    pub async fn close(&self) {
        // A writer that has stopped already takes no message.
        drop(self.queue.send(WriterRequest::Stop).await);
        let task = self.writer.lock().ok().and_then(|mut task| task.take());
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(error = %error, "store writer panicked");
        }
        self.readers.close().await;
    }

    async fn submit(&self, op: batch::SaveOp) -> Result<batch::SaveAnswer, batch::SaveFailure> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let gone = || batch::SaveFailure::Retry("the store's writer has stopped".into());
        self.queue.send(WriterRequest::Save { op, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// Returns the error of a read: worth repeating.
fn unavailable(what: &str, error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(format!("cannot read {what}: {error}"))
}
