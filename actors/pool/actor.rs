//! The supervisor: gives every row an owner, every dead owner a successor, and carries plans out.
//!
//! Messages change what it knows and mark it as due for a plan; one plan a moment later covers
//! all of them. It runs no timer but the one its last plan asked for. `actor/owners` starts and
//! replaces owners, `actor/planning` plans and shows the result.

mod owners;
mod planning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, ContextFutureSpawner, Handler,
    SpawnHandle, WrapFuture,
};
use tracing::{info, warn};

use super::breaker::Breaker;
use super::pace::PoolPace;
use super::reads::{live_rows, name_for};
use super::reports::{Reports, of_adopted};
use super::{Demand, ToPool};
use crate::base::Base;
use crate::fleet::ToFleet;
use crate::instance::{self, Capabilities, Child, Links, Origin, Retire, ToInstance};
use crate::jobs::{Accepts, ToLedger};
use crate::mail::{ActorRef, Reply};
use crate::model::{
    Home, InstanceId, MachineName, MachineView, PoolRow, PoolSpec, Refusal, Timestamp, Urgency,
};
use crate::ports::Controller;
use crate::registry::{AlreadyOwned, PoolView};
use crate::supervise::{Envelope, ExitNotifier, Restarts, StopGuard, mailbox};

/// How long an owner that exits may take to release its entry.
const ENTRY_RELEASE_DELAY: Duration = Duration::from_millis(50);
/// When an owner that dies repeatedly is started again.
const HOPELESS_RESTART_DELAY: Duration = Duration::from_secs(10);

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
        let breaker = Breaker::restored(row.breaker, base.clock.now());
        Self {
            links: Links { base, capabilities, controller, spec, pool: actor_ref, ledger },
            fleet,
            spawn_owner,
            removed,
            drained: row.drained,
            quiesced: false,
            demand: Demand::default(),
            reports: Reports::default(),
            pace: PoolPace::new(breaker),
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
            ToPool::Retire { id, ask } => self.forward_retire(&id, ask),
            ToPool::Adopt { view, home, reply } => self.adopt(view, home, reply, ctx),
            ToPool::Apply(spec) => self.apply(spec, ctx),
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

// What others ask of the pool.
impl PoolSupervisor {
    fn now(&self) -> Timestamp {
        self.links.base.clock.now()
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

    fn adopt(
        &mut self,
        view: MachineView,
        home: Option<Box<Home>>,
        reply: Reply<Result<InstanceId, Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let own: &str = view.name.as_str();
        if self.reports.reports().contains_key(own) || !self.adopting.insert(view.name.clone()) {
            reply.send(Err(Refusal::Taken));
            return;
        }
        // An adopted instance is asked to retire at once, so a sweep that takes everything for
        // an orphan spends the budget. What is refused now is found again by the next sweep.
        let now = self.now();
        if !self.pace.spend(&self.links.spec.policy, now) {
            self.adopting.remove(&view.name);
            reply.send(Err(Refusal::Budget));
            return;
        }
        let name =
            name_for(self.links.base.clone(), Arc::clone(&self.links.spec), view.name.clone());
        ctx.spawn(name.into_actor(self).map(move |name, this, ctx| {
            this.adopting.remove(&view.name);
            let adopted = name.and_then(|(id, origin)| {
                let machine = view.name.clone();
                let spec = &this.links.spec;
                let ours = view.stamp.pool.as_ref() == Some(&spec.id);
                let own = || Home { forge: spec.forge.clone(), scope: spec.scope.clone() };
                // Anywhere else its runner would not be found, nor the job it may be running.
                let Some(home) = origin.or(home.map(|home| *home)).or_else(|| ours.then(own)) else {
                    warn!(
                        machine.name = %machine,
                        "machine `{machine}`: not adopted, its pool is unknown and it has no record; put \
                         its pool back into the config, or delete it by hand once it is idle"
                    );
                    return Err(Refusal::Unknown);
                };
                this.start_owner(id.clone(), Origin::Adopted(id.clone(), Box::new(view), home))
                    .map_err(|AlreadyOwned| Refusal::Taken)?;
                info!(instance.id = %id, machine.name = %machine, "instance {id}: adopts machine `{machine}`");
                let revision = this.links.spec.revision.clone();
                this.reports.expect(of_adopted(id.clone(), revision, this.now()));
                this.plan_soon(ctx);
                Ok(id)
            });
            reply.send(adopted);
        }));
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
            self.pace.breaker = Breaker::default();
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
