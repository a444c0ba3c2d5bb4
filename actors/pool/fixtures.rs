//! Pools, rows and reports for unit tests, and the ports an actor needs there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use tokio::task::AbortHandle;

use super::InstanceReport;
use super::reports::of_new;
use crate::base::Base;
use crate::instance::{Permit, requested_row};
use crate::model::{
    Began, Binding, Epoch, Event, ExitRecord, Failure, FailureClass, HostName, Instance,
    InstanceId, Job, JobId, JobNotice, Labels, LifeOutcome, LifeStage, MachineName, MachinePhase,
    MachineSpec, MachineView, Policy, PoolId, PoolRow, PoolSpec, ProviderId, Revision, Scope,
    Stamp, State, StateCounts, Subject, Timestamp, Urgency, Version, Worker, WriteId, after,
};
use crate::ports::{
    Chance, Clock, Controller, InstanceRows, InstanceSave, Jit, QuarantinedRow, RecordKey, Records,
    SaveError, Seal, SpawnedTask, Spawner, StoreError,
};
use crate::registry::{PoolView, Registry};

/// Returns what names a row of pool `linux` that cannot be decoded.
pub(crate) fn quarantined(id: &str) -> QuarantinedRow {
    let key = RecordKey::Instance(id.into());
    let machine = Some((ProviderId::from("k8s"), MachineName::from(id)));
    QuarantinedRow { key, pool: Some("linux".into()), machine, why: "it is no JSON".into() }
}

/// Stands in for store, clock, chance and spawner.
#[derive(Default)]
pub(crate) struct TestPorts {
    pub(crate) rows: Mutex<BTreeMap<InstanceId, Instance>>,
    /// How many listings of rows will fail.
    pub(crate) broken_reads: AtomicU64,
    pub(crate) quarantined: Mutex<Vec<QuarantinedRow>>,
    random_calls: AtomicU64,
}

impl TestPorts {
    pub(crate) fn base(self: &Arc<Self>, registry: &Arc<Registry>) -> Base {
        Base {
            clock: self.clone(),
            chance: self.clone(),
            spawner: self.clone(),
            records: self.clone(),
            registry: Arc::clone(registry),
            epoch: Epoch(1),
        }
    }
}

impl Clock for TestPorts {
    fn now(&self) -> Timestamp {
        // Virtual: a paused runtime counts from its own beginning.
        thread_local!(static BEGAN: tokio::time::Instant = tokio::time::Instant::now());
        let passed = BEGAN.with(tokio::time::Instant::elapsed);
        after(Timestamp::UNIX_EPOCH, passed)
    }
}

impl Chance for TestPorts {
    fn bits(&self) -> u64 {
        self.random_calls.fetch_add(1, Ordering::Relaxed)
    }
}

impl Spawner for TestPorts {
    fn spawn(&self, task: SpawnedTask) -> AbortHandle {
        tokio::task::spawn_local(task).abort_handle()
    }
}

#[async_trait]
impl InstanceRows for TestPorts {
    async fn save(&self, _: InstanceSave) -> Result<(), SaveError> {
        Ok(())
    }
}

impl Seal for TestPorts {
    fn seal(&self, _: &Jit) -> String {
        String::new()
    }

    fn open(&self, _: &str) -> Option<Jit> {
        None
    }
}

#[async_trait]
impl Records for TestPorts {
    async fn controller(&self) -> Result<Controller, StoreError> {
        Ok(controller())
    }

    async fn pools(&self) -> Result<Vec<PoolRow>, StoreError> {
        Ok(Vec::new())
    }

    async fn live_instances(&self, _: Option<&PoolId>) -> Result<Vec<Instance>, StoreError> {
        if self.broken_reads.load(Ordering::Relaxed) > 0 {
            self.broken_reads.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::Unavailable("down".into()));
        }
        let rows = self.rows.lock().unwrap();
        let quarantined = self.quarantined();
        let readable =
            |row: &&Instance| quarantined.iter().all(|it| it.live_instance() != Some(&row.id));
        let live = rows.values().filter(|row| row.state != State::Deleted);
        Ok(live.filter(readable).cloned().collect())
    }

    async fn instance(&self, id: &InstanceId) -> Result<Option<Instance>, StoreError> {
        if let Some(row) = self.quarantined().into_iter().find(|it| it.live_instance() == Some(id))
        {
            return Err(StoreError::Unreadable(Box::new(row)));
        }
        Ok(self.rows.lock().unwrap().get(id).cloned())
    }

    async fn owner_of(
        &self,
        _: &ProviderId,
        machine: &MachineName,
    ) -> Result<Option<InstanceId>, StoreError> {
        let rows = self.rows.lock().unwrap();
        let owner = rows
            .values()
            .find(|row| row.machine == *machine && row.state != State::Deleted)
            .map(|row| row.id.clone());
        Ok(owner)
    }

    async fn open_jobs(&self) -> Result<Vec<Job>, StoreError> {
        Ok(Vec::new())
    }

    async fn closed_jobs(&self, _: Timestamp) -> Result<Vec<Job>, StoreError> {
        Ok(Vec::new())
    }

    async fn job(&self, _: &JobId) -> Result<Option<Job>, StoreError> {
        Ok(None)
    }

    async fn tombstones(&self) -> Result<Vec<(JobId, Timestamp)>, StoreError> {
        Ok(Vec::new())
    }

    async fn unhandled(&self) -> Result<Vec<JobNotice>, StoreError> {
        Ok(Vec::new())
    }

    async fn timeline(&self, _: &Subject) -> Result<Vec<Event>, StoreError> {
        Ok(Vec::new())
    }

    async fn exit(&self, _: &InstanceId) -> Result<Option<ExitRecord>, StoreError> {
        Ok(None)
    }

    async fn provisional_exits(&self, _: Timestamp) -> Result<Vec<ExitRecord>, StoreError> {
        Ok(Vec::new())
    }

    fn quarantined(&self) -> Vec<QuarantinedRow> {
        self.quarantined.lock().unwrap().clone()
    }
}

pub(crate) fn controller() -> Controller {
    Controller { id: "c".into(), holder: "h".into(), holders: vec!["h0".into(), "h".into()] }
}

pub(crate) fn row(id: &str, state: State) -> Instance {
    let now = Timestamp::UNIX_EPOCH;
    Instance {
        state,
        version: Version(1),
        write: WriteId(1),
        create_called_at: Some(now),
        seen_at: Some(now),
        ..requested_row(id.into(), &spec(0, 1), now)
    }
}

pub(crate) fn machine(name: &str) -> MachineView {
    MachineView {
        name: name.into(),
        uid: None,
        stamp: Stamp {
            controller: Some("c".into()),
            holder: Some("h".into()),
            pool: Some("linux".into()),
            instance: Some(name.into()),
        },
        phase: MachinePhase::Running,
        worker: Worker::Unknown,
        began: Began::Unknown,
        ready: false,
        leaving: false,
        host: None,
    }
}

pub(crate) fn perform(play: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, play);
}

pub(crate) async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(200)).await;
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(seconds))
}

pub(crate) fn spec(min_idle: u32, max: u32) -> PoolSpec {
    PoolSpec {
        id: "linux".into(),
        forge: "github".into(),
        scope: Scope::Organization("acme".into()),
        provider: "sim".into(),
        binding: Binding::Early,
        labels: Labels::default(),
        accept_unlabelled: false,
        runner_group: String::new(),
        min_idle,
        max,
        machine: MachineSpec::default(),
        revision: "new".into(),
        prefix: "linux".into(),
        policy: Policy::default(),
    }
}

/// Returns a report of an instance that has been in this state since the beginning.
pub(crate) fn report(id: &str, state: State) -> InstanceReport {
    InstanceReport {
        state,
        occupies: state != State::Deleted,
        ..of_new(id.into(), Revision::from("new"), at(0))
    }
}

/// Returns a pool of at most three without instances, as the registry shows it.
pub(crate) fn view(id: &str) -> PoolView {
    PoolView {
        id: id.into(),
        states: StateCounts::default(),
        demand: 0,
        oldest: None,
        want: 0,
        max: 3,
        draining: false,
        breaker: None,
        settled: true,
        stuck: 0,
        shunned: vec![],
        failing: None,
        proven: None,
        silent: None,
    }
}

/// Returns a report of an instance whose runner left with exit 1 before it served.
pub(crate) fn failed(id: &str, state: State) -> InstanceReport {
    let failure = Failure {
        stage: LifeStage::Boot,
        class: FailureClass::Runner,
        provisional: false,
        error: "exit code 1".into(),
        advice: "Read the log tail.".into(),
    };
    InstanceReport { outcome: Some(LifeOutcome::Failed(failure)), ..report(id, state) }
}

pub(crate) fn reports<const N: usize>(
    reports: [InstanceReport; N],
) -> BTreeMap<InstanceId, InstanceReport> {
    reports.into_iter().map(|report| (report.id.clone(), report)).collect()
}

prop_compose! {
    fn any_report()(
        state in prop::sample::select(State::ALL.to_vec()),
        since in 0_u64..1000,
        removal in prop::option::weighted(0.2, Just(Urgency::Retire)),
        revision in prop::sample::select(vec!["new", "old"]),
        host in prop::option::of(prop::sample::select(vec!["a", "b", "c"])),
        registered in any::<bool>(),
        machine_gone in any::<bool>(),
        stuck in prop::bool::weighted(0.1),
        unnamed in any::<bool>(),
    ) -> InstanceReport {
        let wants = match state {
            State::PendingCreate => Some(Permit::Start),
            State::PendingDelete => Some(Permit::Delete),
            State::Creating | State::Starting | State::Idle | State::Reserved | State::Busy
            | State::Retiring | State::Ended | State::Deleting | State::Deleted => None,
        };
        InstanceReport {
            since: at(since),
            created_at: at(since),
            removal,
            revision: revision.into(),
            // Nothing exists yet, so it is nowhere.
            host: host.filter(|_| state != State::PendingCreate).map(HostName::from),
            registered,
            occupies: match state {
                State::Deleted => false,
                State::Deleting => !machine_gone,
                State::PendingCreate | State::Creating | State::Starting | State::Idle
                | State::Reserved | State::Busy | State::Retiring | State::Ended
                | State::PendingDelete => true,
            },
            wants,
            stuck,
            unnamed: unnamed && state == State::Busy,
            ..report("", state)
        }
    }
}

pub(crate) fn any_reports() -> impl Strategy<Value = BTreeMap<InstanceId, InstanceReport>> {
    prop::collection::vec(any_report(), 0..60).prop_map(|reports| {
        reports
            .into_iter()
            .enumerate()
            .map(|(at, report)| {
                let id = InstanceId::new(format!("i{at:02}"));
                (id.clone(), InstanceReport { id, ..report })
            })
            .collect()
    })
}
