//! A job that the ledger offers: reserve the instance, register its runner, deliver, let go.
//!
//! Late binding only. An offer is confirmed with the ledger before its JIT config is handed out,
//! and asked about now and then after that, so that no instance waits for an offer that the ledger
//! ended while it could not tell.

use std::time::Duration;

use super::Dispatch;
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
/// How long to wait after a question that the ledger did not answer.
const LEDGER_RETRY_DELAY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Default)]
pub(super) struct OfferKeeper {
    /// When the ledger is asked next about the offer.
    ask_at: Option<Timestamp>,
}

impl OfferKeeper {
    /// Answers an offer; the same one said again gets the same answer.
    pub(super) fn offered(
        job: &JobId,
        generation: Generation,
        ctx: &mut Transition<'_>,
    ) -> Result<(), Refusal> {
        if let Some(held) = &ctx.row.offer
            && held.job == *job
            && held.generation == generation
        {
            return Ok(());
        }
        let answer = decide(&ctx.row);
        match answer {
            Ok(()) => {
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
        if !held.delivered && ctx.row.registration != Registration::None {
            // Its JIT config was never handed out: the registration serves no job.
            ctx.row.sealed_jit = None;
            ctx.request_removal(Urgency::Retire, Reason::OfferEnded, None);
        }
        ctx.move_to(State::Idle, "its offer ended");
    }

    /// Makes progress towards the delivery of the offer that is held.
    pub(super) fn drive(&mut self, registrar: &mut Registrar, ctx: &mut Transition<'_>) {
        let Some(held) = ctx.row.offer.clone() else {
            ctx.move_to(State::Idle, "it holds no offer");
            return;
        };
        // An instance that shall go gives back what it has not promised for certain yet.
        let promising = ctx.is_in_flight(EffectKind::AskLedger);
        if ctx.row.removal.is_some() && !held.delivered && !promising {
            ctx.row.offer = None;
            ctx.row.sealed_jit = None;
            give_back(held, "it is to be removed", ctx);
            return;
        }
        let in_hand = ctx.row.sealed_jit.is_some()
            && matches!(ctx.row.registration, Registration::Known { .. });
        if !held.delivered && !in_hand {
            registrar.drive_mint(ctx);
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
        let minted = registrar.minted(answer, ctx);
        if ctx.row.state != State::Reserved {
            return;
        }
        if let Some(minted) = minted {
            ctx.row.sealed_jit = Some(ctx.seal.seal(&minted.jit));
            self.ask_at = Some(ctx.now);
        } else if refused && let Some(held) = ctx.row.offer.take_if(|held| !held.delivered) {
            give_back(held, "the forge would not register it", ctx);
        }
    }

    /// Takes the ledger's answer whether the JIT config may be handed out.
    pub(super) fn delivery_confirmed(
        &mut self,
        generation: Generation,
        allowed: Result<bool, NoAnswer>,
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
            Ok(false) => Self::ended(&job, generation, OfferEnd::Lapsed, ctx),
            Err(_) => self.ask_at = Some(after(ctx.now, LEDGER_RETRY_DELAY)),
        }
    }

    /// Takes the ledger's answer whether the offer is still open.
    pub(super) fn offer_confirmed(
        generation: Generation,
        open: Result<bool, NoAnswer>,
        ctx: &mut Transition<'_>,
    ) {
        let job = ctx.row.offer.as_ref().map(|held| held.job.clone());
        if let (Some(job), Ok(false)) = (job, open) {
            Self::ended(&job, generation, OfferEnd::Lapsed, ctx);
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

fn give_back(held: HeldOffer, why: &str, ctx: &mut Transition<'_>) {
    ctx.record(What::OfferEnded(held.job.clone(), OfferEnd::Refused));
    ctx.return_offer(held);
    ctx.move_to(State::Idle, why);
}
