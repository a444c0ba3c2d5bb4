//! The forge's truth: registrations and jobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::model::{
    Conclusion, ForgeId, JobFact, JobId, Labels, NamedRunner, Place, RunnerId, RunnerName,
    RunnerView, Scope,
};
use crate::testing::clock::Moment;

/// Holds what is true at the forge.
pub struct ForgeState {
    pub id: ForgeId,
    /// All jobs that ever were.
    pub jobs: BTreeMap<u64, SimJob>,
    /// All registrations, and removed ones whose agent still has a job.
    pub runners: BTreeMap<RunnerId, SimRunner>,
    pub(super) names: BTreeMap<RunnerName, RunnerId>,
    /// Jobs that want a runner.
    pub(super) queued: BTreeSet<u64>,
    pub(super) running: BTreeSet<u64>,
    /// Jobs that are not over.
    pub(super) open: BTreeSet<u64>,
    /// Runners that are registered, online and free.
    pub(super) idle: BTreeSet<RunnerId>,
    pub(super) removed: VecDeque<(Moment, Scope, RunnerView)>,
    pub(super) matching: bool,
    pub(super) last_job: u64,
    pub(super) last_runner: u64,
    pub(super) last_delivery: u64,
    pub(super) spent: (u64, u32),
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are true or not, independently")]
pub struct SimJob {
    pub number: u64,
    /// Where it comes from.
    pub place: Place,
    /// What it asks of a runner.
    pub labels: Labels,
    /// Where it is in its life.
    pub stage: JobStage,
    /// The runner that the forge names with it.
    pub runner: Option<NamedRunner>,
    /// When it was queued.
    pub queued_at: Moment,
    /// How long it runs, in milliseconds.
    pub duration: u64,
    pub attempt: u32,
    /// Whether its run failed at start-up, so that no runner will ever run it.
    pub dead_run: bool,
    /// How often a worker of it started.
    pub starts: u32,
    /// Whether we deleted a machine under it without an operator's word.
    pub killed_by_us: bool,
    /// Whether its machine ended under it.
    pub lost: bool,
    /// Whether its worker is done and the forge has not learned of it.
    pub(in crate::testing) over_unheard: bool,
    pub(super) lied: bool,
}

/// Tells where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStage {
    /// Held back at the forge.
    Waiting,
    Queued,
    /// Given to a runner that has not picked it up.
    Assigned {
        runner: RunnerId,
        at: Moment,
    },
    Running {
        runner: RunnerId,
    },
    Over(Conclusion),
}

impl SimJob {
    /// Returns what the forge says of it.
    pub fn fact(&self) -> JobFact {
        match &self.stage {
            JobStage::Waiting => JobFact::Waiting,
            JobStage::Queued | JobStage::Assigned { .. } => JobFact::Queued,
            JobStage::Running { .. } => JobFact::InProgress,
            JobStage::Over(conclusion) => JobFact::Completed(conclusion.clone()),
        }
    }

    /// Returns whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.stage, JobStage::Over(_))
    }
}

#[derive(Clone, Debug)]
pub struct SimRunner {
    pub id: RunnerId,
    pub name: RunnerName,
    /// Where it is registered.
    pub scope: Scope,
    pub labels: Labels,
    /// Whether the registration exists.
    pub registered: bool,
    /// Whether its agent is connected.
    pub online: bool,
    /// The machine its agent runs on.
    pub machine: Option<u64>,
    /// The job assigned to it or running on it.
    pub job: Option<u64>,
    /// When it was made.
    pub made_at: Moment,
    pub(super) lied: bool,
    pub(super) lied_422: u8,
}

impl SimRunner {
    pub(super) fn view(&self) -> RunnerView {
        RunnerView {
            name: self.name.clone(),
            id: self.id,
            online: self.online,
            busy: self.job.is_some(),
        }
    }
}

impl ForgeState {
    /// Makes a forge without runners or jobs.
    pub fn new(id: ForgeId) -> Self {
        Self {
            id,
            jobs: BTreeMap::new(),
            runners: BTreeMap::new(),
            names: BTreeMap::new(),
            queued: BTreeSet::new(),
            running: BTreeSet::new(),
            open: BTreeSet::new(),
            idle: BTreeSet::new(),
            removed: VecDeque::new(),
            matching: false,
            last_job: 0,
            last_runner: 0,
            last_delivery: 0,
            spent: (0, 0),
        }
    }

    /// Returns our name for a job.
    pub fn job_id(&self, number: u64) -> JobId {
        JobId { forge: self.id.clone(), number }
    }

    /// Returns a runner by name, registered or not.
    pub fn runner_named(&self, name: &RunnerName) -> Option<&SimRunner> {
        self.names.get(name).and_then(|id| self.runners.get(id))
    }

    /// Returns how many registrations were ever made.
    pub fn minted(&self) -> u64 {
        self.last_runner
    }

    /// Iterates the registrations that exist.
    pub fn registered(&self) -> impl Iterator<Item = &SimRunner> {
        self.runners.values().filter(|runner| runner.registered)
    }

    /// Iterates the jobs that are not over.
    pub fn open_jobs(&self) -> impl Iterator<Item = &SimJob> {
        self.open.iter().filter_map(|number| self.jobs.get(number))
    }

    /// Registers a runner; the name must be free.
    pub(in crate::testing) fn register(
        &mut self,
        name: RunnerName,
        scope: Scope,
        labels: Labels,
        now: Moment,
    ) -> RunnerId {
        self.last_runner += 1;
        let id = RunnerId(self.last_runner);
        self.names.insert(name.clone(), id);
        let runner = SimRunner {
            id,
            name,
            scope,
            labels,
            registered: true,
            online: false,
            machine: None,
            job: None,
            made_at: now,
            lied: false,
            lied_422: 0,
        };
        self.runners.insert(id, runner);
        id
    }

    /// Removes a registration; an assignment or a running job survives it.
    pub(super) fn unregister(&mut self, id: RunnerId, now: Moment) {
        self.idle.remove(&id);
        let Some(runner) = self.runners.get_mut(&id) else { return };
        if runner.registered {
            runner.registered = false;
            self.removed.push_back((now, runner.scope.clone(), runner.view()));
            if self.removed.len() > 64 {
                self.removed.pop_front();
            }
        }
        self.forget_if_done(id);
    }

    /// Drops what is left of a removed registration once no agent and no job use it.
    pub(super) fn forget_if_done(&mut self, id: RunnerId) {
        let done = self
            .runners
            .get(&id)
            .is_some_and(|runner| !runner.registered && !runner.online && runner.job.is_none());
        if done
            && let Some(runner) = self.runners.remove(&id)
            && self.names.get(&runner.name) == Some(&id)
        {
            self.names.remove(&runner.name);
        }
    }

    /// Lets a runner be assigned to, if it is registered, online and free.
    pub(super) fn offer_idle(&mut self, id: RunnerId) {
        let free = self
            .runners
            .get(&id)
            .is_some_and(|runner| runner.registered && runner.online && runner.job.is_none());
        if free {
            self.idle.insert(id);
        } else {
            self.idle.remove(&id);
        }
    }
}
