//! Pools that are no longer in the config but still have machines.

use crate::model::{Instance, Labels, MachineSpec, Policy, PoolId, PoolSpec, ProviderId, Stamp};

/// Returns a pool that wants nothing and serves nobody, for rows whose pool is gone: it drains
/// until its last row is.
pub(super) fn removed_pool_of(row: &Instance) -> PoolSpec {
    PoolSpec {
        id: row.pool.clone(),
        forge: row.forge.clone(),
        scope: row.scope.clone(),
        provider: row.provider.clone(),
        binding: row.binding,
        labels: Labels::default(),
        accept_unlabelled: false,
        runner_group: String::new(),
        min_idle: 0,
        max: 0,
        machine: MachineSpec::default(),
        revision: row.revision.clone(),
        prefix: row.pool.as_str().to_owned(),
        policy: Policy::default(),
    }
}

/// Chooses the pool that gives an orphan an owner: the one it was made for, if that still has
/// the same provider, else any pool that has. Elsewhere its owner would look in vain.
pub(super) fn pool_for_orphan(
    stamp: &Stamp,
    provider: &ProviderId,
    pools: &[&PoolSpec],
) -> Option<PoolId> {
    let mut fitting = pools.iter().filter(|pool| pool.provider == *provider);
    let named = fitting.clone().find(|pool| stamp.pool.as_ref() == Some(&pool.id));
    named.or_else(|| fitting.next()).map(|pool| pool.id.clone())
}
