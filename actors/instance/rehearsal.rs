//! A whole life without a world: every call is answered at once, and well. For benchmarks.

use std::collections::VecDeque;
use std::time::Duration;

use super::call::{Call, Posted};
use super::notes::Notes;
use super::step::{Input, step};
use super::{Answer, Permit, Token, requested_row};
use crate::model::{
    Began, Conclusion, ExitFacts, ExitReport, Instance, InstanceId, JobId, JobOver, MachinePhase,
    MachineView, PoolSpec, Sighting, Stamp, State, Tail, Timestamp, Worker, after,
};
use crate::ports::{Deletion, Deregistered, Jit, Minted, Seal};

/// More steps than any life has; it ends a rehearsal that goes round in circles.
const TOO_MANY: u64 = 200;

/// Takes an instance from the wish to `deleted`, one job included; returns how many steps it took.
pub(crate) fn rehearse(spec: &PoolSpec, seal: &dyn Seal) -> u64 {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut row = requested_row(InstanceId::new("rehearsed"), spec, now);
    let (mut notes, mut steps) = (Notes::default(), 0);
    let mut inputs = VecDeque::from([Input::Start]);
    while row.state != State::Deleted && steps < TOO_MANY {
        now = after(now, Duration::from_secs(1));
        let input = inputs.pop_front().unwrap_or_else(|| next(&row, now));
        let outcome = step(&row, &mut notes, input, spec, seal, now);
        row = outcome.row;
        for Posted { token, call } in outcome.calls {
            inputs.extend(answer(&row, token, &call, now));
        }
        steps += 1;
    }
    steps
}

/// Returns what happens to an instance that waits for nothing in particular.
fn next(row: &Instance, now: Timestamp) -> Input {
    let job = || JobId { forge: row.forge.clone(), number: 1 };
    match row.state {
        State::PendingCreate => Input::Permit(Permit::Start),
        State::PendingDelete => Input::Permit(Permit::Delete),
        State::Idle => Input::Executing(job()),
        State::Busy if row.job_over.is_none() => Input::JobOver(JobOver {
            job: job(),
            conclusion: Some(Conclusion::Success),
            names_us: true,
            at: now,
        }),
        State::Busy => Input::Seen(view(row, MachinePhase::Over(ExitFacts::default()))),
        State::Creating
        | State::Starting
        | State::Reserved
        | State::Retiring
        | State::Ended
        | State::Deleting
        | State::Deleted => Input::Wake,
    }
}

/// Answers a call as a good world does.
fn answer(row: &Instance, token: Token, call: &Call, begun: Timestamp) -> Option<Input> {
    let answer = match call {
        Call::Create { .. } => Answer::Created(Ok(view(row, MachinePhase::Running))),
        Call::Mint(_) => {
            Answer::Minted(Ok(Minted { id: crate::model::RunnerId(1), jit: Jit::new("jit") }))
        }
        Call::Deregister(_) => Answer::Deregistered(Ok(Deregistered::Removed)),
        Call::LookRunner(..) | Call::LookRunners => {
            Answer::Runner { begun, seen: Sighting::Absent }
        }
        Call::LookMachine if row.state.is_over() => {
            Answer::Machine { begun, seen: Sighting::Absent }
        }
        Call::LookMachine => {
            Answer::Machine { begun, seen: Sighting::Seen(view(row, MachinePhase::Running)) }
        }
        Call::LookWork(_) => Answer::Work { begun, seen: Sighting::Absent },
        Call::LookJob(_) => Answer::Job(Sighting::Absent),
        Call::ExitReport { .. } => {
            Answer::ExitReport(ExitReport { exit: None, tail: Tail::NotNeeded, remarks: vec![] })
        }
        Call::Delete(_) => Answer::Deleted(Ok(Deletion::Accepted)),
        Call::AskDelivery(..) | Call::AskOpen(..) => return None,
    };
    Some(Input::Answered(token, answer))
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
    fn a_rehearsed_life_comes_to_its_end() {
        let steps = rehearse(&spec(Binding::Early), &Wax);
        assert!((8..TOO_MANY).contains(&steps), "{steps}");
    }
}
