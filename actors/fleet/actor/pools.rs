//! Pools: added, restarted when they die, dropped when they are empty; and the pool that adopts a
//! machine without a record.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, warn};

use super::{Fleet, RunningPool};
use crate::mail::{ActorRef, Reply};
use crate::model::{
    Home, Instance, Labels, MachineSpec, MachineView, Policy, PoolId, PoolRow, PoolSpec,
    ProviderId, Stamp,
};
use crate::pool::{self, PoolStart, ToPool};

impl Fleet {
    pub(super) fn add_pool(&mut self, spec: PoolSpec, removed: bool) {
        let id = spec.id.clone();
        let unknown = || PoolRow { id: id.clone(), drained: false, breaker: None, events: 0 };
        let row = self.absent_rows.remove(&id).unwrap_or_else(unknown);
        let actor_ref = ActorRef::default();
        let pool = RunningPool {
            spec: Arc::new(spec),
            row,
            removed,
            incarnation: 0,
            actor_ref,
            stop_guard: None,
        };
        self.pools.insert(id.clone(), pool);
        self.start_pool(&id);
    }

    pub(super) fn start_pool(&mut self, id: &PoolId) {
        let (Some(pool), Some(controller)) = (self.pools.get_mut(id), &self.controller) else {
            return;
        };
        self.incarnations += 1;
        pool.incarnation = self.incarnations;
        pool.stop_guard = Some(pool::start(PoolStart {
            spec: Arc::clone(&pool.spec),
            row: pool.row.clone(),
            removed: pool.removed,
            incarnation: pool.incarnation,
            actor_ref: pool.actor_ref.clone(),
            fleet: self.actor_ref.clone(),
            ledger: self.ledger.clone(),
            base: self.ports.base.clone(),
            capabilities: self.ports.instances.clone(),
            controller: Arc::clone(controller),
        }));
        if let Some(hosts) = self.hosts.get(&pool.spec.provider) {
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Hosts(Arc::clone(hosts)));
        }
    }

    /// Lets a pool adopt a machine without a record. Where no pool has its provider any more, the
    /// pool it was created for comes back for it, as a removed one.
    pub(super) fn adopt(
        &mut self,
        provider: ProviderId,
        view: MachineView,
        ctx: &mut Context<Self>,
    ) {
        let specs: Vec<&PoolSpec> = self.pools.values().map(|pool| &*pool.spec).collect();
        let chosen = pool_for_orphan(&view.stamp, &provider, &specs);
        if let Some(pool) = chosen.and_then(|id| self.pools.get(&id)) {
            let created_for = view.stamp.pool.as_ref().and_then(|id| self.pools.get(id));
            let home = created_for.map(|pool| {
                let (forge, scope) = (pool.spec.forge.clone(), pool.spec.scope.clone());
                Box::new(Home { forge, scope })
            });
            let reply = Reply::discard();
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Adopt { view, home, reply });
            return;
        }
        let Some(created_for) = view.stamp.instance.clone() else {
            return no_pool(&view, &provider);
        };
        let records = Arc::clone(&self.ports.base.records);
        let origin = async move { records.instance(&created_for).await };
        ctx.spawn(origin.into_actor(self).map(move |origin, act, ctx| match origin {
            Ok(Some(row)) if row.provider == provider && !act.pools.contains_key(&row.pool) => {
                act.add_pool(removed_pool_of(&row), true);
                act.adopt(provider, view, ctx);
            }
            Ok(_) => no_pool(&view, &provider),
            // The reaper finds the machine again.
            Err(_) => {}
        }));
    }

    pub(super) fn pool_died(
        &mut self,
        id: PoolId,
        incarnation: u64,
        panicked: bool,
        ctx: &mut Context<Self>,
    ) {
        let died = self.pools.get_mut(&id).filter(|pool| pool.incarnation == incarnation);
        let Some(pool) = died else { return };
        if let Some(stop_guard) = pool.stop_guard.take() {
            stop_guard.release();
        }
        if self.shutdown_reply.is_some() {
            return;
        }
        error!(pool.id = %id, panicked, "pool `{id}`: supervisor died; it is started again from its rows");
        let wait = self.restart_delay(id.as_str());
        ctx.run_later(wait, move |act, _| {
            // A pool that was removed and added again meanwhile has a supervisor.
            if act.pools.get(&id).is_some_and(|pool| pool.incarnation == incarnation) {
                act.start_pool(&id);
                act.report_pools();
            }
        });
    }

    pub(super) fn pool_empty(&mut self, id: &PoolId) {
        if self.pools.get(id).is_some_and(|pool| pool.removed)
            && let Some(pool) = self.pools.remove(id)
        {
            self.absent_rows.insert(id.clone(), pool.row);
            self.ports.base.registry.drop_pool(id);
        }
    }
}

fn no_pool(view: &MachineView, provider: &ProviderId) {
    warn!(
        machine.name = %view.name,
        "machine `{}` of provider `{provider}` has no pool to adopt it, and where its runner is \
         registered is unknown: put its pool back into the config, or delete it by hand once it is idle",
        view.name
    );
}

/// Returns a pool that wants no instance and serves no job, for rows whose pool is gone: it
/// drains until its last row is gone.
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

/// Chooses the pool that adopts an orphan: the one it was created for, if that still has the same
/// provider, else any pool that has. The owner could not see the machine at another provider.
fn pool_for_orphan(stamp: &Stamp, provider: &ProviderId, pools: &[&PoolSpec]) -> Option<PoolId> {
    let mut fitting = pools.iter().filter(|pool| pool.provider == *provider);
    let named = fitting.clone().find(|pool| stamp.pool.as_ref() == Some(&pool.id));
    named.or_else(|| fitting.next()).map(|pool| pool.id.clone())
}
