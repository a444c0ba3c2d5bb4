//! Looking at runners and jobs: stale, partial, failing, and wrong about absence at most
//! once running.

use async_trait::async_trait;

use super::{JobStage, SimForge, SimRunner};
use crate::model::{
    JobFact, JobId, JobNotice, JobReading, MachineName, Observation, Place, RunnerId, RunnerView,
    Scope, Sighting,
};
use crate::ports::{Roster, RunnerRef};
use crate::testing::outside::{Outside, sleep_millis};

/// How long a lagging listing lags.
const LAG: u64 = 60_000;

impl SimForge {
    /// Looks once, somewhere between the question and the answer.
    async fn look<R: Send>(
        &self,
        name: &'static str,
        see: impl FnOnce(&mut Outside) -> R + Send,
    ) -> R {
        let (before, after) = self
            .0
            .call(|outside| {
                let wait = outside.forge_wait();
                if outside.dice.hits(5_000) { (wait, 0) } else { (0, wait) }
            })
            .await;
        sleep_millis(before).await;
        let seen = self.0.call(see).await;
        sleep_millis(after).await;
        self.0.answer(name, |faults| faults.forge.panics).await;
        seen
    }
}

#[async_trait]
impl Roster for SimForge {
    async fn runners(&self, scope: &Scope) -> Observation<Vec<RunnerView>> {
        self.look("list runners", |outside| outside.list_runners(scope)).await
    }

    async fn runner(&self, _: &Scope, who: &RunnerRef) -> Sighting<RunnerView> {
        self.look("read runner", |outside| outside.read_runner(who)).await
    }

    async fn runner_of(&self, scope: &Scope, machine: &MachineName) -> Sighting<RunnerView> {
        self.look("find runner", |outside| outside.find_runner_of(scope, machine)).await
    }

    async fn job(&self, job: &JobId, _: &Place, _: u64) -> Sighting<JobReading> {
        let seen = self.look("read job", |outside| outside.read_job(job.number)).await;
        let late = self.0.call(|outside| outside.script.late_readings.remove(&job.number)).await;
        if let Some(late) = late {
            sleep_millis(late).await;
            self.0.call(|_| ()).await;
        }
        seen
    }

    async fn work_of(&self, _: &Scope, who: &RunnerRef) -> Sighting<JobId> {
        self.look("find work", |outside| outside.read_work(who)).await
    }

    async fn open_jobs(&self, scope: &Scope) -> Observation<Vec<JobNotice>> {
        self.look("list jobs", |outside| outside.list_jobs(scope)).await
    }
}

impl Outside {
    fn list_runners(&mut self, scope: &Scope) -> Observation<Vec<RunnerView>> {
        self.log("list runners", "", 0);
        if let Some(why) = self.no_listing(5) {
            return Observation::Unusable(why);
        }
        let now = self.now();
        let lags = self.strikes(self.faults.forge.list_lags, "runner listing lags");
        let (mut views, mut stale_ones) = (Vec::new(), 0);
        for runner in self.forge.runners.values() {
            let young = lags && runner.made_at + LAG > now;
            if runner.registered && runner.scope == *scope && !young {
                let stale = self.dice.hits(self.faults.forge.runner_stale);
                let view = runner.view();
                stale_ones += u64::from(stale);
                views.push(if stale { distort(view, self.dice.bits()) } else { view });
            }
        }
        if stale_ones > 0 {
            self.count("stale runner listed");
        }
        if lags {
            let gone =
                self.forge.removed.iter().filter(|(at, of, _)| at + LAG > now && of == scope);
            views.extend(gone.map(|(_, _, view)| view.clone()));
        }
        Observation::Complete(views)
    }

    fn read_runner(&mut self, who: &RunnerRef) -> Sighting<RunnerView> {
        self.log("read runner", who.name.as_str(), 0);
        if let Some(why) = self.no_read() {
            return Sighting::Unknown(why);
        }
        let found = match who.id {
            Some(id) => self.forge.runners.get(&id),
            None => self.forge.runner_named(&who.name),
        };
        let Some(id) = found.filter(|runner| runner.registered).map(|runner| runner.id) else {
            return Sighting::Absent;
        };
        self.show_runner(id)
    }

    fn find_runner_of(&mut self, scope: &Scope, machine: &MachineName) -> Sighting<RunnerView> {
        self.log("find runner", machine.as_str(), 0);
        if let Some(why) = self.no_read() {
            return Sighting::Unknown(why);
        }
        if let Some(why) = self.refuses_lists() {
            return Sighting::Unknown(why);
        }
        let is_it =
            |runner: &&SimRunner| runner.scope == *scope && runner.name.is_of(machine.as_str());
        let found = self.forge.registered().find(is_it).map(|runner| runner.id);
        match found {
            Some(id) => self.show_runner(id),
            None => Sighting::Absent,
        }
    }

    /// Shows a registration that exists, or lies about it.
    fn show_runner(&mut self, id: RunnerId) -> Sighting<RunnerView> {
        let Some(runner) = self.forge.runners.get(&id) else { return Sighting::Absent };
        let (lied, view) = (runner.lied, runner.view());
        let hidden = self.script.hidden_runners.remove(&view.name);
        if hidden || (!lied && self.strikes(self.faults.forge.runner_false_404, "false 404")) {
            self.set_lied(id, true);
            return Sighting::Absent;
        }
        self.set_lied(id, false);
        if self.strikes(self.faults.forge.runner_stale, "stale runner") {
            return Sighting::Seen(distort(view, self.dice.bits()));
        }
        Sighting::Seen(view)
    }

    fn read_job(&mut self, number: u64) -> Sighting<JobReading> {
        self.log("read job", "", number);
        if let Some(why) = self.no_read() {
            return Sighting::Unknown(why);
        }
        let Some(job) = self.forge.jobs.get(&number) else { return Sighting::Absent };
        if self.is_out_of_sight(job) {
            self.count_only("job out of sight");
            return Sighting::Absent;
        }
        let nameless = job.is_over() && self.script.nameless.contains(&number);
        let reading = JobReading {
            fact: job.fact(),
            runner: job.runner.clone().filter(|_| job.fact().rank() >= 2 && !nameless),
            run_over: job.dead_run || job.is_over(),
        };
        let lied = job.lied;
        let hidden = self.script.hidden_jobs.remove(&number);
        let untrue =
            hidden || (!lied && self.strikes(self.faults.forge.job_false_404, "job false 404"));
        if let Some(job) = self.forge.jobs.get_mut(&number) {
            job.lied = untrue;
        }
        if untrue { Sighting::Absent } else { Sighting::Seen(reading) }
    }

    fn read_work(&mut self, who: &RunnerRef) -> Sighting<JobId> {
        self.log("read work", who.name.as_str(), 0);
        if let Some(why) = self.no_read() {
            return Sighting::Unknown(why);
        }
        if let Some(why) = self.refuses_search() {
            return Sighting::Unknown(why);
        }
        let works = |number: &&u64| {
            let job = self.forge.jobs.get(number).and_then(|job| job.runner.as_ref());
            job.is_some_and(|runner| runner.name.is_of(who.name.as_str()))
        };
        match self.forge.running.iter().find(works) {
            Some(number) => Sighting::Seen(self.forge.job_id(*number)),
            None => Sighting::Absent,
        }
    }

    fn list_jobs(&mut self, scope: &Scope) -> Observation<Vec<JobNotice>> {
        self.log("list jobs", "", 0);
        if let Some(why) = self.no_listing(5) {
            return Observation::Unusable(why);
        }
        let now = self.now();
        let lags = self.strikes(self.faults.forge.list_lags, "job listing lags");
        let mut notices = Vec::new();
        for job in self.forge.open_jobs().filter(|job| scope.covers(&job.place)) {
            if (lags && job.queued_at + LAG > now) || self.is_out_of_sight(job) {
                continue;
            }
            // A lagging listing still calls a fresh start queued.
            let stale = lags && matches!(job.stage, JobStage::Running { .. });
            let fact = if stale { JobFact::Queued } else { job.fact() };
            notices.push(self.notice_with(job, fact));
        }
        Observation::Complete(notices)
    }

    fn no_read(&mut self) -> Option<String> {
        if let Some(why) = self.refuses_token() {
            return Some(why);
        }
        if self.script.forge_dark_until > self.now() {
            return Some("the forge is dark".into());
        }
        if self.over_budget(1).is_some() {
            return Some("rate limit".into());
        }
        self.strikes(self.faults.forge.read_fails, "forge read fails").then(|| "502".into())
    }

    fn no_listing(&mut self, cost: u32) -> Option<String> {
        if let Some(why) = self.refuses_token().or_else(|| self.refuses_lists()) {
            return Some(why);
        }
        if self.script.forge_dark_until > self.now() {
            return Some("the forge is dark".into());
        }
        if self.over_budget(cost).is_some() {
            return Some("rate limit".into());
        }
        self.strikes(self.faults.forge.list_fails, "forge listing fails").then(|| "502".into())
    }
}

/// Returns a view that lies about `busy`, `online` or both.
fn distort(mut view: RunnerView, word: u64) -> RunnerView {
    if !word.is_multiple_of(3) {
        view.busy = !view.busy;
    }
    if word % 3 != 1 {
        view.online = !view.online;
    }
    view
}
