//! A whole life without a world: every effect is answered at once, and well. For benchmarks.

use std::collections::VecDeque;
use std::time::Duration;

use super::effect::{Effect, EffectOutcome, EffectToken, PostedEffect};
use super::lifecycle::Lifecycle;
use super::transition::InstanceInput;
use super::{Permit, requested_row};
use crate::model::{
    Began, Conclusion, ExitFacts, ExitReport, Instance, InstanceId, JobId, JobOver, MachinePhase,
    MachineView, PoolSpec, Sighting, Stamp, State, Tail, Timestamp, Worker, after,
};
use crate::ports::{Deletion, Deregistered, Jit, Minted, Seal};

/// More steps than any life has; it ends a run that goes round in circles.
const MAX_STEPS: u64 = 200;

/// Takes an instance from its request to `deleted`, one job included; returns how many steps it took.
pub(crate) fn run_lifecycle(spec: &PoolSpec, seal: &dyn Seal) -> u64 {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut row = requested_row(InstanceId::new("bench"), spec, now);
    let (mut lifecycle, mut steps) = (Lifecycle::default(), 0);
    let mut inputs = VecDeque::from([InstanceInput::Start]);
    while row.state != State::Deleted && steps < MAX_STEPS {
        now = after(now, Duration::from_secs(1));
        let input = inputs.pop_front().unwrap_or_else(|| next(&row, now));
        let result = lifecycle.step(&row, input, spec, seal, now);
        row = result.row;
        for PostedEffect { token, effect } in result.after.effects {
            inputs.extend(answer(&row, token, &effect, now));
        }
        steps += 1;
    }
    steps
}

/// Returns what happens to an instance that waits for nothing in particular.
fn next(row: &Instance, now: Timestamp) -> InstanceInput {
    let job = || JobId { forge: row.forge.clone(), number: 1 };
    match row.state {
        State::PendingCreate => InstanceInput::Permit(Permit::Start),
        State::PendingDelete => InstanceInput::Permit(Permit::Delete),
        State::Idle => InstanceInput::Executing(job()),
        State::Busy if row.job_over.is_none() => InstanceInput::JobOver(JobOver {
            job: job(),
            conclusion: Some(Conclusion::Success),
            names_us: true,
            at: now,
        }),
        State::Busy => InstanceInput::Seen(view(row, MachinePhase::Over(ExitFacts::default()))),
        State::Creating
        | State::Starting
        | State::Reserved
        | State::Retiring
        | State::Ended
        | State::Deleting
        | State::Deleted => InstanceInput::Wake,
    }
}

/// Answers an effect as a good world does.
fn answer(
    row: &Instance,
    token: EffectToken,
    effect: &Effect,
    begun: Timestamp,
) -> Option<InstanceInput> {
    let answer = match effect {
        Effect::Create { .. } => EffectOutcome::Created(Ok(view(row, MachinePhase::Running))),
        Effect::AwaitSlot => EffectOutcome::Slot(Ok(crate::ports::CreateSlot::default())),
        Effect::Mint(_) => EffectOutcome::Minted(Ok(Minted {
            id: crate::model::RunnerId(1),
            jit: Jit::new("jit"),
        })),
        Effect::Deregister(_) => EffectOutcome::Deregistered(Ok(Deregistered::Removed)),
        Effect::ReadRunner(..) | Effect::FindRunner => {
            EffectOutcome::Runner { begun, seen: Sighting::Absent }
        }
        Effect::ReadMachine if row.state.is_over() => {
            EffectOutcome::Machine { begun, seen: Sighting::Absent }
        }
        Effect::ReadMachine => {
            EffectOutcome::Machine { begun, seen: Sighting::Seen(view(row, MachinePhase::Running)) }
        }
        Effect::FindWork(_) => EffectOutcome::Work { begun, seen: Sighting::Absent },
        Effect::ReadJob(_) => EffectOutcome::Job(Sighting::Absent),
        Effect::GatherExitReport { .. } => EffectOutcome::ExitReport(ExitReport {
            exit: None,
            tail: Tail::NotNeeded,
            remarks: vec![],
        }),
        Effect::Delete(_) => EffectOutcome::Deleted(Ok(Deletion::Accepted)),
        Effect::ConfirmDelivery(..) | Effect::ConfirmOffer(..) => return None,
    };
    Some(InstanceInput::EffectDone(token, answer))
}

fn view(row: &Instance, phase: MachinePhase) -> MachineView {
    MachineView {
        name: row.machine.clone(),
        uid: Some("u1".into()),
        stamp: Stamp { controller: None, holder: None, pool: None, instance: None },
        phase,
        worker: Worker::Absent,
        began: Began::Unknown,
        ready: true,
        leaving: false,
        host: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{Wax, spec};
    use super::*;
    use crate::model::Binding;

    #[test]
    fn an_instance_that_is_answered_well_is_deleted_in_the_end() {
        let steps = run_lifecycle(&spec(Binding::Early), &Wax);
        assert!((8..MAX_STEPS).contains(&steps), "{steps}");
    }
}
