//! The truth: everything that exists whether or not the daemon lives to see it.
//!
//! One lock holds machines, runners, jobs, the durable records, and a queue of what will
//! happen next. Ports are thin handles onto it. No port holds the lock across an await, and
//! once the daemon is to crash no call returns any more, so nothing it does afterwards can
//! reach the outside.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::clock::{Moment, SimClock, date};
use super::dice::{Dice, Rate};
use super::episodes::{Conditions, Episode};
use super::faults::Faults;
use super::forge::ForgeState;
use super::happening::Happening;
use super::observed::Trace;
use super::observed::{Observed, Seen};
use super::provider::Machines;
use super::script::Script;
use super::store::MemoryRecords;
use super::world::Workload;
use crate::model::{ForgeId, InstanceId, PoolId, PoolSpec, Timestamp};

/// What is counted as a fault and excuses no wait: slow calls, truthful refusals, other people's notices.
const EVERYDAY: [&str; 4] =
    ["busy, so 422", "forge is slow", "hook of a stranger", "provider is slow"];

/// The truth behind its lock.
pub struct Shared(Mutex<Outside>);

/// Holds everything outside the daemon.
pub struct Outside {
    /// The seed it all comes from.
    pub seed: u64,
    /// The one virtual time.
    pub clock: SimClock,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// How often each fault was injected.
    pub injected: BTreeMap<&'static str, u64>,
    /// When the last fault struck or healed. What waits may wait from here on.
    pub(super) touched_at: Moment,
    /// When the last fault struck that concerns one job only.
    pub(super) touched_jobs: BTreeMap<u64, Moment>,
    /// The faults that begin and heal at a known time.
    pub(super) episodes: Vec<Episode>,
    /// Which of them last now.
    pub(super) conditions: Conditions,
    pub trace: Trace,
    pub records: MemoryRecords,
    pub forge: ForgeState,
    pub machines: Machines,
    /// How many hosts each provider has.
    pub hosts: u64,
    /// What a scenario has planned.
    pub script: Script,
    /// The pools, as far as jobs are drawn for them.
    pub pools: Vec<Arc<PoolSpec>>,
    /// Those of them that the config does not name for a while.
    pub removed_pools: BTreeSet<PoolId>,
    /// What operators asked of pools, by number, and had no answer to: drained or not.
    pub unanswered: BTreeMap<usize, bool>,
    /// The jobs that are still to come.
    pub workload: Workload,
    /// The instances that a person really wanted gone by force.
    pub forced: BTreeSet<InstanceId>,
    pub(super) dice: Dice,
    pub(super) chance: Dice,
    pub(super) observed: Vec<Observed>,
    queue: BTreeMap<(Moment, u64), Happening>,
    queued: u64,
    crashed: Option<&'static str>,
    awaited: Moment,
    driver: Option<Waker>,
}

impl Outside {
    /// Makes an empty outside; needs a runtime with paused time.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            seed,
            clock: SimClock::new(),
            faults,
            injected: BTreeMap::new(),
            touched_at: 0,
            touched_jobs: BTreeMap::new(),
            episodes: Vec::new(),
            conditions: Conditions::default(),
            trace: Trace::default(),
            records: MemoryRecords::new(seed),
            forge: ForgeState::new(ForgeId::new("github")),
            machines: Machines::default(),
            hosts: 4,
            script: Script::default(),
            pools: Vec::new(),
            removed_pools: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            workload: Workload::none(),
            forced: BTreeSet::new(),
            dice: Dice::new(seed, 1),
            chance: Dice::new(seed, 2),
            observed: Vec::new(),
            queue: BTreeMap::new(),
            queued: 0,
            crashed: None,
            awaited: 0,
            driver: None,
        }
    }

    pub fn now(&self) -> Moment {
        self.clock.moment()
    }

    pub fn date(&self) -> Timestamp {
        date(self.now())
    }

    /// Notes something in the log.
    pub(super) fn log(&mut self, what: &'static str, whom: &str, how: u64) {
        let at = self.date();
        self.trace.log(at, what, whom, how);
    }

    /// Shows something to the checkers.
    pub(super) fn observe(&mut self, what: Seen) {
        let at = self.now();
        self.observed.push(Observed { at, what });
    }

    /// Returns whether a fault strikes now, and counts it.
    pub(super) fn strikes(&mut self, rate: Rate, name: &'static str) -> bool {
        let strikes = self.dice.hits(rate);
        if strikes {
            self.count(name);
        }
        strikes
    }

    /// Counts an injected fault.
    pub(super) fn count(&mut self, name: &'static str) {
        if !EVERYDAY.contains(&name) {
            self.touch();
        }
        self.count_only(name);
    }

    /// Counts a strike of a fault that leaves the rest of the fleet as it was: no other wait begins anew.
    pub(super) fn count_only(&mut self, name: &'static str) {
        *self.injected.entry(name).or_default() += 1;
        self.log("fault", name, 0);
    }

    /// Notes that a fault struck or healed: every wait that is measured begins anew.
    pub(super) fn touch(&mut self) {
        self.touched_at = self.now();
    }

    /// Lets something happen after `wait` milliseconds.
    pub(super) fn later(&mut self, wait: u64, what: Happening) {
        let at = self.now() + wait;
        self.queued += 1;
        self.queue.insert((at, self.queued), what);
        if at < self.awaited {
            self.wake();
        }
    }

    /// Returns when something happens next.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes what is due.
    pub(super) fn take_due(&mut self) -> Option<Happening> {
        if self.next_at()? > self.now() {
            return None;
        }
        self.queue.pop_first().map(|(_, what)| what)
    }

    /// Forgets what was to happen.
    pub(super) fn forget(&mut self, is_it: impl Fn(&Happening) -> bool) {
        self.queue.retain(|_, what| !is_it(what));
    }

    /// Returns how much is still to happen.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }

    /// Crashes the daemon: from now on no call of it returns.
    pub(super) fn crash(&mut self, why: &'static str) {
        if self.crashed.is_none() {
            self.crashed = Some(why);
            self.touch();
            self.log("crash", why, 0);
            self.observe(Seen::Crashed(why));
            self.wake();
        }
    }

    /// Crashes the daemon with a chance.
    pub(super) fn may_crash(&mut self, rate: Rate, why: &'static str) {
        if self.dice.hits(rate) {
            *self.injected.entry(why).or_default() += 1;
            self.crash(why);
        }
    }

    /// Returns why the daemon is to die, if it is.
    pub(super) fn crashed(&self) -> Option<&'static str> {
        self.crashed
    }

    /// Forgets the crash: the daemon is gone.
    pub(super) fn forget_crash(&mut self) {
        self.crashed = None;
    }

    fn wake(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl Shared {
    /// Puts the truth behind its lock.
    pub fn new(outside: Outside) -> Arc<Self> {
        Arc::new(Self(Mutex::new(outside)))
    }

    /// Opens the truth. A planned panic may have poisoned the lock; the truth is intact.
    pub fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the daemon, as a process that exits does; it is started again after a while.
    pub fn end_daemon(&self, why: &'static str) {
        self.lock().crash(why);
    }

    /// Serves a call of the daemon, or never returns if the daemon is to die.
    pub(super) async fn call<R>(&self, serve: impl FnOnce(&mut Outside) -> R) -> R {
        match self.try_call(serve) {
            Some(answer) => answer,
            None => pending().await,
        }
    }

    /// Answers a call of an adapter, which may panic over its answer: the effect is done by then.
    pub(super) async fn answer(&self, name: &'static str, rate: fn(&Faults) -> Rate) {
        let panics = self.call(|outside| {
            let rate = rate(&outside.faults);
            outside.script.panics(name) || outside.strikes(rate, "adapter panics")
        });
        if panics.await {
            resume_unwind(Box::new(format!("{name}: the adapter has a bug")));
        }
    }

    fn try_call<R>(&self, serve: impl FnOnce(&mut Outside) -> R) -> Option<R> {
        let mut outside = self.lock();
        if outside.crashed.is_some() {
            return None;
        }
        let answer = serve(&mut outside);
        outside.crashed.is_none().then_some(answer)
    }

    /// Waits until `until`, an earlier happening, or a crash.
    pub(super) async fn quiet_until(&self, until: Moment) {
        let instant = {
            let mut outside = self.lock();
            outside.awaited = until;
            outside.clock.instant(until)
        };
        let mut sleep = pin!(tokio::time::sleep_until(instant));
        poll_fn(|context| {
            {
                let mut outside = self.lock();
                let earlier = outside.next_at().is_some_and(|at| at < until);
                if earlier || outside.crashed.is_some() {
                    return Poll::Ready(());
                }
                match &mut outside.driver {
                    Some(driver) => driver.clone_from(context.waker()),
                    none @ None => *none = Some(context.waker().clone()),
                }
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

/// Lets virtual time pass inside a call.
pub(super) async fn sleep_millis(wait: u64) {
    if wait > 0 {
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}
