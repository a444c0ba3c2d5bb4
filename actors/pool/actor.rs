//! The supervisor: gives every row an owner, every dead owner a successor, and paces the rest.
//!
//! Letters change what it knows and mark it as due for a plan; one plan a moment later covers
//! all of them. It runs no timer of its own but the one its last plan asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, ContextFutureSpawner, Handler,
    SpawnHandle, WrapFuture,
};
use tracing::{error, info, warn};

use super::breaker::Breaker;
use super::name::fresh_name;
use super::pace::Pace;
use super::plan::{Mood, Plan, plan};
use super::reads::{live_rows, name_for, row_of};
use super::standing::{Standing, of_adopted, of_new, of_row};
use super::{Demand, Outcome, Report, ToPool};
use crate::base::Base;
use crate::fleet::ToFleet;
use crate::instance::{self, Birth, Child, Kit, Links, Permit, Retire, ToInstance};
use crate::jobs::{Accepts, ToLedger};
use crate::mail::{Office, Reply};
use crate::model::{
    Instance, InstanceId, MachineName, MachineView, PoolRow, PoolSpec, Reason, Refusal, State,
    Timestamp, WishRank,
};
use crate::mutants::{self, Mutant};
use crate::ports::Controller;
use crate::registry::{PoolView, Taken};
use crate::supervise::{Leash, Letter, Obituary, Restarts, inlet};

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
    pub(crate) tenure: u64,
    pub(crate) office: Office<ToPool>,
    pub(crate) fleet: Office<ToFleet>,
    pub(crate) ledger: Office<ToLedger>,
    pub(crate) base: Base,
    pub(crate) kit: Kit,
    pub(crate) controller: Arc<Controller>,
}

/// Starts a pool; its end is told to the fleet as `PoolDied`.
pub(crate) fn start(start: PoolStart) -> Leash {
    start_with(start, instance::start)
}

/// Starts a pool whose owners are started by `hire`.
fn start_with(
    start: PoolStart,
    hire: impl Fn(Birth, Links) -> Result<Child, Taken> + 'static,
) -> Leash {
    let office = start.office.clone();
    let inlet = inlet(PoolSupervisor::new(start, Box::new(hire)).start());
    office.install(inlet.clone());
    Leash::new(move || {
        let _ = inlet.tell(ToPool::Halt);
    })
}

type Hire = Box<dyn Fn(Birth, Links) -> Result<Child, Taken>>;

#[expect(clippy::struct_excessive_bools, reason = "each notes one thing; no two exclude another")]
struct PoolSupervisor {
    links: Links,
    fleet: Office<ToFleet>,
    hire: Hire,
    removed: bool,
    drained: bool,
    quiet: bool,
    demand: Demand,
    standing: Standing,
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
    _obituary: Obituary,
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
    fn new(start: PoolStart, hire: Hire) -> Self {
        let PoolStart { spec, row, removed, tenure, office, fleet, ledger, base, kit, controller } =
            start;
        let obituary = {
            let (fleet, pool) = (fleet.clone(), spec.id.clone());
            Obituary::new(move |panicked| {
                let _ = fleet.tell(ToFleet::PoolDied { pool, tenure, panicked });
            })
        };
        let breaker = Breaker::restored(row.breaker, base.clock.now());
        Self {
            links: Links { base, kit, controller, spec, pool: office, ledger },
            fleet,
            hire,
            removed,
            drained: row.drained,
            quiet: false,
            demand: Demand::default(),
            standing: Standing::default(),
            pace: Pace::new(breaker),
            children: BTreeMap::new(),
            deaths: BTreeMap::new(),
            reviving: BTreeMap::new(),
            adopting: BTreeSet::new(),
            due: false,
            alarm: None,
            shown: Shown { breaker: row.breaker, ..Shown::default() },
            _obituary: obituary,
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

impl Handler<Letter<ToPool>> for PoolSupervisor {
    type Result = ();

    fn handle(&mut self, Letter(letter): Letter<ToPool>, ctx: &mut Self::Context) {
        match letter {
            ToPool::Report(report) => self.hear(report, ctx),
            ToPool::Died { id, panicked } => self.died(id, panicked, ctx),
            ToPool::Demand(demand) => {
                if self.demand != demand {
                    self.demand = demand;
                    self.plan_soon(ctx);
                }
            }
            ToPool::Retire { id, ask } => self.pass_on(&id, ask),
            ToPool::Adopt { view, reply } => self.adopt(view, reply, ctx),
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

// Owners: one for every row, always.
impl PoolSupervisor {
    fn now(&self) -> Timestamp {
        self.links.base.clock.now()
    }

    fn take_over(mut rows: Vec<Instance>, this: &mut Self, ctx: &mut Context<Self>) {
        if mutants::is(Mutant::DeletingSkippedAtStart) {
            rows.retain(|row| row.state != State::Deleting);
        }
        this.standing.began_with(&rows);
        for row in rows {
            let id = row.id.clone();
            if this.employ(id.clone(), Birth::Row(Box::new(row))).is_err() {
                this.reviving.insert(id.clone(), false);
                this.revive_in(LETTING_GO, id, ctx);
            }
        }
        this.plan_soon(ctx);
    }

    fn employ(&mut self, id: InstanceId, birth: Birth) -> Result<(), Taken> {
        let child = (self.hire)(birth, self.links.clone())?;
        self.children.insert(id, child);
        Ok(())
    }

    fn hear(&mut self, report: Report, ctx: &mut Context<Self>) {
        let (id, revision) = (report.id.clone(), report.revision.clone());
        let host = report.host.clone();
        if report.state == State::Deleted && self.standing.get(&id).is_none() {
            return;
        }
        self.pace.note(&report);
        // An unknown one was born under an earlier supervisor, unseen in its last moments. It
        // holds a place; its obituary will bring it an owner of ours.
        let news = self.standing.hear(report);
        if let (Some(host), Some(news)) = (host, news) {
            match news {
                Outcome::Ready => self.pace.hosts.ready(&host),
                Outcome::Failed => self.pace.hosts.failed(&host, self.now()),
            }
        }
        if revision == self.links.spec.revision {
            match news {
                Some(Outcome::Ready) => self.pace.breaker.ready(),
                Some(Outcome::Failed) => self.pace.breaker.failed(&id, self.now()),
                None => {}
            }
        }
        self.plan_soon(ctx);
    }

    fn died(&mut self, id: InstanceId, panicked: bool, ctx: &mut Context<Self>) {
        if self.links.base.registry.inlet(&id).is_none() {
            self.bury(id, panicked, ctx);
            return;
        }
        // Either a successor has taken over, or the dead has not let go of its entry yet.
        ctx.run_later(LETTING_GO, move |this, ctx| {
            if this.links.base.registry.inlet(&id).is_none() {
                this.bury(id, panicked, ctx);
            }
        });
    }

    fn bury(&mut self, id: InstanceId, panicked: bool, ctx: &mut Context<Self>) {
        if let Some(child) = self.children.remove(&id) {
            child.leash.release();
        }
        self.pace.owner_gone(&id);
        if self.standing.get(&id).is_some_and(|report| report.state == State::Deleted) {
            self.forget(&id, ctx);
            return;
        }
        if self.reviving.insert(id.clone(), panicked).is_some() {
            return;
        }
        let now = self.now();
        let deaths = self.deaths.entry(id.clone()).or_default();
        let mut wait = deaths.note(now);
        if deaths.hopeless() {
            wait = HOPELESS;
            error!(instance.id = %id, "owner of `{id}` dies again and again; next try in {wait:?}");
        } else if panicked {
            warn!(instance.id = %id, "owner of `{id}` panicked; a new one takes over in {wait:?}");
        }
        self.revive_in(wait, id, ctx);
    }

    fn revive_in(&mut self, wait: Duration, id: InstanceId, ctx: &mut Context<Self>) {
        let records = Arc::clone(&self.links.base.records);
        let read = async move {
            tokio::time::sleep(wait).await;
            (row_of(records, id.clone()).await, id)
        };
        ctx.spawn(read.into_actor(self).map(Self::revive));
    }

    fn revive((row, id): (Option<Instance>, InstanceId), this: &mut Self, ctx: &mut Context<Self>) {
        let Some(row) = row.filter(|row| row.state != State::Deleted) else {
            this.reviving.remove(&id);
            this.forget(&id, ctx);
            return;
        };
        let report = of_row(&row);
        let panicked = this.reviving.get(&id).copied().unwrap_or_default();
        if this.employ(id.clone(), Birth::Revived(Box::new(row), panicked)).is_err() {
            this.revive_in(LETTING_GO, id, ctx);
            return;
        }
        this.reviving.remove(&id);
        this.standing.expect(report);
        this.plan_soon(ctx);
    }

    fn forget(&mut self, id: &InstanceId, ctx: &mut Context<Self>) {
        // An owner that died between its last save and its exit leaves its entry behind.
        self.links.base.registry.dismiss(id);
        self.standing.forget(id);
        self.pace.forget(id, self.now());
        self.deaths.remove(id);
        self.plan_soon(ctx);
    }
}

// What others want of the pool.
impl PoolSupervisor {
    fn pass_on(&mut self, id: &InstanceId, ask: Retire) {
        let Some(child) = self.children.get(id) else {
            let known = self.standing.get(id).is_some();
            ask.reply.send(Err(if known { Refusal::Unsettled } else { Refusal::Unknown }));
            return;
        };
        let affordable = match ask.rank {
            WishRank::Retire => {
                let now = self.links.base.clock.now();
                self.pace.spend(&self.links.spec.policy, now)
            }
            WishRank::Delete | WishRank::Force | WishRank::Forget => true,
        };
        if affordable {
            let _ = child.inlet.tell(ToInstance::Retire(ask));
        } else {
            ask.reply.send(Err(Refusal::Budget));
        }
    }

    fn adopt(
        &mut self,
        view: MachineView,
        reply: Reply<Result<InstanceId, Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let own: &str = view.name.as_str();
        if self.standing.reports().contains_key(own) || !self.adopting.insert(view.name.clone()) {
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
                // In another pool's scope its runner would be looked for in vain, and its work too.
                if origin.is_none() && view.stamp.pool.as_ref() != Some(&this.links.spec.id) {
                    warn!(
                        machine.name = %machine,
                        "machine `{machine}` is of no pool we know, and has no record: put its pool \
                         back into the config, or delete it by hand once it is idle"
                    );
                    return Err(Refusal::Unknown);
                }
                this.employ(id.clone(), Birth::Adopted(id.clone(), Box::new(view), origin))
                    .map_err(|Taken| Refusal::Taken)?;
                info!(instance.id = %id, machine.name = %machine, "adopting machine `{machine}`");
                let revision = this.links.spec.revision.clone();
                this.standing.expect(of_adopted(id.clone(), revision, this.now()));
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
            let _ = child.inlet.tell(ToInstance::Introduce);
        }
        self.plan_soon(ctx);
    }

    fn apply(&mut self, spec: Arc<PoolSpec>, ctx: &mut Context<Self>) {
        if spec.revision != self.links.spec.revision {
            self.pace.breaker = Breaker::default();
        }
        self.removed = false;
        for child in self.children.values() {
            let _ = child.inlet.tell(ToInstance::Spec(Arc::clone(&spec)));
        }
        self.links.spec = spec;
        self.plan_soon(ctx);
    }
}

// Planning.
impl PoolSupervisor {
    /// Plans a moment later, once for all letters until then. The moment grows with the pool,
    /// because a plan looks at everyone.
    fn plan_soon(&mut self, ctx: &mut Context<Self>) {
        if !self.due {
            self.due = true;
            let moment = 1 + self.standing.reports().len() / 1000;
            let moment = Duration::from_millis(u64::try_from(moment).unwrap_or(1));
            ctx.run_later(moment, Self::plan_now);
        }
    }

    fn plan_now(&mut self, ctx: &mut Context<Self>) {
        self.due = false;
        let now = self.now();
        self.standing.lapse(now);
        let mood = Mood {
            draining: self.draining(),
            settled: self.standing.is_settled(),
            healthy: self.pace.breaker.open_since().is_none(),
            admits: self.permit_the_waiting(now),
            budget: self.pace.budget(&self.links.spec.policy, now),
        };
        let Plan { want, create, mut retire, next_look } =
            plan(&self.links.spec, self.standing.reports(), self.demand, mood, now);
        if self.quiet {
            retire.clear();
        }
        for _ in 0..create {
            self.create(now);
        }
        for (id, reason) in retire {
            self.ask_to_go(&id, reason, want, now);
        }
        self.show(want, now);
        self.look_again_at(next_look, now, ctx);
    }

    fn draining(&self) -> bool {
        self.removed || self.drained
    }

    /// Hands permits to those who wait, the longest waiting first; returns how many starts
    /// are left for new instances.
    fn permit_the_waiting(&mut self, now: Timestamp) -> u32 {
        if self.quiet {
            return 0; // a process that ends begins nothing
        }
        let queue = self.pace.queue(&self.links.spec.policy, self.standing.reports());
        let mut deletes = queue.free_deletes;
        for id in queue.deletes {
            if deletes > 0 && self.permit(&id, Permit::Delete) {
                deletes -= 1;
            }
        }
        if self.draining() || !self.standing.is_settled() {
            return 0;
        }
        let mut starts = queue.free_starts.min(self.pace.breaker.admits(now));
        for id in queue.starts {
            if starts > 0 && self.permit(&id, Permit::Start) {
                starts -= 1;
            }
        }
        starts
    }

    fn permit(&mut self, id: &InstanceId, permit: Permit) -> bool {
        let Some(child) = self.children.get(id) else { return false };
        let shunned = self.pace.hosts.shunned(self.now());
        if permit == Permit::Start && !shunned.is_empty() {
            let hosts = shunned.into_iter().map(|(host, _)| host).collect();
            let _ = child.inlet.tell(ToInstance::Avoid(hosts));
        }
        let told = child.inlet.tell(ToInstance::Permit(permit)).is_ok();
        if told {
            self.pace.grant(id, permit);
        }
        told
    }

    fn create(&mut self, now: Timestamp) {
        let id = fresh_name(&self.links.spec.prefix, self.links.base.chance.word());
        // A name that exists is left alone: the next plan finds another.
        if self.links.base.registry.holds(&id)
            || self.employ(id.clone(), Birth::New(id.clone())).is_err()
        {
            return;
        }
        self.standing.expect(of_new(id.clone(), self.links.spec.revision.clone(), now));
        self.permit(&id, Permit::Start);
    }

    fn ask_to_go(&mut self, id: &InstanceId, reason: Reason, want: u32, now: Timestamp) {
        let Some(child) = self.children.get(id) else { return };
        if !self.pace.spend(&self.links.spec.policy, now) {
            return;
        }
        let evidence = format!("pool `{}` wants {want}", self.links.spec.id);
        let ask =
            Retire { rank: WishRank::Retire, reason, evidence, by: None, reply: Reply::nobody() };
        if child.inlet.tell(ToInstance::Retire(ask)).is_ok() {
            self.standing.ask(id, now);
        }
    }

    /// Shows what changed to the board, the ledger and the fleet.
    fn show(&mut self, want: u32, now: Timestamp) {
        let (spec, pool) = (&self.links.spec, &self.links.spec.id);
        let draining = self.draining();
        let breaker = self.pace.breaker.open_since();
        let mut view = self.standing.view(spec, self.demand, want, draining, breaker);
        view.shunned = self.pace.hosts.shunned(now);
        if self.shown.view.as_ref() != Some(&view) {
            self.links.base.registry.show_pool(view.clone());
            self.shown.view = Some(view);
        }
        let held = self.pace.breaker.admits(now) == 0;
        let accepts = self.standing.accepts(spec, draining, held);
        if self.shown.accepts != Some(accepts) {
            self.shown.accepts = Some(accepts);
            let _ = self.links.ledger.tell(ToLedger::Standing { pool: pool.clone(), accepts });
        }
        if self.shown.breaker != breaker {
            self.shown.breaker = breaker;
            let why = self.pace.breaker.why();
            let _ = self.fleet.tell(ToFleet::Breaker { pool: pool.clone(), open: breaker, why });
        }
        let empty = self.removed && self.standing.is_empty() && self.adopting.is_empty();
        if empty && !self.shown.empty {
            let _ = self.fleet.tell(ToFleet::PoolEmpty(pool.clone()));
        }
        self.shown.empty = empty;
    }

    fn look_again_at(
        &mut self,
        planned: Option<Timestamp>,
        now: Timestamp,
        ctx: &mut Context<Self>,
    ) {
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        let paced = self.pace.next_look(&self.links.spec.policy, now);
        let next = [planned, paced, self.standing.next_lapse()].into_iter().flatten().min();
        self.alarm = next.map(|at| {
            let wait = crate::model::elapsed(now, at).max(Duration::from_millis(1));
            ctx.run_later(wait, |this, ctx| {
                this.alarm = None;
                this.plan_soon(ctx);
            })
        });
    }
}

#[cfg(test)]
mod tests;
