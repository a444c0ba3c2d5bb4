//! Jobs from their arrival to their end.

use super::{JobStage, SimJob};
use crate::model::{Conclusion, Labels, NamedRunner, Place, RunnerId, RunnerName};
use crate::testing::happening::Happening;
use crate::testing::observed::Seen;
use crate::testing::outside::Outside;
use crate::testing::provider::Hand;
use crate::testing::script::Death;

/// How long after its machine died the forge calls a job lost.
const LOST_COMMUNICATION: u64 = 600_000;

impl Outside {
    /// Queues a job at the forge and returns its number.
    pub fn queue_job(&mut self, place: Place, labels: Labels, duration: u64) -> u64 {
        let number = self.new_job(place, labels, duration, JobStage::Queued);
        self.forge.queued.insert(number);
        self.announce(number);
        self.schedule_match();
        number
    }

    /// Makes a job whose run has failed at start-up: it stays queued for ever.
    pub fn queue_dead_job(&mut self, place: Place, labels: Labels) -> u64 {
        let number = self.new_job(place, labels, 0, JobStage::Queued);
        if let Some(job) = self.forge.jobs.get_mut(&number) {
            job.dead_run = true;
        }
        self.announce(number);
        number
    }

    /// Makes a job that a deployment rule holds back for a while.
    pub fn hold_job(&mut self, place: Place, labels: Labels, duration: u64, wait: u64) -> u64 {
        let number = self.new_job(place, labels, duration, JobStage::Waiting);
        self.announce(number);
        self.later(wait, Happening::Release(number));
        number
    }

    fn new_job(&mut self, place: Place, labels: Labels, duration: u64, stage: JobStage) -> u64 {
        let now = self.now();
        self.forge.last_job += 1;
        let number = self.forge.last_job;
        let job = SimJob {
            number,
            place,
            labels,
            stage,
            runner: None,
            queued_at: now,
            duration,
            attempt: 0,
            dead_run: false,
            starts: 0,
            killed_by_us: false,
            lost: false,
            over_unheard: false,
            lied: false,
        };
        self.forge.jobs.insert(number, job);
        self.forge.open.insert(number);
        self.log("job", "queued", number);
        self.taint_job(number);
        number
    }

    /// Lets a held job go.
    pub(in crate::testing) fn release_job(&mut self, number: u64) {
        let now = self.now();
        let Some(job) = self.forge.jobs.get_mut(&number) else { return };
        if job.stage == JobStage::Waiting {
            job.stage = JobStage::Queued;
            job.queued_at = now;
            self.forge.queued.insert(number);
            self.announce(number);
            self.schedule_match();
        }
    }

    /// Lets an agent pick its assignment up, if it lives.
    pub(in crate::testing) fn pick_up(&mut self, number: u64, attempt: u32) {
        let Some(runner) = self.assigned_runner(number, attempt) else { return };
        let machine = self.forge.runners.get(&runner).and_then(|it| it.machine);
        let Some(machine) = machine.filter(|machine| self.agent_listens(*machine)) else {
            let left = self.pickup_time_left(number);
            self.later(left, Happening::Unassign { job: number, attempt });
            return;
        };
        if self.kills_runner(number) {
            self.die(machine, Death::Crashed);
            let left = self.pickup_time_left(number);
            self.later(left, Happening::Unassign { job: number, attempt });
            return;
        }
        let name = self.runner_name(runner);
        let Some(job) = self.forge.jobs.get_mut(&number) else { return };
        job.stage = JobStage::Running { runner };
        job.runner = Some(NamedRunner { name: name.clone(), id: Some(runner) });
        job.starts += 1;
        let duration = job.duration;
        self.forge.running.insert(number);
        self.announce(number);
        self.start_worker(machine, number, duration, name);
    }

    /// Ends a job that a worker has finished; its ephemeral registration goes with it.
    pub(in crate::testing) fn work_ends(&mut self, machine: u64, number: u64) {
        let working = self.machines.machines.get(&machine).and_then(|it| it.worker) == Some(number);
        if !working {
            return;
        }
        let fine = !self.dice.hits(1_500);
        let conclusion = if fine { Conclusion::Success } else { Conclusion::Failure };
        self.stop_worker(machine);
        if !self.learns_late(number, &conclusion) {
            self.finish_job(number, conclusion);
        }
        self.leave_after_work(machine);
    }

    /// Lets the forge know that a job is over whose worker ended some time ago.
    pub(in crate::testing) fn learn_end(&mut self, number: u64, conclusion: Conclusion) {
        let running = self.forge.jobs.get(&number).map(|job| &job.stage);
        if matches!(running, Some(JobStage::Running { .. })) {
            self.finish_job(number, conclusion);
        }
    }

    /// Cancels a job wherever it is, except between assignment and pick-up.
    pub(in crate::testing) fn cancel_job(&mut self, number: u64) {
        let Some(job) = self.forge.jobs.get(&number) else { return };
        match job.stage {
            JobStage::Over(_) => {}
            JobStage::Assigned { .. } => self.later(61_000, Happening::CancelJob(number)),
            JobStage::Waiting | JobStage::Queued => {
                self.finish_job(number, Conclusion::Cancelled);
            }
            JobStage::Running { runner } => {
                let machine = self.forge.runners.get(&runner).and_then(|it| it.machine);
                let alive = machine.filter(|it| {
                    self.machines.machines.get(it).and_then(|it| it.worker) == Some(number)
                });
                if let Some(machine) = alive {
                    self.stop_worker(machine);
                    self.finish_job(number, Conclusion::Cancelled);
                    self.leave_after_work(machine);
                }
            }
        }
    }

    /// Ends a queued job as one that a stranger's runner in the organization has run.
    pub(in crate::testing) fn run_by_stranger(&mut self, number: u64) {
        if let Some(job) = self.forge.jobs.get_mut(&number) {
            job.runner = Some("strangers".into());
            self.finish_job(number, Conclusion::Success);
        }
    }

    /// Notes that the agent of a runner is gone, with or without its job.
    pub(in crate::testing) fn agent_gone(&mut self, runner: RunnerId, hand: Hand) -> Option<u64> {
        let it = self.forge.runners.get_mut(&runner)?;
        it.online = false;
        it.machine = None;
        let held = it.job;
        self.forge.idle.remove(&runner);
        self.forge.forget_if_done(runner);
        let number = held?;
        let job = self.forge.jobs.get_mut(&number)?;
        // An assignment that no runner will pick up lapses by itself; a running job is lost.
        if !matches!(job.stage, JobStage::Running { .. }) || job.over_unheard {
            return None;
        }
        job.killed_by_us |= hand == Hand::Wrongful;
        job.lost = true;
        if hand != Hand::Wrongful && self.strikes(self.faults.forge.given_back, "job given back") {
            let wait = self.dice.between(60_000, LOST_COMMUNICATION);
            self.later(wait, Happening::GiveBack(number));
        } else {
            let wait = LOST_COMMUNICATION + self.dice.below(60_000) + self.busy_after_death();
            self.later(wait, Happening::JobLost(number));
        }
        Some(number)
    }

    /// Puts a job back in line whose machine went away under it, without a notice.
    pub(in crate::testing) fn give_back(&mut self, number: u64) {
        self.touch();
        let Some(job) = self.forge.jobs.get_mut(&number) else { return };
        let JobStage::Running { runner } = job.stage else { return };
        (job.stage, job.runner, job.lost) = (JobStage::Queued, None, false);
        self.forge.running.remove(&number);
        self.forge.queued.insert(number);
        if let Some(it) = self.forge.runners.get_mut(&runner) {
            it.job = None;
        }
        self.forge.forget_if_done(runner);
        self.log("given back", "job", number);
        self.schedule_match();
    }

    /// Gives up on a job whose machine went away under it.
    pub(in crate::testing) fn job_lost(&mut self, number: u64) {
        let running = self.forge.jobs.get(&number).map(|job| &job.stage);
        if matches!(running, Some(JobStage::Running { .. })) {
            self.touch();
            self.finish_job(number, Conclusion::Failure);
        }
    }

    /// Ends a job at the forge; a registration that ran it is removed by the service.
    pub(super) fn finish_job(&mut self, number: u64, conclusion: Conclusion) {
        let now = self.now();
        let Some(job) = self.forge.jobs.get_mut(&number) else { return };
        let runner = match job.stage {
            JobStage::Running { runner } => Some(runner),
            JobStage::Waiting
            | JobStage::Queued
            | JobStage::Assigned { .. }
            | JobStage::Over(_) => None,
        };
        job.stage = JobStage::Over(conclusion.clone());
        let killed_by_us = job.killed_by_us;
        self.forge.queued.remove(&number);
        self.forge.running.remove(&number);
        self.forge.open.remove(&number);
        if let Some(runner) = runner {
            if let Some(it) = self.forge.runners.get_mut(&runner) {
                it.job = None;
            }
            self.forge.unregister(runner, now);
        }
        self.log("job over", "", number);
        self.observe(Seen::JobOver { job: number, conclusion, killed_by_us });
        self.announce(number);
    }

    pub(super) fn runner_name(&self, runner: RunnerId) -> RunnerName {
        self.forge
            .runners
            .get(&runner)
            .map_or_else(|| RunnerName::new("unknown"), |it| it.name.clone())
    }
}
