//! How the model lies in the tables: columns for what is searched for, a JSON body for the rest.
//!
//! Encoding happens in the saver's own task, so the writer only moves text.

use ostler_actors::model::{
    Event, ExitRecord, Instance, Job, JobId, JobNotice, PoolRow, State, Subject, Tail, Timestamp,
};
use ostler_actors::ports::ExitRevision;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::link::Row;

/// Holds an instance's row: id, pool, provider, machine, state, version, write, created, since, body.
pub(super) type InstanceRow =
    (String, String, String, String, &'static str, i64, i64, i64, i64, String);
/// Holds an event's row: kind, subject, place, at, body.
pub(super) type EventRow = (&'static str, String, u32, i64, String);
/// Holds the row of an end: instance, pool, verdict, at, body, tail.
pub(super) type ExitRow = (String, String, &'static str, i64, String, String);
/// Holds the row of a revised end: instance, verdict, body, and the tail if it is another.
pub(super) type RevisionRow = (String, &'static str, String, Option<String>);
/// Holds a job's row: forge, number, pool, state, open, heard, over, body.
pub(super) type JobRow = (String, i64, Option<String>, &'static str, u8, i64, Option<i64>, String);
/// Names a job in the tables: forge, number.
pub(super) type JobKey = (String, i64);

/// Writes JSON. The model has no maps with odd keys and no fallible serialisers.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("records are plain data, which JSON can always hold")
}

/// Reads JSON from a cell.
pub(super) fn parse<T: DeserializeOwned>(row: &Row, at: usize) -> Result<T, sqlx::Error> {
    let text = row.text(at)?;
    serde_json::from_str(&text).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Returns a moment as the tables count it.
pub(super) fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

/// Returns the moment of a cell.
pub(super) fn moment(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the bits of a number that may use all 64 of them; the tables count with a sign.
pub(super) fn signed(number: u64) -> i64 {
    number.cast_signed()
}

pub(super) fn instance(row: &Instance) -> InstanceRow {
    (
        row.id.to_string(),
        row.pool.to_string(),
        row.provider.to_string(),
        row.machine.to_string(),
        row.state.as_str(),
        signed(row.version.0),
        signed(row.write.0),
        micros(row.created_at),
        micros(row.since),
        json(row),
    )
}

/// Returns whether the row's state is terminal.
pub(super) fn is_deleted(state: &str) -> bool {
    state == State::Deleted.as_str()
}

pub(super) fn event(event: &Event) -> EventRow {
    let (kind, subject) = subject(&event.subject);
    (kind, subject, event.seq, micros(event.at), json(event))
}

/// Returns how a timeline is named in the tables.
pub(super) fn subject(of: &Subject) -> (&'static str, String) {
    match of {
        Subject::Instance(id) => ("instance", id.to_string()),
        Subject::Job(id) => ("job", id.to_string()),
        Subject::Pool(id) => ("pool", id.to_string()),
    }
}

/// Encodes the record of an end; the tail lies apart, so that lists need not carry it.
pub(super) fn exit(record: &ExitRecord) -> ExitRow {
    let tail = json(&record.tail);
    let slim = ExitRecord { tail: Tail::NotNeeded, ..record.clone() };
    (
        record.instance.to_string(),
        record.pool.to_string(),
        record.verdict.class.as_str(),
        micros(record.at),
        json(&slim),
        tail,
    )
}

/// Encodes a record whose verdict was revised; its tail is dropped or left as it is.
pub(super) fn revision(revision: &ExitRevision) -> RevisionRow {
    let record = &revision.record;
    let slim = ExitRecord { tail: Tail::NotNeeded, ..record.clone() };
    let tail = revision.drop_tail.then(|| json(&Tail::NotNeeded));
    (record.instance.to_string(), record.verdict.class.as_str(), json(&slim), tail)
}

pub(super) fn job(job: &Job) -> JobRow {
    let (forge, number) = job_key(&job.id);
    (
        forge,
        number,
        job.pool.as_ref().map(ToString::to_string),
        job.state().as_str(),
        job.is_live().into(),
        micros(job.heard_at),
        job.over_at.map(micros),
        json(job),
    )
}

/// Returns how a job is named in the tables.
pub(super) fn job_key(id: &JobId) -> JobKey {
    (id.forge.to_string(), signed(id.number))
}

pub(super) fn pool(row: &PoolRow) -> (String, String) {
    (row.id.to_string(), json(row))
}

/// Encodes a delivery's news.
pub(super) fn notice(notice: &JobNotice) -> String {
    json(notice)
}
