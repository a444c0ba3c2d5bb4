//! The fleet itself: its state, its messages, how it starts and shuts down. `actor/pools` starts and
//! drops pools, `actor/parts` the single actors beside them, `actor/rows` writes the pool rows.

mod parts;
mod pools;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};

use self::pools::removed_pool_of;
use super::{FleetEnd, FleetPart, Ports, ToFleet};
use crate::backoff::until_some;
use crate::instance::{Dispatch, Retire, ToInstance};
use crate::intake::ToIntake;
use crate::jobs::ToLedger;
use crate::mail::{ActorRef, Mailbox, Reply};
use crate::model::{
    Instance, InstanceId, PoolId, PoolRow, PoolSpec, ProviderId, Reason, Refusal, State, Subject,
    Timestamp,
};
use crate::mutants::{self, Mutant};
use crate::pool::{HostConditions, ToPool};
use crate::ports::{Clock, Controller, RecordKey, Records, StoreError};
use crate::requeue::ToRequeue;
use crate::supervise::{Envelope, Restarts, StopGuard, mailbox};

/// How long running provider calls may take to finish at shutdown.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the fleet; its exit is reported to its keeper.
pub(super) fn start(
    ports: Ports,
    config: watch::Sender<Arc<Vec<PoolSpec>>>,
    actor_ref: ActorRef<ToFleet>,
    fleet_exits: mpsc::UnboundedSender<(FleetEnd, Timestamp)>,
) -> StopGuard {
    let context = Context::<Fleet>::new();
    let me: Mailbox<ToFleet> = mailbox(context.address());
    actor_ref.install(me.clone());
    context.run(Fleet {
        parts: BTreeMap::new(),
        pools: BTreeMap::new(),
        absent_rows: BTreeMap::new(),
        incarnations: 0,
        restarts: BTreeMap::new(),
        ledger: ActorRef::default(),
        requeue: ActorRef::default(),
        intake: ActorRef::default(),
        hosts: BTreeMap::new(),
        controller: None,
        shutdown_reply: None,
        on_exit: FleetExit {
            end: FleetEnd::Died,
            clock: Arc::clone(&ports.base.clock),
            to: fleet_exits,
        },
        ports,
        config,
        actor_ref,
    });
    StopGuard::new(move || {
        let _: Result<(), _> = me.tell(ToFleet::Halt);
    })
}

/// The root actor. Its children's stop guards drop with it.
struct Fleet {
    parts: BTreeMap<FleetPart, StopGuard>,
    pools: BTreeMap<PoolId, RunningPool>,
    /// Rows of pools that do not run now: a pool that comes back is as its operators left it.
    absent_rows: BTreeMap<PoolId, PoolRow>,
    /// How many supervisors were ever started.
    incarnations: u64,
    restarts: BTreeMap<String, Restarts>,
    ledger: ActorRef<ToLedger>,
    requeue: ActorRef<ToRequeue>,
    intake: ActorRef<ToIntake>,
    /// What is known of the hosts of each provider.
    hosts: BTreeMap<ProviderId, HostConditions>,
    controller: Option<Arc<Controller>>,
    shutdown_reply: Option<Reply<()>>,
    ports: Ports,
    config: watch::Sender<Arc<Vec<PoolSpec>>>,
    actor_ref: ActorRef<ToFleet>,
    on_exit: FleetExit,
}

/// A pool as the fleet knows it.
struct RunningPool {
    spec: Arc<PoolSpec>,
    row: PoolRow,
    removed: bool,
    /// Which supervisor it has.
    incarnation: u64,
    actor_ref: ActorRef<ToPool>,
    stop_guard: Option<StopGuard>,
}

/// Tells the keeper how it ended, on stop and on panic alike.
struct FleetExit {
    end: FleetEnd,
    clock: Arc<dyn Clock>,
    to: mpsc::UnboundedSender<(FleetEnd, Timestamp)>,
}

impl Drop for FleetExit {
    fn drop(&mut self) {
        // A keeper that is gone needs no exit report.
        let _: Result<(), _> = self.to.send((self.end, self.clock.now()));
    }
}

/// What is read before anything is started.
struct StoredFleet {
    controller: Controller,
    pools: Vec<PoolRow>,
    rows: Vec<Instance>,
}

/// Reads it. A row that cannot be decoded is left out: it delays nothing.
async fn read_fleet(records: &dyn Records) -> Result<StoredFleet, StoreError> {
    let controller = records.controller().await?;
    let mut pools = records.pools().await?;
    let rows = records.live_instances(None).await?;
    let quarantined = records.quarantined();
    if mutants::is(Mutant::QuarantineStopsFleet)
        && let Some(row) = quarantined.first()
    {
        return Err(StoreError::Unreadable(Box::new(row.clone())));
    }
    for row in quarantined {
        if let RecordKey::Pool(id) = row.key {
            let events = records.timeline(&Subject::Pool(id.clone())).await?;
            let mut row = PoolRow::of_timeline(id, &events);
            // No event takes the place of one that cannot be decoded either.
            row.events = row.events.max(last_quarantined_event(records, &row.id));
            pools.push(row);
        }
    }
    Ok(StoredFleet { controller, pools, rows })
}

/// Returns the last place of a pool's timeline that cannot be decoded.
fn last_quarantined_event(records: &dyn Records, pool: &PoolId) -> u32 {
    let place = |key| match key {
        RecordKey::Event(Subject::Pool(id), place) if id == *pool => Some(place),
        RecordKey::Event(..)
        | RecordKey::Instance(_)
        | RecordKey::Job(_)
        | RecordKey::Pool(_)
        | RecordKey::Exit(_)
        | RecordKey::Delivery(_) => None,
    };
    let quarantined = records.quarantined().into_iter();
    quarantined.filter_map(|row| place(row.key)).max().unwrap_or_default()
}

impl Actor for Fleet {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let records = Arc::clone(&self.ports.base.records);
        let reading =
            async move { until_some(|| async { read_fleet(&*records).await.ok() }).await };
        ctx.wait(reading.into_actor(self).map(|stored, act, _| act.open(stored)));
    }
}

impl Handler<Envelope<ToFleet>> for Fleet {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToFleet>, ctx: &mut Self::Context) {
        match message {
            ToFleet::Apply(specs) => self.apply(specs),
            ToFleet::Notice(notice) => {
                let _: Result<(), _> = self.ledger.tell(ToLedger::Notice(notice));
            }
            ToFleet::Retire { instance, urgency, by, reply } => {
                let evidence = format!("asked by {}", by.who);
                let reason = Reason::Operator;
                self.ask_instance(
                    &instance,
                    Retire { urgency, reason, evidence, by: Some(by), reply },
                );
            }
            ToFleet::Drain { pool, drained, who, reply } => {
                self.drain(&pool, drained, who, reply, ctx);
            }
            ToFleet::AdoptForeign { by, reply } => self.adopt_foreign(&by, reply, ctx),
            ToFleet::Dispatch { instance, acknowledges, reply } => {
                self.dispatch(&instance, acknowledges, reply);
            }
            ToFleet::Acknowledged(instance) => {
                self.tell_instance(&instance, ToInstance::Acknowledged);
            }
            ToFleet::Hosts { provider, hosts } => self.hosts_changed(provider, hosts),
            ToFleet::MachineCalled { instance, attempt, call, reply } => {
                self.forward(&instance, ToInstance::MachineCalled { attempt, call, reply });
            }
            ToFleet::Reported { instance, attempt, report, reply } => {
                if self.ports.base.registry.holds(&instance) {
                    let message = ToInstance::Reported { attempt, report, reply };
                    self.tell_instance(&instance, message);
                } else {
                    reply.send(Err(Refusal::Unknown));
                }
            }
            ToFleet::Seen(_, view) => {
                let id = InstanceId::new(view.name.as_str());
                self.tell_instance(&id, ToInstance::Seen(view));
            }
            ToFleet::Missed(_, machine) => {
                self.tell_instance(&InstanceId::new(machine.as_str()), ToInstance::Missed);
            }
            ToFleet::Orphan(provider, view) => self.adopt(provider, view, ctx),
            ToFleet::Reap { pool, instance, ask } => match self.pools.get(&pool) {
                Some(known) => {
                    let _: Result<(), _> =
                        known.actor_ref.tell(ToPool::Retire { id: instance, ask });
                }
                None => ask.reply.send(Err(Refusal::Unknown)),
            },
            ToFleet::Breaker { pool, open, why } => self.save_breaker(&pool, open, why, ctx),
            ToFleet::PoolDied { pool, incarnation, panicked } => {
                self.pool_died(pool, incarnation, panicked, ctx);
            }
            ToFleet::PoolEmpty(pool) => self.pool_empty(&pool),
            ToFleet::Died { part, panicked } => self.part_died(part, panicked, ctx),
            ToFleet::Ping(reply) => reply.send(()),
            ToFleet::Shutdown(reply) => self.shut_down(reply, ctx),
            ToFleet::Fenced => {
                error!("the fleet stops: the lease is lost");
                self.on_exit.end = FleetEnd::Fenced;
                ctx.stop();
            }
            ToFleet::Halt => ctx.stop(),
            #[cfg(feature = "testing")]
            ToFleet::Panic(victim) => self.panic(victim),
        }
    }
}

impl Fleet {
    /// Starts everything: the ledger first, so that it receives what instances report; pools give
    /// their rows an owner before they may create.
    fn open(&mut self, stored: StoredFleet) {
        self.controller = Some(Arc::new(stored.controller));
        for part in [FleetPart::Ledger, FleetPart::Requeue, FleetPart::Intake, FleetPart::Reaper] {
            self.start_part(part);
        }
        let specs = Arc::clone(&self.config.borrow());
        self.absent_rows = stored.pools.into_iter().map(|row| (row.id.clone(), row)).collect();
        for spec in specs.iter() {
            self.add_pool(spec.clone(), false);
        }
        for row in &stored.rows {
            if !self.pools.contains_key(&row.pool) {
                warn!(pool.id = %row.pool, "pool `{}` is not in the config: it drains", row.pool);
                self.add_pool(removed_pool_of(row), true);
            }
        }
        self.report_pools();
    }

    fn apply(&mut self, specs: Vec<PoolSpec>) {
        for spec in &specs {
            match self.pools.get_mut(&spec.id) {
                Some(pool) => {
                    pool.spec = Arc::new(spec.clone());
                    if pool.removed {
                        pool.removed = false;
                        let drained = pool.row.drained;
                        let _: Result<(), _> = pool.actor_ref.tell(ToPool::Drain(drained));
                    }
                    let _: Result<(), _> =
                        pool.actor_ref.tell(ToPool::Apply(Arc::clone(&pool.spec)));
                }
                None => self.add_pool(spec.clone(), false),
            }
        }
        for (id, pool) in &mut self.pools {
            if !pool.removed && !specs.iter().any(|spec| spec.id == *id) {
                pool.removed = true;
                let _: Result<(), _> = pool.actor_ref.tell(ToPool::Remove);
            }
        }
        self.config.send_replace(Arc::new(specs));
        self.report_pools();
    }

    /// Reports to the ledger which pools there are, in the order of the config, and to intake
    /// which scopes to poll.
    fn report_pools(&self) {
        let specs = self.config.borrow();
        let running = specs.iter().filter_map(|spec| self.pools.get(&spec.id));
        let pools = running
            .map(|pool| (Arc::clone(&pool.spec), pool.actor_ref.clone()))
            .collect::<Vec<_>>();
        let scopes = specs.iter().map(|spec| (spec.forge.clone(), spec.scope.clone())).collect();
        let _: Result<(), _> = self.ledger.tell(ToLedger::Pools(pools));
        let _: Result<(), _> = self.intake.tell(ToIntake::Scopes(scopes));
    }

    fn ask_instance(&self, id: &InstanceId, ask: Retire) {
        match self.ports.base.registry.mailbox(id) {
            Some(owner) => {
                let _: Result<(), _> = owner.tell(ToInstance::Retire(ask));
            }
            None => ask.reply.send(Err(Refusal::Unknown)),
        }
    }

    fn dispatch(&self, id: &InstanceId, acknowledges: bool, reply: Reply<Dispatch>) {
        let registry = &self.ports.base.registry;
        match registry.mailbox(id) {
            Some(owner) => {
                let _: Result<(), _> = owner.tell(ToInstance::Poll { acknowledges, reply });
            }
            // Between two owners it waits; a machine that no row knows must go.
            None if registry.holds(id) || self.is_quarantined(id) => reply.send(Dispatch::Wait),
            None => reply.send(Dispatch::Leave),
        }
    }

    /// Passes on which hosts of a provider should get no new work.
    fn hosts_changed(&mut self, provider: ProviderId, hosts: HostConditions) {
        if self.hosts.get(&provider) == Some(&hosts) {
            return;
        }
        for pool in self.pools.values().filter(|pool| pool.spec.provider == provider) {
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Hosts(Arc::clone(&hosts)));
        }
        self.hosts.insert(provider, hosts);
    }

    /// Forwards a machine's call. Between two owners no answer comes, and the machine calls again;
    /// one that no row knows gets a refusal.
    fn forward(&self, id: &InstanceId, message: ToInstance) {
        if self.ports.base.registry.holds(id) || self.is_quarantined(id) {
            self.tell_instance(id, message);
        } else if let ToInstance::MachineCalled { reply, .. } = message {
            reply.send(Err(Refusal::Unknown));
        }
    }

    /// Returns whether the row of an instance is there and cannot be decoded.
    fn is_quarantined(&self, id: &InstanceId) -> bool {
        let quarantined = self.ports.base.records.quarantined();
        quarantined.iter().any(|row| row.live_instance() == Some(id))
    }

    fn tell_instance(&self, id: &InstanceId, message: ToInstance) {
        if let Some(owner) = self.ports.base.registry.mailbox(id) {
            let _: Result<(), _> = owner.tell(message);
        }
    }

    /// Stops intake and creation, lets running calls finish for a while, touches no machine.
    fn shut_down(&mut self, reply: Reply<()>, ctx: &mut Context<Self>) {
        self.shutdown_reply = Some(reply);
        self.parts.remove(&FleetPart::Intake);
        self.parts.remove(&FleetPart::Reaper);
        self.parts.remove(&FleetPart::Requeue);
        for pool in self.pools.values() {
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Quiesce);
        }
        let deadline = tokio::time::Instant::now() + LAST_CALLS_TIMEOUT;
        ctx.run_interval(Duration::from_millis(50), move |act, ctx| {
            let calling = act
                .ports
                .base
                .registry
                .instances()
                .iter()
                .any(|row| matches!(row.state, State::Creating | State::Deleting));
            if !calling || tokio::time::Instant::now() >= deadline {
                act.on_exit.end = FleetEnd::Shutdown;
                if let Some(reply) = act.shutdown_reply.take() {
                    reply.send(());
                }
                ctx.stop();
            }
        });
    }

    /// Lets an actor panic, to prove that the others survive it.
    #[cfg(feature = "testing")]
    fn panic(&self, victim: super::Victim) {
        use super::Victim;
        match victim {
            Victim::Pool(id) => {
                if let Some(pool) = self.pools.get(&id) {
                    let _: Result<(), _> = pool.actor_ref.tell(ToPool::Panic);
                }
            }
            Victim::Instance(id) => self.tell_instance(&id, ToInstance::Panic),
            Victim::Ledger => {
                let _: Result<(), _> = self.ledger.tell(ToLedger::Panic);
            }
            Victim::Fleet => std::panic::resume_unwind(Box::new("told to panic")),
        }
    }
}
