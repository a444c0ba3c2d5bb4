//! Random walks: whatever comes, in whatever order, the promises hold.
//!
//! The inputs need not make sense together; a lying world makes none either. Each step is
//! saved as the actor would save it and held against the numbered invariants.

use std::time::Duration;

use proptest::prelude::*;

use super::birth;
use super::call::Call;
use super::fixtures::{Wax, began, inputs, spec};
use super::notes::Notes;
use super::step::{Input, Outcome, step};
use crate::invariants::check_save;
use crate::model::{
    Binding, Epoch, Instance, InstanceId, Registration, State, Timestamp, Version, after,
};
use crate::ports::{Handover, InstanceSave};

/// One step of a walk: which input, how much later, and whether the owner is new.
#[derive(Clone, Debug)]
struct Pace {
    input: usize,
    seconds: u64,
    restart: bool,
}

fn pace() -> impl Strategy<Value = Pace> {
    let seconds = prop_oneof![4 => 0..20_u64, 2 => 20..200_u64, 1 => 200..4000_u64];
    (0..inputs().len(), seconds, 0..40_u8).prop_map(|(input, seconds, restart)| Pace {
        input,
        seconds,
        restart: restart == 0,
    })
}

/// An owner on its walk.
struct Walker {
    row: Instance,
    notes: Notes,
    now: Timestamp,
    binding: Binding,
    creates: u32,
    /// What came in so far, for whoever reads a failure.
    trail: Vec<String>,
}

impl Walker {
    fn new(binding: Binding) -> Self {
        let mut row = birth::requested_row(InstanceId::from("linux-1"), &spec(binding), began());
        let events = birth::first_events(&mut row, began());
        row.version = Version(1);
        let save = InstanceSave {
            row: row.clone(),
            replaces: Version(0),
            epoch: Epoch(1),
            events,
            exit: None,
        };
        assert_eq!(check_save(None, &save), vec![]);
        Self { row, notes: Notes::default(), now: began(), binding, creates: 0, trail: vec![] }
    }

    fn take(&mut self, input: Input) {
        let outcome = step(&self.row, &mut self.notes, input, &spec(self.binding), &Wax, self.now);
        self.check_calls(&outcome);
        if !outcome.changed {
            return;
        }
        let mut row = outcome.row;
        row.version = row.version.next();
        let save = InstanceSave {
            row: row.clone(),
            replaces: self.row.version,
            epoch: Epoch(1),
            events: outcome.events,
            exit: outcome.exit,
        };
        let broken = check_save(Some(&self.row), &save);
        assert!(broken.is_empty(), "{broken:#?} after {:#?}", self.trail);
        self.row = row;
    }

    /// What may be asked of the outside, and when.
    fn check_calls(&mut self, outcome: &Outcome) {
        for posted in &outcome.calls {
            match &posted.call {
                Call::Create { .. } => {
                    self.creates += 1;
                    assert_eq!(self.creates, 1, "create was called twice");
                    assert!(outcome.row.create_called_at.is_some(), "create before its commit");
                }
                Call::Delete(_) => {
                    assert_eq!(outcome.row.state, State::Deleting);
                    assert!(outcome.row.warrant.is_some() && outcome.row.verdict.is_some());
                }
                Call::Mint(name) => {
                    assert_eq!(outcome.row.registration, Registration::Uncertain(name.clone()));
                }
                Call::Deregister(_)
                | Call::LookRunner(..)
                | Call::LookRunners
                | Call::LookMachine
                | Call::LookWork(_)
                | Call::LookJob(_)
                | Call::ExitReport { .. }
                | Call::AskDelivery(..)
                | Call::AskOpen(..) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_walk_breaks_a_promise(
        late in any::<bool>(),
        fetched in any::<bool>(),
        paces in prop::collection::vec(pace(), 1..120),
    ) {
        let inputs = inputs();
        let mut walker = Walker::new(if late { Binding::Late } else { Binding::Early });
        let handover = if fetched { Handover::Fetched } else { Handover::WithOrder };
        walker.notes.handover = handover;
        for pace in paces {
            if pace.restart {
                walker.notes = Notes { handover, ..Notes::default() };
                walker.take(Input::Start);
            }
            walker.now = after(walker.now, Duration::from_secs(pace.seconds));
            let (name, answers, make) = &inputs[pace.input];
            let state = walker.row.state;
            walker.trail.push(format!("{state} +{} s: {name}", pace.seconds));
            match (answers, make()) {
                // Answers come only to calls under way, with their token.
                (Some(kind), Input::Answered(_, answer)) => {
                    if let Some(token) = walker.notes.under_way.get(kind).copied() {
                        walker.take(Input::Answered(token, answer));
                    }
                }
                (_, input) => walker.take(input),
            }
        }
    }
}
