//! Decides a batch of saves: a plain function of the saves and of what the tables hold.
//!
//! Saves are judged in the order they came, each against the tables as the ones before it left
//! them. A refused save leaves no trace and does not affect the others. What remains is a handful of
//! lists, each written by one statement.

use std::collections::{HashMap, HashSet};

use ostler_actors::model::{Epoch, MachineName};
use ostler_actors::ports::{Acceptance, InstanceSave, JobSave, SaveError};

use super::rows::{self, EventRow, ExitRow, InstanceRow, JobKey, JobRow, RevisionRow};
use crate::ports::AuditEntry;

/// One save, already encoded as the tables hold it.
#[derive(Debug)]
pub(super) enum SaveOp {
    Instance(Box<InstanceOp>),
    Jobs(Box<JobsOp>),
    Pool { epoch: Epoch, row: Option<(String, String)>, events: Vec<EventRow> },
    Holder { epoch: Epoch, holder: String },
    Accept { delivery: String, notice: String },
    Audit(AuditEntry),
    Cursor { name: String, value: String },
}

/// A save of an instance: its row, events and exit.
#[derive(Debug)]
pub(super) struct InstanceOp {
    pub(super) epoch: Epoch,
    pub(super) replaces: i64,
    pub(super) row: InstanceRow,
    pub(super) events: Vec<EventRow>,
    pub(super) exit: Option<ExitRow>,
}

/// A save of the ledger.
#[derive(Debug)]
pub(super) struct JobsOp {
    pub(super) epoch: Epoch,
    pub(super) write: i64,
    pub(super) jobs: Vec<JobRow>,
    pub(super) tombstones: Vec<(JobKey, i64)>,
    pub(super) handled: Vec<String>,
    pub(super) events: Vec<EventRow>,
    pub(super) revisions: Vec<RevisionRow>,
    pub(super) forget_before: Option<i64>,
}

impl From<InstanceSave> for InstanceOp {
    fn from(save: InstanceSave) -> Self {
        Self {
            epoch: save.epoch,
            replaces: rows::signed(save.replaces.0),
            row: rows::instance(&save.row),
            events: save.events.iter().map(rows::event).collect(),
            exit: save.exit.as_ref().map(rows::exit),
        }
    }
}

impl From<JobSave> for JobsOp {
    fn from(save: JobSave) -> Self {
        let tombstones =
            save.tombstones.iter().map(|(id, at)| (rows::job_key(id), rows::micros(*at)));
        Self {
            epoch: save.epoch,
            write: rows::signed(save.write.0),
            jobs: save.jobs.iter().map(rows::job).collect(),
            tombstones: tombstones.collect(),
            handled: save.handled.iter().map(ToString::to_string).collect(),
            events: save.events.iter().map(rows::event).collect(),
            revisions: save.revisions.iter().map(rows::revision).collect(),
            forget_before: save.forget_before.map(rows::micros),
        }
    }
}

/// The result of a save that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaveAnswer {
    Done,
    /// The delivery is durable, now or before.
    Accepted(Acceptance),
}

/// Why a save does not count.
#[derive(Debug)]
pub(super) enum SaveFailure {
    Retry(String),
    Conflict(String),
    Owned(String),
    Fenced(Epoch),
}

impl From<SaveFailure> for SaveError {
    fn from(failure: SaveFailure) -> Self {
        match failure {
            SaveFailure::Retry(why) => Self::Retry(why),
            SaveFailure::Conflict(id) => Self::Conflict { id },
            SaveFailure::Owned(machine) => Self::Owned { machine: MachineName::new(machine) },
            SaveFailure::Fenced(epoch) => Self::Fenced(epoch),
        }
    }
}

/// What the tables hold about the rows of a batch.
#[derive(Debug, Default)]
pub(super) struct TableState {
    pub(super) epoch: Epoch,
    /// Version and write by instance.
    pub(super) instances: HashMap<String, (i64, i64)>,
    /// The live owner by provider and machine.
    pub(super) owners: HashMap<(String, String), String>,
    /// Marks of ledger saves that are there already.
    pub(super) writes: HashSet<i64>,
}

/// What a batch writes, and the answers to its savers once that is durable.
#[derive(Debug, Default)]
pub(super) struct BatchPlan {
    pub(super) answers: Vec<Result<SaveAnswer, SaveFailure>>,
    pub(super) instances: Vec<InstanceRow>,
    pub(super) events: Vec<EventRow>,
    pub(super) exits: Vec<ExitRow>,
    pub(super) revisions: Vec<RevisionRow>,
    pub(super) jobs: Vec<JobRow>,
    pub(super) forget_before: Option<i64>,
    pub(super) tombstones: Vec<(JobKey, i64)>,
    pub(super) handled: Vec<String>,
    pub(super) writes: Vec<i64>,
    pub(super) pools: Vec<(String, String)>,
    /// Holders of another daemon that count as ours from now on.
    pub(super) holders: Vec<String>,
    pub(super) accepts: Vec<(String, String)>,
    pub(super) audits: Vec<(String, String, String)>,
    pub(super) cursors: Vec<(String, String)>,
}

impl BatchPlan {
    /// Returns whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.instances.is_empty()
            && self.writes.is_empty()
            && self.pools.is_empty()
            && self.events.is_empty()
            && self.holders.is_empty()
            && self.accepts.is_empty()
            && self.audits.is_empty()
            && self.cursors.is_empty()
    }
}

pub(super) fn plan(ops: &[SaveOp], mut known: TableState) -> BatchPlan {
    let mut plan = BatchPlan::default();
    for op in ops {
        let answer = match op {
            SaveOp::Instance(op) => instance(op, &mut known, &mut plan),
            SaveOp::Jobs(op) => jobs(op, &mut known, &mut plan),
            SaveOp::Pool { epoch, row, events } => may_write(*epoch, &known).map(|()| {
                plan.pools.extend(row.clone());
                plan.events.extend_from_slice(events);
            }),
            SaveOp::Holder { epoch, holder } => {
                may_write(*epoch, &known).map(|()| plan.holders.push(holder.clone()))
            }
            SaveOp::Accept { delivery, notice } => {
                plan.accepts.push((delivery.clone(), notice.clone()));
                Ok(())
            }
            SaveOp::Audit(entry) => {
                let AuditEntry { who, what, detail } = entry.clone();
                plan.audits.push((who, what, detail));
                Ok(())
            }
            SaveOp::Cursor { name, value } => {
                plan.cursors.push((name.clone(), value.clone()));
                Ok(())
            }
        };
        plan.answers.push(answer.map(|()| SaveAnswer::Done));
    }
    settle(&mut plan);
    plan
}

fn may_write(epoch: Epoch, known: &TableState) -> Result<(), SaveFailure> {
    if epoch == known.epoch { Ok(()) } else { Err(SaveFailure::Fenced(epoch)) }
}

fn instance(
    op: &InstanceOp,
    known: &mut TableState,
    plan: &mut BatchPlan,
) -> Result<(), SaveFailure> {
    may_write(op.epoch, known)?;
    let (id, _, provider, machine, state, version, write, ..) = &op.row;
    let before = known.instances.get(id).copied();
    if before == Some((*version, *write)) {
        return Ok(());
    }
    let at = before.map_or(0, |(version, _)| version);
    if at != op.replaces || *version <= at {
        return Err(SaveFailure::Conflict(id.clone()));
    }
    let key = (provider.clone(), machine.clone());
    let owner = known.owners.get(&key);
    if rows::is_deleted(state) {
        if owner == Some(id) {
            known.owners.remove(&key);
        }
    } else if owner.is_some_and(|owner| owner != id) {
        return Err(SaveFailure::Owned(machine.clone()));
    } else {
        known.owners.insert(key, id.clone());
    }
    known.instances.insert(id.clone(), (*version, *write));
    plan.instances.push(op.row.clone());
    plan.events.extend_from_slice(&op.events);
    plan.exits.extend(op.exit.clone());
    Ok(())
}

fn jobs(op: &JobsOp, known: &mut TableState, plan: &mut BatchPlan) -> Result<(), SaveFailure> {
    may_write(op.epoch, known)?;
    if !known.writes.insert(op.write) {
        return Ok(());
    }
    plan.writes.push(op.write);
    plan.jobs.extend_from_slice(&op.jobs);
    if let Some(before) = op.forget_before {
        plan.forget_before = plan.forget_before.max(Some(before));
        plan.tombstones.retain(|(_, at)| *at >= before);
    }
    plan.tombstones.extend_from_slice(&op.tombstones);
    plan.handled.extend_from_slice(&op.handled);
    plan.revisions.extend_from_slice(&op.revisions);
    plan.events.extend_from_slice(&op.events);
    Ok(())
}

/// Keeps only the last of several writes to one row: the tables would show no other.
fn settle(plan: &mut BatchPlan) {
    keep_last(&mut plan.instances, |row| row.0.clone());
    keep_last(&mut plan.events, |row| (row.0, row.1.clone(), row.2));
    keep_last(&mut plan.exits, |row| row.0.clone());
    keep_last(&mut plan.revisions, |row| row.0.clone());
    keep_last(&mut plan.jobs, |row| (row.0.clone(), row.1));
    keep_last(&mut plan.pools, |row| row.0.clone());
    keep_last(&mut plan.cursors, |row| row.0.clone());
}

fn keep_last<T, K: std::hash::Hash + Eq>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    if rows.len() < 2 {
        return;
    }
    let mut seen = HashSet::with_capacity(rows.len());
    rows.reverse();
    rows.retain(|row| seen.insert(key(row)));
    rows.reverse();
}

#[cfg(test)]
mod tests;
