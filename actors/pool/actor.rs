//! The supervisor: gives every row an owner, every dead owner a successor, and carries plans out.
//!
//! Messages change what it knows and mark it as due for a plan; one plan a moment later covers
//! all of them. It runs no timer but the one its last plan asked for. `actor/planning` plans and
//! shows the result, `actor/owners` takes over rows, replaces owners and adopts machines.

mod owners;
mod planning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{
    Actor, ActorContext, ActorFutureExt, Context, ContextFutureSpawner, Handler, SpawnHandle,
    WrapFuture,
};

use super::conditions::{HostUpdate, KnownConditions};
use super::lives::Lives;
use super::pace::PoolPace;
use super::reads::live_rows;
use super::reports::Reports;
use super::silence::SilentMachines;
use super::{Demand, HostConditions, InstanceReport, ToPool};
use crate::base::Base;
use crate::fleet::ToFleet;
use crate::instance::{self, Capabilities, Child, Links, Origin, Retire, ToInstance};
use crate::jobs::{Accepts, ToLedger};
use crate::mail::ActorRef;
use crate::model::{
    HostName, InstanceId, MachineName, PoolRow, PoolSpec, Refusal, RunnerName, State, Timestamp,
    Urgency,
};
use crate::ports::Controller;
use crate::registry::{AlreadyOwned, PoolView};
use crate::supervise::{Envelope, ExitNotifier, Restarts, StopGuard, mailbox};

/// Holds what a pool starts with.
pub(crate) struct PoolStart {
    pub(crate) spec: Arc<PoolSpec>,
    /// Its stored row.
    pub(crate) row: PoolRow,
    /// Whether the config no longer names it.
    pub(crate) removed: bool,
    /// Which supervisor of this pool it is; an exit report names it.
    pub(crate) incarnation: u64,
    pub(crate) actor_ref: ActorRef<ToPool>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) ledger: ActorRef<ToLedger>,
    pub(crate) base: Base,
    pub(crate) capabilities: Capabilities,
    pub(crate) controller: Arc<Controller>,
}

/// Starts a pool; its exit is reported to the fleet as `PoolDied`.
pub(crate) fn start(start: PoolStart) -> StopGuard {
    start_with(start, instance::start)
}

/// Starts a pool whose owners are started by `spawn_owner`.
fn start_with(
    start: PoolStart,
    spawn_owner: impl Fn(Origin, Links) -> Result<Child, AlreadyOwned> + 'static,
) -> StopGuard {
    let actor_ref = start.actor_ref.clone();
    let mailbox = mailbox(PoolSupervisor::new(start, Box::new(spawn_owner)).start());
    actor_ref.install(mailbox.clone());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToPool::Halt);
    })
}

type SpawnOwner = Box<dyn Fn(Origin, Links) -> Result<Child, AlreadyOwned>>;

#[expect(clippy::struct_excessive_bools, reason = "each holds one fact; no two exclude another")]
struct PoolSupervisor {
    links: Links,
    fleet: ActorRef<ToFleet>,
    spawn_owner: SpawnOwner,
    removed: bool,
    drained: bool,
    quiesced: bool,
    demand: Demand,
    reports: Reports,
    pace: PoolPace,
    conditions: KnownConditions,
    silent: SilentMachines,
    /// How many machines are silent together, if so many that the cause is in doubt.
    silent_concern: Option<u32>,
    children: BTreeMap<InstanceId, Child>,
    restarts: BTreeMap<InstanceId, Restarts>,
    /// Instances whose row is being read for a new owner, and whether the last one panicked.
    reviving: BTreeMap<InstanceId, bool>,
    /// Machines whose new instance is being named.
    adopting: BTreeSet<MachineName>,
    due: bool,
    alarm: Option<SpawnHandle>,
    shown: LastShown,
    // Dropped last: the children are halted before the exit is reported to the fleet.
    _exit_notifier: ExitNotifier,
}

/// Remembers what was shown and sent, so that only changes are.
#[derive(Default)]
struct LastShown {
    view: Option<PoolView>,
    accepts: Option<Accepts>,
    breaker: Option<Timestamp>,
    /// The last failure: whose, and why.
    failure: Option<(InstanceId, Arc<str>)>,
    empty: bool,
}

impl PoolSupervisor {
    fn new(start: PoolStart, spawn_owner: SpawnOwner) -> Self {
        let PoolStart {
            spec,
            row,
            removed,
            incarnation,
            actor_ref,
            fleet,
            ledger,
            base,
            capabilities,
            controller,
        } = start;
        let exit_notifier = {
            let (fleet, pool) = (fleet.clone(), spec.id.clone());
            ExitNotifier::new(move |panicked| {
                let _ = fleet.tell(ToFleet::PoolDied { pool, incarnation, panicked });
            })
        };
        let lives = Lives::new(spec.revision.clone(), row.breaker, base.clock.now());
        Self {
            links: Links { base, capabilities, controller, spec, pool: actor_ref, ledger },
            fleet,
            spawn_owner,
            removed,
            drained: row.drained,
            quiesced: false,
            demand: Demand::default(),
            reports: Reports::default(),
            pace: PoolPace::new(lives),
            conditions: KnownConditions::default(),
            silent: SilentMachines::default(),
            silent_concern: None,
            children: BTreeMap::new(),
            restarts: BTreeMap::new(),
            reviving: BTreeMap::new(),
            adopting: BTreeSet::new(),
            due: false,
            alarm: None,
            shown: LastShown { breaker: row.breaker, ..LastShown::default() },
            _exit_notifier: exit_notifier,
        }
    }
}

impl Actor for PoolSupervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let records = Arc::clone(&self.links.base.records);
        live_rows(records, self.links.spec.id.clone())
            .into_actor(self)
            .map(Self::take_over)
            .wait(ctx);
    }
}

impl Handler<Envelope<ToPool>> for PoolSupervisor {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToPool>, ctx: &mut Self::Context) {
        match message {
            ToPool::Report(report) => self.report(report, ctx),
            ToPool::Died { id, panicked } => self.died(id, panicked, ctx),
            ToPool::Demand(demand) => {
                if self.demand != demand {
                    self.demand = demand;
                    self.plan_soon(ctx);
                }
            }
            ToPool::RanOn(runner) => self.ran_on(&runner, ctx),
            ToPool::Retire { id, ask } => self.forward_retire(&id, ask),
            ToPool::Adopt { view, home, reply } => self.adopt(view, home, reply, ctx),
            ToPool::Apply(spec) => self.apply(spec, ctx),
            ToPool::Hosts(hosts) => self.hosts_changed(hosts),
            ToPool::Drain(drained) => {
                self.drained = drained;
                self.plan_soon(ctx);
            }
            ToPool::Remove => {
                self.removed = true;
                self.plan_soon(ctx);
            }
            ToPool::Quiesce => self.quiesced = true,
            ToPool::Introduce => self.introduce(ctx),
            ToPool::Halt => ctx.stop(),
            #[cfg(feature = "testing")]
            ToPool::Panic => std::panic::resume_unwind(Box::new("told to panic")),
        }
    }
}

// What its messages do.
impl PoolSupervisor {
    fn now(&self) -> Timestamp {
        self.links.base.clock.now()
    }

    fn start_owner(&mut self, id: InstanceId, origin: Origin) -> Result<(), AlreadyOwned> {
        let child = (self.spawn_owner)(origin, self.links.clone())?;
        self.children.insert(id, child);
        Ok(())
    }

    /// Takes what an instance reports of itself.
    fn report(&mut self, report: InstanceReport, ctx: &mut Context<Self>) {
        if report.state == State::Deleted && self.reports.get(&report.id).is_none() {
            return;
        }
        self.tell_of_host(&report.id, report.host.as_ref());
        // An unknown instance was started by an earlier supervisor in its last moments. It holds a
        // place; when its owner's exit is reported, it gets an owner of ours.
        let now = self.now();
        let report = self.reports.update(report);
        self.pace.update(report, now);
        self.plan_soon(ctx);
    }

    /// Takes the late proof that a job ran on a runner whose instance may be gone.
    fn ran_on(&mut self, runner: &RunnerName, ctx: &mut Context<Self>) {
        for name in [Some(runner.as_str()), runner.unnumbered()].into_iter().flatten() {
            if self.pace.lives.proven_late(&InstanceId::new(name)) {
                self.plan_soon(ctx);
            }
        }
    }

    /// Lets the instances on hosts whose condition changed know.
    fn hosts_changed(&mut self, hosts: HostConditions) {
        self.conditions.set(hosts);
        let placed = self.reports.reports().values();
        let placed: Vec<_> =
            placed.map(|report| (report.id.clone(), report.host.clone())).collect();
        for (id, host) in placed {
            self.tell_of_host(&id, host.as_ref());
        }
    }

    fn tell_of_host(&mut self, id: &InstanceId, host: Option<&HostName>) {
        let Some(child) = self.children.get(id) else { return };
        if let Some(HostUpdate(condition)) = self.conditions.update_for(id, host) {
            let _ = child.mailbox.tell(ToInstance::Host(condition));
        }
    }

    fn forward_retire(&mut self, id: &InstanceId, ask: Retire) {
        let Some(child) = self.children.get(id) else {
            let known = self.reports.get(id).is_some();
            ask.reply.send(Err(if known { Refusal::Unsettled } else { Refusal::Unknown }));
            return;
        };
        let affordable = match ask.urgency {
            Urgency::Retire => {
                let now = self.links.base.clock.now();
                self.pace.spend(&self.links.spec.policy, now)
            }
            Urgency::Delete | Urgency::Force | Urgency::Forget => true,
        };
        if affordable {
            let _ = child.mailbox.tell(ToInstance::Retire(ask));
        } else {
            ask.reply.send(Err(Refusal::Budget));
        }
    }

    /// Reports everything to a new ledger, and lets every instance do so.
    fn introduce(&mut self, ctx: &mut Context<Self>) {
        self.shown.accepts = None;
        for child in self.children.values() {
            let _ = child.mailbox.tell(ToInstance::Introduce);
        }
        self.plan_soon(ctx);
    }

    fn apply(&mut self, spec: Arc<PoolSpec>, ctx: &mut Context<Self>) {
        if spec.revision != self.links.spec.revision {
            self.pace.lives.new_revision(spec.revision.clone());
        }
        self.removed = false;
        for child in self.children.values() {
            let _ = child.mailbox.tell(ToInstance::Spec(Arc::clone(&spec)));
        }
        self.links.spec = spec;
        self.plan_soon(ctx);
    }
}

#[cfg(test)]
mod tests;
