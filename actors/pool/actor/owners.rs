//! Owners: one for every row, always.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tracing::{error, warn};

use super::super::reads::row_of;
use super::super::reports::of_row;
use super::super::{Outcome, Report};
use super::{HOPELESS, LETTING_GO, PoolSupervisor};
use crate::instance::Origin;
use crate::model::{Instance, InstanceId, State};
use crate::mutants::{self, Mutant};
use crate::registry::Taken;

impl PoolSupervisor {
    pub(super) fn take_over(mut rows: Vec<Instance>, this: &mut Self, ctx: &mut Context<Self>) {
        if mutants::is(Mutant::DeletingSkippedAtStart) {
            rows.retain(|row| row.state != State::Deleting);
        }
        this.reports.began_with(&rows);
        for row in rows {
            let id = row.id.clone();
            if this.start_owner(id.clone(), Origin::Row(Box::new(row))).is_err() {
                this.reviving.insert(id.clone(), false);
                this.revive_in(LETTING_GO, id, ctx);
            }
        }
        this.plan_soon(ctx);
    }

    pub(super) fn start_owner(&mut self, id: InstanceId, birth: Origin) -> Result<(), Taken> {
        let child = (self.spawn_owner)(birth, self.links.clone())?;
        self.children.insert(id, child);
        Ok(())
    }

    pub(super) fn hear(&mut self, report: Report, ctx: &mut Context<Self>) {
        let (id, revision) = (report.id.clone(), report.revision.clone());
        let host = report.host.clone();
        if report.state == State::Deleted && self.reports.get(&id).is_none() {
            return;
        }
        self.pace.note(&report);
        // An unknown one was born under an earlier supervisor, unseen in its last moments. It
        // holds a place; its obituary will bring it an owner of ours.
        let news = self.reports.hear(report);
        if let (Some(host), Some(news)) = (host, news) {
            match news {
                Outcome::Ready => self.pace.hosts.ready(&host),
                Outcome::Failed => self.pace.hosts.failed(&host, self.now()),
            }
        }
        if revision == self.links.spec.revision {
            match news {
                Some(Outcome::Ready) => self.pace.breaker.ready(),
                Some(Outcome::Failed) => self.pace.breaker.failed(&id, self.now()),
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
        // Either a successor has taken over, or the dead has not let go of its entry yet.
        ctx.run_later(LETTING_GO, move |this, ctx| {
            if this.links.base.registry.mailbox(&id).is_none() {
                this.on_owner_exit(id, panicked, ctx);
            }
        });
    }

    pub(super) fn on_owner_exit(
        &mut self,
        id: InstanceId,
        panicked: bool,
        ctx: &mut Context<Self>,
    ) {
        if let Some(child) = self.children.remove(&id) {
            child.stop_guard.release();
        }
        self.pace.owner_gone(&id);
        if self.reports.get(&id).is_some_and(|report| report.state == State::Deleted) {
            self.forget(&id, ctx);
            return;
        }
        if self.reviving.insert(id.clone(), panicked).is_some() {
            return;
        }
        let now = self.now();
        let deaths = self.deaths.entry(id.clone()).or_default();
        let mut wait = deaths.note(now);
        if deaths.hopeless() {
            wait = HOPELESS;
            error!(instance.id = %id, "owner of `{id}` dies again and again; next try in {wait:?}");
        } else if panicked {
            warn!(instance.id = %id, "owner of `{id}` panicked; a new one takes over in {wait:?}");
        }
        self.revive_in(wait, id, ctx);
    }

    pub(super) fn revive_in(&mut self, wait: Duration, id: InstanceId, ctx: &mut Context<Self>) {
        let records = Arc::clone(&self.links.base.records);
        let read = async move {
            tokio::time::sleep(wait).await;
            (row_of(records, id.clone()).await, id)
        };
        ctx.spawn(read.into_actor(self).map(Self::revive));
    }

    pub(super) fn revive(
        (row, id): (Option<Instance>, InstanceId),
        this: &mut Self,
        ctx: &mut Context<Self>,
    ) {
        let Some(row) = row.filter(|row| row.state != State::Deleted) else {
            this.reviving.remove(&id);
            this.forget(&id, ctx);
            return;
        };
        let report = of_row(&row);
        let panicked = this.reviving.get(&id).copied().unwrap_or_default();
        if this.start_owner(id.clone(), Origin::Revived(Box::new(row), panicked)).is_err() {
            this.revive_in(LETTING_GO, id, ctx);
            return;
        }
        this.reviving.remove(&id);
        this.reports.expect(report);
        this.plan_soon(ctx);
    }

    pub(super) fn forget(&mut self, id: &InstanceId, ctx: &mut Context<Self>) {
        // An owner that died between its last save and its exit leaves its entry behind.
        self.links.base.registry.dismiss(id);
        self.reports.forget(id);
        self.pace.forget(id, self.now());
        self.deaths.remove(id);
        self.plan_soon(ctx);
    }
}
