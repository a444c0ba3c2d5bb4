//! Checks what a save tells of the way: its moves, and the record of its end.

use super::Inquest;
use super::diagram::{Passage, passage};
use crate::model::{Instance, Registration, State, VerdictClass, What};
use crate::ports::InstanceSave;

/// Checks each step of the way; one save may hold several, each with its event.
pub(super) fn check_moves(
    inquest: &mut Inquest<'_>,
    before: Option<&Instance>,
    save: &InstanceSave,
) {
    let after = &save.row;
    let mut at = before.map(|row| row.state);
    for event in &save.events {
        let What::Moved { from, to, .. } = &event.what else {
            continue;
        };
        inquest.demand(at.is_none_or(|at| at == *from), 32, || {
            format!("tells of leaving {from}, where it was not")
        });
        if before.is_none() && at.is_none() {
            check_new_row(inquest, after, *from);
        }
        check_move(inquest, after, *from, *to);
        at = Some(*to);
    }
    match at {
        Some(at) => inquest.demand(at == after.state, 32, || {
            format!("is {} and its timeline says {at}", after.state)
        }),
        None => check_new_row(inquest, after, after.state),
    }
}

/// Checks where a life may begin: with a new row, or with a machine that was found.
fn check_new_row(inquest: &mut Inquest<'_>, row: &Instance, state: State) {
    let found = row.adopted && state.was_created() && !state.is_delete_decided();
    inquest.demand(state == State::PendingCreate || found, 31, || format!("was born {state}"));
}

fn check_move(inquest: &mut Inquest<'_>, after: &Instance, from: State, to: State) {
    match passage(from, to) {
        Passage::Open => {}
        Passage::Warranted(kinds) => {
            let kind = after.warrant.as_ref().map(|warrant| warrant.kind);
            inquest.demand(kind.is_some_and(|kind| kinds.contains(&kind)), 5, || {
                format!("went from {from} to {to} with {kind:?}")
            });
        }
        Passage::Closed => inquest.demand(false, 31, || format!("went from {from} to {to}")),
    }
    if (from, to) == (State::Busy, State::Retiring) {
        let free = after.executing.is_none() || after.job_over.is_some();
        inquest.demand(free, 5, || "was asked to leave in the middle of a known job".into());
    }
    if (from, to) == (State::PendingDelete, State::Busy) && after.state == State::Busy {
        inquest.demand(after.warrant.is_none(), 5, || "works on under a warrant".into());
    }
    if (from, to) == (State::PendingCreate, State::Deleted) {
        let untouched = after.registration == Registration::None;
        inquest.demand(untouched, 17, || "is deleted though a mint was attempted".into());
    }
}

/// Checks that a verdict comes with the record it was made from.
pub(super) fn check_record(
    inquest: &mut Inquest<'_>,
    before: Option<&Instance>,
    save: &InstanceSave,
) {
    let row = &save.row;
    let is_new = row.verdict.is_some() && before.is_none_or(|before| before.verdict.is_none());
    inquest.demand(!is_new || save.exit.is_some(), 14, || "has a verdict and no record".into());
    let Some(record) = &save.exit else { return };
    inquest.demand(row.verdict == Some(record.verdict.class), 14, || {
        format!("its row says {:?} and its record {}", row.verdict, record.verdict.class)
    });
    inquest.demand(record.instance == row.id, 1, || {
        format!("writes the record of `{}`", record.instance)
    });
    if record.verdict.class == VerdictClass::Clean {
        let zero = record.exit.as_ref().is_some_and(|exit| exit.code == Some(0));
        inquest.demand(zero && record.job.is_some(), 15, || {
            "is recorded clean without an exit of 0 and a job".into()
        });
    }
}
