//! Whether somebody is told: once while something holds, and not too often; plain decisions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ostler_actors::model::{ExitRecord, Timestamp, is_due};

use crate::config::Notify;

/// What still holds after so long is told again.
const AGAIN: Duration = Duration::from_hours(1);
/// The time messages are counted over.
const RATE_WINDOW: Duration = Duration::from_hours(1);

/// Names what is told; the words are those of `notify.on`.
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
    /// An edit of the configuration was refused.
    Config,
}

impl Occasion {
    /// Returns the word of `notify.on`.
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
    /// What is the matter.
    pub sentence: String,
    /// What to do first.
    pub advice: String,
}

impl Notice {
    /// Tells of an end.
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

/// Remembers what was told.
#[derive(Debug, Default)]
pub(super) struct NoticeRouter {
    /// What holds and was told, with the date.
    holding: BTreeMap<(Occasion, String), Timestamp>,
    /// When messages went out, oldest first.
    sent: VecDeque<Timestamp>,
    untold: u32,
}

impl NoticeRouter {
    /// Decides about everything that holds now; each with how many were not told before it.
    pub(super) fn of_what_holds(
        &mut self,
        holds: Vec<Notice>,
        notify: &Notify,
        now: Timestamp,
    ) -> Vec<(Notice, u32)> {
        let key = |notice: &Notice| (notice.occasion, notice.subject.clone());
        let keys: Vec<_> = holds.iter().map(key).collect();
        // What is over may be told again when it comes back.
        self.holding.retain(|held, _| keys.contains(held));
        let mut told = Vec::new();
        for notice in holds {
            let known = self.holding.get(&key(&notice));
            if known.is_some_and(|at| !is_due(*at, AGAIN, now)) {
                continue;
            }
            let key = key(&notice);
            if let Some(message) = self.of_event(notice, notify, now) {
                self.holding.insert(key, now);
                told.push(message);
            }
        }
        told
    }

    /// Decides about something that happened.
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
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.sent.push_back(now);
        Some((notice, std::mem::take(&mut self.untold)))
    }
}
