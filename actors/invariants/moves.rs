//! Checks the moves of a save and the record of its end against the edges of an instance's life.
//!
//! The edges are written down here once for the checkers. `instance` decides where to go; this says where it could ever go. The two are written
//! apart on purpose: a checker that asks the decision whether it was right learns nothing.

use super::Inquest;
use crate::model::{Instance, Registration, State, VerdictClass, WarrantKind, What};
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

/// Tells whether an edge exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    Open,
    /// It does for who carries one of these warrants.
    Warranted(&'static [WarrantKind]),
    Closed,
}

/// Force is the only way out of a life that has not been proven free.
const BY_FORCE: Passage = Passage::Warranted(&[WarrantKind::Operator]);
const AFTER_WORK: Passage = Passage::Warranted(&[
    WarrantKind::Served,
    WarrantKind::Zombie,
    WarrantKind::Operator,
    WarrantKind::Expired,
]);
const AFTER_WATCH: Passage = Passage::Warranted(&[
    WarrantKind::NeverBegan,
    WarrantKind::Idle,
    WarrantKind::Served,
    WarrantKind::Zombie,
    WarrantKind::Operator,
    WarrantKind::Expired,
]);
const AFTER_END: Passage = Passage::Warranted(&[WarrantKind::OwnEnd]);

/// Returns whether an instance may go from one state to another.
pub fn passage(from: State, to: State) -> Passage {
    let edge = exits(from).iter().find(|(end, _)| *end == to);
    edge.map_or(Passage::Closed, |(_, passage)| *passage)
}

/// Returns whether a chain of edges leads there; one save may hold several.
pub(super) fn leads_to(from: State, to: State) -> bool {
    let mut known = vec![from];
    let mut next = 0;
    while let Some(state) = known.get(next).copied() {
        if exits(state).iter().any(|(end, _)| *end == to) {
            return true;
        }
        for (end, _) in exits(state) {
            if !known.contains(end) {
                known.push(*end);
            }
        }
        next += 1;
    }
    false
}

fn exits(from: State) -> &'static [(State, Passage)] {
    use Passage::Open;
    use State::{
        Busy, Creating, Deleted, Deleting, Ended, Idle, PendingCreate, PendingDelete, Reserved,
        Retiring, Starting,
    };
    match from {
        PendingCreate => &[(Creating, Open), (Deleted, Open)],
        Creating => &[(Starting, Open), (Ended, Open)],
        Starting => &[
            (Idle, Open),
            (Busy, Open),
            (Retiring, Open),
            (Ended, Open),
            (PendingDelete, BY_FORCE),
        ],
        Idle => &[
            (Reserved, Open),
            (Busy, Open),
            (Retiring, Open),
            (Ended, Open),
            (PendingDelete, BY_FORCE),
        ],
        Reserved => &[(Idle, Open), (Busy, Open), (Ended, Open), (PendingDelete, BY_FORCE)],
        Busy => &[(Retiring, Open), (Ended, Open), (PendingDelete, AFTER_WORK)],
        Retiring => &[(Busy, Open), (Ended, Open), (PendingDelete, AFTER_WATCH)],
        Ended => &[(PendingDelete, AFTER_END)],
        PendingDelete => &[(Busy, Open), (Deleting, Open)],
        Deleting => &[(Deleted, Open)],
        Deleted => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_deleted_and_every_life_can_end() {
        for state in State::ALL {
            assert_eq!(passage(State::Deleted, state), Passage::Closed);
            assert!(!leads_to(State::Deleted, state));
            assert!(state == State::Deleted || leads_to(state, State::Deleted), "{state}");
        }
    }

    #[test]
    fn deletion_begins_in_one_place_only() {
        for state in State::ALL {
            let open = passage(state, State::Deleting) != Passage::Closed;
            assert_eq!(open, state == State::PendingDelete, "{state}");
        }
    }

    #[test]
    fn no_instance_that_may_be_working_is_deleted_for_being_idle() {
        for state in [State::Starting, State::Idle, State::Reserved, State::Busy] {
            let Passage::Warranted(kinds) = passage(state, State::PendingDelete) else {
                panic!("{state} is deleted without a warrant");
            };
            assert!(!kinds.contains(&WarrantKind::Idle));
        }
    }
}
