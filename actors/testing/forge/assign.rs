//! Who gets which job.

use super::JobStage;
use crate::model::{Conclusion, NamedRunner, RunnerId};
use crate::testing::happening::Happening;
use crate::testing::outside::Outside;

/// How long the forge waits for an assignment to be picked up.
const ASSIGNMENT_TIMEOUT_MS: u64 = 60_000;
/// The longest an agent takes from assignment to worker; must stay below `idle_confirm`.
const SLOWEST_PICKUP: u64 = 55_000;

impl Outside {
    /// Lets the forge look for pairs soon, if there may be any.
    pub(in crate::testing) fn schedule_match(&mut self) {
        if self.forge.matching || self.forge.queued.is_empty() || self.forge.idle.is_empty() {
            return;
        }
        self.forge.matching = true;
        let wait = self.dice.skewed(20, 3_000);
        self.later(wait, Happening::Match);
    }

    /// Pairs queued jobs with idle runners at random.
    pub(in crate::testing) fn match_jobs(&mut self) {
        self.forge.matching = false;
        let mut jobs: Vec<u64> = self.forge.queued.iter().copied().collect();
        while !jobs.is_empty() && !self.forge.idle.is_empty() {
            let at = self.dice.index(jobs.len());
            let job = jobs.swap_remove(at);
            if let Some(runner) = self.find_runner(job) {
                self.assign(job, runner);
            }
        }
    }

    fn find_runner(&mut self, job: u64) -> Option<RunnerId> {
        let paired = self.script.pairs.iter().find(|(paired, _)| *paired == job);
        let wanted = paired.map(|(_, machine)| machine);
        if wanted.is_none() && self.script.hands_off {
            return None;
        }
        let start = RunnerId(self.dice.below(self.forge.last_runner + 1));
        let (forge, machines) = (&self.forge, &self.machines);
        let job = forge.jobs.get(&job)?;
        let around = forge.idle.range(start..).chain(forge.idle.range(..start));
        around.copied().find(|id| {
            let Some(runner) = forge.runners.get(id) else { return false };
            let machine = runner.machine.and_then(|number| machines.machines.get(&number));
            runner.labels.serve(&job.labels)
                && runner.scope.covers(&job.place)
                && wanted.is_none_or(|name| machine.is_some_and(|it| it.name == *name))
                && (wanted.is_some() || !self.script.is_reserved(machine.map(|it| &it.name)))
        })
    }

    fn assign(&mut self, number: u64, runner: RunnerId) {
        let now = self.now();
        self.script.pairs.retain(|(paired, _)| *paired != number);
        self.forge.queued.remove(&number);
        self.forge.idle.remove(&runner);
        let machine = self.forge.runners.get_mut(&runner).and_then(|it| {
            it.job = Some(number);
            it.machine
        });
        let Some(job) = self.forge.jobs.get_mut(&number) else { return };
        job.stage = JobStage::Assigned { runner, at: now };
        job.attempt += 1;
        let attempt = job.attempt;
        self.log("assigned", self.runner_name(runner).as_str(), number);
        let scripted = machine
            .and_then(|machine| self.machines.machines.get(&machine))
            .and_then(|machine| self.script.pickups.get(&machine.name))
            .copied();
        let wait = match scripted {
            Some(wait) => wait,
            None if self.dice.hits(500) => self.dice.between(3_000, SLOWEST_PICKUP),
            None => self.dice.skewed(100, 3_000),
        };
        if self.strikes(self.faults.forge.cancel, "cancelled before pick-up") {
            let sooner = self.dice.between(0, wait);
            self.later(sooner, Happening::CancelAssigned { job: number, attempt });
        }
        if self.strikes(self.faults.forge.missed_assignment, "assignment missed") {
            self.later(ASSIGNMENT_TIMEOUT_MS, Happening::Unassign { job: number, attempt });
        } else {
            self.later(wait, Happening::PickUp { job: number, attempt });
        }
    }

    /// Takes an assignment back that no runner picked up.
    pub(in crate::testing) fn unassign(&mut self, number: u64, attempt: u32) {
        let Some(runner) = self.assigned_runner(number, attempt) else { return };
        if !self.conditions.concerns_job(number) {
            self.touch();
        }
        if let Some(job) = self.forge.jobs.get_mut(&number) {
            job.stage = JobStage::Queued;
        }
        self.forge.queued.insert(number);
        self.log("reassigned", "job", number);
        self.free_runner(runner);
        self.schedule_match();
    }

    /// Cancels a job between its assignment and its pick-up; the runner keeps listening.
    pub(in crate::testing) fn cancel_assigned(&mut self, number: u64, attempt: u32) {
        let Some(runner) = self.assigned_runner(number, attempt) else { return };
        let name = self.runner_name(runner);
        if let Some(job) = self.forge.jobs.get_mut(&number) {
            job.runner = Some(NamedRunner { name, id: Some(runner) });
        }
        self.free_runner(runner);
        self.finish_job(number, Conclusion::Cancelled);
        self.schedule_match();
    }

    /// Returns the runner of an assignment that still stands.
    pub(super) fn assigned_runner(&self, number: u64, attempt: u32) -> Option<RunnerId> {
        let job = self.forge.jobs.get(&number)?;
        match job.stage {
            JobStage::Assigned { runner, .. } if job.attempt == attempt => Some(runner),
            JobStage::Assigned { .. }
            | JobStage::Waiting
            | JobStage::Queued
            | JobStage::Running { .. }
            | JobStage::Over(_) => None,
        }
    }

    /// Returns when an assignment that no runner picked up lapses, from now.
    pub(super) fn pickup_time_left(&self, number: u64) -> u64 {
        let since = match self.forge.jobs.get(&number).map(|job| &job.stage) {
            Some(JobStage::Assigned { at, .. }) => *at,
            Some(_) | None => 0,
        };
        (since + ASSIGNMENT_TIMEOUT_MS).saturating_sub(self.now())
    }

    /// Lets a runner take work.
    pub(in crate::testing) fn runner_free(&mut self, runner: RunnerId) {
        self.forge.offer_idle(runner);
        self.schedule_match();
    }

    /// Takes the job off a runner: it listens on, unless its registration is gone.
    fn free_runner(&mut self, runner: RunnerId) {
        let Some(it) = self.forge.runners.get_mut(&runner) else { return };
        it.job = None;
        let (registered, machine) = (it.registered, it.machine);
        self.forge.offer_idle(runner);
        if !registered {
            if let Some(machine) = machine {
                let wait = self.dice.between(500, 20_000);
                self.later(wait, Happening::Dismissed(machine));
            }
            self.forge.forget_if_done(runner);
        }
    }
}
