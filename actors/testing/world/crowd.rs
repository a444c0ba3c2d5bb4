//! Instances that are simply there, as an earlier daemon left them.

use std::sync::Arc;

use super::World;
use crate::instance::requested_row;
use crate::model::{
    InstanceId, MachineName, PoolSpec, Registration, RunnerName, Stamp, State, Version, WriteId,
};
use crate::ports::{InstanceSave, Jit};
use crate::testing::outside::Outside;

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
