//! Every state meets every input; `table.txt` says what comes of it, cell by cell.
//!
//! A cell reads: the state it moves to, the answer given, the effects started. `·` is nothing.
//! The table is the specification: a change of a rule is a change of that file, to be argued
//! in the commit.

use std::fmt::Write as _;
use std::time::Duration;

use super::Consent;
use super::effect::{Effect, EffectKind};
use super::fixtures::{Wax, awaiting_slot, being_minted, in_state, inputs, now, spec, started_at};
use super::lifecycle::Lifecycle;
use super::transition::{InputReply, InstanceInput};
use crate::model::{Refusal, State, after};

fn cell(state: State, answers: Option<EffectKind>, input: InstanceInput) -> String {
    let (mut row, binding) = in_state(state);
    let mut lifecycle = Lifecycle::settled();
    if answers == Some(EffectKind::Mint) {
        being_minted(&mut row);
    }
    if answers == Some(EffectKind::AwaitSlot) {
        awaiting_slot(&mut row);
        lifecycle = lifecycle.with_create_slots(true);
    }
    // What the state does by itself is in flight already; the cell shows what the input adds.
    let begun = after(started_at(), Duration::from_secs(1));
    row = lifecycle.step(&row, InstanceInput::Start, &spec(binding), &Wax, begun).row;
    if let Some(kind) = answers {
        lifecycle.expect(kind, 1);
    }
    let result = lifecycle.step(&row, input, &spec(binding), &Wax, now());
    let mut parts = Vec::new();
    if result.row.state != state {
        parts.push(format!("→{}", result.row.state));
    }
    parts.extend(answer(result.after.reply));
    if row.removal.is_none() && result.row.removal.is_some() && result.row.state == state {
        parts.push("removal kept".into());
    }
    if result.after.runner_lost {
        parts.push("runner lost".into());
    }
    parts.extend(result.after.effects.iter().map(|posted| started(&posted.effect).to_owned()));
    if parts.is_empty() { "·".into() } else { parts.join(" ") }
}

fn answer(reply: InputReply) -> Option<String> {
    match reply {
        InputReply::Nothing => None,
        InputReply::MachineCalled(Ok(())) => Some("heard".into()),
        InputReply::Reported(Ok(next)) => {
            let challenged = next.challenge.map_or("", |_| ", challenged");
            Some(format!("next in {} s{challenged}", next.interval.as_secs()))
        }
        InputReply::Offer(Ok(())) => Some("taken".into()),
        InputReply::Retire(Ok(Consent::Going)) => Some("going".into()),
        InputReply::Retire(Ok(Consent::Noted)) => Some("noted".into()),
        InputReply::Retire(Ok(Consent::Looking)) => Some("looking".into()),
        InputReply::Offer(Err(why))
        | InputReply::Retire(Err(why))
        | InputReply::MachineCalled(Err(why))
        | InputReply::Reported(Err(why)) => Some(format!("refused({})", name(why))),
    }
}

fn name(why: Refusal) -> String {
    serde_json::to_value(why).unwrap().as_str().unwrap().to_owned()
}

fn started(effect: &Effect) -> &'static str {
    match effect {
        Effect::Create { .. } => "+create",
        Effect::AwaitSlot => "+slot",
        Effect::Mint(_) => "+mint",
        Effect::Deregister(_) => "+deregister",
        Effect::ReadRunner(..) => "+look-runner",
        Effect::FindRunner => "+look-runners",
        Effect::ReadMachine => "+look",
        Effect::FindWork(_) => "+look-work",
        Effect::ReadJob(_) => "+look-job",
        Effect::GatherExitReport { .. } => "+exit-report",
        Effect::Delete(_) => "+delete",
        Effect::ConfirmDelivery(..) => "+ask-delivery",
        Effect::ConfirmOffer(..) => "+ask-open",
    }
}

#[test]
fn every_state_meets_every_input_as_the_table_says() {
    let mut table = String::new();
    for (name, answers, input) in inputs() {
        writeln!(table, "{name}").unwrap();
        for state in State::ALL {
            writeln!(table, "  {:<15}{}", state.as_str(), cell(state, answers, input())).unwrap();
        }
    }
    let expected = include_str!("table.txt");
    for (line, (is, should)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "line {} of table.txt", line + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "table.txt has other rows");
}
