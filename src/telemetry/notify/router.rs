//! Decides whether a notice is sent: a condition once while it holds, and never too many an hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ostler_actors::model::{ExitRecord, Timestamp, is_due};

use crate::config::Notify;

/// A condition that still holds after this long is sent again.
const REPEAT_INTERVAL: Duration = Duration::from_hours(1);
/// The time messages are counted over.
const RATE_WINDOW: Duration = Duration::from_hours(1);

/// What a notice is about; the names are those of `notify.on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// An instance ended as it should not.
    Death,
    /// Instances make no progress.
    Stuck,
    /// A pool stopped creating.
    Breaker,
    /// A machine without an owner.
    Leak,
    /// A job waits for too long.
    Queue,
    /// The configuration on disk is not in force.
    Config,
}

impl Occasion {
    /// Returns the name in `notify.on`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Death => "death",
            Self::Stuck => "stuck",
            Self::Breaker => "breaker",
            Self::Leak => "leak",
            Self::Queue => "queue",
            Self::Config => "config",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub occasion: Occasion,
    pub subject: String,
    /// What happened.
    pub sentence: String,
    /// What to do first.
    pub advice: String,
}

impl Notice {
    /// Returns the notice of an end.
    pub fn death(record: &ExitRecord) -> Self {
        let (instance, pool) = (&record.instance, &record.pool);
        let verdict = &record.verdict;
        let job = record.job.as_ref().map(|job| format!(" while it ran job {job}"));
        Self {
            occasion: Occasion::Death,
            subject: instance.to_string(),
            sentence: format!(
                "`{instance}` of pool `{pool}` ended{}: {} (fault: {}).",
                job.unwrap_or_default(),
                verdict.class,
                verdict.fault
            ),
            advice: verdict.advice.clone(),
        }
    }
}

/// Remembers what was sent.
#[derive(Debug, Default)]
pub(super) struct NoticeRouter {
    /// The conditions that were sent and still hold, with the date.
    holding: BTreeMap<(Occasion, String), Timestamp>,
    /// When messages went out, oldest first.
    sent: VecDeque<Timestamp>,
    suppressed: u32,
}

impl NoticeRouter {
    /// Returns the conditions to send now, each with how many notices were suppressed before it.
    pub(super) fn of_conditions(
        &mut self,
        conditions: Vec<Notice>,
        notify: &Notify,
        now: Timestamp,
    ) -> Vec<(Notice, u32)> {
        let key = |notice: &Notice| (notice.occasion, notice.subject.clone());
        let keys: Vec<_> = conditions.iter().map(key).collect();
        // A condition that is over may be sent again when it comes back.
        self.holding.retain(|held, _| keys.contains(held));
        let mut due = Vec::new();
        for notice in conditions {
            let known = self.holding.get(&key(&notice));
            if known.is_some_and(|at| !is_due(*at, REPEAT_INTERVAL, now)) {
                continue;
            }
            let key = key(&notice);
            if let Some(message) = self.of_event(notice, notify, now) {
                self.holding.insert(key, now);
                due.push(message);
            }
        }
        due
    }

    /// Returns an event to send, with how many notices were suppressed before it.
    pub(super) fn of_event(
        &mut self,
        notice: Notice,
        notify: &Notify,
        now: Timestamp,
    ) -> Option<(Notice, u32)> {
        if !notify.on.iter().any(|word| word == notice.occasion.as_str()) {
            return None;
        }
        while self.sent.front().is_some_and(|at| is_due(*at, RATE_WINDOW, now)) {
            self.sent.pop_front();
        }
        if self.sent.len() >= usize::try_from(notify.per_hour).unwrap_or(usize::MAX) {
            self.suppressed = self.suppressed.saturating_add(1);
            return None;
        }
        self.sent.push_back(now);
        Some((notice, std::mem::take(&mut self.suppressed)))
    }
}
