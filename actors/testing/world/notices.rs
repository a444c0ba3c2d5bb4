//! More words for scenarios: what the forge tells, when it answers, and whom it refuses.

use std::time::Duration;

use super::World;
use crate::model::{JobFact, Labels, Place, Scope};
use crate::testing::clock::millis;

impl World {
    /// Queues a job of any repository for these labels that runs so long.
    pub fn queue_at(&self, owner: &str, name: &str, labels: &[&str], runs: Duration) -> u64 {
        let place = Place { owner: owner.into(), repository: name.into(), enterprise: None };
        self.outside().queue_job(place, Labels::from_iter(labels), millis(runs))
    }

    /// Delivers a fact of a job once more, under a delivery of its own; it may be long past.
    pub fn tell_again(&self, job: u64, fact: JobFact) {
        self.outside().tell_fact(job, fact);
    }

    /// Lets the next reading of a job come so late; it says what was true when it was asked for.
    pub fn read_late(&self, job: u64, late: Duration) {
        self.outside().script.late_readings.insert(job, millis(late));
    }

    /// Returns whether a late reading of a job is still to be asked for.
    pub fn is_unread(&self, job: u64) -> bool {
        self.outside().script.late_readings.contains_key(&job)
    }

    /// Lets the forge refuse every mint of a scope.
    pub fn refuse_mints(&self, scope: &Scope) {
        self.outside().script.refused_scopes.insert(scope.clone());
    }

    /// Lets the forge mint for a scope again.
    pub fn accept_mints(&self, scope: &Scope) {
        self.outside().script.refused_scopes.remove(scope);
    }

    /// Loses the next JIT configs on their way to the machines that asked.
    pub fn lose_dispatches(&self, count: u32) {
        self.outside().script.lost_dispatches += count;
    }

    /// Crashes the daemon as soon as the next delivery is durable, before anybody heard of it.
    pub fn crash_at_delivery(&self) {
        self.outside().script.crash_at_delivery = true;
    }
}
