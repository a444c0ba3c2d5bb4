//! Pools come, die, are emptied, and come back; and machines without a record find one.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, warn};

use super::super::removed_pools::{pool_for_orphan, removed_pool_of};
use super::{Fleet, Pool};
use crate::mail::{ActorRef, Reply};
use crate::model::{Home, MachineView, PoolId, PoolRow, PoolSpec, ProviderId};
use crate::pool::{self, PoolStart, ToPool};

impl Fleet {
    pub(super) fn add_pool(&mut self, spec: PoolSpec, removed: bool) {
        let id = spec.id.clone();
        let unknown = || PoolRow { id: id.clone(), drained: false, breaker: None, events: 0 };
        let row = self.past.remove(&id).unwrap_or_else(unknown);
        let actor_ref = ActorRef::default();
        let pool = Pool {
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
    }

    /// Finds a machine without a record an owner. Where no pool has its provider any more, the
    /// pool it was made for comes back for it, as a ghost.
    pub(super) fn adopt(
        &mut self,
        provider: ProviderId,
        view: MachineView,
        ctx: &mut Context<Self>,
    ) {
        let specs: Vec<&PoolSpec> = self.pools.values().map(|pool| &*pool.spec).collect();
        let chosen = pool_for_orphan(&view.stamp, &provider, &specs);
        if let Some(pool) = chosen.and_then(|id| self.pools.get(&id)) {
            let made_for = view.stamp.pool.as_ref().and_then(|id| self.pools.get(id));
            let home = made_for.map(|pool| {
                let (forge, scope) = (pool.spec.forge.clone(), pool.spec.scope.clone());
                Box::new(Home { forge, scope })
            });
            let reply = Reply::discard();
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Adopt { view, home, reply });
            return;
        }
        let Some(made_for) = view.stamp.instance.clone() else { return no_pool(&view, &provider) };
        let records = Arc::clone(&self.ports.base.records);
        let origin = async move { records.instance(&made_for).await };
        ctx.spawn(origin.into_actor(self).map(move |origin, act, ctx| match origin {
            Ok(Some(row)) if row.provider == provider && !act.pools.contains_key(&row.pool) => {
                act.add_pool(removed_pool_of(&row), true);
                act.adopt(provider, view, ctx);
            }
            Ok(_) => no_pool(&view, &provider),
            // The reaper finds it again.
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
        error!(pool.id = %id, panicked, "pool `{id}` died and is started again from its rows");
        let wait = self.note_death(id.as_str());
        ctx.run_later(wait, move |act, _| {
            // Gone from the config and added again meanwhile, it has a supervisor.
            if act.pools.get(&id).is_some_and(|pool| pool.incarnation == incarnation) {
                act.start_pool(&id);
                act.tell_who_is_here();
            }
        });
    }

    pub(super) fn pool_empty(&mut self, id: &PoolId) {
        if self.pools.get(id).is_some_and(|pool| pool.removed)
            && let Some(pool) = self.pools.remove(id)
        {
            self.past.insert(id.clone(), pool.row);
            self.ports.base.registry.drop_pool(id);
        }
    }
}

fn no_pool(view: &MachineView, provider: &ProviderId) {
    warn!(
        machine.name = %view.name,
        "machine `{}` of provider `{provider}` has no pool to adopt it, and nobody knows where its \
         runner is registered: put its pool back into the config, or delete it by hand once it is idle",
        view.name
    );
}
