//! How well webhooks arrive: how many came, how late, and how many were missed.
//!
//! Two sources say what was missed. GitHub's own log of a hook names every delivery that failed,
//! whichever of our daemons it was meant for; where there is no such log (an enterprise's hook), there
//! are the jobs that were found by asking. Everything is counted from the start of this daemon: it did
//! not miss what happened before.

use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use lru::LruCache;

use crate::ports::WebhookFigures;

/// How many jobs are remembered as heard of; the oldest are forgotten first.
const MAX_HEARD_JOBS: NonZeroUsize = NonZeroUsize::new(20_000).expect("more than none");
/// From this age on, in seconds, a job that no webhook told of counts as missed.
const MISSED_AFTER_SECONDS: i64 = 60;

pub(super) struct DeliveryStats {
    since: Timestamp,
    counts: Mutex<DeliveryCounts>,
}

#[derive(Default)]
struct DeliveryCounts {
    figures: WebhookFigures,
    jobs: Recent<u64>,
    deliveries: Recent<String>,
}

/// Remembers things in the order they came; the oldest are forgotten first.
struct Recent<T: Eq + Hash>(LruCache<T, ()>);

impl<T: Eq + Hash> Default for Recent<T> {
    fn default() -> Self {
        Self(LruCache::sparse(MAX_HEARD_JOBS))
    }
}

impl<T: Eq + Hash> Recent<T> {
    /// Remembers a thing; tells whether it is new.
    fn is_new(&mut self, thing: T) -> bool {
        // A repetition does not make a thing younger: `contains` leaves the order as it is.
        let new = !self.0.contains(&thing);
        if new {
            self.0.put(thing, ());
        }
        new
    }
}

impl DeliveryStats {
    /// Begins to count; dates are GitHub's from here on.
    pub(super) fn begin(since: Timestamp) -> Self {
        Self { since, counts: Mutex::default() }
    }

    /// Counts a notice that a webhook brought. `happened_at` and `now` are by GitHub's clock.
    pub(super) fn record(&self, job: u64, happened_at: Option<Timestamp>, now: Timestamp) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.jobs.is_new(job);
        counts.figures.deliveries += 1;
        if let Some(at) = happened_at {
            counts.figures.lateness.add(now.duration_since(at).as_secs_f64().max(0.0));
        }
    }

    /// Counts a job that was found by asking, if a webhook should have told of it long ago.
    pub(super) fn found(&self, job: u64, queued_at: Timestamp, now: Timestamp) {
        if queued_at < self.since || now.duration_since(queued_at).as_secs() < MISSED_AFTER_SECONDS
        {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.jobs.is_new(job) {
            counts.figures.found_by_asking += 1;
        }
    }

    /// Counts a delivery that a log names, by its first try; one that was counted is left out.
    pub(super) fn logged(&self, guid: &str, first_tried_at: Timestamp, taken: Taken) {
        // The log has whole seconds.
        if first_tried_at.as_second() < self.since.as_second() {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.deliveries.is_new(guid.to_owned()) {
            counts.figures.logged += 1;
            counts.figures.missed += u64::from(taken == Taken::No);
        }
    }

    /// Returns the figures so far.
    pub(super) fn figures(&self) -> WebhookFigures {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).figures.clone()
    }
}

/// Whether a delivery was answered with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    #[test]
    fn lateness_goes_into_steps_and_is_never_negative() {
        let delivery_stats = DeliveryStats::begin(at(0));
        delivery_stats.record(1, Some(at(10)), at(13));
        delivery_stats.record(1, Some(at(10)), at(9));
        delivery_stats.record(2, None, at(9));
        let heard = delivery_stats.figures();
        assert_eq!((heard.deliveries, heard.lateness.count), (3, 2));
        assert!((heard.lateness.sum - 3.0).abs() < 1e-9);
        assert_eq!(heard.lateness.at_most, [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_job_found_by_asking_counts_once_and_only_if_a_webhook_was_due() {
        let delivery_stats = DeliveryStats::begin(at(0));
        delivery_stats.record(1, None, at(1));
        delivery_stats.found(1, at(1), at(100));
        delivery_stats.found(2, at(50), at(100));
        delivery_stats.found(3, at(-5), at(100));
        assert_eq!(
            delivery_stats.figures().found_by_asking,
            0,
            "heard of, too young, before our time"
        );
        delivery_stats.found(2, at(50), at(110));
        delivery_stats.found(2, at(50), at(120));
        assert_eq!(delivery_stats.figures().found_by_asking, 1);
    }

    #[test]
    fn a_log_that_is_read_twice_adds_nothing_the_second_time() {
        let delivery_stats = DeliveryStats::begin(at(0));
        for _ in 0..2 {
            delivery_stats.logged("before our time", at(-9), Taken::No);
            delivery_stats.logged("a", at(0), Taken::Yes);
            delivery_stats.logged("b", at(2), Taken::No);
            delivery_stats.logged("c", at(2), Taken::Yes);
        }
        delivery_stats.logged("d", at(2), Taken::Yes);
        let heard = delivery_stats.figures();
        assert_eq!((heard.logged, heard.missed), (4, 1));
    }

    #[test]
    fn the_memory_is_bounded() {
        let delivery_stats = DeliveryStats::begin(at(0));
        for job in 0..(MAX_HEARD_JOBS.get() as u64 + 10) {
            delivery_stats.record(job, None, at(1));
        }
        assert_eq!(delivery_stats.counts.lock().unwrap().jobs.0.len(), MAX_HEARD_JOBS.get());
    }
}
