//! Jobs that come by themselves, and the trouble that comes with them.
//!
//! Instances that are there from the beginning, as an earlier daemon left them, are put in place here too.

use std::sync::Arc;

use super::World;
use crate::instance::requested_row;
use crate::model::{
    Instance, InstanceId, Labels, MachineName, Place, PoolSpec, Registration, RunnerName, Scope,
    Stamp, State, Version, WriteId,
};
use crate::ports::{InstanceSave, Jit};
use crate::testing::happening::{Happening, OperatorAction};
use crate::testing::outside::Outside;

/// Tells how many jobs come, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// How many are still to come.
    pub left: u32,
    /// How far apart on average, in milliseconds.
    pub gap: u64,
}

impl Workload {
    /// Returns that nothing comes by itself.
    pub fn none() -> Self {
        Self::default()
    }
}

impl Outside {
    pub(super) fn prepare(&mut self, pools: &[PoolSpec], workload: Workload) {
        self.pools = pools.iter().cloned().map(Arc::new).collect();
        self.workload = workload;
        if self.workload.left > 0 {
            self.later(1_000, Happening::Arrival);
        }
    }

    /// Lets a job arrive, and draws what else happens at about this time.
    pub(super) fn arrival(&mut self) {
        if self.workload.left == 0 || self.pools.is_empty() {
            return;
        }
        self.workload.left -= 1;
        self.draw_job();
        self.draw_trouble();
        if self.workload.left > 0 {
            let gap = self.dice.skewed(0, self.workload.gap * 4);
            self.later(gap, Happening::Arrival);
        }
    }

    fn draw_job(&mut self) {
        let index = self.dice.index(self.pools.len());
        let Some(pool) = self.pools.get(index).map(Arc::clone) else { return };
        let place = self.draw_place(&pool.scope);
        let labels = self.draw_labels(&pool);
        let duration = self.dice.skewed(2_000, 1_200_000);
        let number = if self.strikes(self.faults.forge.startup_failure, "startup failure") {
            self.queue_dead_job(place, labels)
        } else if self.dice.hits(200) {
            let wait = self.dice.between(5_000, 300_000);
            self.hold_job(place, labels, duration, wait)
        } else {
            self.queue_job(place, labels, duration)
        };
        if self.strikes(self.faults.forge.cancel_elsewhere, "job cancelled") {
            let wait = self.dice.skewed(100, 600_000);
            self.later(wait, Happening::CancelJob(number));
        }
    }

    fn draw_place(&mut self, scope: &Scope) -> Place {
        let repository = *self.dice.pick(&["web", "api", "docs"]).unwrap_or(&"web");
        let (owner, repository) = match scope {
            Scope::Organization(owner) => (owner.clone(), repository.to_owned()),
            Scope::Repository { owner, name } => (owner.clone(), name.clone()),
            Scope::Enterprise(slug) => (slug.clone(), repository.to_owned()),
        };
        let enterprise = match scope {
            Scope::Enterprise(slug) => Some(slug.clone()),
            Scope::Organization(_) | Scope::Repository { .. } => None,
        };
        Place { owner, repository, enterprise }
    }

    fn draw_labels(&mut self, pool: &PoolSpec) -> Labels {
        if self.dice.hits(150) {
            return Labels::from_iter(["self-hosted", "no-runner-has-this"]);
        }
        if pool.accept_unlabelled && self.dice.hits(1_000) {
            return Labels::default();
        }
        let keep = self.dice.bits();
        let some = pool.labels.iter().enumerate().filter(|(at, _)| (keep >> at) & 1 == 1);
        let labels: Labels = some.map(|(_, label)| label).collect();
        if labels.is_empty() { pool.labels.clone() } else { labels }
    }

    fn draw_trouble(&mut self) {
        if self.strikes(self.faults.machine.host_lost, "host lost") {
            let host = self.machines.existing().next().map(|machine| machine.host.clone());
            let wait = self.dice.between(0, 300_000);
            if let Some(host) = host {
                self.later(wait, Happening::HostLost(host));
            }
        }
        if self.strikes(self.faults.people.deletes_machine, "deleted by others") {
            let names: Vec<_> =
                self.machines.existing().map(|machine| machine.name.clone()).collect();
            let name = self.dice.pick(&names).cloned();
            if let Some(name) = name {
                self.delete_from_outside(&name);
            }
        }
        if self.strikes(self.faults.people.requests_delete, "operator deletes")
            && let Some(id) = self.draw_instance()
        {
            self.later(0, Happening::Operator(OperatorAction::Delete(id)));
        }
        if self.strikes(self.faults.people.forces, "operator forces")
            && let Some(id) = self.draw_instance()
        {
            self.later(0, Happening::Operator(OperatorAction::Force(id)));
        }
        let pool = self.dice.index(self.pools.len());
        if self.strikes(self.faults.people.drains, "operator drains") {
            self.later(0, Happening::Operator(OperatorAction::Drain { pool, drained: true }));
            let wait = self.dice.between(60_000, 1_200_000);
            self.later(wait, Happening::Operator(OperatorAction::Drain { pool, drained: false }));
        }
        if self.strikes(self.faults.people.rolls, "pool rolled") {
            self.later(0, Happening::Operator(OperatorAction::Roll(pool)));
        }
        if self.strikes(self.faults.people.removes_pool, "pool removed") {
            self.later(0, Happening::Operator(OperatorAction::Remove(pool)));
            let wait = self.dice.between(60_000, 2_400_000);
            self.later(wait, Happening::Operator(OperatorAction::Restore(pool)));
        }
        if self.strikes(self.faults.people.unregisters, "registration removed by hand") {
            self.unregister_by_hand();
        }
        if self.strikes(self.faults.people.restarts, "orderly restart") {
            self.later(0, Happening::Operator(OperatorAction::Restart));
        }
    }

    /// Loses the record of a machine that lives, if the daemon died of something bad enough.
    pub(super) fn draw_lost_record(&mut self) {
        if !self.dice.hits(self.faults.store.record_lost) {
            return;
        }
        let lives = |row: &&Arc<Instance>| {
            (row.state.is_running() || row.state == State::Retiring)
                && !self.removed_pools.contains(&row.pool)
        };
        let ids: Vec<_> =
            self.records.live_rows().filter(lives).map(|row| row.id.clone()).collect();
        let Some(row) = self.dice.pick(&ids).cloned().and_then(|id| self.records.lose(&id)) else {
            return;
        };
        self.count("record lost");
        let renamed = self.forge.registered().any(|it| {
            it.name.is_of(row.machine.as_str()) && it.name.as_str() != row.machine.as_str()
        });
        if renamed {
            self.count("record lost, registered under a further name");
        }
    }

    /// Makes a row undecodable until the next crash, after which it is repaired.
    pub(super) fn draw_unreadable_row(&mut self) {
        self.records.repair();
        if !self.dice.hits(self.faults.store.row_unreadable) {
            return;
        }
        let there = |row: &&Arc<Instance>| !self.removed_pools.contains(&row.pool);
        let ids: Vec<_> =
            self.records.live_rows().filter(there).map(|row| row.id.clone()).collect();
        if let Some(id) = self.dice.pick(&ids).cloned() {
            self.count("row unreadable");
            self.records.quarantine(id);
        }
    }

    fn draw_instance(&mut self) -> Option<InstanceId> {
        let ids: Vec<_> = self.records.live_rows().map(|row| row.id.clone()).collect();
        self.dice.pick(&ids).cloned()
    }
}

impl World {
    /// Puts idle instances of an early-bound pool there: rows, machines and connected runners.
    /// Only while the daemon is down: rows have one writer.
    pub fn plant_idle(&self, pool: usize, count: u32) {
        let mut outside = self.outside();
        let Some(spec) = outside.pools.get(pool).map(Arc::clone) else { return };
        for number in 0..count {
            outside.plant_idle(&spec, &format!("{}-{number:06}", spec.prefix));
        }
        outside.observed.clear();
    }
}

impl Outside {
    fn plant_idle(&mut self, spec: &Arc<PoolSpec>, name: &str) {
        let (now, date, controller) = (self.now(), self.date(), self.records.controller());
        let runner = RunnerName::new(name);
        let id = self.forge.register(runner.clone(), spec.scope.clone(), spec.labels.clone(), now);
        let instance = InstanceId::new(name);
        let stamp = Stamp {
            controller: Some(controller.id),
            holder: Some(controller.holder),
            pool: Some(spec.id.clone()),
            instance: Some(instance.clone()),
        };
        let jit = Some(Jit::new(format!("jit:{id}")));
        if let Some(machine) = self.plant_with(spec, name, stamp, jit) {
            self.up(machine);
        }
        let found = self.machines.anywhere(&MachineName::new(name));
        let (uid, host) = found.map(|it| (it.uid.clone(), it.host.clone())).unzip();
        let mut row = requested_row(instance, spec, date);
        (row.uid, row.host) = (uid, host);
        (row.state, row.version, row.write) = (State::Idle, Version(5), WriteId(id.0));
        (row.mints, row.once_started) = (1, true);
        (row.create_called_at, row.seen_at, row.ready_at) = (Some(date), Some(date), Some(date));
        row.registration = Registration::Known { name: runner, id };
        let epoch = self.records.epoch();
        let save = InstanceSave {
            row,
            replaces: Version::default(),
            epoch,
            events: Vec::new(),
            exit: None,
        };
        drop(self.records.save_instance(save));
    }
}
