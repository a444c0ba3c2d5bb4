//! The two great decisions, alone: for benchmarks, without actors and without a world.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::instance::run_lifecycle;
use crate::model::{InstanceId, PoolSpec, State, Timestamp, after};
use crate::pool::{Demand, InstanceReport, PlanLimits, plan};
use crate::testing::SimSeal;

/// Takes one early-bound instance from its first row to its end, one job included; returns how many
/// steps that took.
pub fn live_one_life(spec: &PoolSpec) -> u64 {
    run_lifecycle(spec, &SimSeal)
}

/// A pool in the middle of its day, ready to be planned for.
pub struct PlanBench {
    spec: PoolSpec,
    reports: BTreeMap<InstanceId, InstanceReport>,
}

impl PlanBench {
    /// Makes a pool with so many instances, half of them busy.
    pub fn of(spec: PoolSpec, count: u32) -> Self {
        let reports = (0..count).map(|number| report(&spec, number));
        let reports = reports.map(|report| (report.id.clone(), report)).collect();
        Self { spec, reports }
    }

    /// Plans once; returns how many are to be made and to go.
    pub fn plan(&self, queued: u32) -> usize {
        let demand = Demand { queued, blocked: false, oldest: None };
        let limits = PlanLimits {
            draining: false,
            settled: true,
            healthy: true,
            admits: 32,
            budget: 20,
            quarantined: 0,
        };
        let now = after(Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let plan = plan(&self.spec, &self.reports, demand, limits, now);
        plan.create as usize + plan.retire.len()
    }
}

fn report(spec: &PoolSpec, number: u32) -> InstanceReport {
    InstanceReport {
        id: InstanceId::new(format!("{}-{number:06}", spec.prefix)),
        state: if number.is_multiple_of(2) { State::Busy } else { State::Idle },
        since: Timestamp::UNIX_EPOCH,
        created_at: Timestamp::UNIX_EPOCH,
        removal: None,
        revision: spec.revision.clone(),
        host: None,
        registered: true,
        occupies: true,
        silent_since: None,
        unreachable: false,
        wants: None,
        checked: true,
        stuck: false,
        outcome: None,
        unnamed: false,
    }
}
