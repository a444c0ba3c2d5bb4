//! The single actors under the fleet: started together, and again when one dies.

use std::time::Duration;

use actix::{ActorContext, AsyncContext, Context};
use tracing::error;

use super::super::{FleetEnd, FleetPart};
use super::Fleet;
use crate::intake::{self, IntakeStart};
use crate::jobs::{self, LedgerStart};
use crate::pool::ToPool;
use crate::reaper::{self, ReaperStart};
use crate::requeue::{self, RequeueStart};
use crate::supervise::Restarts;

impl Fleet {
    pub(super) fn start_part(&mut self, part: FleetPart) {
        let (fleet, base) = (self.actor_ref.clone(), self.ports.base.clone());
        let (ledger, rosters) = (self.ledger.clone(), self.ports.rosters.clone());
        let settings = &self.ports.settings;
        let stop_guard = match part {
            FleetPart::Ledger => jobs::start(LedgerStart {
                actor_ref: ledger,
                fleet,
                requeue: self.requeue.clone(),
                base,
                capabilities: self.ports.jobs.clone(),
                settings: settings.requeue.clone(),
            }),
            FleetPart::Requeue => requeue::start(RequeueStart {
                actor_ref: self.requeue.clone(),
                fleet,
                ledger,
                base,
                rosters,
                settings: settings.requeue.clone(),
            }),
            FleetPart::Intake => intake::start(IntakeStart {
                actor_ref: self.intake.clone(),
                fleet,
                ledger,
                base,
                rosters,
                tick: settings.poll_tick,
            }),
            FleetPart::Reaper => reaper::start(ReaperStart {
                fleet,
                base,
                inventories: self.ports.inventories.clone(),
                rosters,
                settings: settings.reaper.clone(),
            }),
        };
        self.parts.insert(part, stop_guard);
    }

    pub(super) fn part_died(&mut self, part: FleetPart, panicked: bool, ctx: &mut Context<Self>) {
        if let Some(stop_guard) = self.parts.remove(&part) {
            stop_guard.release();
        }
        if self.shutdown_reply.is_some() {
            return;
        }
        error!(panicked, "{part:?} died and is started again");
        let name = format!("{part:?}");
        let wait = self.restart_delay(&name);
        if part == FleetPart::Ledger && self.restarts.get(&name).is_some_and(Restarts::hopeless) {
            self.on_exit.end = FleetEnd::Hopeless;
            ctx.stop();
            return;
        }
        ctx.run_later(wait, move |act, _| {
            act.start_part(part);
            act.report_pools();
            if part == FleetPart::Ledger {
                act.introduce_all();
            }
        });
    }

    /// Lets every pool and instance report again what the new ledger does not know.
    pub(super) fn introduce_all(&self) {
        for pool in self.pools.values() {
            let _: Result<(), _> = pool.actor_ref.tell(ToPool::Introduce);
        }
    }

    /// Counts a death, and returns when the next start may be.
    pub(super) fn restart_delay(&mut self, name: &str) -> Duration {
        let now = self.ports.base.clock.now();
        self.restarts.entry(name.to_owned()).or_default().count(now)
    }
}
