//! The world: assembles the outside and a daemon, and lets time pass.
//!
//! ```text
//!   Outside (truth, survives)          Daemon (real actors, mortal)
//!   ├ queue of happenings   ── news ─▶ LocalSet of tasks
//!   ├ forge, providers      ◀─ ports ─ actors, effects
//!   └ records, durable
//! ```
//!
//! The driver lets the daemon run until the next thing happens outside, applies it, shows
//! the checkers what was seen, and goes on. A crash drops the daemon's tasks, all of them,
//! in the middle of whatever they did; what was durable stays and a new daemon starts on it.

mod arrivals;
mod daemon;
mod end;
mod happen;
mod harm;
mod operator_actions;
mod plan;
mod stage;
mod supervisor;

pub use arrivals::Workload;
pub use daemon::{Daemon, SimPorts};
pub use end::Leftovers;
pub use plan::{Plan, pool};

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::task::LocalSet;

use super::clock::{Moment, millis};
use super::happening::{Happening, OperatorAction};
use super::observed::{Observed, Seen};
use super::outside::{Outside, Shared};
use crate::fleet::ToFleet;
use crate::mail::Mailbox;
use crate::registry::Registry;

/// Looks at everything the world saw, after each step.
pub trait Watcher {
    /// Judges what was seen since the last step. The registry is there while the daemon is.
    fn step(&mut self, seen: &[Observed], outside: &Outside, registry: Option<&Registry>);
}

/// Holds the outside and, while it lives, the daemon.
pub struct World {
    shared: Arc<Shared>,
    daemon: Box<Daemon>,
    life: Option<Life>,
    plan: Plan,
    watcher: Option<Box<dyn Watcher>>,
    history: Vec<Observed>,
    remembers: bool,
    steps: u64,
    /// What operators wanted while the daemon was down.
    put_off: Vec<OperatorAction>,
}

/// One life of the daemon.
struct Life {
    tasks: LocalSet,
    fleet: Mailbox<ToFleet>,
    registry: Arc<Registry>,
}

impl World {
    /// Makes a world and starts its daemon; needs a runtime with paused time.
    pub fn new(plan: Plan, daemon: impl Fn(SimPorts) -> Mailbox<ToFleet> + 'static) -> Self {
        let shared = Shared::new(plan.outside());
        let mut world = Self {
            shared,
            daemon: Box::new(daemon),
            life: None,
            plan,
            watcher: None,
            history: Vec::new(),
            remembers: false,
            steps: 0,
            put_off: Vec::new(),
        };
        world.start_daemon();
        world
    }

    /// Adds an observer of everything that is seen.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl Watcher + 'static) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// Keeps everything that is seen, for tests that ask afterwards.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.remembers = true;
        self
    }

    /// Keeps the story in words.
    #[must_use]
    pub fn telling_stories(self) -> Self {
        self.outside().trace.tell_stories();
        self
    }

    /// Returns the truth, for further handles onto it.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs something beside the daemon's own tasks; a crash ends it too.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        if let Some(life) = &self.life {
            life.tasks.spawn_local(task);
        }
    }

    /// Opens the truth. Do not hold it while time passes.
    pub fn outside(&self) -> MutexGuard<'_, Outside> {
        self.shared.lock()
    }

    /// Returns the plan, with the pools as they are configured now.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the daemon's board, while it lives.
    pub fn registry(&self) -> Option<&Arc<Registry>> {
        self.life.as_ref().map(|life| &life.registry)
    }

    /// Returns the way into the daemon, while it lives.
    pub fn fleet(&self) -> Option<&Mailbox<ToFleet>> {
        self.life.as_ref().map(|life| &life.fleet)
    }

    /// Returns what was seen so far, if the world remembers.
    pub fn history(&self) -> &[Observed] {
        &self.history
    }

    /// Returns how many things have happened.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn now(&self) -> Moment {
        self.outside().now()
    }

    pub async fn run_for(&mut self, time: Duration) {
        let until = self.now() + millis(time);
        self.run_until(until).await;
    }

    /// Lets time pass until a moment, everything due at it included.
    pub async fn run_until(&mut self, deadline: Moment) {
        loop {
            let next = self.outside().next_at().unwrap_or(deadline).min(deadline);
            self.let_run(next).await;
            self.clean_up_if_crashed();
            self.happen_due();
            self.show();
            let outside = self.outside();
            let more = outside.next_at().is_some_and(|at| at <= deadline);
            if outside.now() >= deadline && !more && outside.crashed().is_none() {
                return;
            }
        }
    }

    /// Lets the daemon work until a moment, an earlier happening, or its crash.
    async fn let_run(&self, until: Moment) {
        let quiet = self.shared.quiet_until(until);
        match &self.life {
            Some(life) => life.tasks.run_until(quiet).await,
            None => quiet.await,
        }
    }

    /// Applies everything that is due, unless the daemon crashes over it.
    fn happen_due(&mut self) {
        loop {
            let due = self.outside().take_due();
            let Some(what) = due else { return };
            self.steps += 1;
            self.apply(what);
            self.clean_up_if_crashed();
        }
    }

    /// Shows what was seen to every observer.
    fn show(&mut self) {
        let mut outside = self.shared.lock();
        let seen = std::mem::take(&mut outside.observed);
        if let Some(watcher) = &mut self.watcher {
            let registry = self.life.as_ref().map(|life| &*life.registry);
            watcher.step(&seen, &outside, registry);
        }
        if self.remembers {
            self.history.extend(seen);
        } else {
            // The buffer goes back, so that steps do not allocate.
            let mut seen = seen;
            seen.clear();
            outside.observed = seen;
        }
    }

    fn start_daemon(&mut self) {
        if self.life.is_some() {
            return;
        }
        let (epoch, holder) = {
            let mut outside = self.shared.lock();
            outside.touch();
            let (epoch, holder) = outside.records.begin_lease();
            outside.log("daemon", holder.as_str(), epoch.0);
            outside.observe(Seen::Started { epoch, holder: holder.clone() });
            (epoch, holder)
        };
        drop(holder);
        let plan = Plan { pools: self.configured(), ..self.plan.clone() };
        let ports = SimPorts::new(&self.shared, &plan, epoch);
        let registry = Arc::clone(&ports.base.registry);
        let tasks = LocalSet::new();
        let fleet = {
            let _inside = tasks.enter();
            (self.daemon)(ports)
        };
        self.life = Some(Life { tasks, fleet, registry });
        self.tell_dark_hosts();
        for (wait, action) in (1_000..).zip(self.tries_again()) {
            self.outside().later(wait, Happening::Operator(action));
        }
    }

    fn clean_up_if_crashed(&mut self) {
        if self.outside().crashed().is_some() {
            self.show();
            // Every actor and every effect is gone at once, wherever it was.
            self.life = None;
            self.outside().after_crash();
        }
    }
}
