//! From the permit to a machine, without ever creating two and without losing one.
//!
//! Early binding registers first: the mint's answer is committed together with
//! `create_called_at`, and only then the create is called. A create that is not answered, or
//! answered with an error that vouches for nothing, is never repeated. In this order: it is
//! looked for until `create_settle` is over, its registration is removed, and two direct reads
//! begun after that find nothing. A machine that comes later still finds no registration and can
//! never come online; the reaper finds it and gives it an owner.

use super::effect::{Effect, EffectKind};
use super::probe::MachineProbe;
use super::registration::{AbsenceProof, Registrar};
use super::transition::Transition;
use crate::model::{Binding, End, Registration, State, Timestamp, What, is_due};
use crate::mutants::{self, Mutant};
use crate::ports::{CreateError, Handover, Jit, MintError, Minted};

#[derive(Clone, Debug, Default)]
pub(super) struct Creation {
    /// Whether the pool permits the create.
    permitted: bool,
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
                Binding::Late => create(None, probe, ctx),
            }
        }
    }

    /// Makes progress towards a machine, or towards the proof that there is none.
    pub(super) fn drive(
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), NotCreated> {
        match ctx.row.create_called_at {
            None if ctx.is_in_flight(EffectKind::Mint) => {}
            None if ctx.row.removal.is_some() => {
                return Err(NotCreated("asked to go before the machine was created".into()));
            }
            None => registrar.drive_mint(ctx),
            Some(_) if ctx.is_in_flight(EffectKind::Create) => {}
            Some(called_at) => drive_unanswered(called_at, registrar, probe, ctx),
        }
        Ok(())
    }

    /// Takes the answer to the mint that comes before the create.
    pub(super) fn minted(
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
            match ctx.handover() {
                Handover::WithOrder => create(Some(minted.jit), probe, ctx),
                // Durable with the create itself: the machine may ask another daemon for it.
                Handover::Fetched => {
                    // A forge that proves a job before it answers the mint has spent it already.
                    let spent = ctx.row.executing.is_some();
                    ctx.row.sealed_jit = (!spent).then(|| ctx.seal.seal(&minted.jit));
                    create(None, probe, ctx);
                }
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
            CreateError::Refused { why, .. } => return Err(NotCreated(why)),
            error @ CreateError::Unanswered { .. } => {
                ctx.record(What::CreateUnanswered(error.to_string()));
                probe.read_now(ctx);
                if mutants::is(Mutant::CreateRepeated) {
                    ctx.start(Effect::Create { jit: None });
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
        let settled = ctx
            .row
            .create_called_at
            .is_some_and(|called_at| is_due(called_at, ctx.policy().create_settle, begun));
        let may_still_come =
            ctx.is_in_flight(EffectKind::Create) || !settled || ctx.row.registration.may_exist();
        if may_still_come {
            probe.read_later(ctx);
        } else if probe.confirms_absence(begun, ctx) {
            let why = "create was not answered and nothing came of it";
            return Err(NotCreated(why.into()));
        }
        Ok(())
    }
}

/// Calls the provider once.
fn create(jit: Option<Jit>, probe: &mut MachineProbe, ctx: &mut Transition<'_>) {
    ctx.row.create_called_at = Some(ctx.now);
    probe.skip_first_read();
    ctx.start(Effect::Create { jit });
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
    if ctx.is_working() || !ctx.has_passed(called_at, ctx.policy().create_settle) {
        return;
    }
    if ctx.row.registration != Registration::None {
        registrar.drive_removal(AbsenceProof::Twice, ctx);
    }
}
