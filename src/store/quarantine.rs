//! Rows that cannot be decoded: named, counted and left as they are.
//!
//! A body that is not what the model expects (an edit by hand, a damaged page, a program of another
//! version) must stop nothing but itself. Every read that decodes rows sets such a row aside here
//! and goes on. Its columns still say what it is about, so that no other row takes its machine. A row
//! that decodes again leaves the quarantine with the read that sees it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_actors::model::{
    DeliveryId, ForgeId, InstanceId, JobId, MachineName, PoolId, ProviderId, Subject,
};
use ostler_actors::ports::{QuarantinedRow, RecordKey};

use super::link::Row;
use super::rows;

/// How many broken events, exit records and deliveries are remembered; further ones are only logged.
const MAX_REMEMBERED: usize = 1_000;

/// Remembers the rows that could not be decoded when they were last read.
#[derive(Debug, Default)]
pub(super) struct Quarantine(Mutex<BTreeMap<RecordKey, QuarantinedRow>>);

impl Quarantine {
    /// Returns them, in order.
    pub(super) fn rows(&self) -> Vec<QuarantinedRow> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn holds(&self, key: &RecordKey) -> bool {
        self.lock().contains_key(key)
    }

    /// Adds a row, and says so once.
    pub(super) fn add(&self, row: QuarantinedRow) {
        let mut rows = self.lock();
        if rows.contains_key(&row.key) {
            return;
        }
        tracing::error!("store: {row}");
        if rows.len() < MAX_REMEMBERED || decides(&row.key) {
            rows.insert(row.key.clone(), row);
        }
    }

    /// Removes a row that decodes again.
    pub(super) fn remove(&self, key: &RecordKey) {
        if self.lock().remove(key).is_some() {
            tracing::info!("store: {key} can be decoded again; it counts from the next start");
        }
    }

    /// Removes the live instances, of one pool or of all, that a list of them no longer held.
    pub(super) fn retain_live(&self, pool: Option<&PoolId>, found: &[RecordKey]) {
        self.lock().retain(|key, row| {
            let listed = row.live_instance().is_some()
                && pool.is_none_or(|pool| row.pool.as_ref() == Some(pool));
            !listed || found.contains(key)
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RecordKey, QuarantinedRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether decisions depend on knowing that the row is there.
fn decides(key: &RecordKey) -> bool {
    match key {
        RecordKey::Instance(_) | RecordKey::Job(_) | RecordKey::Pool(_) => true,
        RecordKey::Exit(_) | RecordKey::Delivery(_) | RecordKey::Event(..) => false,
    }
}

/// Names a row by its indexed columns.
pub(super) type NameRow = fn(&Row) -> Result<QuarantinedRow, sqlx::Error>;

fn named(key: RecordKey) -> QuarantinedRow {
    QuarantinedRow { key, pool: None, machine: None, why: String::new() }
}

/// Reads id, pool, provider, machine and state from column `AT` on.
pub(super) fn instance<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    let machine = (ProviderId::new(row.text(AT + 2)?), MachineName::new(row.text(AT + 3)?));
    let lives = !rows::is_deleted(&row.text(AT + 4)?);
    Ok(QuarantinedRow {
        pool: Some(PoolId::new(row.text(AT + 1)?)),
        machine: lives.then_some(machine),
        ..named(RecordKey::Instance(InstanceId::new(row.text(AT)?)))
    })
}

/// Reads forge, number and pool from column `AT` on.
pub(super) fn job<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    let number = row.int(AT + 1)?.cast_unsigned();
    let id = JobId { forge: ForgeId::new(row.text(AT)?), number };
    let pool = row.maybe_text(AT + 2)?.map(PoolId::new);
    Ok(QuarantinedRow { pool, ..named(RecordKey::Job(id)) })
}

/// Reads the id from column `AT`.
pub(super) fn pool<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    let id = PoolId::new(row.text(AT)?);
    Ok(QuarantinedRow { pool: Some(id.clone()), ..named(RecordKey::Pool(id)) })
}

/// Reads instance and pool from column `AT` on.
pub(super) fn exit<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    let pool = Some(PoolId::new(row.text(AT + 1)?));
    Ok(QuarantinedRow { pool, ..named(RecordKey::Exit(InstanceId::new(row.text(AT)?))) })
}

/// Reads the delivery from column `AT`.
pub(super) fn delivery<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    Ok(named(RecordKey::Delivery(DeliveryId::new(row.text(AT)?))))
}

/// Reads kind, subject and place from column `AT` on.
pub(super) fn event<const AT: usize>(row: &Row) -> Result<QuarantinedRow, sqlx::Error> {
    let (kind, subject) = (row.text(AT)?, row.text(AT + 1)?);
    let job = || {
        let (forge, number) = subject.rsplit_once('/')?;
        Some(JobId { forge: ForgeId::new(forge), number: number.parse().ok()? })
    };
    let subject = match (kind.as_str(), job()) {
        ("pool", _) => Subject::Pool(PoolId::new(subject)),
        ("job", Some(job)) => Subject::Job(job),
        _ => Subject::Instance(InstanceId::new(subject)),
    };
    let place = u32::try_from(row.int(AT + 2)?).unwrap_or(u32::MAX);
    Ok(named(RecordKey::Event(subject, place)))
}
