//! The shell of an instance: save, then act. The only writer of its row.
//!
//! While a save is under way no other letter is read. Calls to the outside run beside the
//! mailbox and come back as letters; they end with the owner, so that a successor is never
//! surprised by its predecessor's next call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use tokio::task::AbortHandle;
use tracing::{error, info};

use super::asks::Asked;
use super::call::Posted;
use super::effects::Effect;
use super::notes::Notes;
use super::report::{Told, outcome_for_pool, report};
use super::step::{Input, Outcome, Said, dispatch, step};
use super::{Capabilities, Consent, Dispatch, MachineCall, ToInstance, Token};
use crate::backoff::until_some;
use crate::base::Base;
use crate::jobs::{InstanceChange, InstanceUpdate, ToLedger};
use crate::mail::{ActorRef, Mailbox, Reply};
use crate::model::{
    ExitRecord, Home, HostName, Instance, InstanceId, MachineView, PoolSpec, Refusal, State, Tail,
    Timestamp, elapsed,
};
use crate::mutants::{self, Mutant};
use crate::pool::{InstanceReport, ToPool};
use crate::ports::{Controller, Handover, InstanceRows, InstanceSave, Jit, SaveError};
use crate::registry::{Entry, Taken};
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

/// Tells how an owner comes to its instance.
pub(crate) enum Origin {
    New(InstanceId),
    /// A stored row, after a restart.
    Row(Box<Instance>),
    /// A stored row whose owner died, and whether by a panic.
    Revived(Box<Instance>, bool),
    /// A machine of ours that had no live record, and where its runner registers.
    Adopted(InstanceId, Box<MachineView>, Home),
}

/// Holds what an owner is connected to.
#[derive(Clone)]
pub(crate) struct Links {
    pub(crate) base: Base,
    pub(crate) capabilities: Capabilities,
    pub(crate) controller: Arc<Controller>,
    pub(crate) spec: Arc<PoolSpec>,
    pub(crate) pool: ActorRef<ToPool>,
    pub(crate) ledger: ActorRef<ToLedger>,
}

/// A started child: how to reach it, and the leash that halts it when dropped.
pub(crate) struct Child {
    pub(crate) mailbox: Mailbox<ToInstance>,
    pub(crate) stop_guard: StopGuard,
}

/// Starts the owner of an instance; its end is told to the pool as `Died`.
pub(crate) fn start(birth: Origin, links: Links) -> Result<Child, Taken> {
    let context = Context::<InstanceActor>::new();
    let mailbox: Mailbox<ToInstance> = mailbox(context.address());
    let now = links.base.clock.now();
    let (row, first) = match birth {
        Origin::Row(row) => (*row, Some(Input::Start)),
        Origin::Revived(row, panicked) => (*row, Some(Input::Revived { panicked })),
        Origin::New(id) => (super::birth::requested_row(id, &links.spec, now), None),
        Origin::Adopted(id, view, home) => {
            (super::birth::adopted(id, &view, home, &links.spec, now), None)
        }
    };
    let entry = links.base.registry.claim(row.id.clone(), mailbox.clone())?;
    let id = row.id.clone();
    let pool = links.pool.clone();
    let exit_notifier = ExitNotifier::new(move |panicked| {
        // A pool that is gone itself has halted us: nobody is left to tell.
        let _: Result<(), _> = pool.tell(ToPool::Died { id, panicked });
    });
    let provider = links.capabilities.providers.get(&row.provider);
    let handover =
        provider.map_or(Handover::default(), |provider| provider.capabilities().handover);
    let cut_off = cut_off(&row, &links.capabilities);
    let notes = Notes { cut_off, handover, ..Notes::default() };
    context.run(InstanceActor {
        entry: Some(entry),
        effects: EffectRunner::default(),
        row: Arc::new(row),
        first,
        notes,
        links,
        me: mailbox.clone(),
        avoid: Vec::new(),
        pollers: Vec::new(),
        alarm: None,
        saving: false,
        last_report: None,
        told: Told::default(),
        _exit_notifier: exit_notifier,
    });
    let halt = mailbox.clone();
    let stop_guard = StopGuard::new(move || {
        let _: Result<(), _> = halt.tell(ToInstance::Halt);
    });
    Ok(Child { mailbox, stop_guard })
}

/// The owner of one instance. Fields drop in order: the board learns of the end before the
/// pool does.
struct InstanceActor {
    entry: Option<Entry>,
    effects: EffectRunner,
    row: Arc<Instance>,
    /// What a stored row begins with; a new one is stored first.
    first: Option<Input>,
    notes: Notes,
    links: Links,
    me: Mailbox<ToInstance>,
    /// Where a machine should not go; an order's detail, no fact about this instance.
    avoid: Vec<HostName>,
    pollers: Vec<Reply<Dispatch>>,
    alarm: Option<(Timestamp, SpawnHandle)>,
    /// Whether a save is under way. actix polls timers once more after a letter that waits.
    saving: bool,
    last_report: Option<InstanceReport>,
    told: Told,
    _exit_notifier: ExitNotifier,
}

impl Actor for InstanceActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let Some(first) = self.first.take() else {
            self.insert(ctx);
            return;
        };
        if let Some(entry) = &self.entry {
            entry.show(Arc::clone(&self.row));
        }
        self.turn(first, Respond::Nobody, ctx);
    }
}

impl Handler<Envelope<ToInstance>> for InstanceActor {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToInstance>, ctx: &mut Self::Context) {
        let (input, respond) = match message {
            ToInstance::Permit(permit) => (Input::Permit(permit), Respond::Nobody),
            ToInstance::Avoid(hosts) => {
                self.avoid = hosts;
                return;
            }
            ToInstance::Answered(token, answer) => {
                self.effects.forget(token);
                (Input::Answered(token, answer), Respond::Nobody)
            }
            ToInstance::Seen(view) => (Input::Seen(view), Respond::Nobody),
            ToInstance::Missed => (Input::Missed, Respond::Nobody),
            ToInstance::RunnerSeen(view) => (Input::RunnerSeen(view), Respond::Nobody),
            ToInstance::RunnerMissed => (Input::RunnerMissed, Respond::Nobody),
            ToInstance::Offer { job, generation, delivered: _, reply } => {
                (Input::Offer(job, generation), Respond::Offer(reply))
            }
            ToInstance::OfferEnded { job, generation, why } => {
                (Input::OfferEnded(job, generation, why), Respond::Nobody)
            }
            ToInstance::Executing(job) => (Input::Executing(job), Respond::Nobody),
            ToInstance::JobOver(over) => (Input::JobOver(over), Respond::Nobody),
            ToInstance::Retire(ask) => {
                (Input::Retire(Asked::from(&ask)), Respond::Retire(ask.reply))
            }
            ToInstance::Poll(reply) => {
                self.pollers.push(reply);
                (Input::Poll, Respond::Nobody)
            }
            ToInstance::MachineCalled { attempt, call, reply } => {
                let asks = call == MachineCall::RequestJit;
                (Input::MachineCalled(attempt, call), Respond::MachineCalled { asks, reply })
            }
            ToInstance::Spec(spec) => {
                self.links.spec = spec;
                (Input::Wake, Respond::Nobody)
            }
            ToInstance::Introduce => {
                self.told = Told::default();
                (Input::Wake, Respond::Nobody)
            }
            ToInstance::Halt => {
                ctx.stop();
                return;
            }
            #[cfg(feature = "testing")]
            ToInstance::Panic => std::panic::resume_unwind(Box::new("told to panic")),
        };
        self.turn(input, respond, ctx);
    }
}

/// Whom to answer after the save.
enum Respond {
    Nobody,
    Offer(Reply<Result<(), Refusal>>),
    Retire(Reply<Result<Consent, Refusal>>),
    MachineCalled { asks: bool, reply: Reply<Result<Option<Jit>, Refusal>> },
}

impl InstanceActor {
    /// Makes the new row durable before anything else.
    fn insert(&mut self, ctx: &mut Context<Self>) {
        let now = self.links.base.clock.now();
        let mut row = (*self.row).clone();
        let events = super::birth::first_events(&mut row, now);
        self.save(row, events, None, ctx, |act, ctx| {
            act.turn(Input::Start, Respond::Nobody, ctx);
        });
    }

    fn turn(&mut self, input: Input, respond: Respond, ctx: &mut Context<Self>) {
        let now = self.links.base.clock.now();
        let outcome = step(
            &self.row,
            &mut self.notes,
            input,
            &self.links.spec,
            &*self.links.capabilities.seal,
            now,
        );
        if outcome.changed {
            let Outcome { row, events, exit, calls, wake, said, returned_offer, .. } = outcome;
            self.save(row, events, exit, ctx, move |act, ctx| {
                act.give_back(returned_offer);
                act.act(calls, wake, said, respond, ctx);
            });
        } else {
            self.act(outcome.calls, outcome.wake, outcome.said, respond, ctx);
        }
    }

    /// Saves, for as long as it takes; then runs `and_then`. Nothing else is read meanwhile.
    fn save(
        &mut self,
        mut row: Instance,
        events: Vec<crate::model::Event>,
        exit: Option<ExitRecord>,
        ctx: &mut Context<Self>,
        and_then: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let replaces = self.row.version;
        row.version = replaces.next();
        row.write = self.links.base.write_id();
        let save = InstanceSave {
            row: row.clone(),
            replaces,
            epoch: self.links.base.epoch,
            events: events.clone(),
            exit: exit.clone(),
        };
        let saving = save_for_ever(Arc::clone(&self.links.capabilities.rows), save);
        self.saving = true;
        ctx.wait(saving.into_actor(self).map(move |saved, act, ctx| match saved {
            Ok(()) => {
                act.saving = false;
                act.row = Arc::new(row);
                if let Some(entry) = &act.entry {
                    entry.show(Arc::clone(&act.row));
                }
                for event in &events {
                    act.links.base.registry.announce(event);
                }
                if let Some(exit) = &exit {
                    log_end(exit);
                }
                and_then(act, ctx);
            }
            Err(refused) => act.disown(&refused, ctx),
        }));
    }

    /// Stops, because the store says that somebody else is the owner.
    fn disown(&mut self, refused: &SaveError, ctx: &mut Context<Self>) {
        error!(
            pool.id = %self.row.pool, instance.id = %self.row.id,
            "owner of `{}` stops: {refused}", self.row.id
        );
        let never_stored = self.row.version.0 == 0;
        if let (true, Some(entry)) = (never_stored, &mut self.entry) {
            entry.finish();
        }
        ctx.stop();
    }

    fn act(
        &mut self,
        calls: Vec<Posted>,
        wake: Option<Timestamp>,
        said: Said,
        respond: Respond,
        ctx: &mut Context<Self>,
    ) {
        for posted in calls {
            self.run(posted);
        }
        match (said, respond) {
            (Said::Offer(answer), Respond::Offer(reply)) => reply.send(answer),
            (Said::Retire(answer), Respond::Retire(reply)) => reply.send(answer),
            (Said::MachineCalled(heard), Respond::MachineCalled { asks, reply }) => {
                let sealed = self.row.sealed_jit.as_ref().filter(|_| asks);
                let jit = sealed.and_then(|sealed| self.links.capabilities.seal.open(sealed));
                reply.send(heard.map(|()| jit));
            }
            // A `deleted` owner is about to go; whoever asked learns it from the silence.
            (
                _,
                Respond::Nobody
                | Respond::Offer(_)
                | Respond::Retire(_)
                | Respond::MachineCalled { .. },
            ) => {}
        }
        self.answer_pollers();
        self.set_alarm(wake, ctx);
        self.tell_around();
        if mutants::is(Mutant::EntryRemovedEarly) && self.row.state == State::Deleting {
            if let Some(entry) = &mut self.entry {
                entry.finish();
            }
            self.entry = None;
        }
        if self.row.state == State::Deleted {
            if let Some(entry) = &mut self.entry {
                entry.finish();
            }
            ctx.stop();
        }
    }

    fn run(&mut self, Posted { token, call }: Posted) {
        let capabilities = &self.links.capabilities;
        let (Some(provider), Some(forge)) = (
            capabilities.providers.get(&self.row.provider),
            capabilities.forges.get(&self.row.forge),
        ) else {
            return;
        };
        let effect = Effect {
            row: Arc::clone(&self.row),
            spec: Arc::clone(&self.links.spec),
            controller: Arc::clone(&self.links.controller),
            provider: Arc::clone(provider),
            forge: Arc::clone(forge),
            records: Arc::clone(&self.links.base.records),
            ledger: self.links.ledger.clone(),
            avoid: self.avoid.clone(),
            begun: self.links.base.clock.now(),
        };
        let me = self.me.clone();
        let handle = self.links.base.spawner.spawn(Box::pin(async move {
            let answer = effect.run(call).await;
            // An owner that is gone has no use for it.
            let _: Result<(), _> = me.tell(ToInstance::Answered(token, answer));
        }));
        self.effects.0.insert(token, handle);
    }

    fn answer_pollers(&mut self) {
        if self.pollers.is_empty() {
            return;
        }
        match dispatch(&self.row, &*self.links.capabilities.seal) {
            Some(answer) => {
                for poller in self.pollers.drain(..) {
                    poller.send(answer.clone());
                }
            }
            None => self.pollers.retain(|poller| !poller.is_abandoned()),
        }
    }

    fn set_alarm(&mut self, wake: Option<Timestamp>, ctx: &mut Context<Self>) {
        if self.alarm.as_ref().map(|(at, _)| *at) == wake {
            return;
        }
        if let Some((_, alarm)) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        if let Some(at) = wake {
            let wait = elapsed(self.links.base.clock.now(), at).max(Duration::from_millis(1));
            let alarm = ctx.run_later(wait, |act, ctx| {
                act.alarm = None;
                // What is being saved was decided at this very moment, and sets the next alarm.
                if !act.saving {
                    act.turn(Input::Wake, Respond::Nobody, ctx);
                }
            });
            self.alarm = Some((at, alarm));
        }
    }

    /// Tells the pool and the ledger what they must know, when it is new.
    fn tell_around(&mut self) {
        let report = report(&self.row, &self.notes, outcome_for_pool(&self.row));
        if self.last_report.as_ref() != Some(&report) {
            self.last_report = Some(report.clone());
            let _: Result<(), _> = self.links.pool.tell(ToPool::Report(report));
        }
        let mut news = self.told.news(&self.row);
        if std::mem::take(&mut self.notes.runner_lost) {
            news.push(InstanceChange::RunnerLost);
        }
        for what in news {
            let (id, pool) = (self.row.id.clone(), self.row.pool.clone());
            let news = InstanceUpdate { id, pool, what };
            let _: Result<(), _> = self.links.ledger.tell(ToLedger::Instance(news));
        }
    }

    fn give_back(&self, offer: Option<crate::model::HeldOffer>) {
        if let Some(held) = offer {
            let _: Result<(), _> = self.links.ledger.tell(ToLedger::OfferAnswered {
                job: held.job,
                instance: self.row.id.clone(),
                generation: held.generation,
                answer: Some(Err(Refusal::NotReady)),
            });
        }
    }
}

/// Calls under way; they end with their owner.
#[derive(Default)]
struct EffectRunner(BTreeMap<Token, AbortHandle>);

impl EffectRunner {
    fn forget(&mut self, token: Token) {
        self.0.remove(&token);
    }
}

impl Drop for EffectRunner {
    fn drop(&mut self) {
        for effect in self.0.values() {
            effect.abort();
        }
    }
}

/// Saves until the store takes it or says that it never will.
async fn save_for_ever(rows: Arc<dyn InstanceRows>, save: InstanceSave) -> Result<(), SaveError> {
    until_some(|| async {
        match rows.save(save.clone()).await {
            Err(SaveError::Retry(_)) => None,
            done => Some(done),
        }
    })
    .await
}

fn cut_off(row: &Instance, capabilities: &Capabilities) -> Option<String> {
    if !capabilities.providers.contains_key(&row.provider) {
        Some(format!("provider `{}` is not configured", row.provider))
    } else if !capabilities.forges.contains_key(&row.forge) {
        Some(format!("forge `{}` is not configured", row.forge))
    } else {
        None
    }
}

fn log_end(exit: &ExitRecord) {
    let facts = exit.exit.as_ref();
    info!(
        pool.id = %exit.pool, instance.id = %exit.instance,
        exit_code = facts.and_then(|facts| facts.code),
        signal = facts.and_then(|facts| facts.signal),
        reason = facts.and_then(|facts| facts.reason.as_deref()),
        verdict = %exit.verdict.class,
        "runner terminated"
    );
    if let Tail::Captured(tail) = &exit.tail {
        info!(
            pool.id = %exit.pool, instance.id = %exit.instance,
            job.id = exit.job.as_ref().map(tracing::field::display),
            ended_at = facts.and_then(|facts| facts.ended_at).map(tracing::field::display),
            tail = %tail,
            "runner death log captured"
        );
    }
}
