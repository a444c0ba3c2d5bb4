//! How a world is brought to rest, and what must not be left in it then.

use std::time::Duration;

use super::World;
use crate::fleet::ToFleet;
use crate::mail::Reply;
use crate::model::{InstanceId, JobId, MachineName, RunnerName, State};
use crate::testing::forge::SimJob;
use crate::testing::outside::Outside;

/// Holds what is left when nothing should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    pub machines: Vec<MachineName>,
    pub registrations: Vec<RunnerName>,
    /// Rows that are not `deleted`.
    pub rows: Vec<(InstanceId, State)>,
    /// Jobs that could have been served and are not over.
    pub jobs: Vec<u64>,
    /// Jobs that are open in our records although the forge will never run them any more.
    pub stale: Vec<JobId>,
    /// How many accepted deliveries are not handled.
    pub deliveries: usize,
}

impl Leftovers {
    /// Returns whether there is still work, here or at the forge.
    pub fn has_work(&self) -> bool {
        !self.jobs.is_empty() || !self.stale.is_empty() || self.deliveries > 0
    }
}

impl Leftovers {
    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl World {
    /// Lets the storm play out: until all jobs have come and so much time has passed.
    pub async fn storm(&mut self, and_then: Duration) {
        while self.outside().workload.left > 0 {
            self.run_for(Duration::from_mins(1)).await;
        }
        self.run_for(and_then).await;
    }

    /// Ends all lies, waits until every job is over that can be, and known to be, drains every pool,
    /// and waits until nothing is left, each at most `patience`.
    pub async fn settle(&mut self, patience: Duration) -> Leftovers {
        self.outside().calm();
        self.repair_rows();
        self.put_all_back();
        self.run_while(patience, Leftovers::has_work).await;
        let until = self.now() + super::millis(patience);
        loop {
            // Said again: the daemon may have been down, or not ready to hear it.
            self.drain_all();
            self.run_for(Duration::from_mins(1)).await;
            let left = self.leftovers();
            if left.is_empty() || self.now() >= until {
                return left;
            }
        }
    }

    /// Repairs the rows that cannot be decoded, and starts the daemon again to read them.
    fn repair_rows(&mut self) {
        if !self.outside().records.quarantined().is_empty() {
            self.crash(Duration::from_secs(5));
        }
    }

    async fn run_while(&mut self, patience: Duration, more: impl Fn(&Leftovers) -> bool) {
        let until = self.now() + super::millis(patience);
        while more(&self.leftovers()) && self.now() < until {
            self.run_for(Duration::from_mins(1)).await;
        }
    }

    /// Asks for all pools to be drained.
    pub fn drain_all(&self) {
        for pool in &self.plan.pools {
            self.say(ToFleet::Drain {
                pool: pool.id.clone(),
                drained: true,
                who: "the end".into(),
                reply: Reply::discard(),
            });
        }
    }

    /// Returns what is left.
    pub fn leftovers(&self) -> Leftovers {
        self.outside().leftovers()
    }
}

impl Outside {
    /// Returns what is left.
    pub fn leftovers(&self) -> Leftovers {
        Leftovers {
            machines: self.machines.machines.values().map(|machine| machine.name.clone()).collect(),
            registrations: self.forge.registered().map(|runner| runner.name.clone()).collect(),
            rows: self.records.live_rows().map(|row| (row.id.clone(), row.state)).collect(),
            jobs: self
                .forge
                .open_jobs()
                .filter(|job| self.is_servable(job))
                .map(|job| job.number)
                .collect(),
            stale: self
                .records
                .open_jobs()
                .filter(|row| self.is_done_for(row.id.number))
                .map(|row| row.id.clone())
                .collect(),
            deliveries: self.records.unhandled_count(),
        }
    }

    /// Returns whether the forge will never run a job any more.
    fn is_done_for(&self, number: u64) -> bool {
        self.forge.jobs.get(&number).is_some_and(|job| job.is_over() || job.dead_run)
    }

    /// Returns whether some pool could serve a job.
    pub fn is_servable(&self, job: &SimJob) -> bool {
        !job.dead_run
            && self.pools.iter().any(|pool| {
                pool.max > 0
                    && !self.removed_pools.contains(&pool.id)
                    && pool.scope.covers(&job.place)
                    && pool.labels.serve(&job.labels)
                    && (pool.accept_unlabelled || !job.labels.is_empty())
            })
    }
}
