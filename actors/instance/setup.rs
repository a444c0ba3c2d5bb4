//! What a machine reports while it is set up, where it calls home instead of being given everything.
//!
//! It proves itself with what it was created with, so its call counts only for that very
//! registration, and only until it reported that it is done or has given up. Its call makes it
//! ready or requests its removal; it deletes nothing: a machine that reports a failure leaves
//! through `retiring` like any other.

use super::MachineCall;
use super::probe::MachineProbe;
use super::transition::Transition;
use crate::model::{Reason, Refusal, Setup, SetupReport, State, Urgency, What, clip};

/// How many progress reports a timeline takes: a script in a loop must not fill it.
const MAX_PROGRESS_REPORTS: u32 = 50;
/// How long one report may be.
const MAX_REPORT_CHARS: usize = 2000;

#[derive(Clone, Debug, Default)]
pub(super) struct SetupCalls {
    /// How often the machine reported how far it is.
    reports: u32,
}

impl SetupCalls {
    /// Takes a call of the machine, unless its setup is over.
    pub(super) fn called(
        &mut self,
        attempt: u32,
        call: MachineCall,
        probe: &mut MachineProbe,
        ctx: &mut Transition<'_>,
    ) -> Result<(), Refusal> {
        match ctx.row.state {
            State::Creating if ctx.row.create_called_at.is_some() => {}
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
        // Once a supervisor reports, what the machine came with is worthless.
        if attempt != ctx.row.mints || ctx.row.witness_since.is_some() {
            return Err(Refusal::Stale);
        }
        probe.called(ctx);
        match call {
            MachineCall::RequestJit => {}
            MachineCall::ReportSystem(system) => ctx.record(What::Runs(shorten(&system))),
            MachineCall::ReportSetup(setup, message) => {
                self.progress(setup, shorten(&message), ctx);
            }
        }
        Ok(())
    }

    /// Takes the report of the supervisor that it started the agent.
    pub(super) fn agent_started(&mut self, ctx: &mut Transition<'_>) {
        if matches!(ctx.row.state, State::Creating | State::Starting) {
            self.progress(Setup::Idle, "its supervisor started the runner".into(), ctx);
        }
    }

    fn progress(&mut self, setup: Setup, message: String, ctx: &mut Transition<'_>) {
        self.reports += 1;
        if setup == Setup::Installing && self.reports > MAX_PROGRESS_REPORTS {
            return;
        }
        ctx.row.setup_report = Some(SetupReport { setup, message: message.clone(), at: ctx.now });
        ctx.record(What::SetupReported { setup, message });
        match setup {
            Setup::Installing => {}
            Setup::Idle => {
                ctx.row.sealed_jit = None;
                ctx.row.once_started = true;
                ctx.row.ready_at.get_or_insert(ctx.now);
            }
            Setup::Failed => {
                ctx.row.sealed_jit = None;
                ctx.request_removal(Urgency::Retire, Reason::BootFailed, None);
            }
        }
    }
}

/// Returns what a machine wrote, cut to size and without control characters.
fn shorten(text: &str) -> String {
    let end = text.char_indices().nth(MAX_REPORT_CHARS).map_or(text.len(), |(end, _)| end);
    clip(&text[..end]).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Permit;
    use crate::instance::effect::{Effect, EffectKind, EffectOutcome};
    use crate::instance::fixtures::{Wax, being_minted, in_state, now, spec};
    use crate::instance::lifecycle::Lifecycle;
    use crate::instance::transition::{InputReply, InstanceInput, TransitionResult};
    use crate::model::{Binding, Instance, RunnerId};
    use crate::ports::{Handover, Jit, Minted};

    fn say(row: &Instance, lifecycle: &mut Lifecycle, call: MachineCall) -> TransitionResult {
        let input = InstanceInput::MachineCalled(1, call);
        lifecycle.step(row, input, &spec(Binding::Early), &Wax, now())
    }

    fn minted(handover: Handover) -> TransitionResult {
        let (mut row, _) = in_state(State::Creating);
        being_minted(&mut row);
        let mut lifecycle = Lifecycle::new(handover, None);
        lifecycle.expect(EffectKind::Mint, 1);
        let jit = Jit::new("jit");
        let answer = EffectOutcome::Minted(Ok(Minted { id: RunnerId(7), jit }));
        let input = InstanceInput::EffectDone(1, answer);
        lifecycle.step(&row, input, &spec(Binding::Early), &Wax, now())
    }

    #[test]
    fn a_jit_config_that_is_fetched_is_durable_before_the_machine_is_ordered() {
        let outcome = minted(Handover::Fetched);
        assert_eq!(outcome.row.sealed_jit.as_deref(), Some("sealed:jit"));
        assert!(outcome.row.create_called_at.is_some());
        let order =
            outcome.after.effects.iter().find(|it| it.effect.kind() == EffectKind::Create).unwrap();
        assert!(
            matches!(order.effect, Effect::Create { jit: None, .. }),
            "it goes out when asked for"
        );
    }

    #[test]
    fn a_jit_config_that_goes_with_the_order_is_never_stored() {
        let outcome = minted(Handover::WithOrder);
        assert_eq!(outcome.row.sealed_jit, None);
        let carried = |it: &_| matches!(it, Effect::Create { jit: Some(_), .. });
        assert!(outcome.after.effects.iter().any(|it| carried(&it.effect)));
    }

    #[test]
    fn a_machine_that_reports_it_is_done_is_ready_and_its_later_calls_are_refused() {
        let (mut row, _) = in_state(State::Starting);
        row.sealed_jit = Some("sealed:jit".into());
        let mut lifecycle = Lifecycle::default();
        let row = say(&row, &mut lifecycle, MachineCall::RequestJit).row;
        assert!(row.sealed_jit.is_some(), "asked for once, it may be asked for again");
        let done = MachineCall::ReportSetup(Setup::Idle, String::new());
        let row = say(&row, &mut lifecycle, done).row;
        assert_eq!((row.state, &row.sealed_jit), (State::Idle, &None));
        assert!(row.ready_at.is_some());
        let late = say(&row, &mut lifecycle, MachineCall::RequestJit);
        assert_eq!(late.after.reply, InputReply::MachineCalled(Err(Refusal::Stale)));
        assert!(!late.changed);
    }

    #[test]
    fn a_machine_that_reports_a_failure_retires_and_its_message_is_the_boot_failure() {
        let (row, _) = in_state(State::Starting);
        let mut lifecycle = Lifecycle::default();
        let call = MachineCall::ReportSetup(Setup::Failed, "no disk\u{1b}[2J left".into());
        let outcome = say(&row, &mut lifecycle, call);
        assert_eq!(outcome.row.state, State::Retiring, "its call deletes nothing by itself");
        let last = outcome.row.setup_report.clone().unwrap();
        assert!(last.message.starts_with("no disk") && !last.message.contains('\u{1b}'));
        let removal = outcome.row.removal.unwrap();
        assert_eq!((removal.urgency, removal.reason), (Urgency::Retire, Reason::BootFailed));
    }

    #[test]
    fn a_setup_script_in_a_loop_does_not_fill_the_timeline() {
        let (mut row, _) = in_state(State::Starting);
        let mut lifecycle = Lifecycle::default();
        for number in 0..200 {
            let call = MachineCall::ReportSetup(Setup::Installing, format!("step {number}"));
            row = say(&row, &mut lifecycle, call).row;
        }
        assert!(row.events <= MAX_PROGRESS_REPORTS, "{}", row.events);
        let done = MachineCall::ReportSetup(Setup::Idle, String::new());
        assert_eq!(say(&row, &mut lifecycle, done).row.state, State::Idle);
    }

    #[test]
    fn a_call_for_a_machine_that_was_never_ordered_is_refused() {
        let (row, _) = in_state(State::PendingCreate);
        let mut lifecycle = Lifecycle::default();
        let early = say(&row, &mut lifecycle, MachineCall::RequestJit);
        assert_eq!(early.after.reply, InputReply::MachineCalled(Err(Refusal::Unsettled)));
        let input = InstanceInput::Permit(Permit::Start);
        let row = lifecycle.step(&row, input, &spec(Binding::Early), &Wax, now()).row;
        let minting = say(&row, &mut lifecycle, MachineCall::RequestJit);
        assert_eq!(minting.after.reply, InputReply::MachineCalled(Err(Refusal::Unsettled)));
    }
}
