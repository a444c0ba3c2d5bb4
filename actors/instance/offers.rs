//! A job that the ledger offers: reserve the instance, register its runner, deliver, let go.
//!
//! Late binding only. An offer is confirmed with the ledger before its JIT config is handed out,
//! and asked about now and then after that, so that no instance waits for an offer that the ledger
//! ended while it could not tell.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Dispatch;
use super::availability::Availability;
use super::effect::{Effect, EffectKind};
use super::registration::Registrar;
use super::transition::Transition;
use crate::mail::NoAnswer;
use crate::model::{
    Binding, Generation, HeldOffer, Instance, JobId, OfferEnd, Reason, Refusal, Registration,
    State, Timestamp, Urgency, What, after,
};
use crate::mutants::{self, Mutant};
use crate::ports::{MintError, Minted, Seal};

/// How often an owner in `reserved` asks the ledger whether its offer is still open.
const OFFER_CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a machine may take to fetch its JIT config once it is there to be fetched.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a machine may take to acknowledge what it was handed.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait after a question that the ledger did not answer.
const LEDGER_RETRY_DELAY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(super) struct OfferKeeper {
    /// When the ledger is asked next about the offer.
    ask_at: Option<Timestamp>,
    /// Since when the JIT config of the offer can be fetched.
    ready_at: Option<Timestamp>,
    /// When it was first handed out.
    handed_out_at: Option<Timestamp>,
    /// Whether the machine said that it has it.
    acknowledged: bool,
    /// What the ledger was told that speaks against the delivery.
    reported: BTreeSet<DeliveryDoubt>,
}

/// Tells why a runner may not start although its JIT config was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeliveryDoubt {
    /// The machine did not say in time that it has it.
    NotAcknowledged,
    /// The host does not answer, and the runner was not seen to start.
    HostUnreachable,
}

impl DeliveryDoubt {
    fn as_str(self) -> &'static str {
        match self {
            Self::NotAcknowledged => "its machine did not acknowledge the JIT config",
            Self::HostUnreachable => "its host does not answer",
        }
    }
}

impl OfferKeeper {
    /// Answers an offer; the same one said again gets the same answer.
    pub(super) fn offered(
        &mut self,
        job: &JobId,
        generation: Generation,
        available: bool,
        ctx: &mut Transition<'_>,
    ) -> Result<(), Refusal> {
        if let Some(held) = &ctx.row.offer
            && held.job == *job
            && held.generation == generation
        {
            return Ok(());
        }
        let answer =
            decide(&ctx.row).and_then(|()| available.then_some(()).ok_or(Refusal::NotReady));
        match answer {
            Ok(()) => {
                *self = Self::default();
                let job = job.clone();
                ctx.record(What::Offered(job.clone()));
                ctx.row.offer = Some(HeldOffer { job, generation, delivered: false });
                ctx.move_to(State::Reserved, "a job is offered");
            }
            Err(why) => {
                ctx.record(What::Refused { request: format!("the offer of job {job}"), why });
            }
        }
        answer
    }

    /// Takes the end of an offer; an older one's end is not this one's.
    pub(super) fn ended(
        job: &JobId,
        generation: Generation,
        why: OfferEnd,
        registrar: &mut Registrar,
        ctx: &mut Transition<'_>,
    ) {
        let held = ctx.row.offer.take_if(|held| held.job == *job && held.generation == generation);
        let Some(held) = held else { return };
        if mutants::is(Mutant::ReservedForever) {
            ctx.row.offer = Some(held);
            return;
        }
        ctx.record(What::OfferEnded(held.job, why));
        if ctx.row.state != State::Reserved {
            return;
        }
        if !held.delivered {
            ctx.row.sealed_jit = None;
            Self::spare_mint(registrar, ctx);
        }
        ctx.move_to(State::Idle, "its offer ended");
    }

    /// Takes that the machine was handed its JIT config.
    pub(super) fn handed_out(&mut self, now: Timestamp) {
        self.handed_out_at.get_or_insert(now);
    }

    /// Takes that the machine has what it was handed.
    pub(super) fn acknowledged(&mut self) {
        self.acknowledged = true;
    }

    /// Gives up the registration for an offer that ended before it was delivered. One that was
    /// sent serves no job, and the instance with it; one that was not costs nothing.
    fn spare_mint(registrar: &mut Registrar, ctx: &mut Transition<'_>) {
        if ctx.is_in_flight(EffectKind::Mint) {
            ctx.give_up_mint();
        } else if !registrar.forget_unsent(ctx) {
            ctx.request_removal(Urgency::Retire, Reason::OfferEnded, None);
        }
    }

    /// Makes progress towards the delivery of the offer that is held.
    pub(super) fn drive(
        &mut self,
        registrar: &mut Registrar,
        availability: &Availability,
        ctx: &mut Transition<'_>,
    ) {
        let Some(held) = ctx.row.offer.clone() else {
            ctx.move_to(State::Idle, "it holds no offer");
            return;
        };
        // An instance that shall go gives back what it has not promised for certain yet.
        let promising = ctx.is_in_flight(EffectKind::AskLedger);
        if ctx.row.removal.is_some() && !held.delivered && !promising {
            ctx.row.offer = None;
            ctx.row.sealed_jit = None;
            ctx.give_up_mint();
            give_back(held, Refusal::NotReady, "it is to be removed", ctx);
            return;
        }
        let in_hand = ctx.row.sealed_jit.is_some()
            && matches!(ctx.row.registration, Registration::Known { .. });
        if held.delivered {
            self.doubt_delivery(&held, availability, ctx);
        } else if !in_hand {
            registrar.drive_mint(ctx);
        } else if !promising && self.is_unfetched(ctx) {
            // Its poller is silent. The registration serves no job, and no job waits for it.
            ctx.row.offer = None;
            ctx.row.sealed_jit = None;
            ctx.request_removal(Urgency::Retire, Reason::OfferEnded, None);
            give_back(held, Refusal::NotFetched, "its JIT config was not fetched", ctx);
            return;
        } else if !availability.waits_for_answer(ctx.now) {
            // Delivered is what can be handed out: the machine's next question goes on from here.
            return;
        }
        let at = *self.ask_at.get_or_insert(ctx.now);
        if ctx.is_in_flight(EffectKind::AskLedger) || !ctx.is_time(at) {
            return;
        }
        let next = after(ctx.now, OFFER_CHECK_INTERVAL);
        self.ask_at = Some(next);
        ctx.wake_at(next);
        ctx.start(if !held.delivered && in_hand {
            Effect::ConfirmDelivery(held.job, held.generation)
        } else {
            Effect::ConfirmOffer(held.job, held.generation)
        });
    }

    /// Takes the answer to the mint for an offer.
    pub(super) fn minted(
        &mut self,
        answer: Result<Minted, MintError>,
        registrar: &mut Registrar,
        ctx: &mut Transition<'_>,
    ) {
        let refused = matches!(&answer, Err(MintError::Refused { .. }));
        let awaited = matches!(ctx.row.registration, Registration::Uncertain(_));
        let minted = registrar.minted(answer, ctx);
        if ctx.row.state != State::Reserved {
            // Its offer ended meanwhile.
            if ctx.row.state == State::Idle && awaited {
                Self::spare_mint(registrar, ctx);
            }
            return;
        }
        if let Some(minted) = minted {
            ctx.row.sealed_jit = Some(ctx.seal.seal(&minted.jit));
            self.ask_at = Some(ctx.now);
        } else if refused && let Some(held) = ctx.row.offer.take_if(|held| !held.delivered) {
            give_back(held, Refusal::NotReady, "the forge would not register it", ctx);
        }
    }

    /// Returns whether the JIT config could be fetched for long enough and was not.
    fn is_unfetched(&mut self, ctx: &mut Transition<'_>) -> bool {
        let ready_at = *self.ready_at.get_or_insert(ctx.now);
        ctx.has_passed(ready_at, FETCH_TIMEOUT)
    }

    /// Has the job of a delivered offer asked about at once where its runner may never start,
    /// instead of when the offer is old.
    fn doubt_delivery(
        &mut self,
        held: &HeldOffer,
        availability: &Availability,
        ctx: &mut Transition<'_>,
    ) {
        let mut found = Vec::new();
        if let Some(at) = self.handed_out_at.filter(|_| availability.acknowledges())
            && !self.acknowledged
            && ctx.has_passed(at, ACKNOWLEDGE_TIMEOUT)
        {
            found.push(DeliveryDoubt::NotAcknowledged);
        }
        if availability.is_host_unreachable() && !ctx.row.once_started {
            found.push(DeliveryDoubt::HostUnreachable);
        }
        for doubt in found {
            if self.reported.insert(doubt) {
                let why = doubt.as_str().to_owned();
                ctx.record(What::DeliveryInDoubt(held.job.clone(), why));
                ctx.report_delivery_in_doubt();
            }
        }
    }

    /// Takes the ledger's answer whether the JIT config may be handed out.
    pub(super) fn delivery_confirmed(
        &mut self,
        generation: Generation,
        allowed: Result<bool, NoAnswer>,
        registrar: &mut Registrar,
        ctx: &mut Transition<'_>,
    ) {
        let Some(held) = &mut ctx.row.offer else {
            return;
        };
        if held.generation != generation || ctx.row.state != State::Reserved {
            return;
        }
        let job = held.job.clone();
        match allowed {
            Ok(true) => {
                held.delivered = true;
                self.ask_at = Some(after(ctx.now, OFFER_CHECK_INTERVAL));
                ctx.record(What::Delivered(job));
            }
            Ok(false) => Self::ended(&job, generation, OfferEnd::Lapsed, registrar, ctx),
            Err(_) => self.ask_at = Some(after(ctx.now, LEDGER_RETRY_DELAY)),
        }
    }

    /// Takes the ledger's answer whether the offer is still open.
    pub(super) fn offer_confirmed(
        generation: Generation,
        open: Result<bool, NoAnswer>,
        registrar: &mut Registrar,
        ctx: &mut Transition<'_>,
    ) {
        let job = ctx.row.offer.as_ref().map(|held| held.job.clone());
        if let (Some(job), Ok(false)) = (job, open) {
            Self::ended(&job, generation, OfferEnd::Lapsed, registrar, ctx);
        }
    }
}

/// Returns the answer to a machine that asks for work; `None` means that it may wait.
pub(super) fn dispatch(row: &Instance, seal: &dyn Seal) -> Option<Dispatch> {
    let waits = row.removal.is_none()
        && match row.state {
            State::PendingCreate | State::Creating | State::Starting | State::Reserved => true,
            State::Idle => row.is_offerable() || row.sealed_jit.is_some(),
            State::Busy
            | State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => false,
        };
    if !waits {
        return Some(Dispatch::Leave);
    }
    // Once delivered it stays delivered: an offer's end does not take a JIT config back.
    let delivered =
        row.offer.as_ref().is_none_or(|held| held.delivered) || mutants::is(Mutant::JitBeforeAck);
    let sealed = row.sealed_jit.as_ref().filter(|_| delivered)?;
    Some(seal.open(sealed).map_or(Dispatch::Leave, Dispatch::Work))
}

/// Decides on a new offer.
fn decide(row: &Instance) -> Result<(), Refusal> {
    match row.state {
        State::Idle if row.binding == Binding::Early => Err(Refusal::EarlyBinding),
        State::Idle if row.removal.is_some() => Err(Refusal::Terminating),
        State::Idle if row.registration != Registration::None => Err(Refusal::Registered),
        State::Idle => Ok(()),
        State::PendingCreate | State::Creating | State::Starting => Err(Refusal::NotReady),
        State::Reserved => Err(Refusal::Offered),
        State::Busy => Err(Refusal::Busy),
        State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => Err(Refusal::Terminating),
    }
}

fn give_back(held: HeldOffer, refusal: Refusal, why: &str, ctx: &mut Transition<'_>) {
    let end = OfferEnd::of_refusal(refusal);
    ctx.record(What::OfferEnded(held.job.clone(), end));
    ctx.return_offer(held, refusal);
    ctx.move_to(State::Idle, why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::effect::EffectOutcome;
    use crate::instance::fixtures::{Wax, being_minted, in_state, now, spec};
    use crate::instance::lifecycle::Lifecycle;
    use crate::instance::transition::{InstanceInput, TransitionResult};
    use crate::model::{HostCondition, RunnerId};
    use crate::ports::Jit;

    const MINT: u64 = 1;

    /// An owner at a test: its row, what it remembers, and the time.
    struct Owner {
        row: Instance,
        lifecycle: Lifecycle,
        now: Timestamp,
    }

    impl Owner {
        /// Returns one whose offer waits for its mint.
        fn minting() -> Self {
            let (mut row, _) = in_state(State::Reserved);
            being_minted(&mut row);
            row.once_started = false;
            let mut lifecycle = Lifecycle::settled();
            lifecycle.expect(EffectKind::Mint, MINT);
            Self { row, lifecycle, now: now() }
        }

        fn step(&mut self, input: InstanceInput) -> TransitionResult {
            let spec = spec(Binding::Late);
            let result = self.lifecycle.step(&self.row, input, &spec, &Wax, self.now);
            self.row = result.row.clone();
            result
        }

        fn pass(&mut self, seconds: u64) -> TransitionResult {
            self.now = after(self.now, Duration::from_secs(seconds));
            self.step(InstanceInput::Wake)
        }

        fn poll(&mut self) -> TransitionResult {
            self.step(InstanceInput::Poll { acknowledges: true })
        }

        fn minted(&mut self) -> TransitionResult {
            let answer = Ok(Minted { id: RunnerId(7), jit: Jit::new("jit") });
            self.step(InstanceInput::EffectDone(MINT, EffectOutcome::Minted(answer)))
        }

        /// Lets the ledger call the offer delivered.
        fn delivered(&mut self) -> TransitionResult {
            let token = self.lifecycle.token_of(EffectKind::AskLedger).expect("it is asked");
            let generation = Generation(1);
            let allowed = EffectOutcome::Delivery { generation, allowed: Ok(true) };
            self.step(InstanceInput::EffectDone(token, allowed))
        }

        fn offer_ended(&mut self) -> TransitionResult {
            let job = self.row.offer.as_ref().map(|held| held.job.clone()).expect("an offer");
            let why = OfferEnd::TakenElsewhere;
            self.step(InstanceInput::OfferEnded(job, Generation(1), why))
        }
    }

    fn is_doubted(result: &TransitionResult) -> bool {
        result.after.delivery_in_doubt
    }

    /// Returns an owner whose JIT config was just handed out.
    fn handed_out() -> Owner {
        let mut owner = Owner::minting();
        owner.poll();
        owner.minted();
        // What was asked about the open offer is answered first.
        if let Some(token) = owner.lifecycle.token_of(EffectKind::AskLedger) {
            let generation = Generation(1);
            let open = EffectOutcome::OfferOpen { generation, open: Ok(true) };
            owner.step(InstanceInput::EffectDone(token, open));
        }
        if owner.lifecycle.token_of(EffectKind::AskLedger).is_none() {
            owner.pass(60);
            owner.poll();
        }
        owner.delivered();
        owner.step(InstanceInput::HandedOut);
        assert!(owner.row.offer.as_ref().is_some_and(|held| held.delivered));
        owner
    }

    #[test]
    fn an_offer_ends_when_its_jit_config_was_not_fetched_within_60_s_of_being_ready() {
        let mut owner = Owner::minting();
        owner.pass(100);
        owner.minted();
        if let Some(token) = owner.lifecycle.token_of(EffectKind::AskLedger) {
            let generation = Generation(1);
            let open = EffectOutcome::OfferOpen { generation, open: Ok(true) };
            owner.step(InstanceInput::EffectDone(token, open));
        }
        assert!(owner.pass(59).after.returned_offer.is_none());
        let result = owner.pass(1);
        let returned = result.after.returned_offer.map(|(_, why)| why);
        assert_eq!(returned, Some(Refusal::NotFetched));
        assert_eq!(owner.row.removal.as_ref().map(|it| it.reason), Some(Reason::OfferEnded));
        assert_eq!(owner.row.sealed_jit, None);
    }

    #[test]
    fn a_jit_config_that_is_not_acknowledged_within_10_s_is_doubted_once() {
        let mut owner = handed_out();
        assert!(!is_doubted(&owner.pass(9)));
        assert!(is_doubted(&owner.pass(1)));
        assert!(!is_doubted(&owner.pass(10)));
        assert!(owner.row.offer.is_some(), "only the forge can tell");
    }

    #[test]
    fn an_acknowledged_one_is_doubted_only_when_its_host_falls_silent_before_the_runner_starts() {
        for (started, doubted) in [(false, true), (true, false)] {
            let mut owner = handed_out();
            owner.step(InstanceInput::Acknowledged);
            assert!(!is_doubted(&owner.pass(20)));
            owner.row.once_started = started;
            let unreachable = InstanceInput::Host(Some(HostCondition::Unreachable));
            assert_eq!(is_doubted(&owner.step(unreachable)), doubted);
        }
    }

    #[test]
    fn a_mint_that_was_not_sent_is_given_up_with_its_offer_and_the_instance_takes_the_next() {
        let mut owner = Owner::minting();
        owner.poll();
        let result = owner.offer_ended();
        assert!(result.after.give_up_mint);
        assert_eq!((owner.row.state, &owner.row.removal), (State::Idle, &None));
        assert!(!owner.row.is_offerable(), "it may have been sent");
        let unsent = Err(MintError::Later { after: None, why: "given up".into() });
        owner.step(InstanceInput::EffectDone(MINT, EffectOutcome::Minted(unsent)));
        assert_eq!(owner.row.registration, Registration::None);
        assert!(owner.row.is_offerable());
    }

    #[test]
    fn a_mint_that_was_sent_costs_the_instance_when_its_offer_ended_meanwhile() {
        let unanswered = Err(MintError::Unanswered { why: "timeout".into() });
        let minted = Ok(Minted { id: RunnerId(7), jit: Jit::new("jit") });
        for answer in [minted, unanswered] {
            let mut owner = Owner::minting();
            owner.offer_ended();
            owner.step(InstanceInput::EffectDone(MINT, EffectOutcome::Minted(answer)));
            let reason = owner.row.removal.as_ref().map(|it| it.reason);
            assert_eq!(reason, Some(Reason::OfferEnded));
            assert_eq!(owner.row.sealed_jit, None);
        }
    }
}
