//! The edges of an instance's life, written down once for the checkers.
//!
//! `instance` decides where to go; this says where it could ever go. The two are written
//! apart on purpose: a checker that asks the decision whether it was right learns nothing.

use crate::model::{State, WarrantKind};

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
const AFTER_WORK: Passage =
    Passage::Warranted(&[WarrantKind::Served, WarrantKind::Zombie, WarrantKind::Operator]);
const AFTER_WATCH: Passage = Passage::Warranted(&[
    WarrantKind::NeverBegan,
    WarrantKind::Idle,
    WarrantKind::Served,
    WarrantKind::Zombie,
    WarrantKind::Operator,
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
