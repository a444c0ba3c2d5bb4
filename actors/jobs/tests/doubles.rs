//! What an actor needs to run in a test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::{AbortHandle, LocalSet};

use super::{T0, pool};
use crate::base::Base;
use crate::instance::requested_row;
use crate::model::{
    Binding, Epoch, Event, ExitRecord, Instance, InstanceId, Job, JobId, JobNotice, MachineName,
    PoolId, PoolRow, ProviderId, State, Subject, Timestamp, Version, WriteId, after,
};
use crate::ports::{
    Chance, Clock, Controller, JobRows, JobSave, QuarantinedRow, Records, SaveError, SpawnedTask,
    Spawner, StoreError,
};

/// Runs a test in virtual time.
pub(crate) fn run_paused(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, test);
}

/// Waits until everything that is under way is done.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Counts from `T0` along virtual time.
struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        after(T0, self.0.elapsed())
    }
}

struct CountingChance(AtomicU64);

impl Chance for CountingChance {
    fn bits(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

struct LocalSpawner;

impl Spawner for LocalSpawner {
    fn spawn(&self, task: SpawnedTask) -> AbortHandle {
        tokio::task::spawn_local(task).abort_handle()
    }
}

/// Returns the row of a late-bound instance of pool `linux`.
pub(crate) fn instance(id: &str, state: State) -> Instance {
    Instance {
        state,
        binding: Binding::Late,
        version: Version(1),
        write: WriteId(1),
        create_called_at: Some(T0),
        seen_at: Some(T0),
        ready_at: Some(T0),
        ..requested_row(id.into(), &pool("linux", &["linux"]), T0)
    }
}

/// A store in memory, whose saves can be made to fail.
#[derive(Default)]
pub(crate) struct StoreDouble(Mutex<MemoryTables>);

#[derive(Default)]
pub(crate) struct MemoryTables {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) tombstones: BTreeMap<JobId, Timestamp>,
    pub(crate) unhandled: Vec<JobNotice>,
    pub(crate) saves: Vec<JobSave>,
    pub(crate) live: Vec<Instance>,
    /// How many saves fail from now on, and how.
    pub(crate) failing: u32,
    pub(crate) fenced: bool,
    /// How often the live instances were read.
    pub(crate) instance_reads: u32,
    pub(crate) quarantined: Vec<QuarantinedRow>,
    pub(crate) provisional: Vec<ExitRecord>,
}

impl StoreDouble {
    pub(crate) fn lock(&self) -> MutexGuard<'_, MemoryTables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn base(self: &Arc<Self>) -> Base {
        Base {
            clock: Arc::new(VirtualClock(tokio::time::Instant::now())),
            chance: Arc::new(CountingChance(AtomicU64::new(1))),
            spawner: Arc::new(LocalSpawner),
            records: Arc::clone(self) as Arc<dyn Records>,
            registry: Arc::default(),
            epoch: Epoch(1),
        }
    }
}

#[async_trait]
impl JobRows for StoreDouble {
    async fn save(&self, save: JobSave) -> Result<(), SaveError> {
        tokio::time::sleep(Duration::from_micros(10)).await;
        let mut tables = self.lock();
        if tables.fenced {
            return Err(SaveError::Fenced(save.epoch));
        }
        tables.saves.push(save.clone());
        if tables.failing > 0 {
            tables.failing -= 1;
            return Err(SaveError::Retry("disk full".into()));
        }
        tables.jobs.extend(save.jobs.into_iter().map(|job| (job.id.clone(), job)));
        tables.tombstones.extend(save.tombstones);
        tables
            .unhandled
            .retain(|notice| notice.delivery.as_ref().is_none_or(|id| !save.handled.contains(id)));
        Ok(())
    }
}

#[async_trait]
impl Records for StoreDouble {
    async fn controller(&self) -> Result<Controller, StoreError> {
        Err(StoreError::Unavailable("not in this test".into()))
    }

    async fn pools(&self) -> Result<Vec<PoolRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn live_instances(&self, _: Option<&PoolId>) -> Result<Vec<Instance>, StoreError> {
        self.lock().instance_reads += 1;
        Ok(self.lock().live.clone())
    }

    async fn instance(&self, _: &InstanceId) -> Result<Option<Instance>, StoreError> {
        Ok(None)
    }

    async fn owner_of(
        &self,
        _: &ProviderId,
        _: &MachineName,
    ) -> Result<Option<InstanceId>, StoreError> {
        Ok(None)
    }

    async fn open_jobs(&self) -> Result<Vec<Job>, StoreError> {
        Ok(self.lock().jobs.values().filter(|job| job.is_live()).cloned().collect())
    }

    async fn closed_jobs(&self, _: Timestamp) -> Result<Vec<Job>, StoreError> {
        let tables = self.lock();
        Ok(tables.jobs.values().filter(|job| job.closed.is_some()).cloned().collect())
    }

    async fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.lock().jobs.get(id).cloned())
    }

    async fn tombstones(&self) -> Result<Vec<(JobId, Timestamp)>, StoreError> {
        Ok(self.lock().tombstones.clone().into_iter().collect())
    }

    async fn unhandled(&self) -> Result<Vec<JobNotice>, StoreError> {
        Ok(self.lock().unhandled.clone())
    }

    async fn timeline(&self, _: &Subject) -> Result<Vec<Event>, StoreError> {
        Ok(Vec::new())
    }

    async fn exit(&self, _: &InstanceId) -> Result<Option<ExitRecord>, StoreError> {
        Ok(None)
    }

    async fn provisional_exits(&self, _: Timestamp) -> Result<Vec<ExitRecord>, StoreError> {
        Ok(self.lock().provisional.clone())
    }

    fn quarantined(&self) -> Vec<QuarantinedRow> {
        self.lock().quarantined.clone()
    }
}
