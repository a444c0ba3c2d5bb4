//! Planning: what is known becomes who is made, permitted and asked to go, and what is shown.

use std::time::Duration;

use actix::{AsyncContext, Context};

use super::super::name::fresh_name;
use super::super::plan::{Mood, Plan, plan};
use super::super::reports::of_new;
use super::PoolSupervisor;
use crate::fleet::ToFleet;
use crate::instance::{Origin, Permit, Retire, ToInstance};
use crate::jobs::ToLedger;
use crate::mail::Reply;
use crate::model::{InstanceId, Reason, Timestamp, Urgency};

impl PoolSupervisor {
    /// Plans a moment later, once for all letters until then. The moment grows with the pool,
    /// because a plan looks at everyone.
    pub(super) fn plan_soon(&mut self, ctx: &mut Context<Self>) {
        if !self.due {
            self.due = true;
            let moment = 1 + self.reports.reports().len() / 1000;
            let moment = Duration::from_millis(u64::try_from(moment).unwrap_or(1));
            ctx.run_later(moment, Self::plan_now);
        }
    }

    pub(super) fn plan_now(&mut self, ctx: &mut Context<Self>) {
        self.due = false;
        let now = self.now();
        self.reports.lapse(now);
        let mood = Mood {
            draining: self.draining(),
            settled: self.reports.is_settled(),
            healthy: self.pace.breaker.open_since().is_none(),
            admits: self.permit_the_waiting(now),
            budget: self.pace.budget(&self.links.spec.policy, now),
        };
        let Plan { want, create, mut retire, next_look } =
            plan(&self.links.spec, self.reports.reports(), self.demand, mood, now);
        if self.quiet {
            retire.clear();
        }
        for _ in 0..create {
            self.create(now);
        }
        for (id, reason) in retire {
            self.ask_to_go(&id, reason, want, now);
        }
        self.show(want, now);
        self.look_again_at(next_look, now, ctx);
    }

    pub(super) fn draining(&self) -> bool {
        self.removed || self.drained
    }

    /// Hands permits to those who wait, the longest waiting first; returns how many starts
    /// are left for new instances.
    pub(super) fn permit_the_waiting(&mut self, now: Timestamp) -> u32 {
        if self.quiet {
            return 0; // a process that ends begins nothing
        }
        let queue = self.pace.queue(&self.links.spec.policy, self.reports.reports());
        let mut deletes = queue.free_deletes;
        for id in queue.deletes {
            if deletes > 0 && self.permit(&id, Permit::Delete) {
                deletes -= 1;
            }
        }
        if self.draining() || !self.reports.is_settled() {
            return 0;
        }
        let mut starts = queue.free_starts.min(self.pace.breaker.admits(now));
        for id in queue.starts {
            if starts > 0 && self.permit(&id, Permit::Start) {
                starts -= 1;
            }
        }
        starts
    }

    pub(super) fn permit(&mut self, id: &InstanceId, permit: Permit) -> bool {
        let Some(child) = self.children.get(id) else { return false };
        let shunned = self.pace.hosts.shunned(self.now());
        if permit == Permit::Start && !shunned.is_empty() {
            let hosts = shunned.into_iter().map(|(host, _)| host).collect();
            let _ = child.mailbox.tell(ToInstance::Avoid(hosts));
        }
        let told = child.mailbox.tell(ToInstance::Permit(permit)).is_ok();
        if told {
            self.pace.grant(id, permit);
        }
        told
    }

    pub(super) fn create(&mut self, now: Timestamp) {
        let id = fresh_name(&self.links.spec.prefix, self.links.base.chance.word());
        // A name that exists is left alone: the next plan finds another.
        if self.links.base.registry.holds(&id)
            || self.start_owner(id.clone(), Origin::New(id.clone())).is_err()
        {
            return;
        }
        self.reports.expect(of_new(id.clone(), self.links.spec.revision.clone(), now));
        self.permit(&id, Permit::Start);
    }

    pub(super) fn ask_to_go(&mut self, id: &InstanceId, reason: Reason, want: u32, now: Timestamp) {
        let Some(child) = self.children.get(id) else { return };
        if !self.pace.spend(&self.links.spec.policy, now) {
            return;
        }
        let evidence = format!("pool `{}` wants {want}", self.links.spec.id);
        let ask = Retire {
            urgency: Urgency::Retire,
            reason,
            evidence,
            by: None,
            reply: Reply::discard(),
        };
        if child.mailbox.tell(ToInstance::Retire(ask)).is_ok() {
            self.reports.ask(id, now);
        }
    }

    /// Shows what changed to the board, the ledger and the fleet.
    pub(super) fn show(&mut self, want: u32, now: Timestamp) {
        let (spec, pool) = (&self.links.spec, &self.links.spec.id);
        let draining = self.draining();
        let breaker = self.pace.breaker.open_since();
        let mut view = self.reports.view(spec, self.demand, want, draining, breaker);
        view.shunned = self.pace.hosts.shunned(now);
        if self.shown.view.as_ref() != Some(&view) {
            self.links.base.registry.show_pool(view.clone());
            self.shown.view = Some(view);
        }
        let held = self.pace.breaker.admits(now) == 0;
        let accepts = self.reports.accepts(spec, draining, held);
        if self.shown.accepts != Some(accepts) {
            self.shown.accepts = Some(accepts);
            let _ = self.links.ledger.tell(ToLedger::PoolStatus { pool: pool.clone(), accepts });
        }
        if self.shown.breaker != breaker {
            self.shown.breaker = breaker;
            let why = self.pace.breaker.why();
            let _ = self.fleet.tell(ToFleet::Breaker { pool: pool.clone(), open: breaker, why });
        }
        let empty = self.removed && self.reports.is_empty() && self.adopting.is_empty();
        if empty && !self.shown.empty {
            let _ = self.fleet.tell(ToFleet::PoolEmpty(pool.clone()));
        }
        self.shown.empty = empty;
    }

    pub(super) fn look_again_at(
        &mut self,
        planned: Option<Timestamp>,
        now: Timestamp,
        ctx: &mut Context<Self>,
    ) {
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        let paced = self.pace.next_look(&self.links.spec.policy, now);
        let next = [planned, paced, self.reports.next_lapse()].into_iter().flatten().min();
        self.alarm = next.map(|at| {
            let wait = crate::model::elapsed(now, at).max(Duration::from_millis(1));
            ctx.run_later(wait, |this, ctx| {
                this.alarm = None;
                this.plan_soon(ctx);
            })
        });
    }
}
