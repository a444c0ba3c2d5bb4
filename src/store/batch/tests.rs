//! Rules of a batch, without a database.

use ostler_actors::model::{Instance, State, Version, WriteId};
use ostler_actors::testing::contract;

use super::*;

fn op(row: &Instance, epoch: u64) -> SaveOp {
    SaveOp::Instance(Box::new(contract::saved(row, Epoch(epoch)).into()))
}

fn next(row: &Instance) -> Instance {
    let mut next = row.clone();
    next.version = row.version.next();
    next.write = WriteId(row.write.0 + 1);
    next
}

fn empty() -> TableState {
    TableState { epoch: Epoch(1), ..TableState::default() }
}

#[test]
fn a_conflict_is_the_answer_to_one_saver_alone() {
    let (good, mut bad, late) =
        (contract::instance("a"), contract::instance("b"), contract::instance("c"));
    bad.version = Version(7);
    let plan = plan(&[op(&bad, 1), op(&good, 1), op(&late, 0)], empty());
    assert!(matches!(plan.answers[0], Err(SaveFailure::Conflict(ref id)) if id == "b"));
    assert!(matches!(plan.answers[1], Ok(SaveAnswer::Done)));
    assert!(matches!(plan.answers[2], Err(SaveFailure::Fenced(Epoch(0)))));
    assert_eq!(plan.instances.len(), 1);
}

#[test]
fn two_saves_of_one_row_in_a_batch_follow_each_other() {
    let first = contract::instance("a");
    let second = next(&first);
    let saves = [op(&first, 1), op(&second, 1), op(&second, 1), op(&next(&first), 1)];
    let plan = plan(&saves, empty());
    assert!(plan.answers.iter().all(Result::is_ok), "{:?}", plan.answers);
    let versions: Vec<_> = plan.instances.iter().map(|row| row.5).collect();
    assert_eq!(versions, [2], "the tables see the last");
}

#[test]
fn a_machine_passes_from_one_owner_to_the_next_inside_a_batch() {
    let first = contract::instance("a");
    let mut gone = next(&first);
    gone.state = State::Deleted;
    let mut heir = contract::instance("b");
    heir.machine = first.machine.clone();
    let early = plan(&[op(&first, 1), op(&heir, 1), op(&gone, 1)], empty());
    assert!(matches!(early.answers[1], Err(SaveFailure::Owned(_))));
    let late = plan(&[op(&first, 1), op(&gone, 1), op(&heir, 1)], empty());
    assert!(late.answers.iter().all(Result::is_ok), "{:?}", late.answers);
    let order: Vec<_> = late.instances.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(order, ["a", "b"], "the machine must be free before it is taken");
}

#[test]
fn a_refused_save_writes_nothing() {
    let mut bad = contract::saved(&contract::instance("a"), Epoch(1));
    bad.replaces = Version(3);
    bad.exit = Some(contract::exit_record(&bad.row));
    let plan = plan(&[SaveOp::Instance(Box::new(bad.into()))], empty());
    assert!(plan.is_empty() && plan.exits.is_empty() && plan.events.is_empty());
}

#[test]
fn a_ledger_save_that_is_repeated_in_a_batch_counts_once() {
    let save = JobSave {
        jobs: vec![contract::job(1)],
        epoch: Epoch(1),
        write: WriteId(u64::MAX),
        ..JobSave::default()
    };
    let ops = [0; 2].map(|_| SaveOp::Jobs(Box::new(save.clone().into())));
    let plan = plan(&ops, empty());
    assert!(plan.answers.iter().all(Result::is_ok));
    assert_eq!((plan.writes.len(), plan.jobs.len()), (1, 1));
}

#[test]
fn a_tombstone_that_a_later_save_forgets_is_not_written() {
    let bury = |number, at, write, forget| {
        let save = JobSave {
            tombstones: vec![(contract::job_id(number), contract::stamp(at))],
            forget_before: forget,
            epoch: Epoch(1),
            write: WriteId(write),
            ..JobSave::default()
        };
        SaveOp::Jobs(Box::new(save.into()))
    };
    let plan = plan(&[bury(1, 10, 1, None), bury(2, 50, 2, Some(contract::stamp(20)))], empty());
    let kept: Vec<_> = plan.tombstones.iter().map(|((_, number), _)| *number).collect();
    assert_eq!(kept, [2]);
}
