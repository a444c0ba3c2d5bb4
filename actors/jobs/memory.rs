//! What the ledger remembers beside the open jobs, each with its bound.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::model::{ForgeId, InstanceId, Job, JobId, PoolId, RunnerName, Timestamp};

/// How long a finished job is remembered against late news: the forge redelivers for three
/// days, and tells for some days more.
pub(crate) const REMEMBERED: Duration = Duration::from_hours(8 * 24);

/// How many jobs that no pool serves are kept for `explain`.
const UNSERVABLE: usize = 1000;

/// Remembers the jobs that the forge called completed, and in which hour each was buried.
///
/// A busy fleet finishes millions of jobs in eight days, so a stone is a number and an hour: some
/// thirty bytes. They are forgotten by whole hours.
#[derive(Clone, Debug, Default)]
pub(super) struct Tombstones {
    buried: BTreeMap<ForgeId, BTreeMap<u64, Hour>>,
    /// The hour up to which was looked last; a clock that was wrong is followed back.
    forgotten: Option<Hour>,
}

/// Counts hours of the epoch.
type Hour = i32;

const AN_HOUR: i64 = 3_600;

impl Tombstones {
    pub(super) fn restore(stored: impl IntoIterator<Item = (JobId, Timestamp)>) -> Self {
        let mut tombstones = Self::default();
        for (job, at) in stored {
            tombstones.bury(&job, at);
        }
        tombstones
    }

    pub(super) fn bury(&mut self, job: &JobId, now: Timestamp) {
        if !self.buried.contains_key(&job.forge) {
            self.buried.insert(job.forge.clone(), BTreeMap::new());
        }
        if let Some(numbers) = self.buried.get_mut(&job.forge) {
            numbers.entry(job.number).or_insert(hour_of(now.as_second()));
        }
    }

    pub(super) fn holds(&self, job: &JobId) -> bool {
        self.buried.get(&job.forge).is_some_and(|numbers| numbers.contains_key(&job.number))
    }

    /// Forgets the hours that are old enough, and returns the moment before which nothing is
    /// remembered, if that is news. Looks at the stones once an hour.
    pub(super) fn forget(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = hour_of(now.as_second() - REMEMBERED.as_secs().cast_signed());
        if self.forgotten == Some(first) {
            return None;
        }
        self.forgotten = Some(first);
        let mut found = false;
        for numbers in self.buried.values_mut() {
            let all = numbers.len();
            numbers.retain(|_, hour| *hour >= first);
            found |= numbers.len() < all;
        }
        found.then(|| Timestamp::from_second(i64::from(first) * AN_HOUR).unwrap_or(now))
    }

    #[cfg(test)]
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        let of = |(forge, numbers): (&ForgeId, &BTreeMap<u64, Hour>)| {
            let forge = forge.clone();
            let ids =
                numbers.keys().map(move |number| JobId { forge: forge.clone(), number: *number });
            ids.collect::<Vec<_>>()
        };
        self.buried.iter().flat_map(of)
    }
}

fn hour_of(second: i64) -> Hour {
    Hour::try_from(second.div_euclid(AN_HOUR)).unwrap_or(Hour::MAX)
}

/// Remembers the last jobs that no pool could serve. They have no row: an organization's
/// hook tells of every job on hosted runners too.
#[derive(Clone, Debug, Default)]
pub(super) struct Unservable {
    jobs: BTreeMap<JobId, Job>,
    order: VecDeque<JobId>,
}

impl Unservable {
    /// Remembers a job; returns the one that is forgotten for it.
    pub(super) fn keep(&mut self, job: Job) -> Option<JobId> {
        let id = job.id.clone();
        if self.jobs.insert(id.clone(), job).is_some() {
            return None;
        }
        self.order.push_back(id);
        if self.order.len() <= UNSERVABLE {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.jobs.remove(&oldest).map(|job| job.id)
    }

    pub(super) fn take(&mut self, id: &JobId) -> Option<Job> {
        let job = self.jobs.remove(id)?;
        self.order.retain(|kept| kept != id);
        Some(job)
    }

    pub(super) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id)
    }

    pub(super) fn get(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }
}

/// Remembers the instances that showed themselves, and the names they answer to.
#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    known: BTreeMap<InstanceId, Known>,
    names: BTreeMap<RunnerName, InstanceId>,
    /// Who waits for an offer, by pool, in the order they said so.
    waiting: BTreeMap<PoolId, BTreeMap<u64, InstanceId>>,
    turn: u64,
}

#[derive(Clone, Debug)]
struct Known {
    pool: PoolId,
    names: Vec<RunnerName>,
    turn: Option<u64>,
    over: bool,
}

impl Instances {
    /// Notes which names an instance answers to, and returns whether it had answered to
    /// exactly these before.
    pub(super) fn answers(
        &mut self,
        id: &InstanceId,
        pool: &PoolId,
        names: Vec<RunnerName>,
    ) -> Answering {
        for name in &names {
            self.names.insert(name.clone(), id.clone());
        }
        let known = self.known(id, pool);
        let before = std::mem::replace(&mut known.names, names);
        if before.is_empty() || before == known.names {
            Answering::Appeared
        } else {
            Answering::Renamed
        }
    }

    /// Puts an instance at the end of its pool's line, unless it stands there already.
    pub(super) fn wait(&mut self, id: &InstanceId, pool: &PoolId) {
        let turn = self.turn;
        let known = self.known(id, pool);
        if known.over || known.turn.is_some() {
            return;
        }
        known.turn = Some(turn);
        self.turn += 1;
        self.waiting.entry(pool.clone()).or_default().insert(turn, id.clone());
    }

    /// Takes an instance out of the line.
    pub(super) fn leave(&mut self, id: &InstanceId) {
        let Some(known) = self.known.get_mut(id) else { return };
        if let Some(turn) = known.turn.take()
            && let Some(line) = self.waiting.get_mut(&known.pool)
        {
            line.remove(&turn);
        }
    }

    /// Notes that the machine is over, and returns whether that is new.
    pub(super) fn end(&mut self, id: &InstanceId, pool: &PoolId) -> bool {
        self.leave(id);
        !std::mem::replace(&mut self.known(id, pool).over, true)
    }

    /// Forgets an instance of which nothing is left.
    pub(super) fn forget(&mut self, id: &InstanceId) {
        self.leave(id);
        if let Some(known) = self.known.remove(id) {
            for name in known.names {
                self.names.remove(&name);
            }
        }
    }

    /// Returns the line of those who wait for an offer, longest first.
    pub(super) fn line(&self, pool: &PoolId) -> impl Iterator<Item = &InstanceId> {
        self.waiting.get(pool).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns whose runner this is. The first name is the instance's own, further ones are
    /// numbered; an adopted machine answers to another, which it has told, and to its numbers.
    pub(super) fn named(&self, name: &RunnerName) -> Option<InstanceId> {
        if let Some(id) = self.names.get(name) {
            return Some(id.clone());
        }
        let first = name.unnumbered();
        if let Some(id) = first.and_then(|first| self.names.get(first)) {
            return Some(id.clone());
        }
        let by_form = [Some(name.as_str()), first];
        let known = by_form.into_iter().flatten().find_map(|id| self.known.get_key_value(id));
        known.map(|(id, _)| id.clone())
    }

    /// Returns whether an instance has told its names since the ledger began.
    pub(super) fn has_answered(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| !known.names.is_empty())
    }

    pub(super) fn pool_of(&self, id: &InstanceId) -> Option<&PoolId> {
        self.known.get(id).map(|known| &known.pool)
    }

    /// Returns whether an instance is known whose machine is not over.
    pub(super) fn is_alive(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| !known.over)
    }

    pub(super) fn is_over(&self, id: &InstanceId) -> bool {
        self.known.get(id).is_some_and(|known| known.over)
    }

    fn known(&mut self, id: &InstanceId, pool: &PoolId) -> &mut Known {
        self.known.entry(id.clone()).or_insert_with(|| Known {
            pool: pool.clone(),
            names: Vec::new(),
            turn: None,
            over: false,
        })
    }
}

/// Tells why an instance said its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// Its owner is new: what it holds must be said again.
    Appeared,
    /// It mints under a further name.
    Renamed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::after;

    #[test]
    fn a_tombstone_is_forgotten_after_eight_days_within_the_hour_and_not_before() {
        let id = |number| JobId { forge: "github".into(), number };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::restore([(id(2), after(now, Duration::from_secs(1)))]);
        tombstones.bury(&id(1), after(now, hour));
        assert_eq!(tombstones.forget(after(now, REMEMBERED + Duration::from_secs(2))), None);
        assert!(tombstones.holds(&id(2)));
        let later = after(now, REMEMBERED + hour);
        assert_eq!(tombstones.forget(later), Some(after(now, hour)));
        assert!(!tombstones.holds(&id(2)));
        assert!(tombstones.holds(&id(1)));
        assert_eq!(tombstones.forget(after(later, Duration::from_secs(1))), None, "told once");
    }

    #[test]
    fn a_job_that_is_buried_twice_is_as_old_as_its_first_stone() {
        let id = JobId { forge: "github".into(), number: 1 };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::default();
        tombstones.bury(&id, now);
        tombstones.bury(&id, after(now, hour));
        let later = after(now, REMEMBERED + hour);
        assert_eq!(tombstones.forget(later), Some(after(now, hour)));
        assert!(!tombstones.holds(&id));
    }

    #[test]
    fn a_clock_that_leapt_and_came_back_does_not_stop_the_forgetting() {
        let id = JobId { forge: "github".into(), number: 1 };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::default();
        assert_eq!(tombstones.forget(after(now, REMEMBERED * 2)), None);
        tombstones.bury(&id, now);
        assert_eq!(tombstones.forget(after(now, REMEMBERED)), None);
        assert_eq!(tombstones.forget(after(now, REMEMBERED + hour)), Some(after(now, hour)));
    }

    #[test]
    fn forges_number_their_jobs_each_for_itself() {
        let id = |forge: &str| JobId { forge: forge.into(), number: 7 };
        let mut tombstones = Tombstones::default();
        tombstones.bury(&id("github"), Timestamp::UNIX_EPOCH);
        assert!(tombstones.holds(&id("github")));
        assert!(!tombstones.holds(&id("ghes")));
    }

    #[test]
    fn a_runner_is_found_by_any_of_its_names() {
        let mut instances = Instances::default();
        let (a, pool) = (InstanceId::from("linux-k3"), PoolId::from("linux"));
        instances.answers(&a, &pool, vec!["odd-name".into()]);
        for name in ["odd-name", "odd-name-3", "linux-k3", "linux-k3-2"] {
            assert_eq!(instances.named(&name.into()), Some(a.clone()), "{name}");
        }
        for name in ["linux", "linux-k3-x", "linux-k", "linux-k3-"] {
            assert_eq!(instances.named(&name.into()), None, "{name}");
        }
        instances.forget(&a);
        assert_eq!(instances.named(&"odd-name".into()), None);
    }

    #[test]
    fn who_waits_longest_comes_first_and_stands_in_line_once() {
        let mut instances = Instances::default();
        let pool = PoolId::from("linux");
        for id in ["b", "a", "b"] {
            instances.wait(&id.into(), &pool);
        }
        let line: Vec<_> = instances.line(&pool).map(InstanceId::as_str).collect();
        assert_eq!(line, ["b", "a"]);
    }
}
