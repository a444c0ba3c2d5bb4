//! One transition: something comes in, the parts of the life cycle decide, the actor saves and acts.
//!
//! [`Transition`] is the context in which the parts decide: the draft of the row, the time, the
//! pool's spec, and the collectors of events, effects and wake-ups. Nothing in it waits, asks the
//! clock or touches the world.

use std::collections::BTreeMap;
use std::time::Duration;

use super::effect::{Effect, EffectKind, EffectOutcome, EffectToken, PostedEffect};
use super::removal::RetireRequest;
use super::report::can_stick;
use super::{Consent, MachineCall, NextReport, Permit, WitnessReport};
use crate::backoff::backoff;
use crate::model::{
    Conclusion, Event, ExitRecord, Generation, HeldOffer, HostCondition, Instance, JobId, JobOver,
    MachineView, OfferEnd, Policy, PoolSpec, Reason, Refusal, Registration, RemovalRequest,
    RequestedBy, RunnerView, State, Subject, Timestamp, Urgency, What, after, is_due,
};
use crate::ports::{Handover, Seal};

/// The first wait between two tries and the longest.
pub(super) type Backoff = (Duration, Duration);

/// Something that came in; see [`super::ToInstance`] for those that are messages of others.
#[derive(Debug)]
pub(super) enum InstanceInput {
    /// The owner has just started.
    Start,
    /// The owner has just started in the place of one that died.
    Revived {
        panicked: bool,
    },
    Permit(Permit),
    EffectDone(EffectToken, EffectOutcome),
    Seen(MachineView),
    Missed,
    RunnerSeen(RunnerView),
    RunnerMissed,
    Offer(JobId, Generation),
    OfferEnded(JobId, Generation, OfferEnd),
    Executing(JobId),
    JobOver(JobOver),
    Retire(RetireRequest),
    /// Its machine asks for work, and will acknowledge what it is handed or not.
    Poll {
        acknowledges: bool,
    },
    /// Its machine was handed its work just now.
    HandedOut,
    /// Its machine has what it was handed.
    Acknowledged,
    /// What speaks against new work on its host is new.
    Host(Option<HostCondition>),
    MachineCalled(u32, MachineCall),
    Reported(u32, WitnessReport),
    /// The alarm rang, or there is nothing new: decide again.
    Wake,
}

/// What the sender of an input gets for an answer, after the save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputReply {
    Nothing,
    Offer(Result<(), Refusal>),
    Retire(Result<Consent, Refusal>),
    MachineCalled(Result<(), Refusal>),
    Reported(Result<NextReport, Refusal>),
}

/// What one transition brought. The save comes first, the rest after it.
#[derive(Debug)]
pub(super) struct TransitionResult {
    /// The row as it shall be.
    pub row: Instance,
    /// Whether there is anything to save.
    pub changed: bool,
    pub events: Vec<Event>,
    /// The record of the end, written once.
    pub exit: Option<ExitRecord>,
    pub after: AfterSave,
}

/// What is done once the row is durable.
#[derive(Debug)]
pub(super) struct AfterSave {
    pub effects: Vec<PostedEffect>,
    /// When to decide again if nothing comes in before.
    pub wake: Option<Timestamp>,
    pub reply: InputReply,
    /// An offer that is given back to the ledger, and why.
    pub returned_offer: Option<(HeldOffer, Refusal)>,
    /// Whether the runner of a job at work is offline or unlisted, which the ledger must know.
    pub runner_lost: bool,
    /// Whether it is in doubt that the runner of a delivered offer starts, which the ledger must
    /// know.
    pub delivery_in_doubt: bool,
    /// Whether the registration under way is given up, if it was not sent yet.
    pub give_up_mint: bool,
}

/// What an owner remembers between two transitions that belongs to no part of the life cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Bookkeeping {
    /// How the machine gets its JIT config; constant for a provider.
    handover: Handover,
    /// Why no effect can be started at all (provider or forge no longer configured).
    cut_off: Option<String>,
    in_flight: BTreeMap<EffectKind, EffectToken>,
    last_token: EffectToken,
    /// The last event, to merge repetitions.
    last_event: Option<Event>,
    /// Whether the instance was reported to be stuck in its present state.
    stuck: bool,
}

impl Bookkeeping {
    pub(super) fn new(handover: Handover, cut_off: Option<String>) -> Self {
        Self { handover, cut_off, ..Self::default() }
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }
}

#[cfg(test)]
impl Bookkeeping {
    pub(super) fn skip_tokens(&mut self, last: EffectToken) {
        self.last_token = last;
    }

    pub(super) fn expect(&mut self, kind: EffectKind, token: EffectToken) {
        self.in_flight.insert(kind, token);
    }

    pub(super) fn token_of(&self, kind: EffectKind) -> Option<EffectToken> {
        self.in_flight.get(&kind).copied()
    }
}

/// The context of one transition. The row here is a draft until it is saved.
pub(super) struct Transition<'a> {
    pub(super) row: Instance,
    pub(super) spec: &'a PoolSpec,
    pub(super) seal: &'a dyn Seal,
    pub(super) now: Timestamp,
    bookkeeping: Bookkeeping,
    happened: Vec<What>,
    effects: Vec<PostedEffect>,
    exit: Option<ExitRecord>,
    wake: Option<Timestamp>,
    returned_offer: Option<(HeldOffer, Refusal)>,
    runner_lost: bool,
    delivery_in_doubt: bool,
    give_up_mint: bool,
}

impl<'a> Transition<'a> {
    pub(super) fn begin(
        row: &Instance,
        bookkeeping: Bookkeeping,
        spec: &'a PoolSpec,
        seal: &'a dyn Seal,
        now: Timestamp,
    ) -> Self {
        Self {
            row: row.clone(),
            spec,
            seal,
            now,
            bookkeeping,
            happened: Vec::new(),
            effects: Vec::new(),
            exit: None,
            wake: None,
            returned_offer: None,
            runner_lost: false,
            delivery_in_doubt: false,
            give_up_mint: false,
        }
    }

    /// Ends the transition that began with the row `before`.
    pub(super) fn finish(
        mut self,
        before: &Instance,
        reply: InputReply,
    ) -> (TransitionResult, Bookkeeping) {
        let events = self.merge_events();
        let result = TransitionResult {
            changed: !events.is_empty() || self.exit.is_some() || self.row != *before,
            row: self.row,
            events,
            exit: self.exit,
            after: AfterSave {
                effects: self.effects,
                wake: self.wake,
                reply,
                returned_offer: self.returned_offer,
                runner_lost: self.runner_lost,
                delivery_in_doubt: self.delivery_in_doubt,
                give_up_mint: self.give_up_mint,
            },
        };
        (result, self.bookkeeping)
    }

    // What the parts decide.

    /// Changes the state, with the reason.
    pub(super) fn move_to(&mut self, to: State, why: impl Into<String>) {
        let from = self.row.state;
        if from == to {
            return;
        }
        self.happened.push(What::Moved { from, to, why: why.into() });
        self.row.state = to;
        self.row.since = self.now;
        self.bookkeeping.stuck = false;
    }

    /// Adds an event to the timeline.
    pub(super) fn record(&mut self, what: What) {
        self.happened.push(what);
    }

    /// Keeps a removal request; a stronger one replaces a weaker one, never the other way round.
    pub(super) fn request_removal(
        &mut self,
        urgency: Urgency,
        reason: Reason,
        by: Option<RequestedBy>,
    ) {
        if self.row.removal.as_ref().is_some_and(|kept| kept.urgency >= urgency) {
            return;
        }
        let (who, why) = by.clone().map(|by| (by.who, by.why)).unzip();
        self.happened.push(What::RemovalRequested { urgency, reason, who, why });
        self.row.removal = Some(RemovalRequest { urgency, reason, by, at: self.now });
    }

    /// Starts an effect after the save, unless one of its kind is in flight.
    pub(super) fn start(&mut self, effect: Effect) {
        let kind = effect.kind();
        if self.is_in_flight(kind) || self.is_cut_off() {
            return;
        }
        self.bookkeeping.last_token += 1;
        let token = self.bookkeeping.last_token;
        self.bookkeeping.in_flight.insert(kind, token);
        self.effects.push(PostedEffect { token, effect });
    }

    /// Saves the record of the end together with the row.
    pub(super) fn save_exit(&mut self, exit: ExitRecord) {
        self.exit = Some(exit);
    }

    /// Gives an offer back to the ledger after the save.
    pub(super) fn return_offer(&mut self, offer: HeldOffer, why: Refusal) {
        self.returned_offer = Some((offer, why));
    }

    /// Lets the ledger ask about the job whose runner is offline or unlisted.
    pub(super) fn report_runner_lost(&mut self) {
        self.runner_lost = true;
    }

    /// Lets the ledger ask about the job whose JIT config was handed out.
    pub(super) fn report_delivery_in_doubt(&mut self) {
        self.delivery_in_doubt = true;
    }

    /// Gives the registration under way up, if it was not sent yet; its answer says so.
    pub(super) fn give_up_mint(&mut self) {
        self.give_up_mint = self.is_in_flight(EffectKind::Mint);
    }

    /// Starts no effect any more: the provider or the forge is out of reach for good.
    pub(super) fn cut_off(&mut self, why: &str) {
        self.bookkeeping.cut_off.get_or_insert_with(|| why.into());
    }

    // Effects in flight.

    /// Returns whether an effect of this kind is in flight or about to be started.
    pub(super) fn is_in_flight(&self, kind: EffectKind) -> bool {
        self.bookkeeping.in_flight.contains_key(&kind)
    }

    /// Takes an effect out of flight; returns whether its outcome was awaited.
    pub(super) fn take_in_flight(&mut self, token: EffectToken) -> bool {
        let in_flight = &mut self.bookkeeping.in_flight;
        let kind = in_flight.iter().find(|(_, awaited)| **awaited == token).map(|(kind, _)| *kind);
        kind.is_some_and(|kind| in_flight.remove(&kind).is_some())
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.bookkeeping.cut_off.is_some()
    }

    pub(super) fn cut_off_reason(&self) -> Option<&str> {
        self.bookkeeping.cut_off.as_deref()
    }

    pub(super) fn handover(&self) -> Handover {
        self.bookkeeping.handover
    }

    // Time.

    /// Asks to be woken at `at`, or earlier.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |other| other.min(at)));
    }

    /// Returns whether `at` has come; asks to be woken then if not.
    pub(super) fn is_time(&mut self, at: Timestamp) -> bool {
        if self.now >= at {
            return true;
        }
        self.wake_at(at);
        false
    }

    /// Returns whether `wait` has passed since `then`; asks to be woken then if not.
    pub(super) fn has_passed(&mut self, then: Timestamp, wait: Duration) -> bool {
        self.is_time(after(then, wait))
    }

    /// Counts one more try and returns when the next is due: after the back-off, and after
    /// `at_least` where the other side asked for it.
    pub(super) fn next_try(
        &self,
        (first, cap): Backoff,
        tries: &mut u32,
        at_least: Option<Duration>,
    ) -> Timestamp {
        let wait = backoff(first, cap, *tries, self.row.id.as_str());
        *tries += 1;
        after(self.now, at_least.map_or(wait, |at_least| at_least.max(wait)))
    }

    // What the row says.

    pub(super) fn policy(&self) -> &'a Policy {
        &self.spec.policy
    }

    /// Returns whether the registration could have made the runner come online.
    pub(super) fn was_ever_registered(&self) -> bool {
        self.row.mints > 0 || self.row.adopted || self.row.registration != Registration::None
    }

    /// Returns whether the forge proved a job here that is not over.
    pub(super) fn is_working(&self) -> bool {
        self.row.executing.is_some() && self.row.job_over.is_none()
    }

    /// Returns whether the forge called the one job of this runner completed.
    pub(super) fn is_job_done(&self) -> bool {
        self.row.job_over.as_ref().is_some_and(|over| {
            over.names_us && over.conclusion.as_ref() != Some(&Conclusion::Cancelled)
        })
    }

    /// Returns whether the forge called the job that was proven here over for so long that a worker
    /// which is still seen does not speak for it any more. The runner of a job that was cancelled
    /// before it began may have taken another, and what we closed ourselves proves nothing.
    pub(super) fn is_worker_overdue(&self) -> bool {
        self.row.job_over.as_ref().is_some_and(|over| {
            let ran = over.conclusion.as_ref().is_some_and(|it| *it != Conclusion::Cancelled);
            ran && is_due(over.at, self.policy().zombie_after, self.now)
        })
    }

    /// Returns whether a removal of at least this urgency was requested.
    pub(super) fn has_removal(&self, at_least: Urgency) -> bool {
        self.row.removal.as_ref().is_some_and(|removal| removal.urgency >= at_least)
    }

    /// Returns the reason of the removal request in words.
    pub(super) fn removal_reason(&self) -> String {
        self.row.removal.as_ref().map_or_else(
            || "it should go".into(),
            |removal| format!("asked to go ({})", removal.reason),
        )
    }

    // The end of every transition.

    /// Records once a state that the instance is stuck in it.
    pub(super) fn mark_stuck(&mut self) {
        if self.bookkeeping.stuck {
            return;
        }
        // Its provider or forge is gone from the config: it stays as it is, and says why.
        let exists = !matches!(self.row.state, State::PendingCreate | State::Deleted);
        if exists
            && !self.has_removal(Urgency::Forget)
            && let Some(why) = self.bookkeeping.cut_off.clone()
        {
            self.bookkeeping.stuck = true;
            self.record(What::SightingUnknown(why));
            self.record(What::Stuck);
            return;
        }
        if can_stick(&self.row) && self.has_passed(self.row.since, self.policy().stuck_after) {
            self.bookkeeping.stuck = true;
            self.record(What::Stuck);
        }
    }

    /// Turns what happened into events; a repetition of the last one only counts up.
    fn merge_events(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::with_capacity(self.happened.len());
        for what in std::mem::take(&mut self.happened) {
            match &mut self.bookkeeping.last_event {
                Some(last) if last.what == what => {
                    last.count += 1;
                    last.last_at = self.now;
                    if events.last().is_some_and(|event| event.seq == last.seq) {
                        events.pop();
                    }
                    events.push(last.clone());
                }
                _ => {
                    self.row.events += 1;
                    let event = Event {
                        subject: Subject::Instance(self.row.id.clone()),
                        seq: self.row.events,
                        at: self.now,
                        last_at: self.now,
                        count: 1,
                        what,
                    };
                    self.bookkeeping.last_event = Some(event.clone());
                    events.push(event);
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::fixtures::{Wax, in_state, now, spec};
    use crate::instance::lifecycle::Lifecycle;

    #[test]
    fn an_instance_whose_provider_is_gone_from_the_config_stays_stuck_and_says_why() {
        let (row, binding) = in_state(State::Idle);
        let why = "provider `local` is not configured".to_owned();
        let mut lifecycle = Lifecycle::new(Handover::default(), Some(why.clone()));
        let result = lifecycle.step(&row, InstanceInput::Start, &spec(binding), &Wax, now());
        let recorded: Vec<What> = result.events.into_iter().map(|event| event.what).collect();
        assert_eq!(recorded, [What::SightingUnknown(why), What::Stuck]);
        assert!(lifecycle.is_stuck() && result.after.effects.is_empty());
        assert_eq!(result.row.state, State::Idle);
    }
}
