//! Runs the demo: queue, watch, drain, sum up.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::{Office, Reply};
use ostler_actors::model::{InstanceId, Petition, PoolId, State, WishRank};
use ostler_actors::ports::Records as _;
use ostler_actors::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::github::SimStage;
use super::stage::Stage;
use super::{jobs, summary};
use crate::config::Problems;
use crate::daemon::{Daemon, Ended, Service, StartError, stop_on_signal};
use crate::store::SqlStore;

/// How often progress is shown.
const GLANCE: Duration = Duration::from_millis(250);
/// How long the jobs, and then the machines, may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// How far apart jobs come when there is no end of them.
const PACE: Duration = Duration::from_millis(1500);

/// Tells when the demo ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// When its jobs are over.
    AfterJobs,
    /// When somebody asks.
    WhenAsked,
}

/// Tells why there is no demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The stage could not be built.
    #[error("cannot build the stage of the demo")]
    Stage(#[from] io::Error),
    /// The configuration of the demo is refused.
    #[error("the configuration of the demo is refused, which is a bug:\n{0}")]
    Config(Problems),
    /// The daemon does not start.
    #[error("the daemon does not start")]
    Start(#[from] StartError),
}

/// Shows the demo; returns whether nothing was lost and nothing left behind.
pub async fn show(count: u32, ending: Ending) -> Result<bool, DemoError> {
    let mut asked = stop_on_signal()?;
    let stage = Stage::build()?;
    let daemon = Daemon::open(stage.load().map_err(DemoError::Config)?, Service::default()).await?;
    let mut demo = Demo::begin(stage, daemon);
    demo.say(&format!(
        "The daemon listens on http://{}; its folder is {}",
        demo.address,
        demo.stage.folder().display()
    ));
    demo.stage.github.lie(|lies| lies.lost_webhooks = 1);
    let interrupted = match ending {
        Ending::AfterJobs => {
            (1..=count).for_each(|number| demo.queue(number));
            demo.watch(&mut asked, Demo::all_jobs_are_known_to_be_over).await == Watched::Asked
        }
        Ending::WhenAsked => {
            demo.say("Jobs keep coming; Ctrl-C ends the demo and cleans up");
            demo.feed(count, &mut asked).await;
            true
        }
    };
    let all_over = !interrupted && demo.all_jobs_are_known_to_be_over().await;
    demo.say(if interrupted { "Cleaning up" } else { "All jobs are over; the pools drain" });
    demo.let_everyone_go(interrupted).await;
    let whole = demo.sum_up(all_over || interrupted).await?;
    demo.end().await;
    Ok(whole)
}

/// Tells why the demo stopped watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// What was waited for came.
    Came,
    /// Somebody asked to stop.
    Asked,
    /// It took too long.
    TooLong,
}

struct Demo {
    stage: Stage,
    address: std::net::SocketAddr,
    office: Office<ToFleet>,
    registry: std::sync::Arc<Registry>,
    store: SqlStore,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<Ended, StartError>>,
    shown: String,
}

impl Demo {
    fn begin(stage: Stage, daemon: Daemon) -> Self {
        stage.connect(daemon.address());
        let (address, office) = (daemon.address(), daemon.office().clone());
        let (registry, store) = (daemon.registry().clone(), daemon.store().clone());
        let (stop, stopped) = watch::channel(false);
        let (_, no_news) = mpsc::channel(1);
        let running = actix_rt::spawn(daemon.run(no_news, stopped));
        let shown = String::new();
        Self { stage, address, office, registry, store, stop, running, shown }
    }

    fn queue(&self, number: u32) {
        self.stage.github.queue(&jobs::place(), jobs::wish(number));
    }

    /// Lets jobs come until somebody asks to stop.
    async fn feed(&mut self, first: u32, asked: &mut watch::Receiver<bool>) {
        (1..=first).for_each(|number| self.queue(number));
        let mut number = first;
        while !*asked.borrow_and_update() {
            number += 1;
            self.queue(number);
            self.progress();
            // Whoever could have asked is gone: that ends it too.
            if matches!(tokio::time::timeout(PACE, asked.changed()).await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// Shows progress until something holds.
    async fn watch(
        &mut self,
        asked: &mut watch::Receiver<bool>,
        holds: impl AsyncFn(&Self) -> bool,
    ) -> Watched {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            self.progress();
            if holds(self).await {
                return Watched::Came;
            }
            if *asked.borrow() || self.running.is_finished() {
                return Watched::Asked;
            }
            if tokio::time::Instant::now() > until {
                return Watched::TooLong;
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    async fn all_jobs_are_known_to_be_over(&self) -> bool {
        let jobs = self.stage.github.jobs();
        let over = |job: &super::github::SimJob| matches!(job.stage, SimStage::Completed(_));
        jobs.iter().all(over) && self.store.open_jobs().await.is_ok_and(|open| open.is_empty())
    }

    /// Drains every pool and waits until nobody is left; in a hurry, by force.
    async fn let_everyone_go(&mut self, hurry: bool) {
        for pool in self.registry.pools() {
            self.drain(&pool.id);
        }
        if hurry {
            for row in self.registry.instances() {
                self.force(&row.id);
            }
        }
        let (_nobody, mut unasked) = watch::channel(false);
        self.watch(&mut unasked, async |demo: &Self| demo.registry.is_empty()).await;
        self.progress();
    }

    fn drain(&self, pool: &PoolId) {
        let (pool, who) = (pool.clone(), "demo".to_owned());
        let reply = Reply::nobody();
        let _: Result<(), _> = self.office.tell(ToFleet::Drain { pool, drained: true, who, reply });
    }

    fn force(&self, instance: &InstanceId) {
        let by = Petition { who: "demo".into(), why: "the demo ends".into() };
        let (instance, rank, reply) = (instance.clone(), WishRank::Force, Reply::nobody());
        let _: Result<(), _> = self.office.tell(ToFleet::Retire { instance, rank, by, reply });
    }

    /// Prints the summary; returns whether nothing was lost and nothing left.
    async fn sum_up(&mut self, jobs_over: bool) -> Result<bool, DemoError> {
        self.say("");
        let left = self.stage.machines().len();
        let registered = self.stage.github.runners().len();
        summary::print(&self.store, &self.stage.github, &mut io::stdout().lock()).await?;
        let whole = jobs_over && left == 0 && registered == 0 && self.registry.is_empty();
        let violations = self.registry.violations();
        println!(
            "left behind: machines {left}, registrations {registered}, instances {}; broken promises {violations}",
            self.registry.len()
        );
        Ok(whole && violations == 0)
    }

    async fn end(self) {
        self.stop.send_replace(true);
        drop(self.store);
        // How it ended was shown already.
        drop(self.running.await);
    }

    fn progress(&mut self) {
        let jobs = self.stage.github.jobs();
        let over = jobs.iter().filter(|job| matches!(job.stage, SimStage::Completed(_))).count();
        let mut states: Vec<String> = Vec::new();
        let rows = self.registry.instances();
        for state in State::ALL {
            let count = rows.iter().filter(|row| row.state == state).count();
            if count > 0 {
                states.push(format!("{count} {state}"));
            }
        }
        let states = if states.is_empty() { "nobody".into() } else { states.join(", ") };
        let line = format!("jobs {over}/{} over · runners: {states}", jobs.len());
        if line == self.shown {
            return;
        }
        if io::stdout().is_terminal() {
            print!("\r\x1b[2K{line}");
            drop(io::stdout().flush());
        } else {
            println!("{line}");
        }
        self.shown = line;
    }

    fn say(&mut self, text: &str) {
        if io::stdout().is_terminal() && !self.shown.is_empty() {
            println!();
        }
        self.shown.clear();
        println!("{text}");
    }
}
