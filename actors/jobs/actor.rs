//! The shell of the ledger: save, then act.
//!
//! Messages that wait together share one save: each changes memory and adds to a batch, and
//! when the mailbox is empty the batch is saved. No message goes out before that, and none is
//! handled while the save is under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use tokio::task::AbortHandle;
use tracing::{error, info, warn};

use super::change::{Act, LedgerChange};
use super::instances::updates_of_row;
use super::ledger::{Ledger, LedgerInput};
use super::offers::OfferKey;
use super::store::{StoredJobs, load};
use super::{JobCapabilities, ToLedger};
use crate::base::Base;
use crate::fleet::{FleetPart, ToFleet};
use crate::instance::{ToInstance, log_death};
use crate::mail::{ActorRef, Reply};
use crate::model::{InstanceId, Job, PoolId, PoolSpec, Timestamp, elapsed};
use crate::pool::ToPool;
use crate::ports::SaveError;
use crate::requeue::ToRequeue;
use crate::settings::RequeueSettings;
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// How long an instance may take to answer an offer.
const OFFER_TIMEOUT: Duration = Duration::from_secs(10);

/// How many messages may share a save, so that a flood cannot put it off for ever.
const MAX_BATCH: usize = 256;

/// Holds what the ledger is connected to.
pub(crate) struct LedgerStart {
    pub(crate) actor_ref: ActorRef<ToLedger>,
    pub(crate) fleet: ActorRef<ToFleet>,
    pub(crate) requeue: ActorRef<ToRequeue>,
    pub(crate) base: Base,
    pub(crate) capabilities: JobCapabilities,
    pub(crate) settings: RequeueSettings,
}

/// Starts the ledger; its exit is reported to the fleet as `Died`.
pub(crate) fn start(start: LedgerStart) -> StopGuard {
    let actor_ref = start.actor_ref.clone();
    let mailbox = mailbox(LedgerActor::new(start).start());
    actor_ref.install(mailbox.clone());
    StopGuard::new(move || {
        let _ = mailbox.tell(ToLedger::Halt);
    })
}

struct LedgerActor {
    ledger: Ledger,
    links: LedgerStart,
    pools: BTreeMap<PoolId, ActorRef<ToPool>>,
    batch: Batch,
    effects: Vec<AbortHandle>,
    /// When a job has rested for long enough, and the timer for that.
    alarm: Option<(Timestamp, SpawnHandle)>,
    _exit_notifier: ExitNotifier,
}

/// Gathers changes until they are saved together.
#[derive(Default)]
struct Batch {
    change: LedgerChange,
    replies: Vec<(Reply<bool>, bool)>,
    size: usize,
}

impl LedgerActor {
    fn new(links: LedgerStart) -> Self {
        let fleet = links.fleet.clone();
        let exit_notifier = ExitNotifier::new(move |panicked| {
            let _ = fleet.tell(ToFleet::Died { part: FleetPart::Ledger, panicked });
        });
        let now = links.base.clock.now();
        let (open, closed, tombstones) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            ledger: Ledger::restore(links.settings.clone(), open, closed, tombstones, now),
            links,
            pools: BTreeMap::new(),
            batch: Batch::default(),
            effects: Vec::new(),
            alarm: None,
            _exit_notifier: exit_notifier,
        }
    }

    fn now(&self) -> Timestamp {
        self.links.base.clock.now()
    }

    /// Loads what the store holds, while messages wait.
    fn load(&self, ctx: &mut Context<Self>) {
        let base = self.links.base.clone();
        let now = base.clock.now();
        base.registry.show_ledger(false, now);
        let loading = async move { load(&base, now).await };
        ctx.wait(loading.into_actor(self).map(|stored, this, ctx| {
            let (now, settings) = (this.now(), this.links.settings.clone());
            info!(jobs = stored.open.len(), "the ledger is open");
            let StoredJobs { open, closed, tombstones, unhandled, live, provisional, quarantined } =
                stored;
            this.links.base.registry.show_jobs(&open);
            this.ledger = Ledger::restore(settings, open, closed, tombstones, now);
            this.ledger.quarantine(quarantined);
            this.ledger.restore_verdicts(provisional);
            for row in live {
                this.ledger.learn_home(&row);
                let has_owner = this.links.base.registry.mailbox(&row.id).is_some();
                for update in updates_of_row(&row, has_owner) {
                    let change = this.ledger.handle(LedgerInput::Instance(update), now);
                    this.gather(change, ctx);
                }
            }
            for notice in unhandled {
                let change = this.ledger.handle(LedgerInput::Notice(notice), now);
                this.gather(change, ctx);
            }
            this.links.base.registry.show_ledger(true, now);
        }));
    }

    /// Adds a change to the batch, which is saved when the mailbox is empty.
    fn gather(&mut self, change: LedgerChange, ctx: &mut Context<Self>) {
        self.set_alarm(ctx);
        self.batch.change.absorb(change);
        self.batch.size += 1;
        match self.batch.size {
            1 => {
                // Polled once the mailbox is empty.
                let rest = async {}.into_actor(self).map(|(), this, ctx| this.flush(ctx));
                ctx.spawn(rest);
            }
            MAX_BATCH => self.flush(ctx),
            _ => {}
        }
    }

    /// Sets the timer for the next job that has rested for long enough.
    fn set_alarm(&mut self, ctx: &mut Context<Self>) {
        let next = self.ledger.next_wake();
        if self.alarm.as_ref().map(|(at, _)| *at) == next {
            return;
        }
        if let Some((_, alarm)) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        self.alarm = next.map(|at| {
            let wait = elapsed(self.now(), at).max(Duration::from_millis(1));
            let alarm = ctx.run_later(wait, |this, ctx| {
                this.alarm = None;
                let change = this.ledger.handle(LedgerInput::Wake, this.now());
                this.gather(change, ctx);
            });
            (at, alarm)
        });
    }

    fn gather_answer(
        &mut self,
        (change, answer): (LedgerChange, bool),
        reply: Reply<bool>,
        ctx: &mut Context<Self>,
    ) {
        self.batch.replies.push((reply, answer));
        self.gather(change, ctx);
    }

    /// Saves the batch, then does what follows from it.
    fn flush(&mut self, ctx: &mut Context<Self>) {
        let Batch { change, replies, .. } = std::mem::take(&mut self.batch);
        let LedgerChange { save, acts } = change;
        if save.is_empty() {
            return self.perform(acts, replies);
        }
        let events: Vec<_> = save.events.values().cloned().collect();
        let jobs: Vec<_> = save.jobs.values().cloned().collect();
        let save = save.into_save(self.links.base.epoch, self.links.base.write_id());
        let capabilities = self.links.capabilities.clone();
        let saved = async move { capabilities.save(save).await };
        ctx.wait(saved.into_actor(self).map(move |saved, this, ctx| match saved {
            Ok(()) => {
                for job in jobs {
                    this.report_late_proof(&job);
                    this.links.base.registry.show_job(job);
                }
                for event in events {
                    this.links.base.registry.announce(&event);
                }
                this.perform(acts, replies);
            }
            Err(why) => {
                error!("the ledger stops: {why}");
                if matches!(why, SaveError::Fenced(_)) {
                    let _ = this.links.fleet.tell(ToFleet::Fenced);
                }
                ctx.stop();
            }
        }));
    }

    fn perform(&mut self, acts: Vec<Act>, replies: Vec<(Reply<bool>, bool)>) {
        for act in acts {
            self.do_one(act);
        }
        for (reply, answer) in replies {
            reply.send(answer);
        }
    }

    /// Tells a pool of the runner that its job ran on, where no owner is left to hear it: that life
    /// was no failure.
    fn report_late_proof(&self, job: &Job) {
        let run = job.execution.as_ref();
        let heard =
            run.is_some_and(|run| self.links.base.registry.mailbox(&run.instance).is_some());
        let pool = job.pool.as_ref().and_then(|pool| self.pools.get(pool));
        if let (Some(runner), Some(pool), false) = (&job.runner, pool, heard) {
            let _ = pool.tell(ToPool::RanOn(runner.name.clone()));
        }
    }

    /// Does one thing. A message whose receiver is gone is lost: its successor asks, or gets
    /// it again when it reports.
    fn do_one(&mut self, act: Act) {
        match act {
            Act::Offer { instance, job, generation, delivered } => {
                self.offer(OfferKey { job, instance, generation }, delivered);
            }
            Act::EndOffer { instance, job, generation, why } => {
                self.tell(&instance, ToInstance::OfferEnded { job, generation, why });
            }
            Act::ShowExecution { instance, job } => {
                self.tell(&instance, ToInstance::Executing(job));
            }
            Act::ShowJobOver { instance, over } => {
                self.tell(&instance, ToInstance::JobOver(over));
            }
            Act::Demand { pool, demand } => {
                if let Some(actor_ref) = self.pools.get(&pool) {
                    let _ = actor_ref.tell(ToPool::Demand(demand));
                }
            }
            Act::AskForge(job, why) => {
                let _ = self.links.requeue.tell(ToRequeue::Ask(job, why));
            }
            Act::TellDeath(instance) => self.tell_death(instance),
            Act::Announce(event) => self.links.base.registry.announce(&event),
            Act::Show(job) => self.links.base.registry.show_job(*job),
            Act::Hide(job) => self.links.base.registry.hide_job(&job),
        }
    }

    /// Tells the log of an end, once its record is read; the end of the log lies in the store alone.
    fn tell_death(&mut self, instance: InstanceId) {
        let records = Arc::clone(&self.links.base.records);
        let effect = async move {
            match records.exit(&instance).await {
                Ok(record) => record.iter().for_each(log_death),
                Err(why) => {
                    warn!(instance.id = %instance, "instance {instance}: its log is not told: {why}");
                }
            }
        };
        self.effects.retain(|effect| !effect.is_finished());
        self.effects.push(self.links.base.spawner.spawn(Box::pin(effect)));
    }

    fn tell(&self, instance: &InstanceId, message: ToInstance) {
        if let Some(mailbox) = self.links.base.registry.mailbox(instance) {
            let _ = mailbox.tell(message);
        }
    }

    /// Offers a job at once, so that the offer's end cannot overtake it, and waits for the
    /// answer beside the mailbox.
    fn offer(&mut self, offer: OfferKey, delivered: bool) {
        let OfferKey { job, instance, generation } = offer;
        let (reply, answer) = Reply::channel();
        let message = ToInstance::Offer { job: job.clone(), generation, delivered, reply };
        self.tell(&instance, message);
        let actor_ref = self.links.actor_ref.clone();
        let effect = async move {
            // An owner that is gone has dropped the reply: that is an answer too.
            let answer = tokio::time::timeout(OFFER_TIMEOUT, answer).await;
            let answer = answer.ok().and_then(Result::ok);
            let _ = actor_ref.tell(ToLedger::OfferAnswered { job, instance, generation, answer });
        };
        self.effects.retain(|effect| !effect.is_finished());
        self.effects.push(self.links.base.spawner.spawn(Box::pin(effect)));
    }
}

impl Actor for LedgerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.load(ctx);
        ctx.run_interval(self.links.settings.tick, |this, ctx| {
            let change = this.ledger.handle(LedgerInput::Tick, this.now());
            this.gather(change, ctx);
        });
    }
}

impl Handler<Envelope<ToLedger>> for LedgerActor {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToLedger>, ctx: &mut Self::Context) {
        let now = self.now();
        let input = match message {
            ToLedger::Notice(notice) => LedgerInput::Notice(notice),
            ToLedger::Finding(finding) => LedgerInput::Finding(finding),
            ToLedger::Instance(update) => LedgerInput::Instance(update),
            ToLedger::Deliver { job, instance, generation, reply } => {
                let offer = OfferKey { job, instance, generation };
                let answer = self.ledger.deliver(&offer, now);
                return self.gather_answer(answer, reply, ctx);
            }
            ToLedger::IsOpen { job, instance, generation, reply } => {
                let offer = OfferKey { job, instance, generation };
                let answer = self.ledger.is_open(&offer, now);
                return self.gather_answer(answer, reply, ctx);
            }
            ToLedger::OfferAnswered { job, instance, generation, answer } => {
                let offer = OfferKey { job, instance, generation };
                LedgerInput::OfferAnswered { offer, answer }
            }
            ToLedger::Pools(pools) => {
                let (specs, actor_refs): (Vec<_>, Vec<_>) = pools.into_iter().unzip();
                let ids = specs.iter().map(|spec: &Arc<PoolSpec>| spec.id.clone());
                self.pools = ids.zip(actor_refs).collect();
                LedgerInput::Pools(specs)
            }
            ToLedger::PoolStatus { pool, accepts } => LedgerInput::PoolStatus { pool, accepts },
            ToLedger::Show { job, reply } => return reply.send(self.ledger.show(&job).cloned()),
            ToLedger::Tick => LedgerInput::Tick,
            ToLedger::Halt => return ctx.stop(),
            #[cfg(feature = "testing")]
            ToLedger::Panic => std::panic::resume_unwind(Box::new("told to panic")),
        };
        let change = self.ledger.handle(input, now);
        self.gather(change, ctx);
    }
}

impl Drop for LedgerActor {
    fn drop(&mut self) {
        for effect in &self.effects {
            effect.abort();
        }
    }
}
