//! The lease: one daemon at a time may act, and each tenure has a number that fences the older ones.
//!
//! On SQLite a lock of the operating system on `<file>.lock` decides: it goes with its process,
//! so the next start takes the next epoch at once. (Network file systems that lie about locks
//! are no place for it.) On PostgreSQL the server's clock judges. The holder counts for himself
//! on a clock that does not stop in sleep, from *before* he asked; with less than a third left he
//! may not act any more, which leaves a third for the difference between two clocks.

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
use super::migrate;
use super::place::Place;
use super::{Durability, SqlStore};

/// How often a standby looks whether the file lock is free.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often the holder of a file lock makes sure that it still is.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Tells whether a tenure goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    Held,
    /// It is over, for good.
    Lost,
}

/// Is one tenure. Dropping it is like dying: nothing is renewed, nothing given back.
pub struct Lease {
    epoch: Epoch,
    holder: HolderId,
    held: Arc<Held>,
    keeper: JoinHandle<()>,
}

/// Holds what the tenure and its keeper share.
struct Held {
    place: Arc<Place>,
    epoch: Epoch,
    length: Duration,
    /// Until when it is ours, in nanoseconds of uptime.
    until: AtomicU64,
    lost: AtomicBool,
    tell: watch::Sender<LeaseStatus>,
    bond: Mutex<Bond>,
}

/// Is what ties us to the lease.
enum Bond {
    /// The file whose lock we hold; the lock goes with it.
    File { file: Option<File>, path: PathBuf },
    /// A connection for renewals; made anew when it breaks.
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
            Place::Sqlite(path) => self.take_file(path, holder, length).await,
            Place::Postgres(_) => self.take_row(holder, length).await,
        }
    }

    async fn take_file(
        &self,
        path: &Path,
        holder: HolderId,
        length: Duration,
    ) -> Result<Lease, OpenError> {
        let lock = Place::lock_file(path);
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
                place: Place::clone(&self.place),
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
                place: Place::clone(&self.place),
                why: "cannot take the lease: the server did not answer in time".into(),
            }),
        }
    }

    fn newer(&self, found: i64) -> OpenError {
        OpenError::Newer { place: Place::clone(&self.place), found, known: migrate::NEWEST }
    }

    fn cannot_take(&self, error: sqlx::Error) -> OpenError {
        OpenError::failed(&self.place, error)
    }
}

impl Lease {
    fn begin(
        place: &Arc<Place>,
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
        let held = Arc::new(Held {
            place: Arc::clone(place),
            epoch,
            length,
            until: AtomicU64::new(nanos(until)),
            lost: AtomicBool::new(false),
            tell: watch::Sender::new(LeaseStatus::Held),
            bond: Mutex::new(bond),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&held)));
        tracing::info!(store = %place, epoch = epoch.0, holder = %holder, "tenure {epoch} begins");
        Self { epoch, holder, held, keeper }
    }

    /// Returns the number of this tenure.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the name of this tenure.
    pub fn holder(&self) -> &HolderId {
        &self.holder
    }

    /// Returns whether effects may be caused: the lease is ours and a third of it is left.
    pub fn may_act(&self) -> bool {
        let margin = nanos(self.held.length / 3);
        let until = self.held.until.load(Ordering::Acquire);
        !self.held.lost.load(Ordering::Acquire) && nanos(uptime()).saturating_add(margin) < until
    }

    /// Returns the news of this tenure.
    pub fn watch(&self) -> watch::Receiver<LeaseStatus> {
        self.held.tell.subscribe()
    }

    /// Renews at once; returns whether the lease is still ours.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        self.held.renew().await
    }

    /// Gives the lease back, so that the next tenure can begin at once.
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

impl Held {
    /// Ends the tenure, once.
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
async fn keep(held: Arc<Held>) {
    let by_file = matches!(&*held.bond.lock().await, Bond::File { .. });
    let (calm, hasty) = if by_file {
        (LOCK_CHECK_INTERVAL, LOCK_CHECK_INTERVAL)
    } else {
        (held.length / 3, held.length / 15)
    };
    let mut pause = calm;
    loop {
        tokio::time::sleep(pause).await;
        pause = match held.renew().await {
            Ok(true) => calm,
            Ok(false) => {
                tracing::error!(store = %held.place, epoch = held.epoch.0, "tenure {} is over: another has begun", held.epoch);
                return;
            }
            Err(error) => {
                tracing::warn!(store = %held.place, epoch = held.epoch.0, "lease not renewed: {error}");
                hasty
            }
        };
        if held.has_lapsed() {
            tracing::error!(store = %held.place, epoch = held.epoch.0, "tenure {} is over: it could not be renewed in time", held.epoch);
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
        // Somebody may have removed the file between our opening and our locking it.
        Ok(()) if !is_same(&file, path) => Ok(None),
        Ok(()) => {
            // For people who wonder; nobody reads it back.
            let note = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            note.map_err(|error| failed(&error))?;
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
