//! What an answer tells about the budget.

use std::time::Duration;

use super::super::answer::ApiAnswer;
use super::super::watch;

/// Names the account that GitHub books a call to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Core,
    /// Registrations of runners, where GitHub keeps them apart.
    Registration,
}

impl Resource {
    /// Returns GitHub's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Registration => "actions_runner_registration",
        }
    }
}

/// Holds what one answer told about the budget; a server without limits tells nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// The account it was booked to.
    pub resource: Option<Resource>,
    /// The size of the window.
    pub limit: Option<u32>,
    /// What is left of it.
    pub remaining: Option<u32>,
    /// In how long a new window begins, by GitHub's own clock.
    pub reset_in: Option<Duration>,
    /// How long we are asked to be silent.
    pub retry_after: Option<Duration>,
    /// Whether the call was turned away for asking too much.
    pub turned_away: bool,
    /// Whether the call was free of charge (nothing had changed).
    pub free: bool,
}

impl RateLimitHeaders {
    pub(in super::super) fn read(answer: &ApiAnswer) -> Self {
        let number = |name| answer.header(name).and_then(|text| text.trim().parse::<u64>().ok());
        let small = |name| number(name).map(|it| u32::try_from(it).unwrap_or(u32::MAX));
        let there = watch::date(&answer.headers).map(jiff::Timestamp::as_second);
        let reset = number("x-ratelimit-reset").and_then(|at| i64::try_from(at).ok());
        let reset_in = reset.zip(there).map(|(at, there)| at.saturating_sub(there).max(0));
        let remaining = small("x-ratelimit-remaining");
        let retry_after = number("retry-after").map(|s| Duration::from_secs(s.min(3_600)));
        Self {
            resource: answer.header("x-ratelimit-resource").and_then(|word| {
                [Resource::Core, Resource::Registration].into_iter().find(|it| it.as_str() == word)
            }),
            limit: small("x-ratelimit-limit"),
            remaining,
            reset_in: reset_in.map(|s| Duration::from_secs(s.unsigned_abs().min(3_600))),
            retry_after,
            turned_away: turned_away(answer, remaining, retry_after),
            free: answer.status == 304,
        }
    }
}

/// Tells a limit from a missing right: both are 403.
fn turned_away(answer: &ApiAnswer, left: Option<u32>, retry_after: Option<Duration>) -> bool {
    match answer.status {
        429 => true,
        403 => {
            let message = answer.message().to_lowercase();
            let named = message.contains("rate limit") || message.contains("abuse");
            retry_after.is_some() || left == Some(0) || named
        }
        _ => false,
    }
}
