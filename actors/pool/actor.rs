//! The supervisor: gives every row an owner, every dead owner a successor, and paces the rest.
//!
//! Letters change what it knows and mark it as due for a plan; one plan a moment later covers
//! all of them. It runs no timer of its own but the one its last plan asked for. `actor/` holds what
//! it does about owners, and how it plans.

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
use super::pace::Pace;
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
use crate::registry::{PoolView, Taken};
use crate::supervise::{Envelope, ExitNotifier, Restarts, StopGuard, mailbox};

/// How long an old owner may take to let go of its entry.
const LETTING_GO: Duration = Duration::from_millis(50);
/// How long an owner that dies again and again stays dead.
const HOPELESS: Duration = Duration::from_secs(10);

/// Holds what a pool begins with.
pub(crate) struct PoolStart {
    pub(crate) spec: Arc<PoolSpec>,
    /// What the fleet remembers of it.
    pub(crate) row: PoolRow,
    /// Whether the config no longer names it.
    pub(crate) removed: bool,
    /// Which supervisor of this pool it is, for its obituary.
    pub(crate) incarnation: u64,
    pub(crate) actor_ref: ActorRef<ToPool>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) ledger: ActorRef<ToLedger>,
    pub(crate) base: Base,
    pub(crate) capabilities: Capabilities,
    pub(crate) controller: Arc<Controller>,
}

/// Starts a pool; its end is told to the fleet as `PoolDied`.
pub(crate) fn start(start: PoolStart) -> StopGuard {
    start_with(start, instance::start)
}

/// Starts a pool whose owners are started by `spawn_owner`.
fn start_with(
    start: PoolStart,
    spawn_owner: impl Fn(Origin, Links) -> Result<Child, Taken> + 'static,
) -> StopGuard {
    let actor_ref = start.actor_ref.clone();
    let mailbox = mailbox(PoolSupervisor::new(start, Box::new(spawn_owner)).start());
    actor_ref.install(mailbox.clone());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToPool::Halt);
    })
}

type SpawnOwner = Box<dyn Fn(Origin, Links) -> Result<Child, Taken>>;

#[expect(clippy::struct_excessive_bools, reason = "each notes one thing; no two exclude another")]
struct PoolSupervisor {
    links: Links,
    fleet: ActorRef<ToFleet>,
    spawn_owner: SpawnOwner,
    removed: bool,
    drained: bool,
    quiet: bool,
    demand: Demand,
    reports: Reports,
    pace: Pace,
    children: BTreeMap<InstanceId, Child>,
    deaths: BTreeMap<InstanceId, Restarts>,
    /// Instances whose row is being read for a new owner, and whether the last one panicked.
    reviving: BTreeMap<InstanceId, bool>,
    /// Machines whose new owner is being named.
    adopting: BTreeSet<MachineName>,
    due: bool,
    alarm: Option<SpawnHandle>,
    shown: Shown,
    // Dropped last: the children are halted before the fleet hears of the death.
    _exit_notifier: ExitNotifier,
}

/// Remembers what was told, so that only changes are.
#[derive(Default)]
struct Shown {
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
            quiet: false,
            demand: Demand::default(),
            reports: Reports::default(),
            pace: Pace::new(breaker),
            children: BTreeMap::new(),
            deaths: BTreeMap::new(),
            reviving: BTreeMap::new(),
            adopting: BTreeSet::new(),
            due: false,
            alarm: None,
            shown: Shown { breaker: row.breaker, ..Shown::default() },
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
            ToPool::Report(report) => self.hear(report, ctx),
            ToPool::Died { id, panicked } => self.died(id, panicked, ctx),
            ToPool::Demand(demand) => {
                if self.demand != demand {
                    self.demand = demand;
                    self.plan_soon(ctx);
                }
            }
            ToPool::Retire { id, ask } => self.pass_on(&id, ask),
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
            ToPool::Quiesce => self.quiet = true,
            ToPool::Introduce => self.introduce(ctx),
            ToPool::Halt => ctx.stop(),
            #[cfg(feature = "testing")]
            ToPool::Panic => std::panic::resume_unwind(Box::new("told to panic")),
        }
    }
}

// What others want of the pool.
impl PoolSupervisor {
    fn now(&self) -> Timestamp {
        self.links.base.clock.now()
    }

    fn pass_on(&mut self, id: &InstanceId, ask: Retire) {
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
        // To adopt is to ask to go; a sweep that calls everything an orphan is paced like any
        // other. Who is refused now is found again at the next look.
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
                // Elsewhere its runner would be looked for in vain, and its work too.
                let Some(home) = origin.or(home.map(|home| *home)).or_else(|| ours.then(own)) else {
                    warn!(
                        machine.name = %machine,
                        "machine `{machine}` is of no pool we know, and has no record: put its pool \
                         back into the config, or delete it by hand once it is idle"
                    );
                    return Err(Refusal::Unknown);
                };
                this.start_owner(id.clone(), Origin::Adopted(id.clone(), Box::new(view), home))
                    .map_err(|Taken| Refusal::Taken)?;
                info!(instance.id = %id, machine.name = %machine, "adopting machine `{machine}`");
                let revision = this.links.spec.revision.clone();
                this.reports.expect(of_adopted(id.clone(), revision, this.now()));
                this.plan_soon(ctx);
                Ok(id)
            });
            reply.send(adopted);
        }));
    }

    /// Says everything again to a ledger that has just begun, and lets everyone do so.
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
