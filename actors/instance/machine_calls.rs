//! What a machine says while it is set up, where it calls home instead of being given everything.
//!
//! It proves itself with what it was made with, so its call is heard only for that very
//! registration, and only until it said that it is done or has given up. Its call makes it ready
//! or asks it to go; it deletes nothing: a machine that says it failed leaves through `retiring`
//! like any other.

use super::MachineCall;
use super::turn::Turn;
use crate::model::{Reason, Refusal, Setup, SetupReport, State, Urgency, What, clip};

/// How many words of progress a timeline takes; a script in a loop has no more to say.
const MOST: u32 = 50;
/// How long one of them may be.
const LONGEST: usize = 2000;

impl Turn<'_> {
    /// Takes a call of the machine, unless it is past being set up.
    pub(super) fn take_machine_call(
        &mut self,
        attempt: u32,
        call: MachineCall,
    ) -> Result<(), Refusal> {
        match self.row.state {
            State::Creating if self.row.create_called_at.is_some() => {}
            State::Starting => {}
            State::PendingCreate | State::Creating => return Err(Refusal::Unsettled),
            State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => return Err(Refusal::Stale),
        }
        if attempt != self.row.mints {
            return Err(Refusal::Stale);
        }
        self.machine_speaks();
        match call {
            MachineCall::RequestJit => {}
            MachineCall::ReportSystem(system) => self.tell(What::Runs(short(&system))),
            MachineCall::ReportSetup(setup, message) => self.take_setup(setup, short(&message)),
        }
        Ok(())
    }

    /// Whoever speaks exists, whatever the provider has answered so far.
    fn machine_speaks(&mut self) {
        self.row.seen_at.get_or_insert(self.now);
        self.notes.looked = true;
        self.notes.last_seen = Some(self.now);
        if self.notes.absent_since.take().is_some() {
            self.notes.look_at = None;
            self.tell(What::Reappeared);
        }
        if self.row.state == State::Creating {
            self.go(State::Starting, "the machine calls");
        }
    }

    fn take_setup(&mut self, setup: Setup, message: String) {
        self.notes.words += 1;
        if setup == Setup::Installing && self.notes.words > MOST {
            return;
        }
        self.row.setup_report = Some(SetupReport { setup, message: message.clone(), at: self.now });
        self.tell(What::SetupReported { setup, message });
        match setup {
            Setup::Installing => {}
            Setup::Idle => {
                self.row.sealed_jit = None;
                self.row.once_started = true;
                self.row.ready_at.get_or_insert(self.now);
            }
            Setup::Failed => {
                self.row.sealed_jit = None;
                self.removal(Urgency::Retire, Reason::BootFailed, None);
            }
        }
    }
}

/// Returns what a stranger wrote, cut to size and harmless.
fn short(text: &str) -> String {
    let cut = text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end]);
    clip(cut).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::call::{Call, CallKind};
    use crate::instance::fixtures::{Wax, being_minted, in_state, now, spec};
    use crate::instance::notes::Notes;
    use crate::instance::step::{Input, Outcome, Said, step};
    use crate::instance::{Answer, Permit};
    use crate::model::{Binding, Instance, RunnerId};
    use crate::ports::{Handover, Jit, Minted};

    fn say(row: &Instance, notes: &mut Notes, call: MachineCall) -> Outcome {
        step(row, notes, Input::MachineCalled(1, call), &spec(Binding::Early), &Wax, now())
    }

    fn minted(handover: Handover) -> Outcome {
        let (mut row, _) = in_state(State::Creating);
        being_minted(&mut row);
        let mut notes = Notes { handover, ..Notes::default() };
        notes.under_way.insert(CallKind::Mint, 1);
        let jit = Jit::new("jit");
        let answer = Answer::Minted(Ok(Minted { id: RunnerId(7), jit }));
        let input = Input::Answered(1, answer);
        step(&row, &mut notes, input, &spec(Binding::Early), &Wax, now())
    }

    #[test]
    fn a_jit_config_that_is_fetched_is_durable_before_the_machine_is_ordered() {
        let outcome = minted(Handover::Fetched);
        assert_eq!(outcome.row.sealed_jit.as_deref(), Some("sealed:jit"));
        assert!(outcome.row.create_called_at.is_some());
        let order = outcome.calls.iter().find(|it| it.call.kind() == CallKind::Create).unwrap();
        assert!(matches!(order.call, Call::Create { jit: None }), "it travels only when asked for");
    }

    #[test]
    fn a_jit_config_that_goes_with_the_order_never_rests() {
        let outcome = minted(Handover::WithOrder);
        assert_eq!(outcome.row.sealed_jit, None);
        assert!(outcome.calls.iter().any(|it| matches!(it.call, Call::Create { jit: Some(_) })));
    }

    #[test]
    fn a_machine_that_says_it_is_done_is_ready_and_not_heard_any_more() {
        let (mut row, _) = in_state(State::Starting);
        row.sealed_jit = Some("sealed:jit".into());
        let mut notes = Notes::default();
        let row = say(&row, &mut notes, MachineCall::RequestJit).row;
        assert!(row.sealed_jit.is_some(), "asked for once, it may be asked for again");
        let row = say(&row, &mut notes, MachineCall::ReportSetup(Setup::Idle, String::new())).row;
        assert_eq!((row.state, &row.sealed_jit), (State::Idle, &None));
        assert!(row.ready_at.is_some());
        let late = say(&row, &mut notes, MachineCall::RequestJit);
        assert_eq!(late.said, Said::MachineCalled(Err(Refusal::Stale)));
        assert!(!late.changed);
    }

    #[test]
    fn a_machine_that_gave_up_goes_the_safe_way_and_is_a_boot_failure_in_its_words() {
        let (row, _) = in_state(State::Starting);
        let mut notes = Notes::default();
        let call = MachineCall::ReportSetup(Setup::Failed, "no disk\u{1b}[2J left".into());
        let outcome = say(&row, &mut notes, call);
        assert_eq!(outcome.row.state, State::Retiring, "its call deletes nothing by itself");
        let last = outcome.row.setup_report.clone().unwrap();
        assert!(last.message.starts_with("no disk") && !last.message.contains('\u{1b}'));
        let removal = outcome.row.removal.unwrap();
        assert_eq!((removal.urgency, removal.reason), (Urgency::Retire, Reason::BootFailed));
    }

    #[test]
    fn a_script_in_a_loop_fills_no_timeline() {
        let (mut row, _) = in_state(State::Starting);
        let mut notes = Notes::default();
        for number in 0..200 {
            let call = MachineCall::ReportSetup(Setup::Installing, format!("step {number}"));
            row = say(&row, &mut notes, call).row;
        }
        assert!(row.events <= MOST, "{}", row.events);
        let done = say(&row, &mut notes, MachineCall::ReportSetup(Setup::Idle, String::new())).row;
        assert_eq!(done.state, State::Idle);
    }

    #[test]
    fn nobody_speaks_for_a_machine_that_was_never_ordered() {
        let (row, _) = in_state(State::PendingCreate);
        let mut notes = Notes::default();
        let early = say(&row, &mut notes, MachineCall::RequestJit);
        assert_eq!(early.said, Said::MachineCalled(Err(Refusal::Unsettled)));
        let input = Input::Permit(Permit::Start);
        let row = step(&row, &mut notes, input, &spec(Binding::Early), &Wax, now()).row;
        let minting = say(&row, &mut notes, MachineCall::RequestJit);
        assert_eq!(minting.said, Said::MachineCalled(Err(Refusal::Unsettled)));
    }
}
