//! Owners: every row has one. A pool starts with one for every row, replaces one that dies from its
//! stored row, and gives one to a machine that has no record.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, info, warn};

use super::super::reads::{LiveRows, StoredRow, name_for, row_of};
use super::super::reports::{of_adopted, of_row};
use super::PoolSupervisor;
use crate::instance::Origin;
use crate::mail::Reply;
use crate::model::{Home, InstanceId, MachineView, Refusal, State};
use crate::mutants::{self, Mutant};
use crate::registry::AlreadyOwned;

/// How long an owner that exits may take to release its entry.
const ENTRY_RELEASE_DELAY: Duration = Duration::from_millis(50);
/// When an owner that dies repeatedly is started again.
const HOPELESS_RESTART_DELAY: Duration = Duration::from_secs(10);

impl PoolSupervisor {
    pub(super) fn take_over(stored: LiveRows, this: &mut Self, ctx: &mut Context<Self>) {
        let LiveRows { mut rows, quarantined } = stored;
        for id in quarantined {
            this.quarantine(id);
        }
        if mutants::is(Mutant::DeletingSkippedAtStart) {
            rows.retain(|row| row.state != State::Deleting);
        }
        this.reports.restore(&rows, this.now());
        this.pace.lives.restore(&rows);
        for row in rows {
            let id = row.id.clone();
            if this.start_owner(id.clone(), Origin::Row(Box::new(row))).is_err() {
                this.reviving.insert(id.clone(), false);
                this.revive_in(ENTRY_RELEASE_DELAY, id, ctx);
            }
        }
        this.plan_soon(ctx);
    }

    /// Gives a machine without a record an owner, which is asked to retire it.
    pub(super) fn adopt(
        &mut self,
        view: MachineView,
        home: Option<Box<Home>>,
        reply: Reply<Result<InstanceId, Refusal>>,
        ctx: &mut Context<Self>,
    ) {
        let own: &str = view.name.as_str();
        if self.reports.reports().contains_key(own) || !self.adopting.insert(view.name.clone()) {
            reply.send(Err(Refusal::Taken));
            return;
        }
        // An adopted instance is asked to retire at once, so a sweep that takes everything for
        // an orphan spends the budget. What is refused now is found again by the next sweep.
        let now = self.now();
        if !self.pace.spend(&self.links.spec.policy, now) {
            self.adopting.remove(&view.name);
            reply.send(Err(Refusal::Budget));
            return;
        }
        let name =
            name_for(self.links.base.clone(), Arc::clone(&self.links.spec), view.name.clone());
        ctx.spawn(name.into_actor(self).map(move |name, this, ctx| {
            this.adopting.remove(&view.name);
            let adopted = name.and_then(|(id, origin)| {
                let machine = view.name.clone();
                let spec = &this.links.spec;
                let ours = view.stamp.pool.as_ref() == Some(&spec.id);
                let own = || Home { forge: spec.forge.clone(), scope: spec.scope.clone() };
                // Anywhere else its runner would not be found, nor the job it may be running.
                let Some(home) = origin.or(home.map(|home| *home)).or_else(|| ours.then(own)) else {
                    warn!(
                        machine.name = %machine,
                        "machine `{machine}`: not adopted, its pool is unknown and it has no record; put \
                         its pool back into the config, or delete it by hand once it is idle"
                    );
                    return Err(Refusal::Unknown);
                };
                this.start_owner(id.clone(), Origin::Adopted(id.clone(), Box::new(view), home))
                    .map_err(|AlreadyOwned| Refusal::Taken)?;
                info!(instance.id = %id, machine.name = %machine, "instance {id}: adopts machine `{machine}`");
                let revision = this.links.spec.revision.clone();
                this.reports.expect(of_adopted(id.clone(), revision, this.now()));
                this.plan_soon(ctx);
                Ok(id)
            });
            reply.send(adopted);
        }));
    }

    pub(super) fn died(&mut self, id: InstanceId, panicked: bool, ctx: &mut Context<Self>) {
        if self.links.base.registry.mailbox(&id).is_none() {
            self.on_owner_exit(id, panicked, ctx);
            return;
        }
        // Either a successor has taken over, or the entry is not released yet.
        ctx.run_later(ENTRY_RELEASE_DELAY, move |this, ctx| {
            if this.links.base.registry.mailbox(&id).is_none() {
                this.on_owner_exit(id, panicked, ctx);
            }
        });
    }

    fn on_owner_exit(&mut self, id: InstanceId, panicked: bool, ctx: &mut Context<Self>) {
        if let Some(child) = self.children.remove(&id) {
            child.stop_guard.release();
        }
        self.pace.owner_gone(&id);
        self.conditions.owner_gone(&id);
        if self.reports.get(&id).is_some_and(|report| report.state == State::Deleted) {
            self.remove(&id, ctx);
            return;
        }
        if self.reviving.insert(id.clone(), panicked).is_some() {
            return;
        }
        let now = self.now();
        let restarts = self.restarts.entry(id.clone()).or_default();
        let mut wait = restarts.count(now);
        if restarts.hopeless() {
            wait = HOPELESS_RESTART_DELAY;
            error!(instance.id = %id, "instance {id}: owner died repeatedly; next start in {wait:?}");
        } else if panicked {
            warn!(instance.id = %id, "instance {id}: owner panicked; a new one starts in {wait:?}");
        }
        self.revive_in(wait, id, ctx);
    }

    fn revive_in(&mut self, wait: Duration, id: InstanceId, ctx: &mut Context<Self>) {
        let records = Arc::clone(&self.links.base.records);
        let read = async move {
            tokio::time::sleep(wait).await;
            (row_of(records, id.clone()).await, id)
        };
        ctx.spawn(read.into_actor(self).map(Self::revive));
    }

    fn revive((row, id): (StoredRow, InstanceId), this: &mut Self, ctx: &mut Context<Self>) {
        let row = match row {
            StoredRow::Row(row) if row.state != State::Deleted => row,
            StoredRow::Row(_) | StoredRow::None => {
                this.reviving.remove(&id);
                this.remove(&id, ctx);
                return;
            }
            StoredRow::Quarantined => {
                this.reviving.remove(&id);
                this.remove(&id, ctx);
                this.quarantine(id);
                return;
            }
        };
        let report = of_row(&row);
        let panicked = this.reviving.get(&id).copied().unwrap_or_default();
        if this.start_owner(id.clone(), Origin::Revived(row, panicked)).is_err() {
            this.revive_in(ENTRY_RELEASE_DELAY, id, ctx);
            return;
        }
        this.reviving.remove(&id);
        this.reports.expect(report);
        this.plan_soon(ctx);
    }

    /// Counts an instance whose row cannot be decoded: it holds a place, and nothing waits for it.
    fn quarantine(&mut self, id: InstanceId) {
        error!(instance.id = %id, "instance {id}: its row cannot be decoded; it is set aside and holds its place");
        self.reports.quarantine(id);
    }

    fn remove(&mut self, id: &InstanceId, ctx: &mut Context<Self>) {
        // An owner that died between its last save and its exit leaves its entry behind.
        self.links.base.registry.dismiss(id);
        self.reports.remove(id);
        self.pace.remove(id, self.now());
        self.restarts.remove(id);
        self.plan_soon(ctx);
    }
}
