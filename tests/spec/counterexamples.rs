//! The stories that broke earlier wordings of the rules, each told again.
//!
//! A model check of the contract found them: `C` for the clauses that were wrong, `P` for those that
//! could be read in two ways. Each story shows first that the fault really struck, and then that the
//! harm it once did does not follow.

mod creating;
mod offers;
mod watches;
mod working;

use std::time::Duration;

use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::Reply;
use ostler_actors::model::{
    Conclusion, Instance, InstanceId, MachineName, PoolSpec, RequestedBy, RunnerName, State,
    Urgency,
};
use ostler_actors::ports::Deregistered;
use ostler_actors::testing::{HookKind, JobStage, Plan, Rate, Seen, Watched, pool};

use super::story::Tell as _;
use super::{MINUTE, SECOND};

/// A rate that always strikes.
const ALWAYS: Rate = 10_000;

/// A pool of one machine that is always kept ready.
fn one_ready(provider: &str) -> PoolSpec {
    PoolSpec { min_idle: 1, ..pool("linux", provider, 1) }
}

/// A world with one ready machine in which the forge gives out nothing but what is paired.
fn one_ready_world(provider: &str) -> Plan {
    Plan::quiet(vec![one_ready(provider)])
}

/// Words that these stories share.
trait Retell {
    /// Waits for the only instance to be idle, while the forge assigns nothing by itself.
    async fn an_idle_runner(&mut self) -> Instance;

    /// Waits for a row to be there and returns it.
    async fn an_instance(&mut self) -> Instance;

    /// Asks for an instance to be deleted as soon as it is free.
    fn ask_to_leave(&self, id: &InstanceId);

    /// Keeps from the daemon what runs where: no webhooks, no answers, no watch.
    fn keep_in_the_dark(&self, time: Duration);

    /// Lets a job be assigned to a machine whose worker starts so long afterwards.
    async fn assign(&mut self, machine: &MachineName, runs: Duration, pick_up: Duration) -> u64;

    /// Waits until a removal was accepted although the runner had this job.
    async fn is_removed_under(&mut self, job: u64);

    /// Returns the answers to the removals of a runner, with the job it really had.
    fn removals(&self, runner: &RunnerName) -> Vec<(Option<u64>, Deregistered)>;

    /// Returns how often a machine was ordered.
    fn orders(&self, machine: &MachineName) -> usize;

    /// Returns the machine a job began to run on.
    fn began_on(&self, job: u64) -> Option<MachineName>;

    /// Waits for a job to be over, and fails unless its one worker came to its own end.
    async fn is_served(&mut self, job: u64, wait_limit: Duration);
}

impl Retell for Watched {
    async fn an_idle_runner(&mut self) -> Instance {
        self.hold_assignments();
        let row = self.an_instance().await;
        self.until(&row.id, State::Idle, 5 * MINUTE).await;
        self.only()
    }

    async fn an_instance(&mut self) -> Instance {
        self.wait_for("an instance", MINUTE, |world| !world.rows().is_empty()).await;
        self.only()
    }

    fn ask_to_leave(&self, id: &InstanceId) {
        self.say(ToFleet::Retire {
            instance: id.clone(),
            urgency: Urgency::Delete,
            by: RequestedBy { who: "tester".into(), why: "the story wants it".into() },
            reply: Reply::discard(),
        });
    }

    fn keep_in_the_dark(&self, time: Duration) {
        self.lose_hooks(HookKind::InProgress, 100);
        self.darken_forge(time);
        let faults = &mut self.outside().faults.provider;
        faults.watch_lost = ALWAYS;
        faults.list_fails = ALWAYS;
    }

    async fn assign(&mut self, machine: &MachineName, runs: Duration, pick_up: Duration) -> u64 {
        self.pick_up_after(machine, pick_up);
        let job = self.queue(&["linux"], runs);
        self.pair(job, machine);
        self.wait_for("an assignment", 30 * SECOND, |world| {
            let outside = world.outside();
            matches!(outside.forge.jobs[&job].stage, JobStage::Assigned { .. })
        })
        .await;
        job
    }

    async fn is_removed_under(&mut self, job: u64) {
        self.wait_for("a removal under its job", 5 * MINUTE, |world| {
            world.history().iter().any(|seen| {
                matches!(&seen.what, Seen::Deregister { working, assigned, answer, .. }
                    if working.or(*assigned) == Some(job) && *answer == Some(Deregistered::Removed))
            })
        })
        .await;
    }

    fn removals(&self, runner: &RunnerName) -> Vec<(Option<u64>, Deregistered)> {
        let removal = |what: &Seen| {
            let Seen::Deregister { name, working, assigned, answer } = what else { return None };
            let meant = name.as_ref() == Some(runner);
            answer.filter(|_| meant).map(|answer| (working.or(*assigned), answer))
        };
        self.history().iter().filter_map(|seen| removal(&seen.what)).collect()
    }

    fn orders(&self, machine: &MachineName) -> usize {
        let ordered =
            |what: &Seen| matches!(what, Seen::CreateCalled { machine: it, .. } if it == machine);
        self.history().iter().filter(|seen| ordered(&seen.what)).count()
    }

    fn began_on(&self, job: u64) -> Option<MachineName> {
        self.history().iter().find_map(|seen| {
            let Seen::JobStarted { job: number, machine, .. } = &seen.what else { return None };
            (*number == job).then(|| machine.clone())
        })
    }

    async fn is_served(&mut self, job: u64, wait_limit: Duration) {
        self.wait_for("the end of a job", wait_limit, |world| world.is_over(job)).await;
        let outside = self.outside();
        let job = &outside.forge.jobs[&job];
        let well = matches!(job.stage, JobStage::Over(Conclusion::Success | Conclusion::Failure));
        assert!(well && !job.lost && !job.killed_by_us && job.starts == 1, "{job:?}");
    }
}
