//! Measures waiting: how long jobs that could run do not, how long instances that should go stay, and how
//! long a place of `max` is held by a machine that is gone.
//!
//! A wait is measured from the last fault that touched it, or from its beginning if that is later: what
//! waits while things are broken proves nothing, what goes on waiting afterwards is *stranded*. A job is
//! expected to run only while a place is free for it: the oldest waiting jobs have a claim to as many
//! places as the pools that can serve them do not rightly use. A place is used by a machine that works, and
//! by one that is dead or leaving; that one has a limit of its own.
//!
//! It looks at the truth and never at what the daemon believes, throws no dice, and plans nothing: a world
//! tells the same story with and without it. It looks every [`SCAN_INTERVAL_MS`], which is how exact it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::clock::{Moment, millis};
use super::forge::{JobStage, SimJob};
use super::observed::{Observed, Seen};
use super::outside::Outside;
use super::provider::{Kind, Machine, Stage};
use crate::invariants::Violation;
use crate::model::{
    Instance, InstanceId, Job, JobId, MachineName, OfferStage, PoolId, PoolSpec, ProviderId,
    Registration, RunnerName, State,
};

/// How long a job that a healthy pool can serve may wait after the last fault that touched it.
pub const JOB_LIMIT: Duration = Duration::from_mins(15);
/// The same of a job that was parked after too many failed attempts.
pub const PARKED_JOB_LIMIT: Duration = Duration::from_mins(30);
/// How long an instance that should go may stay.
pub const LEAVING_LIMIT: Duration = Duration::from_mins(30);
/// How long a place may be held by a machine that is gone: until its absence is noticed and proven.
pub const PLACE_LIMIT: Duration = Duration::from_mins(10);

/// How many registrations a pool may spend in an hour in which it cannot start runners, beside as many as it
/// may start at once in the first.
pub const REGISTRATIONS_IN_THE_FIRST_HOUR: u32 = 15;
/// The same in each later hour.
pub const REGISTRATIONS_AN_HOUR: u32 = 10;

/// After so many attempts a job may be parked: the wait before the next is half an hour.
const ATTEMPTS_BEFORE_PARKING: u32 = 5;
/// How often everything is looked at, in virtual time.
const SCAN_INTERVAL_MS: u64 = 15_000;

/// Counts waits by their length in seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes(BTreeMap<u64, u64>);

impl WaitTimes {
    fn add(&mut self, wait: Moment) {
        *self.0.entry(wait / 1_000).or_default() += 1;
    }

    /// Adds the waits of another world.
    pub fn merge(&mut self, other: &Self) {
        for (seconds, count) in &other.0 {
            *self.0.entry(*seconds).or_default() += count;
        }
    }

    /// Returns how many waits there were.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the seconds that so many of a hundred waits do not exceed; zero if there were none.
    pub fn percentile(&self, percent: u64) -> u64 {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut so_far = 0;
        for (seconds, count) in &self.0 {
            so_far += count;
            if so_far >= wanted {
                return *seconds;
            }
        }
        0
    }

    /// Returns the longest in seconds.
    pub fn max(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(seconds, _)| *seconds)
    }
}

/// Holds what was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// From the last fault that touched a job, or its queueing, until it ran.
    pub stranded: WaitTimes,
    /// From the moment an instance should go until nothing was left of it.
    pub leaving: WaitTimes,
    /// How long a place was held by a machine that was gone.
    pub places: WaitTimes,
}

impl Waits {
    /// Adds what was measured in another world.
    pub fn merge(&mut self, other: &Self) {
        self.stranded.merge(&other.stranded);
        self.leaving.merge(&other.leaving);
        self.places.merge(&other.places);
    }
}

/// Measures the waits of a world and finds those beyond their limits.
#[derive(Default)]
pub struct LivenessChecker {
    waits: Waits,
    broken: Vec<Violation>,
    jobs: Clocks<u64>,
    /// Instances that should go, and machines that no record knows, by their machines.
    leaving: Clocks<(ProviderId, MachineName)>,
    /// Instances whose machines are gone and hold their places.
    places: Clocks<InstanceId>,
    /// How often an offer of each job was delivered.
    attempts: BTreeMap<u64, u32>,
    /// How many registrations each pool has spent since it cannot start runners, and since when that is.
    registrations: BTreeMap<PoolId, (Moment, u32)>,
    /// When the daemon was last seen down.
    down_at: Moment,
    scanned_at: Option<Moment>,
}

/// Since when each of some things waits.
struct Clocks<K>(BTreeMap<K, RunningWait>);

#[derive(Clone, Copy, Default)]
struct RunningWait {
    since: Moment,
    /// Whether it could not end when it was last looked at; it begins anew once it can.
    excused: bool,
    /// Whether it was found too long.
    reported: bool,
}

impl<K> Default for Clocks<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Clocks<K> {
    /// Begins a wait, unless it runs.
    fn begin(&mut self, key: K, since: Moment, now: Moment) {
        let wait = self.0.entry(key).or_insert(RunningWait { since, ..RunningWait::default() });
        if std::mem::take(&mut wait.excused) {
            wait.since = now;
        }
    }

    /// Excuses a wait that cannot end now.
    fn excuse(&mut self, key: K, now: Moment) {
        let wait = self.0.entry(key).or_default();
        (wait.since, wait.excused) = (now, true);
    }

    /// Ends a wait and returns since when it ran; an excused one has not begun.
    fn end(&mut self, key: &K, at: Moment) -> Option<Moment> {
        self.0.remove(key).map(|wait| if wait.excused { at } else { wait.since })
    }

    /// Returns whether a wait is too long for the first time.
    fn is_overdue(
        &mut self,
        key: &K,
        from: Moment,
        now: Moment,
        limit: Duration,
    ) -> Option<Moment> {
        let wait = self.0.get_mut(key).filter(|wait| !wait.excused)?;
        let waited = now.saturating_sub(wait.since.max(from));
        let overdue = waited > millis(limit) && !wait.reported;
        wait.reported |= overdue;
        overdue.then_some(waited)
    }

    /// Ends the waits of what is not in the list.
    fn keep(&mut self, listed: &BTreeSet<K>) {
        self.0.retain(|key, _| listed.contains(key));
    }
}

impl LivenessChecker {
    /// Returns what was found broken.
    pub fn broken(&self) -> &[Violation] {
        &self.broken
    }

    /// Returns what was measured.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Looks at one step; now and then at everything.
    pub fn look(&mut self, seen: &[Observed], truth: &Outside, daemon_lives: bool) {
        let now = truth.now();
        if !daemon_lives {
            self.down_at = now;
        }
        let mut moved = false;
        for observed in seen {
            moved |= self.look_at(observed, truth);
        }
        if moved || self.scanned_at.is_none_or(|at| now >= at + SCAN_INTERVAL_MS) {
            self.scanned_at = Some(now);
            self.scan_jobs(truth);
            self.scan_leaving(truth);
            self.scan_places(truth);
        }
    }

    /// Ends the waits that an observation ends; returns whether places changed hands.
    fn look_at(&mut self, observed: &Observed, truth: &Outside) -> bool {
        let at = observed.at;
        match &observed.what {
            Seen::JobStarted { job, .. } => {
                self.started(*job, at, truth);
                true
            }
            Seen::Saved { after, .. } => {
                self.saved(after, at, truth);
                false
            }
            Seen::MachineGone { machine } => {
                let key = |provider: &ProviderId| (provider.clone(), machine.clone());
                for (provider, _) in &truth.machines.providers {
                    if truth.records.owner(provider, machine).is_none() {
                        self.left(&key(provider), at, truth);
                    }
                }
                true
            }
            Seen::Minted { name, .. } => {
                self.minted(name, at, truth);
                false
            }
            Seen::JobOver { .. } | Seen::MachineEnded { .. } | Seen::Appeared { .. } => true,
            Seen::JobsSaved { jobs, .. } => {
                for (before, after) in jobs {
                    self.count_attempt(before.as_deref(), after);
                }
                false
            }
            Seen::PoolSaved(_)
            | Seen::SaveRefused { .. }
            | Seen::CreateCalled { .. }
            | Seen::DeleteCalled(_)
            | Seen::NameTaken(_)
            | Seen::Deregister { .. }
            | Seen::HandedOut { .. }
            | Seen::Started { .. }
            | Seen::Crashed(_) => false,
        }
    }

    /// Counts a registration of a pool that cannot start runners.
    fn minted(&mut self, name: &RunnerName, at: Moment, truth: &Outside) {
        let mut owners = truth.records.live_rows().filter(|row| name.is_of(row.machine.as_str()));
        let Some(id) = owners.next().map(|row| row.pool.clone()) else { return };
        let Some(since) = truth.conditions.broken_since(&id) else { return };
        let spent = self.registrations.entry(id.clone()).or_insert((since, 0));
        *spent = if spent.0 == since { (since, spent.1 + 1) } else { (since, 1) };
        let count = spent.1;
        let permits = truth.pools.iter().find(|pool| pool.id == id);
        let at_once = permits.map_or(0, |pool| pool.policy.start_permits);
        let later = u32::try_from(at.saturating_sub(since) / 3_600_000).unwrap_or(u32::MAX);
        let limit = at_once
            .saturating_add(REGISTRATIONS_IN_THE_FIRST_HOUR)
            .saturating_add(REGISTRATIONS_AN_HOUR.saturating_mul(later));
        if count == limit.saturating_add(1) {
            self.find(41, &id, || {
                format!("spent {count} registrations on runners that never served")
            });
        }
    }

    /// Counts an offer that was delivered now.
    fn count_attempt(&mut self, before: Option<&Job>, after: &Job) {
        let delivered = |job: &Job| {
            job.open_offer()
                .filter(|open| open.stage == OfferStage::Delivered)
                .map(|open| open.generation)
        };
        if let Some(now) = delivered(after)
            && before.and_then(delivered) != Some(now)
        {
            *self.attempts.entry(after.id.number).or_default() += 1;
        }
    }

    /// Returns how long a job may wait.
    fn limit_of(&self, number: u64) -> Duration {
        let attempts = self.attempts.get(&number).copied().unwrap_or_default();
        if attempts >= ATTEMPTS_BEFORE_PARKING { PARKED_JOB_LIMIT } else { JOB_LIMIT }
    }

    fn saved(&mut self, row: &Instance, at: Moment, truth: &Outside) {
        if !holds_place(row)
            && let Some(since) = self.places.end(&row.id, at)
        {
            let from = since.max(self.counts_from(truth));
            self.waits.places.add(at.saturating_sub(from));
        }
        if row.state == State::Deleted {
            self.left(&(row.provider.clone(), row.machine.clone()), at, truth);
        } else if row.state.is_terminating() {
            self.leaving.begin((row.provider.clone(), row.machine.clone()), at, at);
        }
    }

    fn left(&mut self, key: &(ProviderId, MachineName), at: Moment, truth: &Outside) {
        if let Some(since) = self.leaving.end(key, at) {
            let from = since.max(self.counts_from(truth));
            self.waits.leaving.add(at.saturating_sub(from));
        }
    }

    /// Returns from when a wait counts, whatever it is that waits.
    fn counts_from(&self, truth: &Outside) -> Moment {
        let broken = truth.conditions.blocks_everything();
        let touched = if broken { truth.now() } else { truth.touched_at };
        touched.max(self.down_at)
    }

    fn started(&mut self, number: u64, at: Moment, truth: &Outside) {
        let queued_at = truth.forge.jobs.get(&number).map_or(at, |job| job.queued_at);
        let since = self.jobs.end(&number, at).unwrap_or(queued_at);
        let from = since.max(self.counts_from(truth)).max(touched_job(truth, number));
        let waited = at.saturating_sub(from);
        self.waits.stranded.add(waited);
        let limit = self.limit_of(number);
        if waited > millis(limit) {
            self.find(38, &number, || format!("ran after {} s", waited / 1_000));
        }
    }

    fn scan_jobs(&mut self, truth: &Outside) {
        let now = truth.now();
        let mut places = free_places(truth);
        let mut waiting: Vec<&SimJob> =
            truth.forge.open_jobs().filter(|job| is_waiting(job) && !job.dead_run).collect();
        waiting.sort_by_key(|job| (job.queued_at, job.number));
        let mut listed = BTreeSet::new();
        for job in waiting {
            listed.insert(job.number);
            // What was never heard of and is not listed cannot be served.
            let can_be_known = truth.conditions.lists_every_job()
                || truth.records.job(&id_of(truth, job.number)).is_some();
            if has_place(job, &mut places, truth) && can_be_known {
                let fresh = job.starts == 0;
                self.jobs.begin(job.number, if fresh { job.queued_at } else { now }, now);
            } else {
                self.jobs.excuse(job.number, now);
            }
            let from = self.counts_from(truth).max(touched_job(truth, job.number));
            let limit = self.limit_of(job.number);
            if let Some(waited) = self.jobs.is_overdue(&job.number, from, now, limit) {
                let pool = truth.records.job(&id_of(truth, job.number));
                self.find(38, &job.number, || {
                    let known = pool.map(|row| (row.state(), &row.offer, &row.pool));
                    format!("has waited {} s for a place that is free; {known:?}", waited / 1_000)
                });
            }
        }
        // A job that ran has been measured; any other is over or was taken back.
        self.jobs.keep(&listed);
    }

    fn scan_leaving(&mut self, truth: &Outside) {
        let (now, from) = (truth.now(), self.counts_from(truth));
        let mut listed = BTreeSet::new();
        for row in truth.records.live_rows() {
            let machine = machine_of(row, truth);
            if should_go(row, machine, truth) {
                let key = (row.provider.clone(), row.machine.clone());
                let in_doubt = is_in_doubt(machine, truth) || is_called_busy(row, truth);
                self.stay(&key, in_doubt, now);
                if let Some(waited) = self.leaving.is_overdue(&key, from, now, LEAVING_LIMIT) {
                    let stage = machine.map(|machine| &machine.stage);
                    self.find(39, &row.id, || {
                        format!("should go for {} s, is {} on {stage:?}", waited / 1_000, row.state)
                    });
                }
                listed.insert(key);
            }
        }
        for machine in truth.machines.existing() {
            let provider = truth.provider_id(machine.provider);
            if truth.records.owner(&provider, &machine.name).is_none() {
                let key = (provider, machine.name.clone());
                self.stay(&key, is_in_doubt(Some(machine), truth), now);
                if let Some(waited) = self.leaving.is_overdue(&key, from, now, LEAVING_LIMIT) {
                    self.find(39, &key.1, || format!("is an orphan for {} s", waited / 1_000));
                }
                listed.insert(key);
            }
        }
        // What went was measured when it did; any other came back to work.
        self.leaving.keep(&listed);
    }

    fn stay(&mut self, key: &(ProviderId, MachineName), in_doubt: bool, now: Moment) {
        if in_doubt {
            self.leaving.excuse(key.clone(), now);
        } else {
            self.leaving.begin(key.clone(), now, now);
        }
    }

    fn scan_places(&mut self, truth: &Outside) {
        let (now, from) = (truth.now(), self.counts_from(truth));
        let mut listed = BTreeSet::new();
        for row in truth.records.live_rows().filter(|row| holds_place_in_vain(row, truth)) {
            self.places.begin(row.id.clone(), now, now);
            if let Some(waited) = self.places.is_overdue(&row.id, from, now, PLACE_LIMIT) {
                self.find(40, &row.id, || {
                    format!("is {} and holds a place for {} s", row.state, waited / 1_000)
                });
            }
            listed.insert(row.id.clone());
        }
        self.places.keep(&listed);
    }

    fn find(&mut self, number: u8, about: &dyn Display, text: impl FnOnce() -> String) {
        self.broken.push(Violation { number, about: about.to_string(), text: text() });
    }
}

fn id_of(truth: &Outside, number: u64) -> JobId {
    truth.forge.job_id(number)
}

fn touched_job(truth: &Outside, number: u64) -> Moment {
    truth.touched_jobs.get(&number).copied().unwrap_or_default()
}

/// Returns whether a job wants a runner and does not run.
fn is_waiting(job: &SimJob) -> bool {
    match job.stage {
        JobStage::Queued | JobStage::Assigned { .. } => true,
        JobStage::Waiting | JobStage::Running { .. } | JobStage::Over(_) => false,
    }
}

/// Gives a job one of the free places, if a healthy pool that can serve it has one left.
fn has_place(job: &SimJob, places: &mut [(Arc<PoolSpec>, u32)], truth: &Outside) -> bool {
    if truth.conditions.concerns_job(job.number) {
        return false;
    }
    let able = |pool: &PoolSpec| pool_serves(pool, job);
    // One of the pools that may have been given the job is broken, and has it as long as it is.
    if truth.pools.iter().any(|pool| truth.conditions.breaks_pool(&pool.id) && able(pool)) {
        return false;
    }
    let place = places.iter_mut().find(|(pool, free)| *free > 0 && able(pool));
    place.map(|(_, free)| *free -= 1).is_some()
}

fn pool_serves(pool: &PoolSpec, job: &SimJob) -> bool {
    pool.scope.covers(&job.place)
        && pool.labels.serve(&job.labels)
        && (pool.accept_unlabelled || !job.labels.is_empty())
}

/// Returns how many places each pool has that takes work and that are not rightly used.
fn free_places(truth: &Outside) -> Vec<(Arc<PoolSpec>, u32)> {
    let mut used: BTreeMap<&PoolId, u32> = BTreeMap::new();
    for row in truth.records.live_rows() {
        if holds_place(row) && !may_serve(row, truth) {
            *used.entry(&row.pool).or_default() += 1;
        }
    }
    let open = |pool: &&Arc<PoolSpec>| {
        !truth.removed_pools.contains(&pool.id) && !truth.records.is_drained(&pool.id)
    };
    let free = |pool: &Arc<PoolSpec>| {
        let used = used.get(&pool.id).copied().unwrap_or_default();
        (Arc::clone(pool), pool.max.saturating_sub(used))
    };
    truth.pools.iter().filter(open).map(free).collect()
}

/// Returns whether a record holds a place. Not `Instance::occupies`: that is what is examined.
fn holds_place(row: &Instance) -> bool {
    row.state != State::Deleted && row.machine_gone_at.is_none()
}

/// Returns whether a record holds a place for a machine that was there and is not any more.
fn holds_place_in_vain(row: &Instance, truth: &Outside) -> bool {
    let was_there = truth.machines.appeared.contains_key(&row.machine);
    holds_place(row) && was_there && machine_of(row, truth).is_none()
}

/// Returns whether an instance may come to take a job, or stands in the way of one that would.
fn may_serve(row: &Instance, truth: &Outside) -> bool {
    if row.removal.is_some() || row.state.is_terminating() {
        return false;
    }
    match machine_of(row, truth) {
        Some(machine) => {
            machine.is_alive() && !machine.leaving && !machine.doubt && !has_work(machine, truth)
        }
        None => !row.state.was_created(),
    }
}

/// Returns whether an instance should go: it was asked to, or nothing will ever happen on it.
fn should_go(row: &Instance, machine: Option<&Machine>, truth: &Outside) -> bool {
    if machine.is_some_and(|machine| has_work(machine, truth)) {
        return false;
    }
    let useless = match machine {
        Some(machine) => {
            matches!(machine.stage, Stage::Over(_) | Stage::Hollow) || is_dismissed(machine, truth)
        }
        None => row.seen_at.is_some(),
    };
    row.removal.is_some() || row.state.is_terminating() || useless
}

/// Returns whether the runner of a machine is not registered any more and has no job: it gets none.
fn is_dismissed(machine: &Machine, truth: &Outside) -> bool {
    let registered = |id| truth.forge.runners.get(id).is_some_and(|runner| runner.registered);
    machine.began && machine.runner.as_ref().is_some_and(|id| !registered(id))
}

/// Returns whether a job runs on a machine or is on its way there.
fn has_work(machine: &Machine, truth: &Outside) -> bool {
    let runner = machine.runner.and_then(|id| truth.forge.runners.get(&id));
    machine.worker.is_some() || runner.is_some_and(|runner| runner.job.is_some())
}

/// Returns whether a machine's work cannot be ruled out now, whatever is asked.
fn is_in_doubt(machine: Option<&Machine>, truth: &Outside) -> bool {
    machine.is_some_and(|machine| {
        machine.doubt || (machine.kind == Kind::Blind && truth.conditions.hides_work())
    })
}

/// Returns whether the forge calls the runner of an instance busy: it refuses to remove the registration.
fn is_called_busy(row: &Instance, truth: &Outside) -> bool {
    match &row.registration {
        Registration::Known { id, .. } => {
            truth.forge.runners.get(id).is_some_and(|runner| runner.job.is_some())
        }
        Registration::None
        | Registration::Uncertain(_)
        | Registration::Gone
        | Registration::WrittenOff => false,
    }
}

fn machine_of<'a>(row: &Instance, truth: &'a Outside) -> Option<&'a Machine> {
    let provider = truth.machines.index_of(&row.provider)?;
    truth.machines.named(provider, &row.machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_shortest_wait_that_so_many_do_not_exceed() {
        let mut waits = WaitTimes::default();
        assert_eq!((waits.percentile(50), waits.percentile(99), waits.max()), (0, 0, 0));
        for seconds in 1..=100 {
            waits.add(seconds * 1_000 + 999);
        }
        assert_eq!((waits.percentile(50), waits.percentile(99), waits.max()), (50, 99, 100));
        let mut twice = waits.clone();
        twice.merge(&waits);
        assert_eq!((twice.percentile(50), twice.count()), (50, 200));
    }

    #[test]
    fn a_wait_is_reported_once_and_counts_from_the_last_fault() {
        let mut clocks = Clocks::default();
        let minute = Duration::from_mins(1);
        clocks.begin("job", 0, 0);
        assert_eq!(clocks.is_overdue(&"job", 30_000, 70_000, minute), None);
        assert_eq!(clocks.is_overdue(&"job", 0, 70_000, minute), Some(70_000));
        assert_eq!(clocks.is_overdue(&"job", 0, 80_000, minute), None);
        assert_eq!(clocks.end(&"job", 80_000), Some(0));
    }

    #[test]
    fn an_excused_wait_begins_when_it_can_end() {
        let mut clocks = Clocks::default();
        clocks.begin("job", 0, 0);
        clocks.excuse("job", 70_000);
        assert_eq!(clocks.is_overdue(&"job", 0, 900_000, Duration::from_mins(1)), None);
        clocks.begin("job", 0, 800_000);
        assert_eq!(clocks.is_overdue(&"job", 0, 861_000, Duration::from_mins(1)), Some(61_000));
        assert_eq!(clocks.end(&"job", 900_000), Some(800_000));
        clocks.excuse("job", 70_000);
        assert_eq!(clocks.end(&"job", 90_000), Some(90_000));
    }
}
