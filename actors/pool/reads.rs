//! What a pool reads from the records, and the names it gives to new instances.
//!
//! A store that fails is asked again for ever: a pool that knows only some of its rows would create
//! too many instances.

use std::sync::Arc;

use tracing::warn;

use crate::backoff::until_some;
use crate::base::Base;
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
    let rows = until_some(|| async { found(records.live_instances(Some(&pool)).await) }).await;
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
        match records.instance(&id).await {
            Err(StoreError::Unreadable(_)) => Some(StoredRow::Quarantined),
            read => Some(found(read)?.map_or(StoredRow::None, |row| StoredRow::Row(Box::new(row)))),
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
    match base.records.owner_of(&spec.provider, &machine).await {
        Ok(None) => {}
        Ok(Some(_)) => return Err(Refusal::Taken),
        Err(_) => return Err(Refusal::Unsettled),
    }
    let own = InstanceId::new(machine.as_str());
    match base.records.instance(&own).await {
        Ok(None) => Ok((own, None)),
        Ok(Some(origin)) => {
            let home = Home { forge: origin.forge, scope: origin.scope };
            Ok((fresh_name(&spec.prefix, base.chance.bits()), Some(home)))
        }
        Err(_) => Err(Refusal::Unsettled),
    }
}

fn found<T>(read: Result<T, StoreError>) -> Option<T> {
    read.inspect_err(|error| warn!(error.message = %error, "cannot read the records yet")).ok()
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
