//! What a pool reads from the records, and the names it gives to new instances.
//!
//! A store that fails is asked again for ever: a pool that knows only some of its rows would create
//! too many instances.

use std::sync::Arc;

use tracing::warn;

use crate::backoff::until_some;
use crate::base::Base;
use crate::calls::{RECORDS_TIMEOUT, answered};
use crate::model::{Home, Instance, InstanceId, MachineName, PoolId, PoolSpec, Refusal};
use crate::ports::{Records, StoreError};

/// What host names and label values allow everywhere.
const NAME_ALPHABET: [u8; 32] = *b"abcdefghijklmnopqrstuvwxyz234567";
/// 60 bits: a collision is refused by the store and costs one attempt.
const NAME_LENGTH: usize = 12;

/// Holds the live rows of a pool.
pub(crate) struct LiveRows {
    pub(crate) rows: Vec<Instance>,
    /// Instances whose rows cannot be decoded.
    pub(crate) quarantined: Vec<InstanceId>,
}

/// Reads every live row of a pool.
pub(crate) async fn live_rows(records: Arc<dyn Records>, pool: PoolId) -> LiveRows {
    let rows = until_some(|| found(records.live_instances(Some(&pool)))).await;
    let quarantined = records.quarantined().into_iter();
    let ours = quarantined.filter(|row| row.pool.as_ref() == Some(&pool));
    LiveRows { rows, quarantined: ours.filter_map(|row| row.live_instance().cloned()).collect() }
}

/// Tells what the row of an owner that exited holds.
pub(crate) enum StoredRow {
    Row(Box<Instance>),
    /// There is none.
    None,
    /// It cannot be decoded.
    Quarantined,
}

pub(crate) async fn row_of(records: Arc<dyn Records>, id: InstanceId) -> StoredRow {
    until_some(|| async {
        match answered(RECORDS_TIMEOUT, records.instance(&id)).await {
            Ok(Err(StoreError::Unreadable(_))) => Some(StoredRow::Quarantined),
            read => {
                Some(logged(read)?.map_or(StoredRow::None, |row| StoredRow::Row(Box::new(row))))
            }
        }
    })
    .await
}

/// Chooses the name of the instance that adopts a machine: the machine's own name if it was never
/// used, else a fresh one; then also where the instance it was created for registered. A store that
/// fails is not asked again: the reaper finds the machine at its next sweep.
pub(crate) async fn name_for(
    base: Base,
    spec: Arc<PoolSpec>,
    machine: MachineName,
) -> Result<(InstanceId, Option<Home>), Refusal> {
    match found(base.records.owner_of(&spec.provider, &machine)).await {
        Some(None) => {}
        Some(Some(_)) => return Err(Refusal::Taken),
        None => return Err(Refusal::Unsettled),
    }
    let own = InstanceId::new(machine.as_str());
    match found(base.records.instance(&own)).await {
        Some(None) => Ok((own, None)),
        Some(Some(origin)) => {
            let home = Home { forge: origin.forge, scope: origin.scope };
            Ok((fresh_name(&spec.prefix, base.chance.bits()), Some(home)))
        }
        None => Err(Refusal::Unsettled),
    }
}

/// Awaits a read of the records; nothing if it failed, was late or panicked.
async fn found<T>(read: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    logged(answered(RECORDS_TIMEOUT, read).await)
}

/// Returns what was read; nothing, and a line in the log, if the read failed.
fn logged<T>(read: Result<Result<T, StoreError>, String>) -> Option<T> {
    let why = match read {
        Ok(Ok(found)) => return Some(found),
        Ok(Err(error)) => error.to_string(),
        Err(why) => why,
    };
    warn!(error.message = %why, "cannot read the records yet");
    None
}

/// Returns a name made of a prefix and a random word.
pub(crate) fn fresh_name(prefix: &str, word: u64) -> InstanceId {
    let mut rest = word;
    let mut name = prefix.to_lowercase();
    name.push('-');
    for _ in 0..NAME_LENGTH {
        let [low, ..] = rest.to_le_bytes();
        name.push(char::from(NAME_ALPHABET[usize::from(low & 31)]));
        rest >>= 5;
    }
    InstanceId::new(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_its_prefix_and_twelve_lowercase_characters() {
        assert_eq!(fresh_name("Linux", 0).as_str(), "linux-aaaaaaaaaaaa");
        assert_eq!(fresh_name("linux", u64::MAX).as_str(), "linux-777777777777");
        assert_ne!(fresh_name("linux", 1), fresh_name("linux", 2));
    }
}
