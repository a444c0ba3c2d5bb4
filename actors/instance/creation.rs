//! From the permit to a machine, without ever creating two and without losing one.
//!
//! Early binding registers first; the JIT config is committed, sealed, with the mint's answer. A provider
//! that limits its creates is asked for a slot then. `create_called_at` is committed while the slot is
//! held, and the create is called at once: a row without it was never called, and simply goes on after
//! a restart. A create that is not answered, or
//! answered with an error that vouches for nothing, is never repeated. In this order: it is
//! looked for until `create_settle` is over, its registration is removed, and two direct reads
//! begun after that find nothing. A machine that comes later still finds no registration and can
//! never come online; the reaper finds it and gives it an owner. A create that the provider refused
//! by its own judgement goes the same way without the wait, its two reads ten seconds apart.

use std::time::Duration;

use super::effect::{Effect, EffectKind};
use super::probe::MachineProbe;
use super::registration::{AbsenceProof, Registrar};
use super::transition::{Backoff, Transition};
use crate::model::{Binding, End, Registration, State, Timestamp, What, is_due};
use crate::mutants::{self, Mutant};
use crate::ports::{CreateError, CreateSlot, Handover, Jit, MintError, Minted};

/// Between two waits for a slot, where one failed.
const SLOT_BACKOFF: Backoff = (Duration::from_secs(1), Duration::from_secs(30));
/// How far apart the two reads are after which a refused create has left nothing.
const REFUSED_CONFIRM_AFTER: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
pub(super) struct Creation {
    /// Whether the pool permits the create.
    permitted: bool,
    /// Whether the provider limits how many creates run at once.
    has_slots: bool,
    /// When a slot may be waited for again, after a wait that failed.
    slot_at: Option<Timestamp>,
    slot_tries: u32,
}

/// It is certain that no machine was created and none will be, and why.
#[must_use]
pub(super) struct NotCreated(String);

impl From<NotCreated> for End {
    fn from(NotCreated(why): NotCreated) -> Self {
        Self::NotCreated { why }
    }
}

impl Creation {
    pub(super) fn use_slots(&mut self, has_slots: bool) {
        self.has_slots = has_slots;
    }

    pub(super) fn permit(&mut self) {
        self.permitted = true;
    }

    /// Waits for the permit, then begins; a removal request is granted at once, for nothing exists.
    pub(super) fn drive_pending(
        &mut self,
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        if ctx.row.removal.is_some() {
            ctx.row.machine_gone_at = Some(ctx.now);
            ctx.move_to(State::Deleted, "nothing was created yet");
        } else if std::mem::take(&mut self.permitted) {
            ctx.move_to(State::Creating, "the pool permits it");
            match ctx.row.binding {
                Binding::Early => registrar.mint(ctx),
                Binding::Late => self.drive_uncalled(registrar, probe, ctx),
            }
        }
    }

    /// Makes progress towards a machine, or towards the proof that there is none.
    pub(super) fn drive(
        &mut self,
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), NotCreated> {
        match ctx.row.create_called_at {
            None if ctx.is_in_flight(EffectKind::Mint) => {}
            None if ctx.row.removal.is_some() => {
                return Err(NotCreated("asked to go before the machine was created".into()));
            }
            None => self.drive_uncalled(registrar, probe, ctx),
            Some(_) if ctx.is_in_flight(EffectKind::Create) => {}
            Some(called_at) => drive_unanswered(called_at, registrar, probe, ctx),
        }
        Ok(())
    }

    /// Makes progress towards the call: a registration first where the binding is early, then a slot.
    /// A row that was never called goes on from here after a restart, with the JIT config it holds.
    fn drive_uncalled(
        &mut self,
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        // Nothing was called, so there is nothing to look for.
        probe.skip_first_read();
        let is_spent = ctx.row.executing.is_some();
        if ctx.row.binding == Binding::Early && !is_spent && held_jit(ctx).is_none() {
            registrar.drive_mint(ctx);
        } else if !self.has_slots {
            call(CreateSlot::default(), probe, ctx);
        } else if self.slot_at.is_none_or(|at| ctx.is_time(at)) {
            ctx.start(Effect::AwaitSlot);
        }
    }

    /// Takes a slot, and calls at once: `create_called_at` is durable while it is held, so that a row
    /// without it was certainly never called. A slot that comes too late is given back.
    pub(super) fn slot_answered(
        &mut self,
        answer: Result<CreateSlot, String>,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        let waits = ctx.row.state == State::Creating
            && ctx.row.create_called_at.is_none()
            && ctx.row.removal.is_none();
        match answer {
            Ok(slot) => {
                self.slot_tries = 0;
                if waits && (ctx.row.binding == Binding::Late || held_jit(ctx).is_some()) {
                    call(slot, probe, ctx);
                }
            }
            Err(_) => {
                self.slot_at = Some(ctx.next_try(SLOT_BACKOFF, &mut self.slot_tries, None));
            }
        }
    }

    /// Takes the answer to the mint that comes before the create.
    pub(super) fn minted(
        &self,
        answer: Result<Minted, MintError>,
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), NotCreated> {
        let refused = match &answer {
            Err(MintError::Refused { why }) => Some(why.clone()),
            Ok(_)
            | Err(MintError::Taken(_) | MintError::Later { .. } | MintError::Unanswered { .. }) => {
                None
            }
        };
        let minted = registrar.minted(answer, ctx);
        if ctx.row.removal.is_some() {
            return Ok(());
        }
        if let Some(minted) = minted {
            // A forge that proves a job before it answers the mint has spent it already.
            let spent = ctx.row.executing.is_some();
            ctx.row.sealed_jit = (!spent).then(|| ctx.seal.seal(&minted.jit));
            if !self.has_slots {
                call(CreateSlot::default(), probe, ctx);
            }
        } else if let (Some(why), None) = (refused, ctx.row.create_called_at) {
            return Err(NotCreated(why));
        }
        Ok(())
    }

    /// Takes a create call that did not answer with a machine.
    pub(super) fn failed(
        error: CreateError,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), NotCreated> {
        if ctx.row.state != State::Creating {
            return Ok(());
        }
        match error {
            CreateError::Refused { why, .. } => {
                ctx.row.machine_gone_at = Some(ctx.now);
                return Err(NotCreated(why));
            }
            CreateError::Failed { why, .. } => {
                ctx.record(What::CreateRefused(why.clone()));
                ctx.row.create_refused = Some(why);
                probe.read_now(ctx);
            }
            error @ CreateError::Unanswered { .. } => {
                ctx.record(What::CreateUnanswered(error.to_string()));
                probe.read_now(ctx);
                if mutants::is(Mutant::CreateRepeated) {
                    ctx.start(Effect::Create { jit: None, slot: CreateSlot::default() });
                }
            }
        }
        Ok(())
    }

    /// Takes an absent read of a machine that may still come.
    pub(super) fn machine_absent(
        begun: Timestamp,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), NotCreated> {
        let refused = ctx.row.create_refused.clone();
        let settled = refused.is_some()
            || ctx
                .row
                .create_called_at
                .is_some_and(|called_at| is_due(called_at, ctx.policy().create_settle, begun));
        let apart = match refused {
            Some(_) => REFUSED_CONFIRM_AFTER,
            None => ctx.policy().absence_confirm,
        };
        let may_still_come =
            ctx.is_in_flight(EffectKind::Create) || !settled || ctx.row.registration.may_exist();
        if may_still_come {
            probe.read_later(ctx);
        } else if probe.confirms_absence(begun, apart, ctx) {
            // Absent twice without a registration: its place is free, and whatever comes later can
            // never come online.
            ctx.row.machine_gone_at = Some(ctx.now);
            let unanswered = || "create was not answered and nothing came of it".into();
            return Err(NotCreated(refused.unwrap_or_else(unanswered)));
        }
        Ok(())
    }
}

/// Calls the provider once.
fn call(slot: CreateSlot, probe: &mut MachineProbe, ctx: &mut Transition<'_>) {
    let jit = match ctx.handover() {
        Handover::WithOrder => {
            let jit = held_jit(ctx);
            ctx.row.sealed_jit = None;
            jit
        }
        // It stays sealed in the row: the machine may ask another daemon for it.
        Handover::Fetched => None,
    };
    ctx.row.create_called_at = Some(ctx.now);
    probe.skip_first_read();
    ctx.start(Effect::Create { jit, slot });
}

/// Returns the JIT config of the present registration, where the row holds it and the key fits.
fn held_jit(ctx: &Transition<'_>) -> Option<Jit> {
    let registered = matches!(ctx.row.registration, Registration::Known { .. });
    let sealed = ctx.row.sealed_jit.as_deref().filter(|_| registered)?;
    ctx.seal.open(sealed)
}

fn drive_unanswered(
    called_at: Timestamp,
    registrar: &mut Registrar,
    probe: &mut MachineProbe,
    ctx: &mut Transition<'_>,
) {
    probe.drive(ctx);
    if !probe.is_read_planned() && !ctx.is_in_flight(EffectKind::ReadMachine) {
        probe.read_later(ctx);
        probe.drive(ctx);
    }
    // A job that the forge proved to run here needs a machine: it exists, seen or not.
    let settled =
        ctx.row.create_refused.is_some() || ctx.has_passed(called_at, ctx.policy().create_settle);
    if ctx.is_working() || !settled {
        return;
    }
    if ctx.row.registration != Registration::None {
        registrar.drive_removal(AbsenceProof::Twice, ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::effect::EffectOutcome;
    use crate::instance::fixtures::{Wax, awaiting_slot, in_state, now, spec};
    use crate::instance::lifecycle::Lifecycle;
    use crate::instance::transition::{InstanceInput, TransitionResult};

    fn kinds(result: &TransitionResult) -> Vec<EffectKind> {
        result.after.effects.iter().map(|posted| posted.effect.kind()).collect()
    }

    #[test]
    fn a_row_that_was_never_called_goes_on_after_a_restart_without_a_second_mint() {
        let (mut row, binding) = in_state(State::Creating);
        awaiting_slot(&mut row);
        let mut lifecycle = Lifecycle::default().with_create_slots(true);
        let spec = spec(binding);
        let began = lifecycle.step(&row, InstanceInput::Start, &spec, &Wax, now());
        assert_eq!(kinds(&began), [EffectKind::AwaitSlot]);
        assert!(began.row.create_called_at.is_none() && lifecycle.has_looked());

        let token = lifecycle.token_of(EffectKind::AwaitSlot).unwrap();
        let held = EffectOutcome::Slot(Ok(CreateSlot::held(())));
        let input = InstanceInput::EffectDone(token, held);
        let called = lifecycle.step(&began.row, input, &spec, &Wax, now());
        assert_eq!(called.row.create_called_at, Some(now()), "committed while the slot is held");
        assert_eq!((called.row.mints, called.row.sealed_jit.clone()), (1, None));
        let effect = called.after.effects.into_iter().next().map(|posted| posted.effect);
        let Some(Effect::Create { jit: Some(jit), slot }) = effect else { panic!("{effect:?}") };
        assert!(jit.reveal() == "jit" && slot.is_held());
    }

    #[test]
    fn a_slot_that_is_not_had_is_waited_for_again_after_a_moment() {
        let (mut row, binding) = in_state(State::Creating);
        awaiting_slot(&mut row);
        let mut lifecycle = Lifecycle::default().with_create_slots(true);
        let spec = spec(binding);
        lifecycle.step(&row, InstanceInput::Start, &spec, &Wax, now());
        let token = lifecycle.token_of(EffectKind::AwaitSlot).unwrap();
        let late = InstanceInput::EffectDone(token, EffectOutcome::Slot(Err("late".into())));
        let waits = lifecycle.step(&row, late, &spec, &Wax, now());
        assert!(kinds(&waits).is_empty());
        let at = waits.after.wake.expect("an alarm");
        let again = lifecycle.step(&waits.row, InstanceInput::Wake, &spec, &Wax, at);
        assert_eq!(kinds(&again), [EffectKind::AwaitSlot]);
    }
}
