//! How long jobs waited, by pool and minute, for the last hour: the page draws it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::PoolId;

/// How many minutes are kept.
const KEPT_MINUTES: i64 = 60;
/// How many waits of one minute are kept; more are dropped.
const MAX_WAITS_PER_MINUTE: usize = 1000;

/// The waits of the last hour.
#[derive(Debug, Default)]
pub struct Waits(Mutex<BTreeMap<PoolId, VecDeque<Minute>>>);

#[derive(Debug)]
struct Minute {
    number: i64,
    seconds: Vec<f64>,
}

/// How long the jobs waited that began in one minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waited {
    pub at: Timestamp,
    /// Half of them waited no longer, in seconds.
    pub p50: f64,
    /// The longest wait, in seconds.
    pub max: f64,
}

impl Waits {
    /// Records that a job began after such a wait.
    pub fn record(&self, pool: &PoolId, began: Timestamp, waited: Duration) {
        let number = began.as_second().div_euclid(60);
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minutes = pools.entry(pool.clone()).or_default();
        let at = minutes.partition_point(|minute| minute.number < number);
        match minutes.get_mut(at).filter(|minute| minute.number == number) {
            Some(minute) if minute.seconds.len() >= MAX_WAITS_PER_MINUTE => {}
            Some(minute) => minute.seconds.push(waited.as_secs_f64()),
            None => minutes.insert(at, Minute { number, seconds: vec![waited.as_secs_f64()] }),
        }
        let oldest = minutes.back().map_or(number, |minute| minute.number) - KEPT_MINUTES;
        while minutes.front().is_some_and(|minute| minute.number <= oldest) {
            minutes.pop_front();
        }
    }

    /// Returns the last hour of a pool, minutes without a beginning left out.
    pub fn minutes(&self, pool: &PoolId, now: Timestamp) -> Vec<Waited> {
        let oldest = now.as_second().div_euclid(60) - KEPT_MINUTES;
        let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = pools.get(pool).into_iter().flatten();
        kept.filter(|minute| minute.number > oldest).map(Minute::shown).collect()
    }
}

impl Minute {
    fn shown(&self) -> Waited {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        let middle = (seconds.len() - 1) / 2;
        Waited {
            at: Timestamp::from_second(self.number * 60).unwrap_or(Timestamp::UNIX_EPOCH),
            p50: seconds.get(middle).copied().unwrap_or_default(),
            max: seconds.last().copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_hour_is_kept_by_minute() {
        let (waits, pool) = (Waits::default(), PoolId::new("linux"));
        for (began, waited) in [(60, 5), (61, 1), (119, 9), (125, 2), (30, 7)] {
            waits.record(&pool, at(began), Duration::from_secs(waited));
        }
        let shown = waits.minutes(&pool, at(130));
        let got: Vec<_> = shown.iter().map(|it| (it.at.as_second(), it.p50, it.max)).collect();
        assert_eq!(got, [(0, 7.0, 7.0), (60, 5.0, 9.0), (120, 2.0, 2.0)]);
        assert_eq!(waits.minutes(&pool, at(3600 + 61)).len(), 1, "an hour later");
        waits.record(&pool, at(7200), Duration::ZERO);
        assert_eq!(waits.minutes(&pool, at(7200)).len(), 1);
        assert!(waits.minutes(&PoolId::new("other"), at(130)).is_empty());
    }
}
