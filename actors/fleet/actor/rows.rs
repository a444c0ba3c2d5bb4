//! What the fleet writes: the rows of its pools, and the holders whose machines are ours.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, warn};

use super::super::FleetEnd;
use super::Fleet;
use crate::backoff::until_some;
use crate::mail::Reply;
use crate::model::{Event, HolderId, PoolId, Refusal, RequestedBy, Subject, Timestamp, What};
use crate::pool::ToPool;
use crate::ports::SaveError;

impl Fleet {
    pub(super) fn drain(
        &mut self,
        id: &PoolId,
        drained: bool,
        who: String,
        reply: Reply<Result<(), Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let Some(pool) = self.pools.get_mut(id) else {
            reply.send(Err(Refusal::Unknown));
            return;
        };
        pool.row.drained = drained;
        let what = if drained { What::Drained { who } } else { What::Resumed { who } };
        let actor_ref = pool.actor_ref.clone();
        self.save_pool(id, what, ctx, move || {
            let _: Result<(), _> = actor_ref.tell(ToPool::Drain(drained));
            reply.send(Ok(()));
        });
    }

    pub(super) fn save_breaker(
        &mut self,
        id: &PoolId,
        open: Option<Timestamp>,
        why: String,
        ctx: &mut Context<Self>,
    ) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.row.breaker = open;
        let what = if open.is_some() { What::BreakerOpened(why) } else { What::BreakerClosed };
        self.save_pool(id, what, ctx, || {});
    }

    /// Saves a pool's row for as long as it takes; then runs `and_then`.
    pub(super) fn save_pool(
        &mut self,
        id: &PoolId,
        what: What,
        ctx: &mut Context<Self>,
        and_then: impl FnOnce() + 'static,
    ) {
        let Some(pool) = self.pools.get_mut(id) else { return };
        pool.row.events += 1;
        let now = self.ports.base.clock.now();
        let event = Event {
            subject: Subject::Pool(id.clone()),
            seq: pool.row.events,
            at: now,
            last_at: now,
            count: 1,
            what,
        };
        let (rows, row) = (Arc::clone(&self.ports.pools.rows), pool.row.clone());
        let (said, epoch) = (event.clone(), self.ports.base.epoch);
        let saving =
            async move { for_ever(|| rows.save(row.clone(), vec![said.clone()], epoch)).await };
        ctx.wait(saving.into_actor(self).map(move |saved, act, ctx| match saved {
            Ok(()) => {
                act.ports.base.registry.announce(&event);
                and_then();
            }
            Err(refused) => act.give_up(&refused, ctx),
        }));
    }

    /// Counts the holders of all foreign machines among ours; the reaper then finds orphans.
    pub(super) fn adopt_foreign(
        &mut self,
        by: &RequestedBy,
        reply: Reply<Result<usize, Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let foreign = self.ports.base.registry.foreign();
        let machines = foreign.values().filter(|machine| machine.holder.is_some()).count();
        let holders: BTreeSet<HolderId> =
            foreign.into_values().filter_map(|machine| machine.holder).collect();
        warn!("{} adopts {machines} foreign machine(s): {}", by.who, by.why);
        let (rows, epoch) = (Arc::clone(&self.ports.pools.rows), self.ports.base.epoch);
        let adopting = async move {
            for holder in holders {
                for_ever(|| rows.adopt_holder(holder.clone(), epoch)).await?;
            }
            Ok(())
        };
        ctx.wait(adopting.into_actor(self).map(move |adopted, act, ctx| match adopted {
            Ok(()) => reply.send(Ok(machines)),
            Err(refused) => act.give_up(&refused, ctx),
        }));
    }

    /// Stops, because the store says that another daemon is the writer.
    pub(super) fn give_up(&mut self, refused: &SaveError, ctx: &mut Context<Self>) {
        error!("the fleet stops: {refused}");
        if matches!(refused, SaveError::Fenced(_)) {
            self.on_exit.end = FleetEnd::Fenced;
        }
        ctx.stop();
    }
}

/// Repeats a save until the store takes it or says that it never will.
async fn for_ever<F>(mut save: impl FnMut() -> F) -> Result<(), SaveError>
where
    F: Future<Output = Result<(), SaveError>>,
{
    until_some(|| {
        let saved = save();
        async {
            match saved.await {
                Err(SaveError::Retry(_)) => None,
                done => Some(done),
            }
        }
    })
    .await
}
