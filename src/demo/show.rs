//! Runs the demo: queue, watch, drain, sum up.
//!
//! Meanwhile it shows one line that changes on a terminal, else a line now and then.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::fleet::ToFleet;
use ostler_actors::mail::{ActorRef, Reply};
use ostler_actors::model::{InstanceId, PoolId, RequestedBy, State, Urgency};
use ostler_actors::ports::Records as _;
use ostler_actors::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::github::{SimJob, SimStage};
use super::stage::Stage;
use super::{stage, summary};
use crate::config::Problems;
use crate::daemon::{Daemon, Ended, Service, StartError, stop_on_signal};
use crate::store::SqlStore;

/// How often the demo looks.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// How long the jobs, and then the machines, may take.
const FINISH_TIMEOUT: Duration = Duration::from_mins(10);
/// How many jobs GitHub gives out before older ones, at least.
const REORDERED_JOBS: u32 = 3;
/// How far apart jobs come when there is no end of them.
const PACE: Duration = Duration::from_millis(1500);

/// Tells when the demo ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// When its jobs are over.
    AfterJobs,
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
    let loaded = stage.load().map_err(DemoError::Config)?;
    let daemon = Daemon::open(loaded, Service::default()).await?;
    let mut demo = Demo::begin(stage, daemon);
    demo.progress.say(&format!(
        "Look at it on http://{}/ ; the folder of the daemon is {}",
        demo.address,
        demo.stage.folder().display()
    ));
    // A daemon that has no pools yet finds everything by asking, and a lost webhook would not show.
    let leads = demo.watch(&mut asked, async |demo| !demo.registry.pools().is_empty()).await;
    let interrupted = leads != Watched::Came || demo.serve(count, ending, &mut asked).await;
    let all_over = demo.all_jobs_are_known_to_be_over().await;
    let took = demo.began.elapsed();
    demo.progress.say(if interrupted {
        "Cleaning up"
    } else {
        "All jobs are over; the pools drain"
    });
    demo.let_everyone_go(interrupted).await;
    let whole = demo.sum_up(took, all_over || interrupted).await?;
    demo.end().await;
    Ok(whole)
}

/// Tells why the demo stopped watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    /// What was waited for came.
    Came,
    /// A signal asked to stop.
    Asked,
    /// It took too long.
    TooLong,
}

struct Demo {
    stage: Stage,
    hook: u64,
    address: std::net::SocketAddr,
    actor_ref: ActorRef<ToFleet>,
    registry: Arc<Registry>,
    store: SqlStore,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<Ended, StartError>>,
    progress: Progress,
    began: Instant,
}

impl Demo {
    fn begin(stage: Stage, daemon: Daemon) -> Self {
        let hook = stage.connect(daemon.address());
        let (address, actor_ref) = (daemon.address(), daemon.actor_ref().clone());
        let (registry, store) = (daemon.registry().clone(), daemon.store().clone());
        let (stop, stopped) = watch::channel(false);
        let (_, no_news) = mpsc::channel(1);
        let running = actix_rt::spawn(daemon.run(no_news, stopped));
        let (progress, began) = (Progress::default(), Instant::now());
        Self { stage, hook, address, actor_ref, registry, store, stop, running, progress, began }
    }

    /// Lets jobs come and waits for the end; returns whether a signal asked for it.
    async fn serve(
        &mut self,
        count: u32,
        ending: Ending,
        asked: &mut watch::Receiver<bool>,
    ) -> bool {
        // The other jobs tell the daemon where to ask for the one it was not told of.
        if count > stage::RARE {
            self.stage.github.lie(|lies| lies.lost_webhooks = 1);
        }
        self.stage.github.lie(|lies| lies.reordered = REORDERED_JOBS);
        (1..=count).for_each(|number| self.queue(number));
        match ending {
            Ending::AfterJobs => {
                self.watch(asked, Self::all_jobs_are_known_to_be_over).await == Watched::Asked
            }
            Ending::WhenAsked => {
                self.progress.say("Jobs keep coming; Ctrl-C ends the demo and cleans up");
                self.feed(count, asked).await;
                true
            }
        }
    }

    fn queue(&self, number: u32) {
        self.stage.github.queue(&stage::place(), stage::plan(number));
    }

    /// Lets jobs come until a signal asks to stop.
    async fn feed(&mut self, first: u32, asked: &mut watch::Receiver<bool>) {
        let mut number = first;
        while !*asked.borrow_and_update() {
            number += 1;
            self.queue(number);
            self.progress.show(&self.stage.github.jobs(), &self.registry);
            // The sender is gone and cannot ask any more: that ends it too.
            if matches!(tokio::time::timeout(PACE, asked.changed()).await, Ok(Err(_))) {
                return;
            }
        }
    }

    /// Shows progress until something holds.
    async fn watch(
        &mut self,
        asked: &mut watch::Receiver<bool>,
        mut holds: impl AsyncFnMut(&Self) -> bool,
    ) -> Watched {
        let until = Instant::now() + FINISH_TIMEOUT;
        loop {
            self.progress.show(&self.stage.github.jobs(), &self.registry);
            if holds(self).await {
                return Watched::Came;
            }
            if *asked.borrow() || self.running.is_finished() {
                return Watched::Asked;
            }
            if Instant::now() > until {
                return Watched::TooLong;
            }
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    async fn all_jobs_are_known_to_be_over(&self) -> bool {
        let over = |job: &SimJob| matches!(job.stage, SimStage::Completed(_));
        self.stage.github.jobs().iter().all(over)
            && self.store.open_jobs().await.is_ok_and(|open| open.is_empty())
    }

    /// Drains every pool and waits until no instance is left; in a hurry, by force.
    async fn let_everyone_go(&mut self, hurry: bool) {
        for pool in self.registry.pools() {
            self.drain(&pool.id);
        }
        let (_nobody, mut unasked) = watch::channel(false);
        // Machines may still come to be while the drain is made durable.
        let mut forced = BTreeSet::new();
        let everyone_is_gone = async |demo: &Self| {
            for row in demo.registry.instances() {
                if hurry && forced.insert(row.id.clone()) {
                    demo.force(&row.id);
                }
            }
            demo.registry.is_empty()
        };
        self.watch(&mut unasked, everyone_is_gone).await;
    }

    fn drain(&self, pool: &PoolId) {
        let (pool, who) = (pool.clone(), "demo".to_owned());
        let reply = Reply::discard();
        let _: Result<(), _> =
            self.actor_ref.tell(ToFleet::Drain { pool, drained: true, who, reply });
    }

    fn force(&self, instance: &InstanceId) {
        let by = RequestedBy { who: "demo".into(), why: "the demo ends".into() };
        let (instance, urgency, reply) = (instance.clone(), Urgency::Force, Reply::discard());
        let _: Result<(), _> =
            self.actor_ref.tell(ToFleet::Retire { instance, urgency, by, reply });
    }

    /// Prints the summary; returns whether nothing was lost and nothing left.
    async fn sum_up(&mut self, took: Duration, jobs_over: bool) -> Result<bool, DemoError> {
        self.progress.say("");
        let github = &self.stage.github;
        let left = self.stage.machines().len();
        let registered = github.runners().len();
        let out = &mut io::stdout().lock();
        summary::print(&self.store, github, self.hook, took, out).await?;
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
}

/// How far apart lines are where they cannot be overwritten.
const BREATH: Duration = Duration::from_secs(1);

/// Holds the line that was shown last.
#[derive(Default)]
pub(super) struct Progress {
    shown: String,
    since: Option<Instant>,
}

impl Progress {
    /// Shows where things stand, if that changed.
    pub(super) fn show(&mut self, jobs: &[SimJob], registry: &Registry) {
        let terminal = io::stdout().is_terminal();
        let line = line(jobs, registry);
        let breathless = self.since.is_some_and(|since| since.elapsed() < BREATH);
        if line == self.shown || (!terminal && breathless) {
            return;
        }
        if terminal {
            print!("\r\x1b[2K{line}");
            drop(io::stdout().flush());
        } else {
            println!("{line}");
        }
        self.shown = line;
        self.since = Some(Instant::now());
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, text: &str) {
        if io::stdout().is_terminal() && !self.shown.is_empty() {
            println!();
        }
        self.shown.clear();
        println!("{text}");
    }
}

fn line(jobs: &[SimJob], registry: &Registry) -> String {
    let over = jobs.iter().filter(|job| matches!(job.stage, SimStage::Completed(_))).count();
    let rows = registry.instances();
    let count = |state: &State| rows.iter().filter(|row| row.state == *state).count();
    let states = State::ALL.iter().map(|state| (count(state), state));
    let parts: Vec<String> = states
        .filter(|(count, _)| *count > 0)
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    let runners = if parts.is_empty() { "none".into() } else { parts.join(", ") };
    format!("jobs {over}/{} over · runners: {runners}", jobs.len())
}
