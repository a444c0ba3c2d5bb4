//! The threads everything runs on, and the real clock, chance and task spawner behind the core's
//! ports. Actors run on the first thread, all calls to the outside on the others.
//!
//! Holds are measured with dates: how long a runner was idle, how long a machine was not seen. A
//! clock that is set by hand would let them all lapse at once, or never. So the date is the one at
//! the start plus the time that passed since (asleep or awake), led towards the machine's clock so
//! slowly that no hold can tell.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ostler_actors::ports::{Chance, Clock, SpawnedTask, Spawner};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::store::{Lease, uptime};

/// How often an effect that may not begin checks the lease again.
const LEASE_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The share of passing time by which the date may be corrected: a second a minute.
const CORRECTION: u32 = 60;

/// Tells the date of this machine, without the leaps of its clock.
pub(super) struct SystemClock(Mutex<Anchor>);

impl SystemClock {
    /// Begins with the machine's own date.
    pub(super) fn begin() -> Self {
        Self(Mutex::new(Anchor { date: Timestamp::now(), uptime: uptime() }))
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut anchor = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *anchor = anchor.moved(uptime(), Timestamp::now());
        anchor.date
    }
}

/// Holds a date that was told, and the uptime it was told at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    date: Timestamp,
    uptime: Duration,
}

impl Anchor {
    /// Returns the date to tell at a later uptime, when the machine's clock shows `wall`.
    fn moved(self, uptime: Duration, wall: Timestamp) -> Self {
        let passed = uptime.saturating_sub(self.uptime);
        // Dates end in the year 9999; one that cannot be told stays.
        let date = self.date.checked_add(passed).unwrap_or(self.date);
        let most = SignedDuration::try_from(passed / CORRECTION).unwrap_or(SignedDuration::ZERO);
        let off = wall.duration_since(date).clamp(-most, most);
        let date = date.checked_add(off).unwrap_or(date);
        Self { date, uptime: uptime.max(self.uptime) }
    }
}

/// Draws from the operating system.
pub(super) struct SystemChance;

impl Chance for SystemChance {
    fn bits(&self) -> u64 {
        // A version 4 UUID carries 122 random bits; the fixed six are folded over random ones.
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        high ^ low.rotate_left(23)
    }
}

/// Runs effects on the shared threads, and begins none while the lease is nearly over: an effect
/// that begins must be able to end before another daemon may act.
pub(super) struct LeasedSpawner {
    threads: Handle,
    lease: Arc<Lease>,
}

impl LeasedSpawner {
    /// Returns a spawner for one leadership.
    pub(super) fn new(threads: Handle, lease: Arc<Lease>) -> Self {
        Self { threads, lease }
    }
}

impl Spawner for LeasedSpawner {
    fn spawn(&self, task: SpawnedTask) -> AbortHandle {
        let lease = Arc::clone(&self.lease);
        self.threads.spawn(when_allowed(lease, task)).abort_handle()
    }
}

async fn when_allowed(lease: Arc<Lease>, task: SpawnedTask) {
    // A lost lease ends the fleet, and with it this task.
    while !lease.may_act() {
        tokio::time::sleep(LEASE_CHECK_INTERVAL).await;
    }
    // An effect that is under way must not keep an orderly end from giving the lease back.
    drop(lease);
    task.await;
}

/// Runs work on an actix system over shared threads, to its end.
pub fn on_system<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("ostler-io")
        .build()
        .map(Arc::new)?;
    let system = {
        let threads = Arc::clone(&threads);
        actix_rt::System::with_tokio_rt(move || threads)
    };
    Ok(system.block_on(work))
}

/// Returns what says when to stop: at the first SIGTERM or SIGINT. The second ends the process.
pub fn stop_on_signal() -> io::Result<watch::Receiver<bool>> {
    let (say, stop) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if say.send_replace(true) {
                tracing::error!("asked to stop twice: stopping at once; no machine is touched");
                exit_at_once();
            }
        }
    });
    Ok(stop)
}

#[expect(clippy::exit, reason = "an operator who asks twice does not want to wait any more")]
fn exit_at_once() -> ! {
    std::process::exit(130)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Anchor = Anchor { date: Timestamp::UNIX_EPOCH, uptime: Duration::from_secs(1000) };

    /// Returns the date so many seconds after the start.
    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    /// Looks at the clock every second of a minute while the machine's clock is off by so much.
    fn after_a_minute(off: i64) -> Timestamp {
        let mut anchor = START;
        for second in 1..=60 {
            let uptime = START.uptime + Duration::from_secs(second);
            anchor = anchor.moved(uptime, at(second.cast_signed() + off));
        }
        anchor.date
    }

    #[test]
    fn a_clock_that_is_right_is_followed() {
        assert_eq!(after_a_minute(0), at(60));
    }

    #[test]
    fn a_leap_of_the_clock_is_followed_by_a_second_a_minute() {
        for off in [3600, -3600] {
            let wrong = after_a_minute(off).duration_since(at(60));
            let towards = SignedDuration::from_secs(off.signum());
            let rest = (wrong - towards).abs();
            assert!(rest < SignedDuration::from_millis(1), "{off}: {wrong}");
        }
    }

    #[test]
    fn one_look_after_an_hour_corrects_as_much_as_many() {
        let hour = Duration::from_hours(1);
        let anchor = START.moved(START.uptime + hour, at(3600 + 7200));
        assert_eq!(anchor.date, at(3660));
        let near = START.moved(START.uptime + hour, at(3600 + 5));
        assert_eq!(near.date, at(3605), "what is small is corrected whole, and no further");
    }

    #[test]
    fn the_date_never_goes_back() {
        let anchor = START.moved(START.uptime, at(-7200));
        assert_eq!(anchor, START);
        let later = START.moved(START.uptime + Duration::from_secs(6), at(-7200));
        assert!(later.date > START.date);
        assert_eq!(START.moved(Duration::ZERO, at(0)), START, "uptime does not go back either");
    }
}
