//! A world under watch: the real fleet lives in it, every promise is checked at every step,
//! and at its end nothing may be left.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::time::Duration;

use super::checks::Checker;
use super::liveness::{LivenessChecker, Waits};
use super::{Observed, Outside, Plan, SimJob, SimPorts, Watcher, World, millis};
use crate::fleet::{self, ToFleet};
use crate::invariants::Violation;
use crate::jobs;
use crate::mail::{ActorRef, Mailbox};
use crate::model::{Event, Instance, InstanceId, State, Subject};
use crate::registry::Registry;

/// How long a calm world may take until every job is over, and then until nothing is left.
/// A job that a dead run left queued is given up after a day; a registration after another.
const SETTLE_LIMIT: Duration = Duration::from_hours(60);

/// A world with the real fleet in it and the checkers beside it.
pub struct Watched {
    world: World,
    checker: Rc<RefCell<Checker>>,
    /// Measures waits, where they are measured.
    liveness: Option<Rc<RefCell<LivenessChecker>>>,
}

impl Watched {
    /// Makes a world and starts the real fleet in it; needs a runtime with paused time.
    pub fn new(plan: Plan) -> Self {
        Self::with(plan, start_fleet)
    }

    /// Makes a world and starts a daemon in it that is not quite the usual one.
    pub fn with(plan: Plan, daemon: impl Fn(SimPorts) -> Mailbox<ToFleet> + 'static) -> Self {
        let checker =
            Rc::new(RefCell::new(Checker::new(&plan.pools, plan.settings.requeue.orphan_after)));
        let world = World::new(plan, daemon).watched_by(Eyes(Rc::clone(&checker), None));
        Self { world, checker, liveness: None }
    }

    /// Measures how long jobs, instances and places wait, and finds waits beyond their limits. Not for
    /// stories that hold jobs back on purpose.
    #[must_use]
    pub fn measuring(mut self) -> Self {
        let liveness = Rc::new(RefCell::new(LivenessChecker::default()));
        let eyes = Eyes(Rc::clone(&self.checker), Some(Rc::clone(&liveness)));
        self.world = self.world.watched_by(eyes);
        self.liveness = Some(liveness);
        self
    }

    /// Returns the waits measured so far.
    pub fn waits(&self) -> Waits {
        self.liveness.as_ref().map(|it| it.borrow().waits().clone()).unwrap_or_default()
    }

    /// Keeps everything that is seen, and the story in words.
    #[must_use]
    pub fn remembering(mut self) -> Self {
        self.world = self.world.remembering().telling_stories();
        self
    }

    /// Keeps the story in words.
    #[must_use]
    pub fn telling_stories(mut self) -> Self {
        self.world = self.world.telling_stories();
        self
    }

    /// Returns the promises broken so far.
    pub fn broken(&self) -> Vec<Violation> {
        let mut broken = self.checker.borrow().broken().to_vec();
        if let Some(liveness) = &self.liveness {
            broken.extend_from_slice(liveness.borrow().broken());
        }
        broken
    }

    /// Returns the stored row of an instance.
    pub fn row(&self, id: &InstanceId) -> Option<Instance> {
        self.outside().records.row(id).map(|row| Instance::clone(row))
    }

    /// Returns all live rows, in the order of their names.
    pub fn rows(&self) -> Vec<Instance> {
        self.outside().records.live_rows().map(|row| Instance::clone(row)).collect()
    }

    /// Returns the timeline of an instance.
    pub fn timeline(&self, id: &InstanceId) -> Vec<Event> {
        self.outside().records.timeline(&Subject::Instance(id.clone())).cloned().collect()
    }

    /// Lets time pass until something holds; returns whether it came within `patience`.
    pub async fn comes(&mut self, patience: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let until = self.now() + millis(patience);
        while !holds(self) {
            if self.now() >= until {
                return false;
            }
            self.run_for(Duration::from_millis(500)).await;
        }
        true
    }

    /// Lets time pass until an instance is in a state; returns whether it came to it.
    pub async fn reaches(&mut self, id: &InstanceId, state: State, patience: Duration) -> bool {
        self.comes(patience, |world| world.row(id).is_some_and(|row| row.state == state)).await
    }

    /// Ends all lies, lets every job come to its end, drains every pool, waits until nothing is
    /// left, and returns the promises broken on the whole way.
    pub async fn finish(&mut self) -> Vec<Violation> {
        self.outside().calm();
        self.learn_of_ends().await;
        let left = self.world.settle(SETTLE_LIMIT).await;
        let registry = self.world.registry().cloned();
        {
            let outside = self.world.outside();
            let mut checker = self.checker.borrow_mut();
            checker.scan(&outside, registry.as_deref());
            checker.at_the_end(&outside, registry.as_deref(), &left);
        }
        self.broken()
    }

    /// Waits until the records know of every job that ended unheard; asking takes its time.
    async fn learn_of_ends(&mut self) {
        let until = self.now() + millis(SETTLE_LIMIT);
        while self.now() < until && ended_unheard(&self.outside()) {
            self.run_for(Duration::from_mins(10)).await;
        }
    }
}

impl Deref for Watched {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

fn ended_unheard(outside: &Outside) -> bool {
    let over = |number: u64| outside.forge.jobs.get(&number).is_none_or(SimJob::is_over);
    outside.records.open_jobs().any(|job| over(job.id.number))
}

/// Starts the real fleet on a world's ports.
pub fn start_fleet(ports: SimPorts) -> Mailbox<ToFleet> {
    let actor_ref = ActorRef::default();
    let fleet = fleet::Ports {
        base: ports.base,
        instances: ports.capabilities,
        jobs: jobs::JobCapabilities::new(ports.jobs),
        pools: fleet::PoolCapabilities::new(ports.pools),
        inventories: ports.inventories,
        rosters: ports.rosters,
        settings: ports.settings,
    };
    let keeping = fleet::keep(fleet, ports.specs, actor_ref.clone());
    tokio::task::spawn_local(async move {
        keeping.await;
    });
    Mailbox::new(move |message| actor_ref.tell(message))
}

/// Lets the checker see what the world shows.
struct Eyes(Rc<RefCell<Checker>>, Option<Rc<RefCell<LivenessChecker>>>);

impl Watcher for Eyes {
    fn step(&mut self, seen: &[Observed], outside: &Outside, registry: Option<&Registry>) {
        self.0.borrow_mut().look(seen, outside, registry);
        if let Some(liveness) = &self.1 {
            liveness.borrow_mut().look(seen, outside, registry.is_some());
        }
    }
}
