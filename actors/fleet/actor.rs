//! The fleet itself. Sole writer of pool rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::{mpsc, watch};
use tracing::{error, warn};

use super::ghosts::{ghost_of, pool_for_orphan};
use super::{FleetEnd, Part, Ports, ToFleet};
use crate::instance::{Dispatch, Retire, ToInstance};
use crate::intake::{self, IntakeStart, ToIntake};
use crate::jobs::{self, LedgerStart, ToLedger};
use crate::mail::{Inlet, Office, Reply};
use crate::model::{
    Event, HolderId, Instance, InstanceId, MachineView, Petition, PoolId, PoolRow, PoolSpec,
    ProviderId, Reason, Refusal, State, Subject, Timestamp, What,
};
use crate::pool::{self, PoolStart, ToPool};
use crate::ports::{Clock, Controller, SaveError};
use crate::reaper::{self, ReaperStart};
use crate::requeue::{self, RequeueStart, ToRequeue};
use crate::supervise::{Leash, Letter, Restarts, inlet};

/// How long running provider calls may take to finish at shutdown.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// Starts the fleet; its end is told to its keeper.
pub(super) fn start(
    ports: Ports,
    config: watch::Sender<Arc<Vec<PoolSpec>>>,
    office: Office<ToFleet>,
    farewells: mpsc::UnboundedSender<(FleetEnd, Timestamp)>,
) -> Leash {
    let context = Context::<Fleet>::new();
    let me: Inlet<ToFleet> = inlet(context.address());
    office.install(me.clone());
    context.run(Fleet {
        parts: BTreeMap::new(),
        pools: BTreeMap::new(),
        restarts: BTreeMap::new(),
        ledger: Office::default(),
        requeue: Office::default(),
        intake: Office::default(),
        controller: None,
        closing: None,
        farewell: Farewell {
            end: FleetEnd::Died,
            clock: Arc::clone(&ports.base.clock),
            to: farewells,
        },
        ports,
        config,
        office,
    });
    Leash::new(move || {
        let _: Result<(), _> = me.tell(ToFleet::Halt);
    })
}

/// The root actor. Its children's leashes drop with it.
struct Fleet {
    parts: BTreeMap<Part, Leash>,
    pools: BTreeMap<PoolId, Pool>,
    restarts: BTreeMap<String, Restarts>,
    ledger: Office<ToLedger>,
    requeue: Office<ToRequeue>,
    intake: Office<ToIntake>,
    controller: Option<Arc<Controller>>,
    closing: Option<Reply<()>>,
    ports: Ports,
    config: watch::Sender<Arc<Vec<PoolSpec>>>,
    office: Office<ToFleet>,
    farewell: Farewell,
}

/// A pool as the fleet knows it.
struct Pool {
    spec: Arc<PoolSpec>,
    row: PoolRow,
    removed: bool,
    office: Office<ToPool>,
    leash: Option<Leash>,
}

/// Tells the keeper how it ended, on stop and on panic alike.
struct Farewell {
    end: FleetEnd,
    clock: Arc<dyn Clock>,
    to: mpsc::UnboundedSender<(FleetEnd, Timestamp)>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // A keeper that is gone needs no farewell.
        let _: Result<(), _> = self.to.send((self.end, self.clock.now()));
    }
}

/// What is read before anything is started.
struct Inventory {
    controller: Controller,
    pools: Vec<PoolRow>,
    rows: Vec<Instance>,
}

impl Actor for Fleet {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let records = Arc::clone(&self.ports.base.records);
        let reading = async move {
            let mut wait = Duration::from_millis(100);
            loop {
                let controller = records.controller().await;
                let pools = records.pools().await;
                let rows = records.live_instances(None).await;
                if let (Ok(controller), Ok(pools), Ok(rows)) = (controller, pools, rows) {
                    return Inventory { controller, pools, rows };
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(5));
            }
        };
        ctx.wait(reading.into_actor(self).map(|stored, act, _| act.open(stored)));
    }
}

impl Handler<Letter<ToFleet>> for Fleet {
    type Result = ();

    fn handle(&mut self, Letter(letter): Letter<ToFleet>, ctx: &mut Self::Context) {
        match letter {
            ToFleet::Apply(specs) => self.apply(specs),
            ToFleet::Notice(notice) => {
                let _: Result<(), _> = self.ledger.tell(ToLedger::Notice(notice));
            }
            ToFleet::Retire { instance, rank, by, reply } => {
                let evidence = format!("asked by {}", by.who);
                let reason = Reason::Operator;
                self.ask_instance(
                    &instance,
                    Retire { rank, reason, evidence, by: Some(by), reply },
                );
            }
            ToFleet::Drain { pool, drained, who, reply } => {
                self.drain(&pool, drained, who, reply, ctx);
            }
            ToFleet::AdoptForeign { by, reply } => self.adopt_foreign(&by, reply, ctx),
            ToFleet::Dispatch { instance, reply } => self.dispatch(&instance, reply),
            ToFleet::Word { instance, attempt, word, reply } => {
                self.pass_word(&instance, ToInstance::Word { attempt, word, reply });
            }
            ToFleet::Seen(_, view) => {
                let id = InstanceId::new(view.name.as_str());
                self.tell_instance(&id, ToInstance::Seen(view));
            }
            ToFleet::Missed(_, machine) => {
                self.tell_instance(&InstanceId::new(machine.as_str()), ToInstance::Missed);
            }
            ToFleet::Orphan(provider, view) => self.adopt(&provider, view),
            ToFleet::Reap { pool, instance, ask } => match self.pools.get(&pool) {
                Some(known) => {
                    let _: Result<(), _> = known.office.tell(ToPool::Retire { id: instance, ask });
                }
                None => ask.reply.send(Err(Refusal::Unknown)),
            },
            ToFleet::Breaker { pool, open, why } => self.note_breaker(&pool, open, why, ctx),
            ToFleet::PoolDied { pool, panicked } => self.pool_died(pool, panicked, ctx),
            ToFleet::PoolEmpty(pool) => self.pool_empty(&pool),
            ToFleet::Died { part, panicked } => self.part_died(part, panicked, ctx),
            ToFleet::Ping(reply) => reply.send(()),
            ToFleet::Shutdown(reply) => self.shut_down(reply, ctx),
            ToFleet::Fenced => {
                error!("the fleet stops: the lease is lost");
                self.farewell.end = FleetEnd::Fenced;
                ctx.stop();
            }
            ToFleet::Halt => ctx.stop(),
            #[cfg(feature = "testing")]
            ToFleet::Panic(victim) => self.panic(victim),
        }
    }
}

impl Fleet {
    /// Starts everything: ledger first, so that it hears its instances; pools adopt their rows
    /// before they may create.
    fn open(&mut self, stored: Inventory) {
        self.controller = Some(Arc::new(stored.controller));
        for part in [Part::Ledger, Part::Requeue, Part::Intake, Part::Reaper] {
            self.start_part(part);
        }
        let specs = Arc::clone(&self.config.borrow());
        let known: BTreeMap<PoolId, PoolRow> =
            stored.pools.into_iter().map(|row| (row.id.clone(), row)).collect();
        for spec in specs.iter() {
            self.add_pool(spec.clone(), known.get(&spec.id).cloned(), false);
        }
        for row in &stored.rows {
            if !self.pools.contains_key(&row.pool) {
                warn!(pool.id = %row.pool, "pool `{}` is not in the config: it drains", row.pool);
                self.add_pool(ghost_of(row), known.get(&row.pool).cloned(), true);
            }
        }
        self.tell_who_is_here();
    }

    fn apply(&mut self, specs: Vec<PoolSpec>) {
        for spec in &specs {
            match self.pools.get_mut(&spec.id) {
                Some(pool) => {
                    pool.spec = Arc::new(spec.clone());
                    if pool.removed {
                        pool.removed = false;
                        let drained = pool.row.drained;
                        let _: Result<(), _> = pool.office.tell(ToPool::Drain(drained));
                    }
                    let _: Result<(), _> = pool.office.tell(ToPool::Apply(Arc::clone(&pool.spec)));
                }
                None => self.add_pool(spec.clone(), None, false),
            }
        }
        for (id, pool) in &mut self.pools {
            if !pool.removed && !specs.iter().any(|spec| spec.id == *id) {
                pool.removed = true;
                let _: Result<(), _> = pool.office.tell(ToPool::Remove);
            }
        }
        self.config.send_replace(Arc::new(specs));
        self.tell_who_is_here();
    }

    fn add_pool(&mut self, spec: PoolSpec, row: Option<PoolRow>, removed: bool) {
        let id = spec.id.clone();
        let unknown = || PoolRow { id: id.clone(), drained: false, breaker: None, events: 0 };
        let row = row.unwrap_or_else(unknown);
        let office = Office::default();
        let pool = Pool { spec: Arc::new(spec), row, removed, office, leash: None };
        self.pools.insert(id.clone(), pool);
        self.start_pool(&id);
    }

    fn start_pool(&mut self, id: &PoolId) {
        let (Some(pool), Some(controller)) = (self.pools.get_mut(id), &self.controller) else {
            return;
        };
        pool.leash = Some(pool::start(PoolStart {
            spec: Arc::clone(&pool.spec),
            row: pool.row.clone(),
            removed: pool.removed,
            office: pool.office.clone(),
            fleet: self.office.clone(),
            ledger: self.ledger.clone(),
            base: self.ports.base.clone(),
            kit: self.ports.instances.clone(),
            controller: Arc::clone(controller),
        }));
    }

    fn start_part(&mut self, part: Part) {
        let (fleet, base) = (self.office.clone(), self.ports.base.clone());
        let (ledger, rosters) = (self.ledger.clone(), self.ports.rosters.clone());
        let settings = &self.ports.settings;
        let leash = match part {
            Part::Ledger => jobs::start(LedgerStart {
                office: ledger,
                fleet,
                requeue: self.requeue.clone(),
                base,
                kit: self.ports.jobs.clone(),
                settings: settings.requeue.clone(),
            }),
            Part::Requeue => requeue::start(RequeueStart {
                office: self.requeue.clone(),
                fleet,
                ledger,
                base,
                rosters,
                settings: settings.requeue.clone(),
            }),
            Part::Intake => intake::start(IntakeStart {
                office: self.intake.clone(),
                fleet,
                ledger,
                base,
                rosters,
                tick: settings.poll_tick,
            }),
            Part::Reaper => reaper::start(ReaperStart {
                fleet,
                base,
                inventories: self.ports.inventories.clone(),
                rosters,
                settings: settings.reaper.clone(),
            }),
        };
        self.parts.insert(part, leash);
    }

    /// Tells the ledger which pools there are, in the order of the config, and intake where
    /// to look.
    fn tell_who_is_here(&self) {
        let specs = self.config.borrow();
        let here = specs.iter().filter_map(|spec| self.pools.get(&spec.id));
        let pools =
            here.map(|pool| (Arc::clone(&pool.spec), pool.office.clone())).collect::<Vec<_>>();
        let scopes = specs.iter().map(|spec| (spec.forge.clone(), spec.scope.clone())).collect();
        let _: Result<(), _> = self.ledger.tell(ToLedger::Pools(pools));
        let _: Result<(), _> = self.intake.tell(ToIntake::Scopes(scopes));
    }

    fn drain(
        &mut self,
        id: &PoolId,
        drained: bool,
        who: String,
        reply: Reply<Result<(), Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let Some(pool) = self.pools.get_mut(id) else {
            reply.send(Err(Refusal::Unknown));
            return;
        };
        pool.row.drained = drained;
        let what = if drained { What::Drained { who } } else { What::Resumed { who } };
        let office = pool.office.clone();
        self.save_pool(id, what, ctx, move || {
            let _: Result<(), _> = office.tell(ToPool::Drain(drained));
            reply.send(Ok(()));
        });
    }

    fn note_breaker(
        &mut self,
        id: &PoolId,
        open: Option<Timestamp>,
        why: String,
        ctx: &mut Context<Self>,
    ) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.row.breaker = open;
        let what = if open.is_some() { What::BreakerOpened(why) } else { What::BreakerClosed };
        self.save_pool(id, what, ctx, || {});
    }

    /// Saves a pool's row for as long as it takes; then runs `and_then`.
    fn save_pool(
        &mut self,
        id: &PoolId,
        what: What,
        ctx: &mut Context<Self>,
        and_then: impl FnOnce() + 'static,
    ) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.row.events += 1;
        let now = self.ports.base.clock.now();
        let event = Event {
            subject: Subject::Pool(id.clone()),
            seq: pool.row.events,
            at: now,
            last_at: now,
            count: 1,
            what,
        };
        let (rows, row) = (Arc::clone(&self.ports.pools.rows), pool.row.clone());
        let (said, epoch) = (event.clone(), self.ports.base.epoch);
        let saving =
            async move { for_ever(|| rows.save(row.clone(), vec![said.clone()], epoch)).await };
        ctx.wait(saving.into_actor(self).map(move |saved, act, ctx| match saved {
            Ok(()) => {
                act.ports.base.registry.announce(&event);
                and_then();
            }
            Err(refused) => act.give_up(&refused, ctx),
        }));
    }

    /// Counts the holders of all foreign machines among ours; the reaper then finds orphans.
    fn adopt_foreign(
        &mut self,
        by: &Petition,
        reply: Reply<Result<usize, Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let foreign = self.ports.base.registry.foreign();
        let machines = foreign.values().filter(|machine| machine.holder.is_some()).count();
        let holders: BTreeSet<HolderId> =
            foreign.into_values().filter_map(|machine| machine.holder).collect();
        warn!("{} adopts {machines} foreign machine(s): {}", by.who, by.why);
        let (rows, epoch) = (Arc::clone(&self.ports.pools.rows), self.ports.base.epoch);
        let adopting = async move {
            for holder in holders {
                for_ever(|| rows.adopt_holder(holder.clone(), epoch)).await?;
            }
            Ok(())
        };
        ctx.wait(adopting.into_actor(self).map(move |adopted, act, ctx| match adopted {
            Ok(()) => reply.send(Ok(machines)),
            Err(refused) => act.give_up(&refused, ctx),
        }));
    }

    /// Stops, because the store says that somebody else is the writer.
    fn give_up(&mut self, refused: &SaveError, ctx: &mut Context<Self>) {
        error!("the fleet stops: {refused}");
        if matches!(refused, SaveError::Fenced(_)) {
            self.farewell.end = FleetEnd::Fenced;
        }
        ctx.stop();
    }

    fn ask_instance(&self, id: &InstanceId, ask: Retire) {
        match self.ports.base.registry.inlet(id) {
            Some(owner) => {
                let _: Result<(), _> = owner.tell(ToInstance::Retire(ask));
            }
            None => ask.reply.send(Err(Refusal::Unknown)),
        }
    }

    fn dispatch(&self, id: &InstanceId, reply: Reply<Dispatch>) {
        let registry = &self.ports.base.registry;
        match registry.inlet(id) {
            Some(owner) => {
                let _: Result<(), _> = owner.tell(ToInstance::Poll(reply));
            }
            // Between two owners it may wait; unknown to us it must go.
            None if registry.holds(id) => reply.send(Dispatch::Wait),
            None => reply.send(Dispatch::Leave),
        }
    }

    /// Passes a machine's word on. Between two owners nobody answers, and it asks again; unknown
    /// to us it is told so.
    fn pass_word(&self, id: &InstanceId, letter: ToInstance) {
        if self.ports.base.registry.holds(id) {
            self.tell_instance(id, letter);
        } else if let ToInstance::Word { reply, .. } = letter {
            reply.send(Err(Refusal::Unknown));
        }
    }

    fn tell_instance(&self, id: &InstanceId, letter: ToInstance) {
        if let Some(owner) = self.ports.base.registry.inlet(id) {
            let _: Result<(), _> = owner.tell(letter);
        }
    }

    fn adopt(&self, provider: &ProviderId, view: MachineView) {
        let specs: Vec<&PoolSpec> = self.pools.values().map(|pool| &*pool.spec).collect();
        let chosen = pool_for_orphan(&view.stamp, provider, &specs);
        let Some(pool) = chosen.and_then(|id| self.pools.get(&id)) else {
            warn!(
                machine.name = %view.name,
                "machine `{}` of provider `{provider}` has no pool to adopt it", view.name
            );
            return;
        };
        let _: Result<(), _> = pool.office.tell(ToPool::Adopt { view, reply: Reply::nobody() });
    }

    fn pool_died(&mut self, id: PoolId, panicked: bool, ctx: &mut Context<Self>) {
        let Some(pool) = self.pools.get_mut(&id) else { return };
        if let Some(leash) = pool.leash.take() {
            leash.release();
        }
        if self.closing.is_some() {
            return;
        }
        error!(pool.id = %id, panicked, "pool `{id}` died and is started again from its rows");
        let wait = self.note_death(id.as_str());
        ctx.run_later(wait, move |act, _| {
            act.start_pool(&id);
            act.tell_who_is_here();
        });
    }

    fn pool_empty(&mut self, id: &PoolId) {
        if self.pools.get(id).is_some_and(|pool| pool.removed) {
            self.pools.remove(id);
            self.ports.base.registry.drop_pool(id);
        }
    }

    fn part_died(&mut self, part: Part, panicked: bool, ctx: &mut Context<Self>) {
        if let Some(leash) = self.parts.remove(&part) {
            leash.release();
        }
        if self.closing.is_some() {
            return;
        }
        error!(panicked, "{part:?} died and is started again");
        let name = format!("{part:?}");
        let wait = self.note_death(&name);
        if part == Part::Ledger && self.restarts.get(&name).is_some_and(Restarts::hopeless) {
            self.farewell.end = FleetEnd::Hopeless;
            ctx.stop();
            return;
        }
        ctx.run_later(wait, move |act, _| {
            act.start_part(part);
            act.tell_who_is_here();
            if part == Part::Ledger {
                act.introduce_all();
            }
        });
    }

    /// Lets everyone say again what the new ledger does not know.
    fn introduce_all(&self) {
        for pool in self.pools.values() {
            let _: Result<(), _> = pool.office.tell(ToPool::Introduce);
        }
    }

    fn note_death(&mut self, name: &str) -> Duration {
        let now = self.ports.base.clock.now();
        self.restarts.entry(name.to_owned()).or_default().note(now)
    }

    /// Stops intake and creation, lets running calls finish for a while, touches no machine.
    fn shut_down(&mut self, reply: Reply<()>, ctx: &mut Context<Self>) {
        self.closing = Some(reply);
        self.parts.remove(&Part::Intake);
        self.parts.remove(&Part::Reaper);
        self.parts.remove(&Part::Requeue);
        for pool in self.pools.values() {
            let _: Result<(), _> = pool.office.tell(ToPool::Quiesce);
        }
        let deadline = tokio::time::Instant::now() + LAST_CALLS;
        ctx.run_interval(Duration::from_millis(50), move |act, ctx| {
            let calling = act
                .ports
                .base
                .registry
                .instances()
                .iter()
                .any(|row| matches!(row.state, State::Creating | State::Deleting));
            if !calling || tokio::time::Instant::now() >= deadline {
                act.farewell.end = FleetEnd::Shutdown;
                if let Some(reply) = act.closing.take() {
                    reply.send(());
                }
                ctx.stop();
            }
        });
    }

    /// Makes an actor panic, to prove that it is survived.
    #[cfg(feature = "testing")]
    fn panic(&self, victim: super::Victim) {
        use super::Victim;
        match victim {
            Victim::Pool(id) => {
                if let Some(pool) = self.pools.get(&id) {
                    let _: Result<(), _> = pool.office.tell(ToPool::Panic);
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

/// Repeats a save until the store takes it or says that it never will.
async fn for_ever<F>(mut save: impl FnMut() -> F) -> Result<(), SaveError>
where
    F: Future<Output = Result<(), SaveError>>,
{
    let mut wait = Duration::from_millis(100);
    loop {
        match save().await {
            Err(SaveError::Retry(_)) => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(Duration::from_secs(5));
            }
            done => return done,
        }
    }
}
