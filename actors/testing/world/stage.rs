//! Words for scenarios: queue this, pair those, let that go wrong once.

use std::sync::Arc;
use std::time::Duration;

use super::World;
use crate::fleet::ToFleet;
use crate::model::{
    ControllerId, HolderId, HostName, Instance, InstanceId, Labels, MachineName, Place, PoolSpec,
    RunnerName, Stamp, State, Version, WriteId,
};
use crate::ports::InstanceSave;
use crate::testing::clock::millis;
use crate::testing::forge::JobStage;
use crate::testing::happening::{Happening, OperatorAction};
use crate::testing::observed::{DeleteCalled, Seen};
use crate::testing::outside::Outside;
use crate::testing::script::{CreatePlan, Death, DeletePlan, Fate, HookKind, MintPlan, Point};

impl World {
    /// Queues a job of repository `acme/web` for these labels that runs so long.
    pub fn queue(&self, labels: &[&str], runs: Duration) -> u64 {
        let labels = Labels::from_iter(labels);
        self.outside().queue_job(web(), labels, millis(runs))
    }

    /// Queues a job whose run has failed at start-up, so that no runner can ever run it.
    pub fn queue_dead(&self, labels: &[&str]) -> u64 {
        self.outside().queue_dead_job(web(), Labels::from_iter(labels))
    }

    /// Cancels a job; between assignment and pick-up too.
    pub fn cancel(&self, job: u64) {
        let mut outside = self.outside();
        let attempt = outside.forge.jobs.get(&job).map_or(0, |job| job.attempt);
        outside.cancel_assigned(job, attempt);
        outside.cancel_job(job);
    }

    /// Cancels every job that wants a runner and asks for labels like these.
    pub fn cancel_all(&self, like: impl Fn(&Labels) -> bool) {
        let waiting: Vec<u64> = {
            let outside = self.outside();
            let queued = outside.forge.jobs.values().filter(|job| job.stage == JobStage::Queued);
            queued.filter(|job| like(&job.labels)).map(|job| job.number).collect()
        };
        for job in waiting {
            self.cancel(job);
        }
    }

    /// Lets a queued job be over, run by a runner that is not ours.
    pub fn run_elsewhere(&self, job: u64) {
        self.outside().run_by_stranger(job);
    }

    /// Lets the forge assign nothing but what is paired.
    pub fn hold_assignments(&self) {
        self.outside().script.hands_off = true;
    }

    /// Lets the forge assign as it likes.
    pub fn free_assignments(&self) {
        let mut outside = self.outside();
        outside.script.hands_off = false;
        outside.schedule_match();
    }

    /// Gives a job to the runner of a machine, as soon as both are ready.
    pub fn pair(&self, job: u64, machine: &MachineName) {
        let mut outside = self.outside();
        outside.script.pairs.push((job, machine.clone()));
        outside.schedule_match();
    }

    /// Lets the worker of a machine start so long after its assignment.
    pub fn pick_up_after(&self, machine: &MachineName, wait: Duration) {
        self.outside().script.pickups.insert(machine.clone(), millis(wait));
    }

    /// Decides how the next create goes.
    pub fn next_create(&self, plan: CreatePlan) {
        self.outside().script.creates.push_back(plan);
    }

    /// Decides how every create goes that is not planned one by one, until told otherwise.
    pub fn every_create(&self, plan: Option<CreatePlan>) {
        self.outside().script.every_create = plan;
    }

    /// Decides how every machine lives that is not planned one by one, until told otherwise.
    pub fn every_machine(&self, fate: Option<Fate>) {
        self.outside().script.every_machine = fate;
    }

    /// Leaves each provider room for so many machines, until told otherwise; more are refused.
    pub fn leave_room(&self, room: Option<usize>) {
        self.outside().script.room = room;
    }

    /// Lets a host accept every machine and start none; it looks empty and is preferred.
    pub fn sicken(&self, host: &HostName) {
        self.outside().script.sick_hosts.insert(host.clone());
    }

    /// Lets a host start machines again.
    pub fn cure(&self, host: &HostName) {
        self.outside().script.sick_hosts.remove(host);
    }

    /// Lets every listing of all live rows be empty for so long: a sweep takes all machines
    /// for orphans.
    pub fn blank_records_for(&self, time: Duration) {
        let mut outside = self.outside();
        outside.script.blank_records_until = outside.now() + millis(time);
    }

    /// Lets another writer change a row behind its owner's back.
    pub fn overwrite(&self, id: &InstanceId, change: impl FnOnce(&mut Instance)) {
        let mut outside = self.outside();
        let Some(row) = outside.records.row(id) else { return };
        let mut row = Instance::clone(row);
        let replaces = row.version;
        change(&mut row);
        row.version = Version(replaces.0 + 1);
        row.write = WriteId(!row.write.0);
        let epoch = outside.records.epoch();
        let save = InstanceSave { row, replaces, epoch, events: Vec::new(), exit: None };
        let done = outside.records.save_instance(save);
        outside.log("overwritten", id.as_str(), u64::from(done.is_ok()));
    }

    /// Loads a config with these pools.
    pub fn reload(&mut self, pools: Vec<PoolSpec>) {
        self.outside().pools = pools.iter().cloned().map(Arc::new).collect();
        self.plan.pools.clone_from(&pools);
        self.say(ToFleet::Apply(pools));
    }

    /// Loads a config that changes the machines of a pool.
    pub fn roll(&mut self, pool: usize) {
        self.action(OperatorAction::Roll(pool));
    }

    /// Drains a pool, or resumes it, as an operator does.
    pub fn drain(&mut self, pool: usize, drained: bool) {
        self.action(OperatorAction::Drain { pool, drained });
    }

    /// Stops the daemon in an orderly way; it starts again after a while.
    pub fn restart(&mut self) {
        self.action(OperatorAction::Restart);
    }

    /// Decides how the next machine lives.
    pub fn next_machine(&self, fate: Fate) {
        self.outside().script.fates.push_back(fate);
    }

    /// Decides how the next delete goes.
    pub fn next_delete(&self, plan: DeletePlan) {
        self.outside().script.deletes.push_back(plan);
    }

    /// Decides how the next mint goes.
    pub fn next_mint(&self, plan: MintPlan) {
        self.outside().script.mints.push_back(plan);
    }

    /// Lets the next removal of a runner be accepted although it has a job.
    pub fn be_nasty(&self, runner: &RunnerName) {
        self.outside().script.nasty.insert(runner.clone());
    }

    /// Lets the next removals of a free runner be refused as busy.
    pub fn lie_422(&self, runner: &RunnerName, times: u32) {
        self.outside().script.lie422.insert(runner.clone(), times);
    }

    /// Lets the next look at a runner say 404.
    pub fn hide_runner(&self, runner: &RunnerName) {
        self.outside().script.hidden_runners.insert(runner.clone());
    }

    /// Lets the next read of a machine say absent.
    pub fn hide_machine(&self, machine: &MachineName) {
        self.outside().script.hidden_machines.insert(machine.clone());
    }

    /// Lets the next read of a job say 404.
    pub fn hide_job(&self, job: u64) {
        self.outside().script.hidden_jobs.insert(job);
    }

    /// Lets the next answer about a job come so late, and say what was true before.
    pub fn answer_late(&self, job: u64, wait: Duration) {
        self.outside().script.late_readings.insert(job, millis(wait));
    }

    /// Lets every machine listing be empty, and call itself complete, for so long.
    pub fn empty_listings_for(&self, time: Duration) {
        let mut outside = self.outside();
        outside.script.empty_lists_until = outside.now() + millis(time);
    }

    /// Silences the witness of a machine for so long.
    pub fn silence(&self, machine: &MachineName, time: Duration) {
        let mut outside = self.outside();
        let until = outside.now() + millis(time);
        outside.script.silent_until.insert(machine.clone(), until);
    }

    /// Lets the forge answer no read for so long.
    pub fn darken_forge(&self, time: Duration) {
        let mut outside = self.outside();
        outside.script.forge_dark_until = outside.now() + millis(time);
    }

    /// Loses the next webhooks of a kind.
    pub fn lose_hooks(&self, kind: HookKind, count: u32) {
        *self.outside().script.lost_hooks.entry(kind).or_default() += count;
    }

    /// Lets webhooks of a kind be so late from now on.
    pub fn delay_hooks(&self, kind: HookKind, wait: Duration) {
        self.outside().script.late_hooks.insert(kind, millis(wait));
    }

    /// Lets what lives in a machine end this way, now.
    pub fn kill(&self, machine: &MachineName, death: Death) {
        let mut outside = self.outside();
        let number = outside.machines.anywhere(machine).map(|machine| machine.number);
        if let Some(number) = number {
            outside.die(number, death);
        }
    }

    /// Lets a machine that does not boot come up after all, now.
    pub fn boot(&self, machine: &MachineName) {
        let mut outside = self.outside();
        let number = outside.machines.anywhere(machine).map(|machine| machine.number);
        if let Some(number) = number {
            outside.up(number);
        }
    }

    /// Loses the host of a machine, with everything on it.
    pub fn lose_host_of(&self, machine: &MachineName) {
        let mut outside = self.outside();
        let host = outside.machines.anywhere(machine).map(|machine| machine.host.clone());
        if let Some(host) = host {
            outside.lose_host(&host);
        }
    }

    /// Lets a stranger delete a machine.
    pub fn delete_from_outside(&self, machine: &MachineName) {
        self.outside().delete_from_outside(machine);
    }

    /// Puts a machine of ours there that no record knows: its create was forgotten.
    pub fn plant_orphan(&self, pool: usize, name: &str) {
        let mut outside = self.outside();
        let controller = outside.records.controller();
        let holder = Some(controller.holder);
        outside.plant_stamped(pool, name, Some(controller.id), holder);
    }

    /// Puts a machine with our controller id there, made by a holder we never had.
    pub fn plant_foreign(&self, pool: usize, name: &str) {
        let mut outside = self.outside();
        let controller = outside.records.controller();
        let holder = Some(HolderId::new("stranger"));
        outside.plant_stamped(pool, name, Some(controller.id), holder);
    }

    /// Crashes the daemon now; it starts again after `down`.
    pub fn crash(&mut self, down: Duration) {
        self.outside().crash("scripted crash");
        self.clean_up_if_crashed();
        let mut outside = self.outside();
        outside.forget(|what| matches!(what, Happening::Restart));
        outside.later(millis(down), Happening::Restart);
    }

    /// Crashes the daemon at the n-th save from now on.
    pub fn crash_at_save(&self, nth: u64, point: Point) {
        self.outside().script.crash_at_save(nth, point);
    }

    /// Lets the next saves fail without effect.
    pub fn fail_saves(&self, count: u32) {
        self.outside().script.fail_saves(count);
    }

    /// Lets the next saves be done and lose their answers.
    pub fn lose_saves(&self, count: u32) {
        self.outside().script.lose_saves(count);
    }

    /// Returns all live rows with their states, in the order of their names.
    pub fn states(&self) -> Vec<(InstanceId, State)> {
        self.leftovers().rows
    }

    /// Returns the delete calls seen so far; the world must remember.
    pub fn deletes(&self) -> Vec<DeleteCalled> {
        let called = |what: &Seen| match what {
            Seen::DeleteCalled(called) => Some(DeleteCalled::clone(called)),
            Seen::Saved { .. }
            | Seen::JobsSaved { .. }
            | Seen::PoolSaved(_)
            | Seen::SaveRefused { .. }
            | Seen::CreateCalled { .. }
            | Seen::Appeared { .. }
            | Seen::MachineEnded { .. }
            | Seen::MachineGone { .. }
            | Seen::Minted { .. }
            | Seen::NameTaken(_)
            | Seen::Deregister { .. }
            | Seen::HandedOut { .. }
            | Seen::JobStarted { .. }
            | Seen::JobOver { .. }
            | Seen::Started { .. }
            | Seen::Crashed(_) => None,
        };
        self.history().iter().filter_map(|seen| called(&seen.what)).collect()
    }

    /// Returns whether a job is over at the forge.
    pub fn is_over(&self, job: u64) -> bool {
        self.outside().forge.jobs.get(&job).is_some_and(crate::testing::SimJob::is_over)
    }
}

impl Outside {
    fn plant_stamped(
        &mut self,
        pool: usize,
        name: &str,
        controller: Option<ControllerId>,
        holder: Option<HolderId>,
    ) {
        let Some(pool) = self.pools.get(pool).map(Arc::clone) else { return };
        let instance = Some(InstanceId::new(name));
        let stamp = Stamp { controller, holder, pool: Some(pool.id.clone()), instance };
        self.plant(&pool, name, stamp);
    }
}

fn web() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}
