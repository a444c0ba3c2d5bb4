//! Killed at any moment and started again, the daemon loses nothing, doubles nothing and leaves
//! nothing, whatever its jobs do meanwhile.
//!
//! `OSTLER_KILLS=200` asks for that many kills instead of ten, `OSTLER_RUNNERS=50` for a larger
//! pool, `OSTLER_SEED=7` for the same moments again. In a larger pool jobs are longer, so that most
//! of its runners really live when the daemon is killed; how many did is counted, and must be many.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use ostler::demo::agent::Step;
use ostler::demo::github::{SimJob, SimStage};
use ostler::ports::{History as _, InstanceQuery, Page};
use ostler::store::SqlStore;
use ostler_actors::model::{HolderId, State, What};
use ostler_actors::ports::Records as _;
use tokio::time::Instant;

use crate::support::daemon::{CROWD, Daemon, Stage, pool, until};
use crate::support::postgres::Postgres;

/// How long the last daemon may take to settle what its predecessors left half done.
const CATCHING_UP: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_at_random_moments_loses_nothing_on_sqlite() {
    Churn::on(Stage::on_sqlite(&pool(1, runners()))).kill_and_restart().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_killed_at_random_moments_loses_nothing_on_postgresql() {
    let Some(server) = Postgres::start() else { return };
    Churn::on(Stage::on(server.database(), &pool(1, runners()))).kill_and_restart().await;
}

/// Holds a stage on which jobs keep coming.
struct Churn {
    stage: Stage,
    kills: u32,
    jobs: u32,
    dice: Dice,
    /// Kills of a daemon that led.
    led: u32,
    /// How many runners lived at each kill.
    alive: Vec<usize>,
    /// From when on no instance may be stuck: the kills are over, and the daemon had its time.
    calm_at: Timestamp,
}

impl Churn {
    fn on(stage: Stage) -> Self {
        let seed = asked("OSTLER_SEED").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        println!("the moments of this run come again with OSTLER_SEED={seed}");
        let kills = asked("OSTLER_KILLS").and_then(|it| it.try_into().ok()).unwrap_or(10);
        Self {
            stage,
            kills,
            jobs: 0,
            dice: Dice(seed),
            led: 0,
            alive: Vec::new(),
            calm_at: Timestamp::MAX,
        }
    }

    async fn kill_and_restart(mut self) {
        let began = Instant::now();
        self.fill().await;
        for _ in 0..self.kills {
            self.queue_some();
            self.live_for_a_while().await;
        }
        let (churned, mut daemon) = (began.elapsed(), self.stage.lead().await);
        self.calm_at = Timestamp::now() + CATCHING_UP;
        self.stage.until_all_jobs_are_over(&mut daemon).await;
        let served = began.elapsed();
        self.stage.drain(&mut daemon).await;
        self.check(daemon).await;
        self.check_crowd();
        println!(
            "{} kills ({} while leading) in {churned:.0?}, {} jobs over after {served:.0?}, everyone gone after {:.0?}",
            self.kills,
            self.led,
            self.jobs,
            began.elapsed()
        );
    }

    /// Lets a larger pool fill up before the first kill.
    async fn fill(&mut self) {
        if runners() < CROWD {
            return;
        }
        self.queue_some();
        let daemon = self.stage.lead().await;
        self.until_crowded().await;
        daemon.kill();
    }

    /// Waits until a runner lives, and in a larger pool most of them: on a slow machine a daemon that is
    /// killed every second has no time to replace the runners whose jobs ended.
    async fn until_crowded(&mut self) {
        let most = usize::try_from(runners()).unwrap_or(usize::MAX);
        let enough = if runners() < CROWD { 1 } else { most * 9 / 10 };
        until("enough of the pool lives", async || {
            if runners() >= CROWD {
                self.queue_some();
            }
            self.stage.living_runners() >= enough
        })
        .await;
    }

    /// Says how many runners lived at the kills; in a larger pool that must have been most of it, and
    /// in any pool at least one kill must have found a living runner.
    fn check_crowd(&self) {
        let mut alive = self.alive.clone();
        alive.sort_unstable();
        let at = |percent: usize| {
            let place = (alive.len() * percent / 100).min(alive.len().saturating_sub(1));
            alive.get(place).copied().unwrap_or(0)
        };
        println!(
            "runners alive at the kills: least {}, lower tenth {}, half {}, most {}",
            at(0),
            at(10),
            at(50),
            alive.last().copied().unwrap_or(0)
        );
        let most = usize::try_from(runners()).unwrap_or(usize::MAX);
        let met = if runners() < CROWD { at(100) >= 1 } else { at(50) >= most * 8 / 10 };
        assert!(met || self.kills == 0, "too few lived at the kills: {alive:?}");
    }

    /// Lets jobs come: never so many that the end has to wait for them.
    fn queue_some(&mut self) {
        let open = self.stage.github.jobs().iter().filter(|job| !is_over(job)).count();
        let room = usize::try_from(runners()).unwrap_or(usize::MAX) * 2;
        let some = 1 + self.dice.below(runners());
        let many = if runners() < CROWD { open + some } else { room };
        for _ in open..room.min(many) {
            self.jobs += 1;
            // Longer than the lease of a dead daemon: the next one finds runners at work.
            let longest = if runners() < CROWD { 8_000 } else { 40_000 };
            self.stage.queue(step(self.jobs), 100 + self.dice.below(longest) as u64);
        }
    }

    /// Starts a daemon and kills it: at any moment of its start, or at any moment of its work.
    async fn live_for_a_while(&mut self) {
        let mut daemon = self.stage.spawn();
        if self.dice.below(3) == 0 {
            self.let_pass(600).await;
        } else {
            self.stage.until_it_leads(&mut daemon).await;
            self.led += 1;
            self.until_crowded().await;
            self.let_pass(1500).await;
            check_promises(&mut daemon);
        }
        let machines = self.stage.machines();
        assert!(machines.len() <= runners() as usize, "more machines than allowed: {machines:?}");
        self.alive.push(self.stage.living_runners());
        daemon.kill();
    }

    /// Lets a random time pass: not to wait for something, but to strike at any moment.
    async fn let_pass(&mut self, most: u32) {
        let millis = self.dice.below(most);
        tokio::time::sleep(Duration::from_millis(millis as u64)).await;
    }

    async fn check(&self, mut daemon: Daemon) {
        check_promises(&mut daemon);
        self.stage.check_jobs();
        assert_eq!(self.stage.machines(), [""; 0]);
        assert_eq!(self.stage.processes(), [0; 0]);
        assert_eq!(self.stage.github.runners().len(), 0, "registrations were left");
        self.stage.check_logs(&["is lost; standing by"]);
        let logs = self.stage.logs();
        let records = self.stage.records().await;
        self.check_holders(&records, &logs).await;
        self.check_rows(&records).await;
        records.close().await;
    }

    /// Every start that led did so under a name of its own, and no other names were made.
    async fn check_holders(&self, records: &SqlStore, logs: &str) {
        let holders = records.controller().await.expect("a read").holders;
        let distinct: BTreeSet<&str> = holders.iter().map(HolderId::as_str).collect();
        assert_eq!(distinct.len(), holders.len());
        let led = logs.lines().filter(|line| line.contains("became leader (epoch ")).count();
        // A daemon may die between its claim and its word.
        assert!((led..=self.stage.starts() as usize).contains(&holders.len()), "{holders:?}");
    }

    /// Every row is deleted, with a record of its end, and no instance was stuck once the kills were over:
    /// what needs two answers ten seconds apart gets none from daemons that live for one second.
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
                let late = event.event.last_at > self.calm_at;
                assert!(event.event.what != What::Stuck || !late, "{event:?}");
            }
        }
        println!("{rows} instances, {creates} machines ordered");
    }
}

/// A leader that broke one of its own promises, or shuns one of its own machines, says so.
fn check_promises(daemon: &mut Daemon) {
    let ready = daemon.ready().expect("a leader answers");
    assert_eq!(ready.body["violations"], 0, "{}", ready.body);
    assert_eq!(ready.body["foreign_machines"], serde_json::json!([]), "{}", ready.body);
}

fn is_over(job: &SimJob) -> bool {
    matches!(job.stage, SimStage::Completed(_))
}

/// Most jobs end well; the others take their runner with them.
fn step(number: u32) -> Step {
    match number % 12 {
        3 => Step::Kill,
        5 => Step::Fail,
        7 => Step::Abort,
        9 => Step::Vanish,
        11 => Step::Terminate,
        _ => Step::Succeed,
    }
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
