//! The whole of an owner's thinking, as one function: what is known and what came in, to
//! what shall be saved and what shall be done.

use super::asks::Asked;
use super::call::Posted;
use super::notes::Notes;
use super::turn::Turn;
use super::{Answer, Consent, Dispatch, MachineCall, Permit, Token};
use crate::model::{
    Event, ExitRecord, Generation, HeldOffer, Instance, JobId, JobOver, MachineView, OfferEnd,
    PoolSpec, Refusal, RunnerView, State, Timestamp, What,
};
use crate::mutants::{self, Mutant};
use crate::ports::Seal;

/// Something that came in.
#[derive(Debug)]
pub(super) enum Input {
    /// The owner has just started.
    Start,
    /// The owner has just started in the place of one that died.
    Revived {
        /// Whether by a panic.
        panicked: bool,
    },
    /// See [`super::ToInstance::Permit`].
    Permit(Permit),
    /// See [`super::ToInstance::Answered`].
    Answered(Token, Answer),
    /// See [`super::ToInstance::Seen`].
    Seen(MachineView),
    /// See [`super::ToInstance::Missed`].
    Missed,
    /// See [`super::ToInstance::RunnerSeen`].
    RunnerSeen(RunnerView),
    /// See [`super::ToInstance::RunnerMissed`].
    RunnerMissed,
    /// See [`super::ToInstance::Offer`].
    Offer(JobId, Generation),
    /// See [`super::ToInstance::OfferEnded`].
    OfferEnded(JobId, Generation, OfferEnd),
    /// See [`super::ToInstance::Executing`].
    Executing(JobId),
    /// See [`super::ToInstance::JobOver`].
    JobOver(JobOver),
    /// See [`super::ToInstance::Retire`].
    Retire(Asked),
    /// See [`super::ToInstance::Poll`].
    Poll,
    /// See [`super::ToInstance::MachineCalled`].
    MachineCalled(u32, MachineCall),
    /// The alarm rang, or there is nothing new: think again.
    Wake,
}

/// What an owner says to whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    Offer(Result<(), Refusal>),
    /// To a wish that it go.
    Retire(Result<Consent, Refusal>),
    /// To a word of its machine.
    MachineCalled(Result<(), Refusal>),
}

/// What one turn brought. Save first, then do the rest.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The row as it shall be.
    pub(super) row: Instance,
    /// Whether there is anything to save.
    pub(super) changed: bool,
    /// What goes into the timeline.
    pub(super) events: Vec<Event>,
    /// The record of the end.
    pub(super) exit: Option<ExitRecord>,
    pub(super) calls: Vec<Posted>,
    pub(super) wake: Option<Timestamp>,
    pub(super) said: Said,
    /// An offer that is given back.
    pub(super) returned_offer: Option<HeldOffer>,
}

/// Takes something in and decides.
pub(super) fn step(
    row: &Instance,
    notes: &mut Notes,
    input: Input,
    spec: &PoolSpec,
    seal: &dyn Seal,
    now: Timestamp,
) -> Outcome {
    let mut turn = Turn::new(row, notes, spec, seal, now);
    let said = if row.state == State::Deleted { Said::Nothing } else { turn.take(input) };
    turn.drive();
    let events = turn.events();
    let changed = !events.is_empty() || turn.exit.is_some() || turn.row != *row;
    Outcome {
        changed,
        events,
        exit: turn.exit,
        calls: turn.calls,
        wake: turn.wake,
        said,
        returned_offer: turn.returned_offer,
        row: turn.row,
    }
}

impl Turn<'_> {
    fn take(&mut self, input: Input) -> Said {
        match input {
            Input::Start | Input::Wake => {}
            Input::Revived { panicked } => self.tell(What::Respawned { panicked }),
            Input::Permit(Permit::Start) => self.notes.may_start = true,
            Input::Permit(Permit::Delete) => self.notes.may_delete = true,
            Input::Answered(token, answer) => self.take_answer(token, answer),
            Input::Seen(view) => self.take_view(&view),
            Input::Missed => {
                if self.row.seen_at.is_some() && !self.row.state.is_over() {
                    self.look_now();
                }
            }
            Input::RunnerSeen(view) => self.take_runner(&view),
            Input::RunnerMissed => self.runner_lost(),
            Input::Offer(job, generation) => return Said::Offer(self.offered(&job, generation)),
            Input::OfferEnded(job, generation, why) => self.offer_ended(&job, generation, why),
            Input::Executing(job) => self.take_execution(job),
            Input::JobOver(over) => self.take_job_over(over),
            Input::Retire(ask) => return Said::Retire(self.asked_to_go(ask)),
            Input::Poll => self.polled(),
            Input::MachineCalled(attempt, call) => {
                return Said::MachineCalled(self.take_machine_call(attempt, call));
            }
        }
        Said::Nothing
    }
}

/// Returns what to tell a machine that asks for work; nothing means that it may wait.
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

#[cfg(test)]
mod tests {
    use super::super::call::CallKind;
    use super::super::fixtures::{Wax, began, in_state, now, spec};
    use super::*;
    use crate::model::{Conclusion, JobId, JobOver, Policy, Sighting, after};
    use crate::ports::Deletion;

    #[test]
    fn one_whose_provider_is_gone_from_the_config_stays_stuck_and_says_why() {
        let (row, binding) = in_state(State::Idle);
        let why = "provider `local` is not configured".to_owned();
        let mut notes = Notes { cut_off: Some(why.clone()), ..Notes::default() };
        let outcome = step(&row, &mut notes, Input::Start, &spec(binding), &Wax, now());
        let told: Vec<What> = outcome.events.into_iter().map(|event| event.what).collect();
        assert_eq!(told, [What::SightingUnknown(why), What::Stuck]);
        assert!(notes.stuck && outcome.calls.is_empty());
        assert_eq!(outcome.row.state, State::Idle);
    }

    #[test]
    fn an_absence_read_before_the_last_sighting_does_not_cancel_the_look_that_confirms_the_next() {
        let (row, binding) = in_state(State::Deleting);
        let mut notes = Notes { looked: true, last_token: 100, ..Notes::default() };
        notes.last_seen = Some(now());
        notes.under_way.extend([(CallKind::LookMachine, 1), (CallKind::Delete, 2)]);
        let mut take = |input, at| step(&row, &mut notes, input, &spec(binding), &Wax, at);
        take(Input::Answered(2, Answer::Deleted(Ok(Deletion::NotFound))), now());
        let old = Answer::Machine { begun: began(), seen: Sighting::Absent };
        take(Input::Answered(1, old), now());
        let later = after(now(), Policy::default().absence_confirm);
        let calls = take(Input::Wake, later).calls;
        assert!(calls.iter().any(|posted| posted.call.kind() == CallKind::LookMachine));
    }

    #[test]
    fn a_job_that_began_and_ended_before_its_machine_was_seen_is_not_waited_for() {
        let (mut row, binding) = in_state(State::Creating);
        let job = JobId { forge: "github".into(), number: 1 };
        row.executing = Some(job.clone());
        let (conclusion, names_us) = (Some(Conclusion::Success), true);
        row.job_over = Some(JobOver { job, conclusion, names_us, at: began() });
        let mut notes = Notes::default();
        let outcome = step(&row, &mut notes, Input::Poll, &spec(binding), &Wax, now());
        assert_eq!(outcome.row.state, State::Busy, "where the end of its job is acted on");
    }
}
