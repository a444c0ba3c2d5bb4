//! Planning: from what is known to what is created, permitted, asked to retire, and shown.

use std::time::Duration;

use actix::{AsyncContext, Context};
use tracing::warn;

use super::super::plan::{PlanLimits, PoolPlan, plan};
use super::super::reads::fresh_name;
use super::super::reports::of_new;
use super::PoolSupervisor;
use crate::fleet::ToFleet;
use crate::instance::{Origin, Permit, Retire, ToInstance};
use crate::jobs::ToLedger;
use crate::mail::Reply;
use crate::model::{InstanceId, Reason, Timestamp, Urgency};
use crate::registry::PoolFailure;

impl PoolSupervisor {
    /// Plans a moment later, once for all messages until then. The delay grows with the pool,
    /// because a plan reads every report.
    pub(super) fn plan_soon(&mut self, ctx: &mut Context<Self>) {
        if !self.due {
            self.due = true;
            let millis = 1 + self.reports.reports().len() / 1000;
            let delay = Duration::from_millis(u64::try_from(millis).unwrap_or(1));
            ctx.run_later(delay, Self::plan_now);
        }
    }

    fn plan_now(&mut self, ctx: &mut Context<Self>) {
        self.due = false;
        let now = self.now();
        for id in self.reports.lapse(now) {
            warn!(
                pool.id = %self.links.spec.id, instance.id = %id,
                "instance {id}: its machine could not be read since the start; the pool creates \
                 without waiting longer, and its place stays held"
            );
        }
        self.pace.lives.tick(self.reports.reports(), now);
        let limits = PlanLimits {
            draining: self.draining(),
            settled: self.reports.is_settled(),
            healthy: self.pace.lives.held_since().is_none(),
            admits: self.grant_permits(now),
            budget: self.pace.budget(&self.links.spec.policy, now),
            quarantined: self.reports.quarantined(),
        };
        let PoolPlan { want, create, mut retire, next_plan } =
            plan(&self.links.spec, self.reports.reports(), self.demand, limits, now);
        let silence = self.silent.plan(&self.links.spec, self.reports.reports(), now);
        // Where the pool drains, all go anyway.
        if !limits.draining {
            retire.extend(silence.retire.iter().map(|id| (id.clone(), Reason::Silent)));
        }
        if self.quiesced {
            retire.clear();
        }
        for _ in 0..create {
            self.create(now);
        }
        for (id, reason) in retire {
            self.ask_to_retire(&id, reason, want, now);
        }
        self.log_silence(silence.concern);
        self.show(want, now);
        self.warn_of_failure();
        let next_plan = next_plan.into_iter().chain(silence.next_plan).min();
        self.plan_again_at(next_plan, now, ctx);
    }

    /// Logs that many machines are silent together, once for each time that begins.
    fn log_silence(&mut self, concern: Option<u32>) {
        if let Some(count) = concern
            && self.silent_concern.is_none()
        {
            let pool = &self.links.spec.id;
            warn!(
                pool.id = %pool, silent = count,
                "pool `{pool}`: {count} machines stopped asking for work together; they are \
                 replaced one at a time: see whether machines reach this daemon's runner address"
            );
        }
        self.silent_concern = concern;
    }

    fn draining(&self) -> bool {
        self.removed || self.drained
    }

    /// Gives permits to the instances that wait for one, longest first; returns how many starts
    /// are left for new instances.
    fn grant_permits(&mut self, now: Timestamp) -> u32 {
        if self.quiesced {
            return 0; // a process that shuts down starts nothing
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
        let mut starts = queue.free_starts.min(self.pace.lives.admits(now));
        for id in queue.starts {
            if starts > 0 && self.permit(&id, Permit::Start) {
                starts -= 1;
            }
        }
        starts
    }

    fn permit(&mut self, id: &InstanceId, permit: Permit) -> bool {
        let Some(child) = self.children.get(id) else { return false };
        let now = self.now();
        let shunned = self.pace.lives.hosts().shunned(now);
        if permit == Permit::Start && !shunned.is_empty() {
            let hosts = shunned.into_iter().map(|(host, _)| host).collect();
            let _ = child.mailbox.tell(ToInstance::Avoid(hosts));
        }
        let sent = child.mailbox.tell(ToInstance::Permit(permit)).is_ok();
        if sent {
            self.pace.grant(id, permit, now);
        }
        sent
    }

    fn create(&mut self, now: Timestamp) {
        let id = fresh_name(&self.links.spec.prefix, self.links.base.chance.bits());
        // A name that exists is left alone: the next plan finds another.
        if self.links.base.registry.holds(&id)
            || self.start_owner(id.clone(), Origin::New(id.clone())).is_err()
        {
            return;
        }
        self.reports.expect(of_new(id.clone(), self.links.spec.revision.clone(), now));
        self.permit(&id, Permit::Start);
    }

    fn ask_to_retire(&mut self, id: &InstanceId, reason: Reason, want: u32, now: Timestamp) {
        let Some(child) = self.children.get(id) else { return };
        if !self.pace.spend(&self.links.spec.policy, now) {
            return;
        }
        let evidence = format!("pool `{}` has a target of {want}", self.links.spec.id);
        let ask = Retire {
            urgency: Urgency::Retire,
            reason,
            evidence,
            by: None,
            reply: Reply::discard(),
        };
        if child.mailbox.tell(ToInstance::Retire(ask)).is_ok() {
            self.reports.asked_to_retire(id, now);
            if reason == Reason::Silent {
                self.silent.asked(now);
            }
        }
    }

    /// Reports what changed to the registry, the ledger and the fleet.
    fn show(&mut self, want: u32, now: Timestamp) {
        let (spec, pool) = (&self.links.spec, &self.links.spec.id);
        let draining = self.draining();
        let breaker = self.pace.lives.held_since();
        let mut view = self.reports.view(spec, self.demand, want, draining, breaker);
        view.shunned = self.pace.lives.hosts().shunned(now);
        view.failing = self.pace.lives.view();
        view.proven = self.pace.lives.proven();
        view.silent = self.silent_concern;
        if self.shown.view.as_ref() != Some(&view) {
            self.links.base.registry.show_pool(view.clone());
            self.shown.view = Some(view);
        }
        let held = self.pace.lives.admits(now) == 0;
        let accepts = self.reports.accepts(spec, draining, held);
        if self.shown.accepts != Some(accepts) {
            self.shown.accepts = Some(accepts);
            let _ = self.links.ledger.tell(ToLedger::PoolStatus { pool: pool.clone(), accepts });
        }
        if self.shown.breaker != breaker {
            self.shown.breaker = breaker;
            let why = self.pace.lives.why();
            let _ = self.fleet.tell(ToFleet::Breaker { pool: pool.clone(), open: breaker, why });
        }
        let empty = self.removed && self.reports.is_empty() && self.adopting.is_empty();
        if empty && !self.shown.empty {
            let _ = self.fleet.tell(ToFleet::PoolEmpty(pool.clone()));
        }
        self.shown.empty = empty;
    }

    /// Logs why the last life failed, once for each that tells something new.
    fn warn_of_failure(&mut self) {
        let failing = self.pace.lives.view();
        let shown = failing.as_ref().map(|it| (it.instance.clone(), it.failure.error.clone()));
        if self.shown.failure == shown {
            return;
        }
        self.shown.failure = shown;
        let Some(PoolFailure { failures, instance, failure, .. }) = failing else { return };
        let pool = &self.links.spec.id;
        warn!(
            pool.id = %pool, instance.id = %instance, stage = %failure.stage, class = %failure.class,
            "pool `{pool}`: {failures} of its instances failed without one that served; {instance} failed at \
             stage {} ({}): {}. {}", failure.stage, failure.class, failure.error, failure.advice
        );
    }

    /// Sets the timer for when time alone changes the plan.
    fn plan_again_at(
        &mut self,
        planned: Option<Timestamp>,
        now: Timestamp,
        ctx: &mut Context<Self>,
    ) {
        if let Some(alarm) = self.alarm.take() {
            ctx.cancel_future(alarm);
        }
        let paced = self.pace.next_plan(&self.links.spec.policy, now);
        let lives = self.pace.lives.next_tick(self.reports.reports(), now);
        let next = [planned, paced, lives, self.reports.next_lapse()].into_iter().flatten().min();
        self.alarm = next.map(|at| {
            let wait = crate::model::elapsed(now, at).max(Duration::from_millis(1));
            ctx.run_later(wait, |this, ctx| {
                this.alarm = None;
                this.plan_soon(ctx);
            })
        });
    }
}
