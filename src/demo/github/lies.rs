//! What the simulated GitHub does wrong, on demand. Counts run down: each lie is told once.

use std::time::Duration;

/// Holds the lies that are still to be told.
#[derive(Clone, Debug, Default)]
pub struct Lies {
    /// Deliveries that are logged as failed and never sent.
    pub lost_webhooks: u32,
    /// Jobs that are given out before older ones the same runner could have had: no lie, GitHub does
    /// that when it likes, but here it is certain.
    pub reordered: u32,
    /// Reads and removals of runners, and reads of jobs, that say 404; of each runner and job only
    /// once, because twice is the proof that everyone goes by.
    pub false_404: u32,
    /// 404s written by something else than GitHub.
    pub proxy_404: u32,
    /// Removals that say 422 though no job runs there.
    pub false_422: u32,
    /// Runners, listed or read, whose `busy` is told the wrong way round: GitHub's own word for it is
    /// minutes old at times.
    pub stale_busy: u32,
    /// Whether a runner at work is removed all the same.
    pub nasty_204: bool,
    /// Calls whose path ends so are refused, as by a missing permission.
    pub forbidden: Vec<&'static str>,
    /// Calls that fail before anything happens.
    pub errors: u32,
    /// After how many more calls all others fail.
    pub errors_after: Option<u32>,
    /// Calls that are done and then answered 502.
    pub lost_answers: u32,
    /// Calls that are never answered.
    pub silence: u32,
    /// Lists whose last page is missing.
    pub short_lists: u32,
    /// Tokens that are no longer accepted though their time is not over.
    pub dropped_tokens: bool,
    /// Calls turned away for asking too much, and the silence asked for.
    pub turned_away: u32,
    /// How long callers that are turned away should be silent, in seconds; none is not said.
    pub retry_after: Option<u64>,
    /// When every version of the runner ends.
    pub version_ends: Option<jiff::Timestamp>,
    /// When every repository claims to have been pushed to last.
    pub pushed_at: Option<jiff::Timestamp>,
    /// The repositories the App is installed on, where it is not installed on all.
    pub selected: Option<Vec<String>>,
    /// What every runner group is, beside what it usually is.
    pub groups_are: Vec<(&'static str, serde_json::Value)>,
    /// How wrong the server's clock is.
    pub clock_ahead: Duration,
}

impl Lies {
    /// Tells a lie if one is left.
    pub(super) fn tell(count: &mut u32) -> bool {
        let left = *count > 0;
        *count = count.saturating_sub(1);
        left
    }
}
