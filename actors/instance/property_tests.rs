//! Random inputs, in whatever order: the invariants hold.
//!
//! The inputs need not make sense together; a world that lies sends such inputs too. Each step is
//! saved as the actor would save it and held against the numbered invariants.

use std::time::Duration;

use proptest::prelude::*;

use super::effect::Effect;
use super::fixtures::{Wax, inputs, spec, started_at};
use super::lifecycle::Lifecycle;
use super::origin::{first_events, requested_row};
use super::transition::{InstanceInput, TransitionResult};
use crate::invariants::check_save;
use crate::model::{
    Binding, Epoch, Instance, InstanceId, Registration, State, Timestamp, Version, after,
};
use crate::ports::{Handover, InstanceSave};

/// One random step: which input, how much later, and whether the owner is new.
#[derive(Clone, Debug)]
struct RandomStep {
    input: usize,
    seconds: u64,
    restart: bool,
}

fn random_step() -> impl Strategy<Value = RandomStep> {
    let seconds = prop_oneof![4 => 0..20_u64, 2 => 20..200_u64, 1 => 200..4000_u64];
    (0..inputs().len(), seconds, 0..40_u8).prop_map(|(input, seconds, restart)| RandomStep {
        input,
        seconds,
        restart: restart == 0,
    })
}

/// An owner that is given random inputs.
struct RandomOwner {
    row: Instance,
    lifecycle: Lifecycle,
    now: Timestamp,
    binding: Binding,
    creates: u32,
    /// What came in so far, for the message of a failure.
    trail: Vec<String>,
}

impl RandomOwner {
    fn new(binding: Binding) -> Self {
        let mut row = requested_row(InstanceId::from("linux-1"), &spec(binding), started_at());
        let events = first_events(&mut row, started_at());
        row.version = Version(1);
        let save = InstanceSave {
            row: row.clone(),
            replaces: Version(0),
            epoch: Epoch(1),
            events,
            exit: None,
        };
        assert_eq!(check_save(None, &save), vec![]);
        Self {
            row,
            lifecycle: Lifecycle::default(),
            now: started_at(),
            binding,
            creates: 0,
            trail: vec![],
        }
    }

    fn take(&mut self, input: InstanceInput) {
        let outcome = self.lifecycle.step(&self.row, input, &spec(self.binding), &Wax, self.now);
        self.check_effects(&outcome);
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

    /// Checks which effects are started, and when.
    fn check_effects(&mut self, outcome: &TransitionResult) {
        for posted in &outcome.after.effects {
            match &posted.effect {
                Effect::Create { .. } => {
                    self.creates += 1;
                    assert_eq!(self.creates, 1, "create was called twice");
                    assert!(outcome.row.create_called_at.is_some(), "create before its commit");
                }
                Effect::Delete(_) => {
                    assert_eq!(outcome.row.state, State::Deleting);
                    assert!(outcome.row.warrant.is_some() && outcome.row.verdict.is_some());
                }
                Effect::Mint(name) => {
                    assert_eq!(outcome.row.registration, Registration::Uncertain(name.clone()));
                }
                Effect::AwaitSlot => {
                    assert!(outcome.row.create_called_at.is_none(), "a slot after the call");
                }
                Effect::Deregister(_)
                | Effect::ReadRunner(..)
                | Effect::FindRunner
                | Effect::ReadMachine
                | Effect::FindWork(_)
                | Effect::ReadJob(_)
                | Effect::GatherExitReport { .. }
                | Effect::ConfirmDelivery(..)
                | Effect::ConfirmOffer(..) => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_order_of_inputs_breaks_an_invariant(
        late in any::<bool>(),
        fetched in any::<bool>(),
        slots in any::<bool>(),
        steps in prop::collection::vec(random_step(), 1..120),
    ) {
        let inputs = inputs();
        let mut owner = RandomOwner::new(if late { Binding::Late } else { Binding::Early });
        let handover = if fetched { Handover::Fetched } else { Handover::WithOrder };
        owner.lifecycle = Lifecycle::new(handover, None).with_create_slots(slots);
        for random in steps {
            if random.restart {
                owner.lifecycle = Lifecycle::new(handover, None).with_create_slots(slots);
                owner.take(InstanceInput::Start);
            }
            owner.now = after(owner.now, Duration::from_secs(random.seconds));
            let (name, answers, input) = &inputs[random.input];
            let state = owner.row.state;
            owner.trail.push(format!("{state} +{} s: {name}", random.seconds));
            match (answers, input()) {
                // Outcomes come only of effects in flight, with their token.
                (Some(kind), InstanceInput::EffectDone(_, outcome)) => {
                    if let Some(token) = owner.lifecycle.token_of(*kind) {
                        owner.take(InstanceInput::EffectDone(token, outcome));
                    }
                }
                (_, input) => owner.take(input),
            }
        }
    }
}
