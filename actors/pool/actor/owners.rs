//! Owners: every row has one. An owner that dies is replaced from its stored row.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, warn};

use super::super::reads::row_of;
use super::super::reports::of_row;
use super::super::{InstanceReport, StartOutcome};
use super::{ENTRY_RELEASE_DELAY, HOPELESS_RESTART_DELAY, PoolSupervisor};
use crate::instance::Origin;
use crate::model::{Instance, InstanceId, State};
use crate::mutants::{self, Mutant};
use crate::registry::AlreadyOwned;

impl PoolSupervisor {
    pub(super) fn take_over(mut rows: Vec<Instance>, this: &mut Self, ctx: &mut Context<Self>) {
        if mutants::is(Mutant::DeletingSkippedAtStart) {
            rows.retain(|row| row.state != State::Deleting);
        }
        this.reports.restore(&rows);
        for row in rows {
            let id = row.id.clone();
            if this.start_owner(id.clone(), Origin::Row(Box::new(row))).is_err() {
                this.reviving.insert(id.clone(), false);
                this.revive_in(ENTRY_RELEASE_DELAY, id, ctx);
            }
        }
        this.plan_soon(ctx);
    }

    pub(super) fn start_owner(
        &mut self,
        id: InstanceId,
        origin: Origin,
    ) -> Result<(), AlreadyOwned> {
        let child = (self.spawn_owner)(origin, self.links.clone())?;
        self.children.insert(id, child);
        Ok(())
    }

    pub(super) fn report(&mut self, report: InstanceReport, ctx: &mut Context<Self>) {
        let (id, revision) = (report.id.clone(), report.revision.clone());
        let host = report.host.clone();
        if report.state == State::Deleted && self.reports.get(&id).is_none() {
            return;
        }
        self.pace.update(&report);
        // An unknown instance was started by an earlier supervisor in its last moments. It holds a
        // place; when its owner's exit is reported, it gets an owner of ours.
        let outcome = self.reports.update(report);
        if let (Some(host), Some(outcome)) = (host, outcome) {
            match outcome {
                StartOutcome::Ready => self.pace.hosts.ready(&host),
                StartOutcome::Failed => self.pace.hosts.failed(&host, self.now()),
            }
        }
        if revision == self.links.spec.revision {
            match outcome {
                Some(StartOutcome::Ready) => self.pace.breaker.ready(),
                Some(StartOutcome::Failed) => self.pace.breaker.failed(&id, self.now()),
                None => {}
            }
        }
        self.plan_soon(ctx);
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

    fn revive((row, id): (Option<Instance>, InstanceId), this: &mut Self, ctx: &mut Context<Self>) {
        let Some(row) = row.filter(|row| row.state != State::Deleted) else {
            this.reviving.remove(&id);
            this.remove(&id, ctx);
            return;
        };
        let report = of_row(&row);
        let panicked = this.reviving.get(&id).copied().unwrap_or_default();
        if this.start_owner(id.clone(), Origin::Revived(Box::new(row), panicked)).is_err() {
            this.revive_in(ENTRY_RELEASE_DELAY, id, ctx);
            return;
        }
        this.reviving.remove(&id);
        this.reports.expect(report);
        this.plan_soon(ctx);
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
