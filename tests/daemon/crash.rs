//! Killed at any moment and started again, the daemon loses nothing, doubles nothing and leaves
//! nothing, whatever its jobs do meanwhile.
//!
//! `OSTLER_KILLS=200` asks for that many kills instead of ten, `OSTLER_RUNNERS=50` for a larger
//! pool, `OSTLER_SEED=7` for the same moments again.

use std::collections::BTreeSet;
use std::time::Duration;

use ostler::demo::agent::Deed;
use ostler::demo::github::{SimJob, SimStage};
use ostler::store::{History as _, InstanceQuery, Page, SqlStore};
use ostler_actors::model::{State, What};
use ostler_actors::ports::Records as _;
use tokio::time::Instant;

use crate::support::daemon::{Daemon, Stage, until};
use crate::support::postgres::Postgres;

/// How long jobs and machines may take when nobody disturbs them any more.
const PATIENCE: Duration = Duration::from_secs(150);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_at_random_moments_loses_nothing_on_sqlite() {
    Churn::on(Stage::on_sqlite(&pool())).kill_and_restart().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_at_random_moments_loses_nothing_on_postgresql() {
    let Some(server) = Postgres::start() else { return };
    Churn::on(Stage::on(server.database(), &pool())).kill_and_restart().await;
}

/// Holds a stage on which jobs keep coming.
struct Churn {
    stage: Stage,
    kills: u32,
    jobs: u32,
    dice: Dice,
    /// Kills of a daemon that led.
    led: u32,
}

impl Churn {
    fn on(stage: Stage) -> Self {
        let seed = asked("OSTLER_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        println!("the moments of this run come again with OSTLER_SEED={seed}");
        let kills = asked("OSTLER_KILLS").and_then(|it| it.try_into().ok()).unwrap_or(10);
        Self { stage, kills, jobs: 0, dice: Dice(seed), led: 0 }
    }

    async fn kill_and_restart(mut self) {
        let began = Instant::now();
        for _ in 0..self.kills {
            self.queue_some();
            self.live_for_a_while().await;
        }
        let (churned, daemon) = (began.elapsed(), self.stage.lead().await);
        let daemon = self.let_everything_end(daemon).await;
        self.check(daemon).await;
        println!(
            "{} kills ({} while leading), {} jobs, churn {churned:?}, all over after {:?}",
            self.kills,
            self.led,
            self.jobs,
            began.elapsed()
        );
    }

    /// Lets jobs come: never so many that the end has to wait for them.
    fn queue_some(&mut self) {
        let open = self.stage.github.jobs().iter().filter(|job| !is_over(job)).count();
        let room = usize::try_from(runners()).unwrap_or(usize::MAX) * 2;
        for _ in open..room.min(open + 1 + self.dice.below(runners())) {
            self.jobs += 1;
            self.stage.queue(deed(self.jobs), 100 + self.dice.below(1500) as u64);
        }
    }

    /// Starts a daemon and kills it: at any moment of its start, or at any moment of its work.
    async fn live_for_a_while(&mut self) {
        let mut daemon = self.stage.spawn();
        if self.dice.below(3) == 0 {
            self.let_pass(600).await;
        } else {
            self.stage.until_it_leads(&mut daemon, Duration::from_secs(30)).await;
            self.led += 1;
            self.let_pass(1500).await;
            self.check_promises(&mut daemon);
        }
        let machines = self.stage.machines();
        assert!(machines.len() <= runners() as usize, "more machines than allowed: {machines:?}");
        daemon.kill();
    }

    /// Lets a random time pass: not to wait for something, but to strike at any moment.
    async fn let_pass(&mut self, most: u32) {
        let millis = self.dice.below(most);
        tokio::time::sleep(Duration::from_millis(millis as u64)).await;
    }

    fn check_promises(&self, daemon: &mut Daemon) {
        let ready = daemon.ready().expect("a leader answers");
        assert_eq!(ready.body["violations"], 0, "{}", ready.body);
        assert_eq!(ready.body["foreign_machines"], serde_json::json!([]), "{}", ready.body);
    }

    /// Waits for all jobs, removes the pool from the configuration and waits for all machines.
    async fn let_everything_end(&self, mut daemon: Daemon) -> Daemon {
        let github = &self.stage.github;
        until("all jobs are over", PATIENCE, async || {
            daemon.must_live();
            github.jobs().iter().all(is_over)
        })
        .await;
        self.stage.configure(&other_pool());
        daemon.signal(rustix::process::Signal::HUP);
        let records = self.stage.records().await;
        until("everyone is gone", PATIENCE, async || {
            daemon.must_live();
            records.live_instances(None).await.is_ok_and(|rows| rows.is_empty())
        })
        .await;
        until("GitHub's last word is heard", PATIENCE, async || {
            records.open_jobs().await.is_ok_and(|jobs| jobs.is_empty())
        })
        .await;
        records.close().await;
        daemon
    }

    async fn check(&self, mut daemon: Daemon) {
        self.check_promises(&mut daemon);
        for job in self.stage.github.jobs() {
            check_job(&job);
        }
        assert_eq!(self.stage.machines(), [""; 0]);
        assert_eq!(self.stage.processes(), [0; 0]);
        assert_eq!(self.stage.github.runners().len(), 0, "registrations were left");
        let logs = self.stage.logs();
        for bad in ["is broken by", "panicked", "is lost; standing by"] {
            let line = logs.lines().find(|line| line.contains(bad));
            assert!(line.is_none(), "{}", line.unwrap_or_default());
        }
        let records = self.stage.records().await;
        self.check_holders(&records, &logs).await;
        self.check_rows(&records).await;
        records.close().await;
    }

    /// Every start that led did so under a name of its own, and no other names were made.
    async fn check_holders(&self, records: &SqlStore, logs: &str) {
        let holders = records.controller().await.expect("a read").holders;
        let distinct: BTreeSet<&str> = holders.iter().map(|holder| holder.as_str()).collect();
        assert_eq!(distinct.len(), holders.len());
        let told = logs.lines().filter(|line| line.contains("\"tenure ")).count();
        // A daemon may die between its claim and its word.
        assert!((told..=self.stage.starts() as usize).contains(&holders.len()), "{holders:?}");
    }

    /// Every row is deleted, with a record of its end, and nobody was ever stuck.
    async fn check_rows(&self, records: &SqlStore) {
        let (mut cursor, mut rows, mut creates) = (None, 0, 0);
        loop {
            let page = Page { limit: 1000, cursor };
            let found = records.instances(&InstanceQuery::default(), &page).await.expect("a read");
            rows += found.items.len();
            for row in &found.items {
                assert_eq!(row.state, State::Deleted, "{row:?}");
                creates += usize::from(row.create_called_at.is_some());
            }
            cursor = found.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let mut seq = 0;
        loop {
            let events = records.events_after(seq, 1000).await.expect("a read");
            let Some(last) = events.last() else { break };
            seq = last.seq;
            for event in &events {
                assert_ne!(event.event.what, What::Stuck, "{event:?}");
            }
        }
        println!("{rows} instances, {creates} machines ordered");
    }
}

/// A job whose script ends it did so by its script: nobody touched its machine.
fn check_job(job: &SimJob) {
    assert_eq!(job.starts, 1, "{job:?}");
    let name = job.wish.name.as_str();
    let expected = if name == "Succeed" { "success" } else { "failure" };
    assert_eq!(job.stage, SimStage::Completed(expected.into()), "{job:?}");
}

fn is_over(job: &SimJob) -> bool {
    matches!(job.stage, SimStage::Completed(_))
}

/// Most jobs end well; the others take their runner with them.
fn deed(number: u32) -> Deed {
    match number % 12 {
        3 => Deed::Kill,
        5 => Deed::Fail,
        7 => Deed::Abort,
        9 => Deed::Vanish,
        11 => Deed::Terminate,
        _ => Deed::Succeed,
    }
}

fn pool() -> String {
    let max = runners();
    format!(
        "[[pool]]\nname = \"linux\"\nlabels = [\"self-hosted\", \"linux\"]\nmin_idle = 1\nmax = {max}\n"
    )
}

/// A pool that nobody asks for, so that the first one is removed.
fn other_pool() -> String {
    "[[pool]]\nname = \"other\"\nlabels = [\"self-hosted\", \"other\"]\nmax = 1\n".into()
}

fn runners() -> u32 {
    asked("OSTLER_RUNNERS").and_then(|it| it.try_into().ok()).unwrap_or(6)
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Draws numbers that come again with the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((word >> 33) % u64::from(end.max(1))).unwrap_or_default()
    }
}
