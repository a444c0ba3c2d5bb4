//! What a batch of saves comes to: a plain function of the saves and of what the tables hold.
//!
//! Saves are judged in the order they came, each against the tables as the ones before it left
//! them. A refused one leaves no trace and touches nobody else's. What remains is a handful of
//! lists, each written by one statement.

use std::collections::{HashMap, HashSet};

use ostler_actors::model::{Epoch, MachineName};
use ostler_actors::ports::{Acceptance, InstanceSave, JobSave, SaveError};

use super::rows::{self, EventRow, ExitRow, InstanceRow, JobKey, JobRow};
use crate::ports::AuditEntry;

/// Holds one thing to be made durable, already in the words of the tables.
#[derive(Debug)]
pub(super) enum Op {
    Instance(Box<InstanceOp>),
    Jobs(Box<JobsOp>),
    Pool { epoch: Epoch, row: (String, String), events: Vec<EventRow> },
    Holder { epoch: Epoch, holder: String },
    Accept { delivery: String, notice: String },
    Audit(AuditEntry),
    Cursor { name: String, value: String },
}

/// Holds a transaction of an instance.
#[derive(Debug)]
pub(super) struct InstanceOp {
    pub(super) epoch: Epoch,
    pub(super) replaces: i64,
    pub(super) row: InstanceRow,
    pub(super) events: Vec<EventRow>,
    pub(super) exit: Option<ExitRow>,
}

/// Holds a transaction of the ledger.
#[derive(Debug)]
pub(super) struct JobsOp {
    pub(super) epoch: Epoch,
    pub(super) write: i64,
    pub(super) jobs: Vec<JobRow>,
    pub(super) tombstones: Vec<(JobKey, i64)>,
    pub(super) handled: Vec<String>,
    pub(super) events: Vec<EventRow>,
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
        let buried = save.tombstones.iter().map(|(id, at)| (rows::job_key(id), rows::micros(*at)));
        Self {
            epoch: save.epoch,
            write: rows::signed(save.write.0),
            jobs: save.jobs.iter().map(rows::job).collect(),
            tombstones: buried.collect(),
            handled: save.handled.iter().map(ToString::to_string).collect(),
            events: save.events.iter().map(rows::event).collect(),
            forget_before: save.forget_before.map(rows::micros),
        }
    }
}

/// Tells a saver what became of his save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// The delivery is durable, now or before.
    Accepted(Acceptance),
}

/// Tells why a save did not count.
#[derive(Debug)]
pub(super) enum Failure {
    Retry(String),
    Conflict(String),
    Owned(String),
    Fenced(Epoch),
}

impl From<Failure> for SaveError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retry(why) => Self::Retry(why),
            Failure::Conflict(id) => Self::Conflict { id },
            Failure::Owned(machine) => Self::Owned { machine: MachineName::new(machine) },
            Failure::Fenced(epoch) => Self::Fenced(epoch),
        }
    }
}

/// Holds what the tables said about the rows a batch is about.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) epoch: Epoch,
    /// Version and write by instance.
    pub(super) instances: HashMap<String, (i64, i64)>,
    /// The live owner by provider and machine.
    pub(super) owners: HashMap<(String, String), String>,
    /// Marks of ledger saves that are there already.
    pub(super) writes: HashSet<i64>,
}

/// Holds what a batch asks of the tables, and what its savers are told once that is durable.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) answers: Vec<Result<Answer, Failure>>,
    pub(super) instances: Vec<InstanceRow>,
    pub(super) events: Vec<EventRow>,
    pub(super) exits: Vec<ExitRow>,
    pub(super) jobs: Vec<JobRow>,
    pub(super) forget_before: Option<i64>,
    pub(super) tombstones: Vec<(JobKey, i64)>,
    pub(super) handled: Vec<String>,
    pub(super) writes: Vec<i64>,
    pub(super) pools: Vec<(String, String)>,
    /// Somebody else's tenures that count as ours from now on.
    pub(super) holders: Vec<String>,
    pub(super) accepts: Vec<(String, String)>,
    pub(super) audits: Vec<(String, String, String)>,
    pub(super) cursors: Vec<(String, String)>,
}

impl Plan {
    /// Returns whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.instances.is_empty()
            && self.writes.is_empty()
            && self.pools.is_empty()
            && self.holders.is_empty()
            && self.accepts.is_empty()
            && self.audits.is_empty()
            && self.cursors.is_empty()
    }
}

pub(super) fn plan(ops: &[Op], mut known: Known) -> Plan {
    let mut plan = Plan::default();
    for op in ops {
        let answer = match op {
            Op::Instance(op) => instance(op, &mut known, &mut plan),
            Op::Jobs(op) => jobs(op, &mut known, &mut plan),
            Op::Pool { epoch, row, events } => may_write(*epoch, &known).map(|()| {
                plan.pools.push(row.clone());
                plan.events.extend_from_slice(events);
            }),
            Op::Holder { epoch, holder } => {
                may_write(*epoch, &known).map(|()| plan.holders.push(holder.clone()))
            }
            Op::Accept { delivery, notice } => {
                plan.accepts.push((delivery.clone(), notice.clone()));
                Ok(())
            }
            Op::Audit(entry) => {
                let AuditEntry { who, what, detail } = entry.clone();
                plan.audits.push((who, what, detail));
                Ok(())
            }
            Op::Cursor { name, value } => {
                plan.cursors.push((name.clone(), value.clone()));
                Ok(())
            }
        };
        plan.answers.push(answer.map(|()| Answer::Done));
    }
    settle(&mut plan);
    plan
}

fn may_write(epoch: Epoch, known: &Known) -> Result<(), Failure> {
    if epoch == known.epoch { Ok(()) } else { Err(Failure::Fenced(epoch)) }
}

fn instance(op: &InstanceOp, known: &mut Known, plan: &mut Plan) -> Result<(), Failure> {
    may_write(op.epoch, known)?;
    let (id, _, provider, machine, state, version, write, ..) = &op.row;
    let before = known.instances.get(id).copied();
    if before == Some((*version, *write)) {
        return Ok(());
    }
    let at = before.map_or(0, |(version, _)| version);
    if at != op.replaces || *version <= at {
        return Err(Failure::Conflict(id.clone()));
    }
    let key = (provider.clone(), machine.clone());
    let owner = known.owners.get(&key);
    if rows::is_deleted(state) {
        if owner == Some(id) {
            known.owners.remove(&key);
        }
    } else if owner.is_some_and(|owner| owner != id) {
        return Err(Failure::Owned(machine.clone()));
    } else {
        known.owners.insert(key, id.clone());
    }
    known.instances.insert(id.clone(), (*version, *write));
    plan.instances.push(op.row.clone());
    plan.events.extend_from_slice(&op.events);
    plan.exits.extend(op.exit.clone());
    Ok(())
}

fn jobs(op: &JobsOp, known: &mut Known, plan: &mut Plan) -> Result<(), Failure> {
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
    plan.events.extend_from_slice(&op.events);
    Ok(())
}

/// Keeps of several writes to one place only the last, which is all the tables would show.
fn settle(plan: &mut Plan) {
    keep_last(&mut plan.instances, |row| row.0.clone());
    keep_last(&mut plan.events, |row| (row.0, row.1.clone(), row.2));
    keep_last(&mut plan.exits, |row| row.0.clone());
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
