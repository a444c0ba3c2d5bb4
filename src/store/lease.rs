//! The lease: one daemon at a time may act. Each takeover gets a number, the epoch, that fences the older ones.
//!
//! On SQLite a lock of the operating system on `<file>.lock` decides: it goes with its process,
//! so the next start takes the next epoch at once. (A network file system
//! without reliable locks must not hold the store.) On PostgreSQL the server's clock decides. The holder
//! counts for itself on a clock that does not stop in sleep, from *before* it asked; with less than a
//! third left it may not act any more, which leaves a third for the difference between two clocks.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ostler_actors::model::{Epoch, HolderId};
use ostler_actors::ports::StoreError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

use super::error::{OpenError, describe};
use super::host::uptime;
use super::lease_row::{self, Claimed, Judge};
use super::link::Link;
use super::location::StoreLocation;
use super::migrate;
use super::{Durability, SqlStore};

/// How often a standby tries the file lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often the holder of a file lock checks that it still is.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Whether a lease is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    Held,
    /// Lost for good: this lease is never held again.
    Lost,
}

/// The lease while it is held. Dropping it is like dying: nothing is renewed, nothing released.
pub struct Lease {
    epoch: Epoch,
    holder: HolderId,
    held: Arc<LeaseState>,
    keeper: JoinHandle<()>,
}

/// What the lease and the task that renews it share.
struct LeaseState {
    place: Arc<StoreLocation>,
    epoch: Epoch,
    length: Duration,
    /// Until when it is ours, in nanoseconds of uptime.
    until: AtomicU64,
    lost: AtomicBool,
    tell: watch::Sender<LeaseStatus>,
    bond: Mutex<Bond>,
}

/// What the lease is held by.
enum Bond {
    /// The file whose lock we hold; the lock goes with it.
    File { file: Option<File>, path: PathBuf },
    /// A connection for renewals; opened again when it breaks.
    Server(Option<Link>),
}

impl SqlStore {
    /// Waits until the lease is ours; upgrades a store of an older program before it returns.
    ///
    /// Fails if the very first try does, because a standby outlasts a server that is away, and when a
    /// newer program has upgraded the store meanwhile.
    pub async fn take_lease(&self, length: Duration) -> Result<Lease, OpenError> {
        let holder = HolderId::new(Uuid::new_v4().to_string());
        match &*self.place {
            StoreLocation::Sqlite(path) => self.take_file(path, holder, length).await,
            StoreLocation::Postgres(_) => self.take_row(holder, length).await,
        }
    }

    async fn take_file(
        &self,
        path: &Path,
        holder: HolderId,
        length: Duration,
    ) -> Result<Lease, OpenError> {
        let lock = StoreLocation::lock_file(path);
        let mut said = false;
        let file = loop {
            if let Some(file) = try_lock(&lock)? {
                break file;
            }
            if !std::mem::replace(&mut said, true) {
                tracing::info!(store = %self.place, "standing by: another process holds `{}`", lock.display());
            }
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        };
        let mut link = Link::open(&self.place, Durability::Full).await?;
        let claimed = lease_row::claim(&mut link, &self.place, Judge::FileLock, &holder).await;
        link.close().await;
        match claimed.map_err(|error| self.cannot_take(error))? {
            Claimed::Ours(epoch, _) => {
                let bond = Bond::File { file: Some(file), path: lock };
                Ok(Lease::begin(&self.place, epoch, holder, length, Duration::ZERO, bond))
            }
            Claimed::Wait(_) => Err(OpenError::Away {
                place: StoreLocation::clone(&self.place),
                why: "the lease is held though its lock is free".into(),
            }),
            Claimed::Newer(found) => Err(self.newer(found)),
        }
    }

    async fn take_row(&self, holder: HolderId, length: Duration) -> Result<Lease, OpenError> {
        let mut link = Some(Link::open(&self.place, Durability::Full).await?);
        let mut first = true;
        loop {
            let wait = match self.try_claim(&mut link, &holder, length).await {
                Ok(Claimed::Ours(epoch, asked_at)) => {
                    let bond = Bond::Server(link);
                    return Ok(Lease::begin(&self.place, epoch, holder, length, asked_at, bond));
                }
                Ok(Claimed::Wait(left)) => {
                    if first {
                        tracing::info!(store = %self.place, "standing by: another holder has {left:?} left");
                    }
                    left
                }
                Ok(Claimed::Newer(found)) => return Err(self.newer(found)),
                Err(error) if first => return Err(error),
                Err(error) => {
                    tracing::warn!(store = %self.place, "still standing by: {error}");
                    length
                }
            };
            first = false;
            tokio::time::sleep(wait.clamp(Duration::from_millis(20), length / 10)).await;
        }
    }

    async fn try_claim(
        &self,
        link: &mut Option<Link>,
        holder: &HolderId,
        length: Duration,
    ) -> Result<Claimed, OpenError> {
        let mut open = match link.take() {
            Some(open) => open,
            None => Link::open(&self.place, Durability::Full).await?,
        };
        let older = match migrate::version(&mut open).await {
            Ok(found) => found < migrate::NEWEST,
            Err(error) => return Err(self.cannot_take(error)),
        };
        let claim = lease_row::claim(&mut open, &self.place, Judge::Clock(length), holder);
        // An upgrade takes as long as it takes; a claim alone that takes longer than a lease is void.
        let claimed = if older { Ok(claim.await) } else { timeout(length, claim).await };
        match claimed {
            Ok(Ok(claimed)) => {
                *link = Some(open);
                Ok(claimed)
            }
            Ok(Err(error)) => {
                open.close().await;
                Err(self.cannot_take(error))
            }
            Err(_) => Err(OpenError::Away {
                place: StoreLocation::clone(&self.place),
                why: "cannot take the lease: the server did not answer in time".into(),
            }),
        }
    }

    fn newer(&self, found: i64) -> OpenError {
        OpenError::Newer { place: StoreLocation::clone(&self.place), found, known: migrate::NEWEST }
    }

    fn cannot_take(&self, error: sqlx::Error) -> OpenError {
        OpenError::failed(&self.place, error)
    }
}

impl Lease {
    fn begin(
        place: &Arc<StoreLocation>,
        epoch: Epoch,
        holder: HolderId,
        length: Duration,
        asked_at: Duration,
        bond: Bond,
    ) -> Self {
        let until = match bond {
            Bond::File { .. } => Duration::MAX,
            Bond::Server(_) => asked_at + length,
        };
        let held = Arc::new(LeaseState {
            place: Arc::clone(place),
            epoch,
            length,
            until: AtomicU64::new(nanos(until)),
            lost: AtomicBool::new(false),
            tell: watch::Sender::new(LeaseStatus::Held),
            bond: Mutex::new(bond),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&held)));
        tracing::info!(store = %place, epoch = epoch.0, holder = %holder, "became leader (epoch {epoch})");
        Self { epoch, holder, held, keeper }
    }

    /// Returns the number of this takeover.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the name of the holder.
    pub fn holder(&self) -> &HolderId {
        &self.holder
    }

    /// Returns whether effects may be caused: the lease is ours and a third of it is left.
    pub fn may_act(&self) -> bool {
        let margin = nanos(self.held.length / 3);
        let until = self.held.until.load(Ordering::Acquire);
        !self.held.lost.load(Ordering::Acquire) && nanos(uptime()).saturating_add(margin) < until
    }

    /// Returns what tells when the lease is lost.
    pub fn watch(&self) -> watch::Receiver<LeaseStatus> {
        self.held.tell.subscribe()
    }

    /// Renews at once; returns whether the lease is still ours.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        self.held.renew().await
    }

    /// Releases the lease, so that the next daemon can lead at once.
    pub async fn release(self) -> Result<(), StoreError> {
        self.keeper.abort();
        self.held.end();
        let mut bond = self.held.bond.lock().await;
        match &mut *bond {
            Bond::File { file, .. } => {
                file.take();
                Ok(())
            }
            Bond::Server(link) => {
                let mut link = match link.take() {
                    Some(link) => link,
                    None => Link::open(&self.held.place, Durability::Full).await.map_err(away)?,
                };
                let released = lease_row::release(&mut link, self.epoch).await;
                link.close().await;
                released.map_err(|error| {
                    StoreError::Unavailable(format!(
                        "cannot release the lease: {}",
                        describe(&error)
                    ))
                })
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.keeper.abort();
        self.held.end();
    }
}

impl LeaseState {
    /// Marks the lease as lost, once.
    fn end(&self) {
        if !self.lost.swap(true, Ordering::AcqRel) {
            self.tell.send_replace(LeaseStatus::Lost);
        }
    }

    async fn renew(&self) -> Result<bool, StoreError> {
        let mut bond = self.bond.lock().await;
        if self.lost.load(Ordering::Acquire) {
            return Ok(false);
        }
        let ours = match &mut *bond {
            Bond::File { file, path } => file.as_ref().is_some_and(|file| is_same(file, path)),
            Bond::Server(link) => {
                let asked_at = uptime();
                let answer = timeout(self.length / 3, self.ask(link)).await;
                let ours = answer.map_err(|_| {
                    StoreError::Unavailable("the server did not answer a renewal".into())
                })??;
                if ours {
                    self.until.fetch_max(nanos(asked_at + self.length), Ordering::AcqRel);
                }
                ours
            }
        };
        if !ours {
            self.end();
        }
        Ok(ours)
    }

    /// Asks the server for more time; a connection that fails is not used again.
    async fn ask(&self, slot: &mut Option<Link>) -> Result<bool, StoreError> {
        let mut link = match slot.take() {
            Some(link) => link,
            None => Link::open(&self.place, Durability::Full).await.map_err(away)?,
        };
        let ours = lease_row::renew(&mut link, self.epoch, self.length).await;
        let ours = ours.map_err(|error| {
            StoreError::Unavailable(format!("cannot renew the lease: {}", describe(&error)))
        })?;
        *slot = Some(link);
        Ok(ours)
    }

    fn has_lapsed(&self) -> bool {
        nanos(uptime()) >= self.until.load(Ordering::Acquire)
    }
}

/// Renews at a third of the lease, more often after a failure, until it is lost.
async fn keep(held: Arc<LeaseState>) {
    let by_file = matches!(&*held.bond.lock().await, Bond::File { .. });
    let (usual, after_failure) = if by_file {
        (LOCK_CHECK_INTERVAL, LOCK_CHECK_INTERVAL)
    } else {
        (held.length / 3, held.length / 15)
    };
    let mut interval = usual;
    loop {
        tokio::time::sleep(interval).await;
        interval = match held.renew().await {
            Ok(true) => usual,
            Ok(false) => {
                tracing::error!(store = %held.place, epoch = held.epoch.0, "leadership lost (epoch {}): another daemon has taken the lease", held.epoch);
                return;
            }
            Err(error) => {
                tracing::warn!(store = %held.place, epoch = held.epoch.0, "lease not renewed: {error}");
                after_failure
            }
        };
        if held.has_lapsed() {
            tracing::error!(store = %held.place, epoch = held.epoch.0, "leadership lost (epoch {}): the lease could not be renewed in time", held.epoch);
            held.end();
            return;
        }
    }
}

/// Tries to lock the file that decides; nothing if another process has it.
pub(super) fn try_lock(path: &Path) -> Result<Option<File>, OpenError> {
    let failed = |error: &std::io::Error| OpenError::file("lock", path, error);
    let open = File::options().create(true).truncate(false).write(true).read(true).open(path);
    let mut file = open.map_err(|error| failed(&error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // The file may have been removed between our opening and our locking it.
        Ok(()) if !is_same(&file, path) => Ok(None),
        Ok(()) => {
            // For people who look into the file; the program never reads it.
            let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            written.map_err(|error| failed(&error))?;
            Ok(Some(file))
        }
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(&error.into())),
    }
}

/// Tells whether the path still leads to the file that is open.
fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
fn away(error: OpenError) -> StoreError {
    StoreError::Unavailable(error.to_string())
}
