//! The decision: may this lane ask now?

use std::time::Duration;

use tokio::time::Instant;

use super::Lane;
use super::pace::Pace;
use super::pace::{floor, spread, wait_limit};
use super::rate_limit_headers::{RateLimitHeaders, Resource};

/// The window GitHub counts in.
const HOURLY_WINDOW: Duration = Duration::from_hours(1);
const MINUTE_WINDOW: Duration = Duration::from_mins(1);
/// The shortest and the longest silence after being turned away without a date.
const FIRST_SILENCE: Duration = Duration::from_mins(1);
const MAX_SILENCE: Duration = Duration::from_mins(15);

/// Holds what the operator allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// How many registrations a minute; 0 is without limit.
    pub jit_per_minute: u32,
    /// The share of the hour that listings may use, from 0 to 1.
    pub poll_budget: f64,
}

/// Says whether a call may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It has its place: after this wait it may go, and need not ask again.
    Go { wait: Duration },
    /// Ask again after this wait; no place is kept.
    Again { wait: Duration },
    /// Too far away to wait for.
    Refuse {
        /// When it may be worth asking again.
        after: Duration,
        /// What stands in the way.
        why: &'static str,
    },
}

/// Holds what one identity may still spend.
#[derive(Clone, Debug)]
pub struct Budget {
    core: Option<Window>,
    registration: Option<Window>,
    /// The account that registrations were last booked to.
    mints_from: Resource,
    quiet_until: Option<Instant>,
    turned_away: u32,
    mints: Option<Pace>,
    lists: Option<Pace>,
    list_share: f64,
    under_way: u32,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    limit: u32,
    left: u32,
    ends: Instant,
    /// Whether GitHub has not confirmed it yet.
    assumed: bool,
}

impl Budget {
    /// Begins without knowing GitHub's limits; the first answers tell them.
    pub fn new(limits: Limits) -> Self {
        let per_minute = limits.jit_per_minute;
        // 166 a minute and 14 at once are 180, what 900 points pay for at 5 each.
        let mints =
            (per_minute > 0).then(|| Pace::new(MINUTE_WINDOW, per_minute, per_minute.div_ceil(12)));
        Self {
            core: None,
            registration: None,
            mints_from: Resource::Registration,
            quiet_until: None,
            turned_away: 0,
            mints,
            lists: None,
            list_share: limits.poll_budget.clamp(0.0, 1.0),
            under_way: 0,
        }
    }

    /// Decides. `roll` is a random word: it sets waiting calls apart from each other.
    pub fn ask(&mut self, lane: Lane, now: Instant, roll: u64) -> Ruling {
        if let Some(wait) = self.quiet(now) {
            return hold(lane, wait, roll, "GitHub asked for silence");
        }
        self.begin_hour(now);
        if let Some(window) = self.window(lane)
            && window.left <= floor(lane, window.limit)
        {
            return hold(
                lane,
                window.ends - now,
                roll,
                "the hourly budget is spent for this kind of call",
            );
        }
        let wait = self.pace(lane).map_or(Duration::ZERO, |pace| pace.wait(now));
        if wait > wait_limit(lane) {
            return Ruling::Refuse { after: wait + spread(lane, roll), why: pace_is_full(lane) };
        }
        if let Some(pace) = self.pace(lane) {
            pace.take(now);
        }
        if let Some(window) = self.window(lane) {
            window.left = window.left.saturating_sub(1);
        }
        self.under_way += 1;
        Ruling::Go { wait }
    }

    /// Returns how long GitHub wants to hear nothing, if so.
    pub fn quiet(&self, now: Instant) -> Option<Duration> {
        self.quiet_until
            .map(|until| until.saturating_duration_since(now))
            .filter(|it| !it.is_zero())
    }

    /// Learns from an answer to a call of this lane.
    pub fn record(&mut self, lane: Lane, headers: &RateLimitHeaders, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        let resource = headers.resource.unwrap_or(Resource::Core);
        if lane == Lane::Mint && headers.limit.is_some() {
            self.mints_from = resource;
        }
        if let (Some(limit), Some(left), Some(reset_in)) =
            (headers.limit, headers.remaining, headers.reset_in)
        {
            self.learn(resource, Window { limit, left, ends: now + reset_in, assumed: false }, now);
        }
        if headers.free {
            self.refund(lane);
        }
        if headers.turned_away {
            self.hush(headers, now);
        } else {
            self.turned_away = 0;
        }
    }

    /// Notes that a call ended without an answer; what it cost stays spent.
    pub fn lost(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Notes that a granted call was never sent.
    pub fn unsent(&mut self, lane: Lane) {
        self.under_way = self.under_way.saturating_sub(1);
        self.refund(lane);
    }

    /// Returns the share of the window that this lane may still spend; unknown is all of it.
    pub fn room(&self, lane: Lane, now: Instant) -> f64 {
        if self.quiet(now).is_some() {
            return 0.0;
        }
        let window = match self.resource(lane) {
            Resource::Core => self.core,
            Resource::Registration => self.registration,
        };
        window.filter(|window| now < window.ends).map_or(1.0, |window| {
            let free = window.left.saturating_sub(floor(lane, window.limit));
            f64::from(free) / f64::from(window.limit.max(1))
        })
    }

    /// Returns limit and remainder of an account and when it begins anew, where known.
    pub fn left(&self, resource: Resource) -> Option<(u32, u32, Instant)> {
        let window = match resource {
            Resource::Core => self.core,
            Resource::Registration => self.registration,
        };
        window.map(|window| (window.limit, window.left, window.ends))
    }

    fn resource(&self, lane: Lane) -> Resource {
        match lane {
            Lane::Mint => self.mints_from,
            Lane::Remove | Lane::Check | Lane::List => Resource::Core,
        }
    }

    fn window(&mut self, lane: Lane) -> Option<&mut Window> {
        match self.resource(lane) {
            Resource::Core => self.core.as_mut(),
            Resource::Registration => self.registration.as_mut(),
        }
    }

    fn pace(&mut self, lane: Lane) -> Option<&mut Pace> {
        match lane {
            Lane::Mint => self.mints.as_mut(),
            Lane::List => self.lists.as_mut(),
            Lane::Remove | Lane::Check => None,
        }
    }

    /// Begins a new window where one has ended; until GitHub tells, it is as large as the last.
    fn begin_hour(&mut self, now: Instant) {
        let under_way = self.under_way;
        for window in [&mut self.core, &mut self.registration].into_iter().flatten() {
            if window.ends <= now {
                let left = window.limit.saturating_sub(under_way);
                *window = Window { left, ends: now + HOURLY_WINDOW, assumed: true, ..*window };
            }
        }
    }

    /// Takes GitHub's count over. Calls under way are not in it yet, and an answer overtaken by
    /// another tells an older, larger remainder: within one window the smaller count is true.
    fn learn(&mut self, resource: Resource, window: Window, now: Instant) {
        let under_way = self.under_way;
        self.begin_hour(now);
        let slot = match resource {
            Resource::Core => &mut self.core,
            Resource::Registration => &mut self.registration,
        };
        let size_changed = slot.is_none_or(|old| old.limit != window.limit);
        let left = match slot.as_ref().filter(|_| !size_changed) {
            Some(old) if is_stale(old, &window, now) => return,
            Some(old) if old.assumed || window.ends < old.ends + MINUTE_WINDOW => {
                old.left.min(window.left)
            }
            Some(_) | None => window.left.saturating_sub(under_way),
        };
        *slot = Some(Window { left, ..window });
        if resource == Resource::Core && size_changed {
            self.lists = Some(list_pace(window.limit, self.list_share));
        }
    }

    fn refund(&mut self, lane: Lane) {
        if let Some(window) = self.window(lane) {
            window.left = window.left.saturating_add(1).min(window.limit);
        }
        if let Some(pace) = self.pace(lane) {
            pace.give_back();
        }
    }

    /// Falls silent: as long as asked, else until the window ends if it is spent, else a
    /// minute that doubles.
    fn hush(&mut self, headers: &RateLimitHeaders, now: Instant) {
        let spent = (headers.remaining == Some(0)).then_some(headers.reset_in).flatten();
        let guess =
            (FIRST_SILENCE * 2_u32.saturating_pow(self.turned_away.min(8))).min(MAX_SILENCE);
        self.turned_away = self.turned_away.saturating_add(1);
        // A spent window of one account is no reason to be silent about the other.
        if headers.retry_after.is_none() && spent.is_some() {
            return;
        }
        let until = now + headers.retry_after.unwrap_or(guess);
        self.quiet_until = Some(self.quiet_until.map_or(until, |old| old.max(until)));
    }
}

/// Tells whether an answer speaks of a window that is over: it was under way when the hour turned.
fn is_stale(old: &Window, record: &Window, now: Instant) -> bool {
    if old.assumed {
        record.ends < now + MINUTE_WINDOW
    } else {
        record.ends + MINUTE_WINDOW < old.ends
    }
}

fn hold(lane: Lane, wait: Duration, roll: u64, why: &'static str) -> Ruling {
    let wait = wait + spread(lane, roll);
    if wait <= wait_limit(lane) {
        Ruling::Again { wait }
    } else {
        Ruling::Refuse { after: wait, why }
    }
}

fn pace_is_full(lane: Lane) -> &'static str {
    match lane {
        Lane::Mint => "more registrations wait than `jit_per_minute` lets through",
        Lane::List => "listings have used their share, `poll_budget`",
        Lane::Remove | Lane::Check => "too many calls wait",
    }
}

/// Spreads the share of listings over the hour. A quarter of it may go at once, because a list
/// of a hundred pages is worth nothing in halves.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u32")]
fn list_pace(limit: u32, share: f64) -> Pace {
    let calls = (f64::from(limit) * share) as u32;
    Pace::new(HOURLY_WINDOW, calls.max(1), calls.div_ceil(4))
}
