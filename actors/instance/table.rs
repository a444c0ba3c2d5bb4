//! Every state meets every input; `table.txt` says what comes of it, cell by cell.
//!
//! A cell reads: the state it moves to, the answer given, the calls made. `·` is nothing.
//! The table is the specification: a change of a rule is a change of that file, to be argued
//! in the commit.

use std::fmt::Write as _;
use std::time::Duration;

use super::Consent;
use super::call::{Call, CallKind};
use super::fixtures::{Wax, began, being_minted, in_state, inputs, now, spec};
use super::notes::Notes;
use super::step::{Input, Said, step};
use crate::model::{Refusal, State, after};

fn cell(state: State, answers: Option<CallKind>, input: Input) -> String {
    let (mut row, binding) = in_state(state);
    let mut notes = Notes { looked: true, last_token: 100, ..Notes::default() };
    if answers == Some(CallKind::Mint) {
        being_minted(&mut row);
    }
    // What the state does by itself is under way already; the cell shows what the input adds.
    let begun = after(began(), Duration::from_secs(1));
    row = step(&row, &mut notes, Input::Start, &spec(binding), &Wax, begun).row;
    if let Some(kind) = answers {
        notes.under_way.insert(kind, 1);
    }
    let outcome = step(&row, &mut notes, input, &spec(binding), &Wax, now());
    let mut words = Vec::new();
    if outcome.row.state != state {
        words.push(format!("→{}", outcome.row.state));
    }
    words.extend(said(outcome.said));
    if row.removal.is_none() && outcome.row.removal.is_some() && outcome.row.state == state {
        words.push("wish kept".into());
    }
    if notes.runner_lost {
        words.push("job doubted".into());
    }
    words.extend(outcome.calls.iter().map(|posted| called(&posted.call).to_owned()));
    if words.is_empty() { "·".into() } else { words.join(" ") }
}

fn said(said: Said) -> Option<String> {
    match said {
        Said::Nothing => None,
        Said::MachineCalled(Ok(())) => Some("heard".into()),
        Said::Offer(Ok(())) => Some("taken".into()),
        Said::Retire(Ok(Consent::Going)) => Some("going".into()),
        Said::Retire(Ok(Consent::Noted)) => Some("noted".into()),
        Said::Retire(Ok(Consent::Looking)) => Some("looking".into()),
        Said::Offer(Err(why)) | Said::Retire(Err(why)) | Said::MachineCalled(Err(why)) => {
            Some(format!("refused({})", word(why)))
        }
    }
}

fn word(why: Refusal) -> String {
    serde_json::to_value(why).unwrap().as_str().unwrap().to_owned()
}

fn called(call: &Call) -> &'static str {
    match call {
        Call::Create { .. } => "+create",
        Call::Mint(_) => "+mint",
        Call::Deregister(_) => "+deregister",
        Call::LookRunner(..) => "+look-runner",
        Call::LookRunners => "+look-runners",
        Call::LookMachine => "+look",
        Call::LookWork(_) => "+look-work",
        Call::LookJob(_) => "+look-job",
        Call::ExitReport { .. } => "+exit-report",
        Call::Delete(_) => "+delete",
        Call::AskDelivery(..) => "+ask-delivery",
        Call::AskOpen(..) => "+ask-open",
    }
}

#[test]
fn every_state_meets_every_input_as_the_table_says() {
    let mut table = String::new();
    for (name, answers, make) in inputs() {
        writeln!(table, "{name}").unwrap();
        for state in State::ALL {
            writeln!(table, "  {:<15}{}", state.as_str(), cell(state, answers, make())).unwrap();
        }
    }
    let expected = include_str!("table.txt");
    for (line, (is, should)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, should, "line {} of table.txt", line + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "table.txt has other rows");
}
