//! The point of no return: delete the machine and the registration side by side, then confirm.
//!
//! Deletion is verified, not assumed: gone is one absent read after our own accepted delete,
//! two apart otherwise. A failed delete is repeated for ever, with back-off. A registration that
//! cannot be removed never delays the machine's deletion.
//!
//! An instance that an operator has *forgotten* goes the same way without any call: its machine is
//! out of reach for good, and what is left of it is counted as a leak.

use std::time::Duration;

use super::effect::{Effect, EffectKind};
use super::post_mortem::PostMortem;
use super::probe::MachineProbe;
use super::registration::{AbsenceProof, Registrar};
use super::transition::{Backoff, Transition};
use crate::model::{End, Registration, State, Timestamp, Urgency, WarrantKind, What, after};
use crate::mutants::{self, Mutant};
use crate::ports::{Deletion, Grace, ProviderError};

const DELETE_BACKOFF: Backoff = (Duration::from_secs(1), Duration::from_mins(5));
/// Between two reads that still find the machine after the delete was accepted.
const CONFIRM_BACKOFF: Backoff = (Duration::from_secs(1), Duration::from_secs(30));
const FORGET_REASON: &str = "struck off by an operator";

#[derive(Clone, Debug, Default)]
pub(super) struct MachineDeletion {
    /// Whether the pool permits the delete.
    permitted: bool,
    /// When the provider accepted our delete.
    accepted_at: Option<Timestamp>,
    /// When to call delete next.
    next_at: Option<Timestamp>,
    tries: u32,
    /// Reads since the last accepted delete that still found the machine.
    confirm_tries: u32,
    /// Whether the provider was asked to clear away what a create that failed may have left.
    cleared: bool,
}

impl MachineDeletion {
    pub(super) fn permit(&mut self) {
        self.permitted = true;
    }

    /// Waits for the permit.
    pub(super) fn drive_pending(&mut self, probe: &mut MachineProbe, ctx: &mut Transition<'_>) {
        probe.drive(ctx);
        if std::mem::take(&mut self.permitted) {
            // What was seen before is no confirmation of what begins here.
            probe.discard_absences();
            probe.cancel_read();
            ctx.move_to(State::Deleting, "the pool permits it");
        }
    }

    /// Makes progress on both halves; done when both are.
    pub(super) fn drive(
        &mut self,
        registrar: &mut Registrar,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        self.drive_machine(probe, ctx);
        let proof = if ctx.is_job_done() { AbsenceProof::Once } else { AbsenceProof::Twice };
        if !registrar.drive_removal(proof, ctx) {
            Registrar::write_off(ctx.row.since, ctx);
        }
        let cleared = self.drive_clearance(ctx);
        if ctx.row.machine_gone_at.is_some() && !ctx.row.registration.may_exist() && cleared {
            ctx.move_to(State::Deleted, "nothing is left");
        }
    }

    /// Asks the provider once to delete what a create that failed may have left beside a machine: a
    /// disk, an address. It holds no place; returns whether it was answered, or is not needed.
    fn drive_clearance(&mut self, ctx: &mut Transition<'_>) -> bool {
        let failed = matches!(ctx.row.end, Some(End::NotCreated { .. }));
        if !failed || ctx.row.create_called_at.is_none() || ctx.is_cut_off() {
            return true;
        }
        if !std::mem::replace(&mut self.cleared, true) {
            ctx.start(Effect::Delete(Grace::Usual));
        }
        !ctx.is_in_flight(EffectKind::Delete)
    }

    /// Takes the answer to a delete call.
    pub(super) fn deleted(
        &mut self,
        answer: Result<Deletion, ProviderError>,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        if ctx.row.state != State::Deleting {
            return;
        }
        let at_least = match &answer {
            Err(ProviderError::Later { after, .. }) => *after,
            Ok(_) => None,
        };
        self.next_at = Some(ctx.next_try(DELETE_BACKOFF, &mut self.tries, at_least));
        match answer {
            Ok(accepted) => {
                // The provider spoke of this very machine, which holds its place until it is gone:
                // its pool need not wait for the proof that it is.
                probe.skip_first_read();
                match accepted {
                    Deletion::Accepted => {
                        self.accepted_at = Some(ctx.now);
                        self.confirm_tries = 0;
                        probe.discard_absences();
                        probe.read_at(ctx.now);
                    }
                    Deletion::NotFound => self.machine_absent(ctx.now, probe, ctx),
                }
            }
            Err(ProviderError::Later { why, .. }) => {
                if mutants::is(Mutant::DeleteNotRetried) {
                    self.next_at = Some(after(ctx.now, Duration::from_hours(24 * 365)));
                }
                ctx.record(What::DeleteFailed(why));
            }
        }
    }

    /// Takes an absent read, or a delete that found nothing.
    pub(super) fn machine_absent(
        &mut self,
        begun: Timestamp,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) {
        if ctx.row.state != State::Deleting || ctx.row.machine_gone_at.is_some() {
            return;
        }
        if ctx.row.registration.may_exist() && mutants::is(Mutant::PlaceOfTheGone) {
            return;
        }
        let ours = self.accepted_at.is_some_and(|at| begun >= at);
        if ours || probe.confirms_absence(begun, ctx.policy().absence_confirm, ctx) {
            ctx.row.machine_gone_at = Some(ctx.now);
            probe.cancel_read();
        }
    }

    /// Takes a read that found the machine after our delete: read again soon, delete again later.
    pub(super) fn machine_found(&mut self, probe: &mut MachineProbe, ctx: &Transition<'_>) {
        if ctx.row.state == State::Deleting && self.accepted_at.is_some() {
            probe.read_at(ctx.next_try(CONFIRM_BACKOFF, &mut self.confirm_tries, None));
        }
    }

    /// Makes progress towards `deleted` on nothing but the operator's request, where there is one.
    pub(super) fn drive_forgotten(
        &mut self,
        post_mortem: &mut PostMortem,
        ctx: &mut Transition<'_>,
    ) {
        if !ctx.has_removal(Urgency::Forget) {
            return;
        }
        ctx.cut_off(FORGET_REASON);
        match ctx.row.state {
            State::Creating => {
                post_mortem.machine_over(End::NotCreated { why: FORGET_REASON.into() }, ctx);
            }
            State::PendingDelete => self.permitted = true,
            State::Deleting => {
                ctx.row.machine_gone_at.get_or_insert(ctx.now);
                if ctx.row.registration.may_exist() {
                    ctx.row.registration = Registration::WrittenOff;
                }
                ctx.record(What::Forgotten);
            }
            State::PendingCreate
            | State::Starting
            | State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::Ended
            | State::Deleted => {}
        }
    }

    fn drive_machine(&mut self, probe: &mut MachineProbe, ctx: &mut Transition<'_>) {
        if !ctx.row.machine_may_exist() {
            ctx.row.machine_gone_at.get_or_insert(ctx.now);
            // Its registration may be refused for hours; its pool must not wait for a read meanwhile.
            probe.skip_first_read();
            return;
        }
        // After a restart the pool waits for one read of each row, and a delete may hang.
        if !probe.has_looked() {
            ctx.start(Effect::ReadMachine);
        }
        if ctx.is_in_flight(EffectKind::Delete) {
            return;
        }
        let due = match self.next_at {
            Some(at) => ctx.is_time(at),
            None => true,
        };
        // While the first of two absences is being confirmed there is nothing to delete.
        if due && !probe.is_confirming_absence() {
            ctx.start(Effect::Delete(grace(ctx)));
        }
        probe.drive_planned(ctx);
    }
}

/// Returns how hard the deletion may be.
fn grace(ctx: &Transition<'_>) -> Grace {
    let forced =
        ctx.row.warrant.as_ref().is_some_and(|warrant| warrant.kind == WarrantKind::Operator);
    if forced { Grace::Zero } else { Grace::Usual }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::effect::EffectOutcome;
    use crate::instance::fixtures::{Wax, in_state, now, spec, started_at, view};
    use crate::instance::lifecycle::Lifecycle;
    use crate::instance::transition::InstanceInput;
    use crate::model::{MachinePhase, Policy, Sighting, Worker};

    #[test]
    fn an_absence_read_before_the_last_sighting_does_not_cancel_the_read_that_confirms_the_next() {
        let mut lifecycle = Lifecycle::settled();
        let (row, binding) = in_state(State::PendingDelete);
        let seen = InstanceInput::Seen(view(MachinePhase::Running, Worker::Absent));
        lifecycle.step(&row, seen, &spec(binding), &Wax, now());

        lifecycle.expect(EffectKind::ReadMachine, 1);
        lifecycle.expect(EffectKind::Delete, 2);
        let (row, binding) = in_state(State::Deleting);
        let mut take = |input, at| lifecycle.step(&row, input, &spec(binding), &Wax, at);
        let not_found = EffectOutcome::Deleted(Ok(Deletion::NotFound));
        take(InstanceInput::EffectDone(2, not_found), now());
        let old = EffectOutcome::Machine { begun: started_at(), seen: Sighting::Absent };
        take(InstanceInput::EffectDone(1, old), now());

        let later = after(now(), Policy::default().absence_confirm);
        let effects = take(InstanceInput::Wake, later).after.effects;
        assert!(effects.iter().any(|it| it.effect.kind() == EffectKind::ReadMachine));
    }
}
