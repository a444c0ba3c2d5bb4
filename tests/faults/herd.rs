//! A stage under load, and the questions that every fault ends with.

use std::time::Duration;

use ostler::demo::agent::Step;
use ostler::demo::github::{JobPlan, SimJob, SimStage};
use ostler::ports::{History as _, InstanceQuery, Page};
use ostler_actors::model::{Labels, Place, State};
use tokio::time::Instant;

use super::support::daemon::{Daemon, Stage, pool};
use super::table::{Losses, Row};

/// How long a runner may be silent: the machine is busy, and no job shall end for that.
const LEASE: Duration = Duration::from_secs(30);

/// What a job is called that no pool of ours can serve.
const ELSEWHERE: &str = "elsewhere";

/// A stage on which jobs keep coming.
pub(crate) struct Herd {
    pub(crate) stage: Stage,
    runners: u32,
    queued: u32,
    /// How long jobs take, in milliseconds: from, and how much longer.
    pub(crate) length: (u64, u64),
}

impl Herd {
    /// Builds a herd for so many runners at once, on SQLite or on a database.
    pub(crate) fn new(store: Option<String>, runners: u32) -> Self {
        let stage = Stage::with_lease(store, &pool(2, runners), LEASE);
        Self { stage, runners, queued: 0, length: (2_000, 8_000) }
    }

    /// Queues jobs until there are as many open ones as runners; one in twelve dies with its runner.
    pub(crate) fn feed(&mut self) {
        let ours = |job: &&SimJob| !is_over(job) && job.plan.name != ELSEWHERE;
        let open = self.stage.github.jobs().iter().filter(ours).count();
        for _ in open..usize::try_from(self.runners).unwrap_or_default() {
            self.queue_one();
        }
    }

    pub(crate) fn queue_one(&mut self) {
        self.queued += 1;
        let step = match self.queued % 24 {
            7 => Step::Kill,
            19 => Step::Fail,
            _ => Step::Succeed,
        };
        let spread = u64::from(self.queued) * 7919 % self.length.1.max(1);
        self.stage.queue(step, self.length.0 + spread);
    }

    /// Queues a job with labels that no pool has.
    pub(crate) fn queue_elsewhere(&self) {
        let labels = Labels::from_iter(["of-another-fleet"]);
        let removal = JobPlan { name: ELSEWHERE.into(), labels, script: serde_json::Value::Null };
        let place = Place { owner: "acme".into(), repository: "web".into(), enterprise: None };
        self.stage.github.queue(&place, removal);
    }

    /// Ends the jobs that no pool can serve: a stranger's runner did them.
    pub(crate) fn finish_elsewhere(&self) {
        for job in self.stage.github.jobs().iter().filter(|job| job.plan.name == ELSEWHERE) {
            self.stage.github.finish(job.id, "success");
        }
    }

    /// Lets jobs come for a while.
    pub(crate) async fn graze(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.feed();
            tokio::time::sleep(Duration::from_millis(200).min(until - Instant::now())).await;
        }
    }

    /// Waits until so many jobs run.
    pub(crate) async fn until_at_work(&self, most: u32) {
        let want = usize::try_from(most).unwrap_or_default();
        super::support::daemon::until("jobs run", async || {
            let jobs = self.stage.github.jobs();
            jobs.iter().filter(|job| job.stage == SimStage::InProgress).count() >= want
        })
        .await;
    }

    /// Lets everything end and asks every question; what is wrong panics.
    pub(crate) async fn end(self, mut daemon: Daemon, row: &mut Row) {
        let stage = &self.stage;
        row.jobs = stage.github.jobs().len();
        stage.until_all_jobs_are_over(&mut daemon).await;
        stage.drain(&mut daemon).await;
        let (mut losses, rows) = (self.count(), self.count_rows().await);
        losses.left += rows.live;
        row.losses = Some(losses);
        assert_eq!(losses, Losses::default(), "{:?}", stage.github.jobs());
        stage.check_jobs();
        stage.check_logs(&[]);
        let ready = daemon.ready().expect("it answers");
        assert_eq!(ready.body["violations"], 0, "{}", ready.body);
        assert_eq!(ready.body["foreign_machines"], serde_json::json!([]), "{}", ready.body);
        row.remark = format!(
            "{}{} instances",
            if row.remark.is_empty() { String::new() } else { format!("{}; ", row.remark) },
            rows.all
        );
        // Machines, processes and registrations that are left fail the stage when it goes.
        drop(daemon);
    }

    /// Counts what went wrong with jobs, and what is left outside our records.
    fn count(&self) -> Losses {
        let stage = &self.stage;
        let left = stage.machines().len() + stage.processes().len() + stage.github.runners().len();
        let mut losses = Losses { left, ..Losses::default() };
        for job in stage.github.jobs().iter().filter(|job| job.plan.name != ELSEWHERE) {
            let expected = if job.plan.name == "Succeed" { "success" } else { "failure" };
            losses.lost += usize::from(!is_over(job));
            losses.doubled += usize::from(job.starts > 1);
            let scripted = SimStage::Completed(expected.into());
            losses.touched += usize::from(is_over(job) && job.stage != scripted);
        }
        losses
    }

    /// Counts the rows of instances, and those that are not `deleted`.
    async fn count_rows(&self) -> Rows {
        let records = self.stage.records().await;
        let mut rows = Rows { all: 0, live: 0 };
        let mut page = Page { limit: 1000, cursor: None };
        loop {
            let found = records.instances(&InstanceQuery::default(), &page).await.expect("a read");
            rows.all += found.items.len();
            rows.live += found.items.iter().filter(|row| row.state != State::Deleted).count();
            page.cursor = found.next_cursor;
            if page.cursor.is_none() {
                break;
            }
        }
        records.close().await;
        rows
    }
}

struct Rows {
    all: usize,
    live: usize,
}

fn is_over(job: &SimJob) -> bool {
    matches!(job.stage, SimStage::Completed(_))
}

/// Runs on a runtime of its own.
pub(crate) fn on_runtime(work: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work);
}

/// Returns a number from the environment.
pub(crate) fn asked(name: &str, or: u32) -> u32 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(or)
}
