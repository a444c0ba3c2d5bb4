//! Jobs that are no longer open: those that are over, and those that were given up.
//!
//! A job that is over leaves a tombstone, so that no late notice opens it again. A job that was
//! given up (closed) is kept whole: an execution of it reopens it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::open_jobs::OpenJobs;
use crate::model::{ForgeId, Job, JobId, Timestamp, is_due};

/// How long a finished job is remembered against late notices: the forge redelivers for three
/// days, and may send an event some days after that.
pub(crate) const FINISHED_RETENTION: Duration = Duration::from_hours(8 * 24);

/// Remembers jobs that are over or closed.
#[derive(Default)]
pub(super) struct FinishedJobs {
    closed: BTreeMap<JobId, Job>,
    tombstones: Tombstones,
}

impl FinishedJobs {
    pub(super) fn restore(closed: Vec<Job>, tombstones: Vec<(JobId, Timestamp)>) -> Self {
        Self {
            closed: closed.into_iter().map(|job| (job.id.clone(), job)).collect(),
            tombstones: Tombstones::restore(tombstones),
        }
    }

    /// Returns whether the forge called a job completed.
    pub(super) fn is_over(&self, id: &JobId) -> bool {
        self.tombstones.contains(id)
    }

    /// Returns a job that was given up.
    pub(super) fn closed(&self, id: &JobId) -> Option<&Job> {
        self.closed.get(id)
    }

    /// Makes a closed job open again; returns whether there was one.
    pub(super) fn reopen(&mut self, id: &JobId, jobs: &mut OpenJobs, now: Timestamp) -> bool {
        let job = self.closed.remove(id);
        let found = job.is_some();
        if let Some(job) = job {
            jobs.add(job, now);
        }
        found
    }

    /// Takes over an open job that is over or closed.
    pub(super) fn archive(&mut self, id: &JobId, jobs: &mut OpenJobs, now: Timestamp) {
        let Some(job) = jobs.remove(id) else { return };
        if job.fact.is_over() {
            self.tombstones.add(id, now);
            jobs.save_tombstone(id, now);
        } else {
            self.closed.insert(id.clone(), job);
        }
    }

    /// Drops what is older than [`FINISHED_RETENTION`].
    pub(super) fn expire(&mut self, jobs: &mut OpenJobs, now: Timestamp) {
        jobs.delete_tombstones(self.tombstones.expire(now));
        self.closed.retain(|_, job| {
            let closed_at = job.over_at.unwrap_or(job.heard_at);
            !is_due(closed_at, FINISHED_RETENTION, now)
        });
    }

    #[cfg(test)]
    pub(super) fn over(&self) -> impl Iterator<Item = JobId> {
        self.tombstones.jobs()
    }
}

/// Remembers the jobs that the forge called completed, and in which hour each did.
///
/// A busy fleet finishes millions of jobs in eight days, so a tombstone is a number and an hour:
/// some thirty bytes. They expire by whole hours.
#[derive(Clone, Debug, Default)]
struct Tombstones {
    hours: BTreeMap<ForgeId, BTreeMap<u64, Hour>>,
    /// The first hour that the last expiry kept. Compared for equality, so that a clock which
    /// jumped ahead and came back does not stop the expiry.
    first_kept: Option<Hour>,
}

/// Counts hours of the epoch.
type Hour = i32;

const SECONDS_PER_HOUR: i64 = 3_600;

impl Tombstones {
    fn restore(stored: impl IntoIterator<Item = (JobId, Timestamp)>) -> Self {
        let mut tombstones = Self::default();
        for (job, at) in stored {
            tombstones.add(&job, at);
        }
        tombstones
    }

    fn add(&mut self, job: &JobId, now: Timestamp) {
        if !self.hours.contains_key(&job.forge) {
            self.hours.insert(job.forge.clone(), BTreeMap::new());
        }
        if let Some(numbers) = self.hours.get_mut(&job.forge) {
            numbers.entry(job.number).or_insert(hour_of(now.as_second()));
        }
    }

    fn contains(&self, job: &JobId) -> bool {
        self.hours.get(&job.forge).is_some_and(|numbers| numbers.contains_key(&job.number))
    }

    /// Drops the hours that are old enough, and returns the moment before which the store may
    /// delete tombstones, if any were dropped. Scans the tombstones once an hour.
    fn expire(&mut self, now: Timestamp) -> Option<Timestamp> {
        let first = hour_of(now.as_second() - FINISHED_RETENTION.as_secs().cast_signed());
        if self.first_kept == Some(first) {
            return None;
        }
        self.first_kept = Some(first);
        let mut found = false;
        for numbers in self.hours.values_mut() {
            let all = numbers.len();
            numbers.retain(|_, hour| *hour >= first);
            found |= numbers.len() < all;
        }
        found.then(|| Timestamp::from_second(i64::from(first) * SECONDS_PER_HOUR).unwrap_or(now))
    }

    #[cfg(test)]
    fn jobs(&self) -> impl Iterator<Item = JobId> {
        let of = |(forge, numbers): (&ForgeId, &BTreeMap<u64, Hour>)| {
            let forge = forge.clone();
            let ids =
                numbers.keys().map(move |number| JobId { forge: forge.clone(), number: *number });
            ids.collect::<Vec<_>>()
        };
        self.hours.iter().flat_map(of)
    }
}

fn hour_of(second: i64) -> Hour {
    Hour::try_from(second.div_euclid(SECONDS_PER_HOUR)).unwrap_or(Hour::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::after;

    #[test]
    fn a_tombstone_expires_after_eight_days_within_the_hour_and_not_before() {
        let id = |number| JobId { forge: "github".into(), number };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::restore([(id(2), after(now, Duration::from_secs(1)))]);
        tombstones.add(&id(1), after(now, hour));
        assert_eq!(
            tombstones.expire(after(now, FINISHED_RETENTION + Duration::from_secs(2))),
            None
        );
        assert!(tombstones.contains(&id(2)));
        let later = after(now, FINISHED_RETENTION + hour);
        assert_eq!(tombstones.expire(later), Some(after(now, hour)));
        assert!(!tombstones.contains(&id(2)));
        assert!(tombstones.contains(&id(1)));
        assert_eq!(tombstones.expire(after(later, Duration::from_secs(1))), None, "reported once");
    }

    #[test]
    fn a_job_that_ends_twice_is_as_old_as_its_first_tombstone() {
        let id = JobId { forge: "github".into(), number: 1 };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::default();
        tombstones.add(&id, now);
        tombstones.add(&id, after(now, hour));
        let later = after(now, FINISHED_RETENTION + hour);
        assert_eq!(tombstones.expire(later), Some(after(now, hour)));
        assert!(!tombstones.contains(&id));
    }

    #[test]
    fn a_clock_that_jumped_ahead_and_came_back_does_not_stop_the_expiry() {
        let id = JobId { forge: "github".into(), number: 1 };
        let (now, hour) = (Timestamp::UNIX_EPOCH, Duration::from_hours(1));
        let mut tombstones = Tombstones::default();
        assert_eq!(tombstones.expire(after(now, FINISHED_RETENTION * 2)), None);
        tombstones.add(&id, now);
        assert_eq!(tombstones.expire(after(now, FINISHED_RETENTION)), None);
        assert_eq!(
            tombstones.expire(after(now, FINISHED_RETENTION + hour)),
            Some(after(now, hour))
        );
    }

    #[test]
    fn forges_number_their_jobs_each_for_itself() {
        let id = |forge: &str| JobId { forge: forge.into(), number: 7 };
        let mut tombstones = Tombstones::default();
        tombstones.add(&id("github"), Timestamp::UNIX_EPOCH);
        assert!(tombstones.contains(&id("github")));
        assert!(!tombstones.contains(&id("ghes")));
    }
}
