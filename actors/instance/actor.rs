//! The shell of an instance: save, then act. The only writer of its row.
//!
//! While a save is under way no other message is read. Effects run beside the mailbox and their
//! outcomes come back as messages. What to do is decided in [`lifecycle`](super::lifecycle).

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use tracing::error;

use super::effect::{Effect, PostedEffect};
use super::effect_runner::{EffectRunner, OwedOutcome, RunningEffects};
use super::lifecycle::Lifecycle;
use super::offers::dispatch;
use super::origin::{Origin, first_events};
use super::removal::RetireRequest;
use super::report::{LedgerQuestions, Reporter, give_back, log_exit, report_record};
use super::transition::{AfterSave, InputReply, InstanceInput, TransitionResult};
use super::{Capabilities, Consent, Dispatch, MachineCall, NextReport, ToInstance};
use crate::backoff::until_some;
use crate::base::Base;
use crate::jobs::ToLedger;
use crate::mail::{ActorRef, Mailbox, Reply};
use crate::model::{
    Event, ExitRecord, HostName, Instance, PoolSpec, Refusal, State, Timestamp, elapsed,
};
use crate::mutants::{self, Mutant};
use crate::pool::ToPool;
use crate::ports::{Controller, InstanceRows, InstanceSave, Jit, MintGate, SaveError};
use crate::registry::{AlreadyOwned, Entry};
use crate::supervise::{Envelope, ExitNotifier, StopGuard, mailbox};

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

/// A started owner: how to reach it, and the guard that stops it when dropped.
pub(crate) struct Child {
    pub(crate) mailbox: Mailbox<ToInstance>,
    pub(crate) stop_guard: StopGuard,
}

/// Starts the owner of an instance; its exit is reported to the pool as `Died`.
pub(crate) fn start(origin: Origin, links: Links) -> Result<Child, AlreadyOwned> {
    let context = Context::<InstanceActor>::new();
    let mailbox: Mailbox<ToInstance> = mailbox(context.address());
    let (row, first) = origin.begin(&links.spec, links.base.clock.now());
    let entry = links.base.registry.claim(row.id.clone(), mailbox.clone())?;
    let id = row.id.clone();
    let pool = links.pool.clone();
    let exit_notifier = ExitNotifier::new(move |panicked| {
        // Where the pool is gone too, it has stopped this owner itself and needs no notice.
        let _: Result<(), _> = pool.tell(ToPool::Died { id, panicked });
    });
    let capabilities = &links.capabilities;
    let lifecycle = Lifecycle::new(capabilities.handover(&row), capabilities.cut_off(&row))
        .with_create_slots(capabilities.has_create_slots(&row));
    context.run(InstanceActor {
        entry: Some(entry),
        effects: RunningEffects::default(),
        mint_gate: MintGate::default(),
        row: Arc::new(row),
        first,
        lifecycle,
        links,
        me: mailbox.clone(),
        avoid: Vec::new(),
        pollers: Vec::new(),
        alarm: None,
        saving: false,
        reporter: Reporter::default(),
        _exit_notifier: exit_notifier,
    });
    let halt = mailbox.clone();
    let stop_guard = StopGuard::new(move || {
        let _: Result<(), _> = halt.tell(ToInstance::Halt);
    });
    Ok(Child { mailbox, stop_guard })
}

/// The owner of one instance. Fields drop in order: the registry learns of the exit before the
/// pool does.
struct InstanceActor {
    entry: Option<Entry>,
    effects: RunningEffects,
    /// Lets the last registration be given up for as long as it was not sent.
    mint_gate: MintGate,
    row: Arc<Instance>,
    /// What a stored row begins with; a new one is stored first.
    first: Option<InstanceInput>,
    lifecycle: Lifecycle,
    links: Links,
    me: Mailbox<ToInstance>,
    /// Hosts where the machine should not go; a detail of the order, no fact about this instance.
    avoid: Vec<HostName>,
    pollers: Vec<Reply<Dispatch>>,
    alarm: Option<(Timestamp, SpawnHandle)>,
    /// Whether a save is under way. actix polls timers once more after a message that waits.
    saving: bool,
    reporter: Reporter,
    _exit_notifier: ExitNotifier,
}

/// The reply that a message waits for; it is sent after the save.
enum PendingReply {
    Nothing,
    Offer(Reply<Result<(), Refusal>>),
    Retire(Reply<Result<Consent, Refusal>>),
    MachineCalled { wants_jit: bool, reply: Reply<Result<Option<Jit>, Refusal>> },
    Reported(Reply<Result<NextReport, Refusal>>),
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
        self.step(first, PendingReply::Nothing, ctx);
    }
}

impl Handler<Envelope<ToInstance>> for InstanceActor {
    type Result = ();

    fn handle(&mut self, Envelope(message): Envelope<ToInstance>, ctx: &mut Self::Context) {
        let mut pending = PendingReply::Nothing;
        let input = match message {
            ToInstance::Permit(permit) => InstanceInput::Permit(permit),
            ToInstance::Avoid(hosts) => {
                self.avoid = hosts;
                return;
            }
            ToInstance::EffectDone(token, outcome) => {
                self.effects.done(token);
                InstanceInput::EffectDone(token, outcome)
            }
            ToInstance::Seen(view) => InstanceInput::Seen(view),
            ToInstance::Missed => InstanceInput::Missed,
            ToInstance::RunnerSeen(view) => InstanceInput::RunnerSeen(view),
            ToInstance::RunnerMissed => InstanceInput::RunnerMissed,
            ToInstance::Offer { job, generation, delivered: _, reply } => {
                pending = PendingReply::Offer(reply);
                InstanceInput::Offer(job, generation)
            }
            ToInstance::OfferEnded { job, generation, why } => {
                InstanceInput::OfferEnded(job, generation, why)
            }
            ToInstance::Executing(job) => InstanceInput::Executing(job),
            ToInstance::JobOver(over) => InstanceInput::JobOver(over),
            ToInstance::Retire(message) => {
                let request = RetireRequest::from(&message);
                pending = PendingReply::Retire(message.reply);
                InstanceInput::Retire(request)
            }
            ToInstance::Poll { acknowledges, reply } => {
                self.pollers.push(reply);
                InstanceInput::Poll { acknowledges }
            }
            ToInstance::Acknowledged => InstanceInput::Acknowledged,
            ToInstance::Host(condition) => InstanceInput::Host(condition),
            ToInstance::MachineCalled { attempt, call, reply } => {
                let wants_jit = call == MachineCall::RequestJit;
                pending = PendingReply::MachineCalled { wants_jit, reply };
                InstanceInput::MachineCalled(attempt, call)
            }
            ToInstance::Reported { attempt, report, reply } => {
                pending = PendingReply::Reported(reply);
                InstanceInput::Reported(attempt, report)
            }
            ToInstance::Spec(spec) => {
                self.links.spec = spec;
                InstanceInput::Wake
            }
            ToInstance::Introduce => {
                self.reporter.forget_ledger();
                InstanceInput::Wake
            }
            ToInstance::Halt => {
                ctx.stop();
                return;
            }
            #[cfg(feature = "testing")]
            ToInstance::Panic => std::panic::resume_unwind(Box::new("told to panic")),
        };
        self.step(input, pending, ctx);
    }
}

impl InstanceActor {
    /// Stores the new row before anything else.
    fn insert(&mut self, ctx: &mut Context<Self>) {
        let mut row = (*self.row).clone();
        let events = first_events(&mut row, self.links.base.clock.now());
        self.save(row, events, None, ctx, |act, ctx| {
            act.step(InstanceInput::Start, PendingReply::Nothing, ctx);
        });
    }

    /// Decides, saves if there is anything to save, then acts.
    fn step(&mut self, input: InstanceInput, pending: PendingReply, ctx: &mut Context<Self>) {
        let TransitionResult { row, changed, events, exit, after } = self.lifecycle.step(
            &self.row,
            input,
            &self.links.spec,
            self.links.capabilities.seal(),
            self.links.base.clock.now(),
        );
        if changed {
            self.save(row, events, exit, ctx, move |act, ctx| act.act(after, pending, ctx));
        } else {
            self.act(after, pending, ctx);
        }
    }

    /// Saves, for as long as it takes; then runs `and_then`. Nothing else is read meanwhile.
    fn save(
        &mut self,
        mut row: Instance,
        events: Vec<Event>,
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
        let saving = save_until_stored(self.links.capabilities.rows(), save);
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
                if let Some(exit) = exit {
                    log_exit(&exit);
                    report_record(&exit, &act.links);
                    act.reporter.keep_exit(exit);
                }
                and_then(act, ctx);
            }
            Err(refused) => act.disown(&refused, ctx),
        }));
    }

    /// Stops, because the store says that another process is the owner.
    fn disown(&mut self, refused: &SaveError, ctx: &mut Context<Self>) {
        error!(
            pool.id = %self.row.pool, instance.id = %self.row.id,
            "instance {}: its owner stops: {refused}", self.row.id
        );
        let never_stored = self.row.version.0 == 0;
        if let (true, Some(entry)) = (never_stored, &mut self.entry) {
            entry.finish();
        }
        ctx.stop();
    }

    /// Does what was decided, now that it is durable.
    fn act(&mut self, after: AfterSave, pending: PendingReply, ctx: &mut Context<Self>) {
        if let Some((offer, why)) = after.returned_offer {
            give_back(offer, why, &self.row, &self.links);
        }
        if after.give_up_mint {
            // Either way an answer comes, and says what became of it.
            self.mint_gate.give_up();
        }
        for effect in after.effects {
            self.run(effect);
        }
        self.reply(after.reply, pending);
        let handed_out = self.answer_pollers();
        self.set_alarm(after.wake, ctx);
        let questions =
            LedgerQuestions { runner_lost: after.runner_lost, delivery: after.delivery_in_doubt };
        let now = self.links.base.clock.now();
        self.reporter.publish(&self.row, &self.lifecycle, questions, &self.links, now);
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
        } else if handed_out {
            self.step(InstanceInput::HandedOut, PendingReply::Nothing, ctx);
        }
    }

    fn run(&mut self, posted: PostedEffect) {
        let now = self.links.base.clock.now();
        if matches!(posted.effect, Effect::Mint(_)) {
            self.mint_gate = MintGate::default();
        }
        let gate = self.mint_gate.clone();
        let runner = EffectRunner::new(&self.links, &self.row, &self.avoid, now, gate);
        let Some(runner) = runner else { return };
        let owed = OwedOutcome::new(self.me.clone(), &posted, &runner);
        let PostedEffect { token, effect } = posted;
        let handle = self.links.base.spawner.spawn(Box::pin(async move {
            owed.settle(runner.run(effect).await);
        }));
        self.effects.insert(token, handle);
    }

    fn reply(&self, reply: InputReply, pending: PendingReply) {
        match (reply, pending) {
            (InputReply::Offer(answer), PendingReply::Offer(reply)) => reply.send(answer),
            (InputReply::Retire(answer), PendingReply::Retire(reply)) => reply.send(answer),
            (InputReply::Reported(answer), PendingReply::Reported(reply)) => reply.send(answer),
            (
                InputReply::MachineCalled(answer),
                PendingReply::MachineCalled { wants_jit, reply },
            ) => {
                let sealed = self.row.sealed_jit.as_ref().filter(|_| wants_jit);
                let jit = sealed.and_then(|sealed| self.links.capabilities.seal().open(sealed));
                reply.send(answer.map(|()| jit));
            }
            // A `deleted` owner is about to stop; the sender learns it from the missing reply.
            (
                InputReply::Nothing
                | InputReply::Offer(_)
                | InputReply::Retire(_)
                | InputReply::MachineCalled(_)
                | InputReply::Reported(_),
                PendingReply::Nothing
                | PendingReply::Offer(_)
                | PendingReply::Retire(_)
                | PendingReply::MachineCalled { .. }
                | PendingReply::Reported(_),
            ) => {}
        }
    }

    /// Answers the machine's questions; returns whether it was handed work.
    fn answer_pollers(&mut self) -> bool {
        if self.pollers.is_empty() {
            return false;
        }
        let Some(answer) = dispatch(&self.row, self.links.capabilities.seal()) else {
            self.pollers.retain(|poller| !poller.is_abandoned());
            return false;
        };
        for poller in self.pollers.drain(..) {
            poller.send(answer.clone());
        }
        matches!(answer, Dispatch::Work(_))
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
                    act.step(InstanceInput::Wake, PendingReply::Nothing, ctx);
                }
            });
            self.alarm = Some((at, alarm));
        }
    }
}

/// Saves until the store takes it or says that it never will.
async fn save_until_stored(
    rows: Arc<dyn InstanceRows>,
    save: InstanceSave,
) -> Result<(), SaveError> {
    until_some(|| async {
        match rows.save(save.clone()).await {
            Err(SaveError::Retry(_)) => None,
            done => Some(done),
        }
    })
    .await
}
