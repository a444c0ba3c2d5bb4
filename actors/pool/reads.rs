//! What a pool reads from the records, patiently: a store that fails is asked again for ever.

use std::sync::Arc;

use tracing::warn;

use super::name::fresh_name;
use crate::backoff::until_some;
use crate::base::Base;
use crate::model::{Home, Instance, InstanceId, MachineName, PoolId, PoolSpec, Refusal};
use crate::ports::{Records, StoreError};

/// Reads every live row of a pool.
pub(crate) async fn live_rows(records: Arc<dyn Records>, pool: PoolId) -> Vec<Instance> {
    until_some(|| async { found(records.live_instances(Some(&pool)).await) }).await
}

pub(crate) async fn row_of(records: Arc<dyn Records>, id: InstanceId) -> Option<Instance> {
    until_some(|| async { found(records.instance(&id).await) }).await
}

/// Chooses the name for the owner of a machine without one, and says where the instance it was made
/// for registered: the machine's own name if it was never used, else a fresh one. A store that
/// fails is not asked again: the reaper will.
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
            Ok((fresh_name(&spec.prefix, base.chance.word()), Some(home)))
        }
        Err(_) => Err(Refusal::Unsettled),
    }
}

fn found<T>(read: Result<T, StoreError>) -> Option<T> {
    read.inspect_err(|error| warn!(error.message = %error, "cannot read the records yet")).ok()
}
