//! Requests lost deliveries again: GitHub sends each of them once.
//!
//! A sweep reads the log of a hook from its newest entry back to where the last sweep began,
//! groups the attempts by GUID, leaves every GUID that was taken once alone, and asks for the
//! newest attempt of each of the others again. A delivery that keeps failing is asked for at
//! growing intervals. The log reaches back three days, and so does the longest sweep.
//!
//! A log that is longer than the budget lets us read is read in stretches: the newest one first,
//! then on from the page where the last sweep was stopped. What is found missing in an older stretch
//! is asked for at once, and its repetition is news of the newest stretch.
//!
//! Dates in the log are GitHub's, and are compared with GitHub's clock as its answers tell it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::backoff::doubled;
use ostler_actors::model::{DeliveryId, Scope};
use serde::Deserialize;
use tokio::time::Instant;
use tracing::info;

use super::GitHub;
use super::answer::{ApiAnswer, ApiFailure};
use super::api::ApiRequest;
use super::delivery_stats::Taken;
use super::governor::Lane;
use super::identity::Identity;
use super::route::{self, PAGE_ITEMS, Route};
use super::sweep_cursor::{Rest, SweepCursor};
use super::wire::{lenient, maybe_date};
use crate::ports::{DeliveryAttempt, HookRef};

/// How far a sweep looks back behind the last one: attempts may be logged late.
const OVERLAP: Duration = Duration::from_mins(15);
/// How far back GitHub can send again.
const REDELIVERY_WINDOW: Duration = Duration::from_hours(72);
/// How many attempts are shown to people.
const SHOWN_ATTEMPTS: &str = "20";
/// How many pages a sweep reads at most in one stretch.
const MAX_PAGES: usize = 500;
/// The longest wait between two attempts of one delivery.
const MAX_REPEAT_DELAY: Duration = Duration::from_hours(1);

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepReport {
    /// How many attempts were read.
    pub read: usize,
    /// The deliveries that were requested again.
    pub asked_again: Vec<DeliveryId>,
    /// How many deliveries failed and could not be asked for, now or not yet.
    pub left: usize,
    /// Where the next sweep begins, never beyond a delivery that is still missing; keep it.
    pub cursor: SweepCursor,
}

/// Holds one attempt as the log has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Attempt {
    id: u64,
    #[serde(default, deserialize_with = "lenient")]
    guid: String,
    #[serde(default, deserialize_with = "maybe_date")]
    delivered_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient")]
    status_code: u16,
    #[serde(default, deserialize_with = "lenient")]
    event: String,
}

impl SweepReport {
    /// Records a delivery that is still missing. The next sweep must see all its attempts again: a
    /// cursor beyond them would forget it, or forget how often it was tried.
    fn leave(&mut self, missing: &Attempt, attempts: &[Attempt]) {
        self.left += 1;
        let tried = attempts.iter().filter(|it| it.guid == missing.guid);
        let first = tried.filter_map(|it| it.delivered_at).min();
        let until = &mut self.cursor.until;
        *until = first.map_or(*until, |first| first.min(*until));
    }
}

impl Attempt {
    fn shown(self) -> DeliveryAttempt {
        DeliveryAttempt {
            id: self.id,
            guid: self.guid,
            delivered_at: self.delivered_at,
            status_code: self.status_code,
            event: self.event,
        }
    }
}

impl GitHub {
    /// Sweeps one hook. `cursor` is what the last sweep returned; without one it looks back as
    /// far as GitHub can.
    pub async fn sweep_deliveries(
        &self,
        hook: &HookRef,
        cursor: Option<SweepCursor>,
    ) -> Result<SweepReport, String> {
        let begun = Instant::now();
        let to = SweepCursor::all_until(Timestamp::MAX);
        let mut report = SweepReport { read: 0, asked_again: Vec::new(), left: 0, cursor: to };
        for log in self.logs(hook) {
            self.sweep(&log, cursor.as_ref(), &mut report).await.map_err(ApiFailure::why)?;
        }
        // Only the answers told us GitHub's date; this was it when the sweep began.
        let now = self.api.watch.there();
        let begun = now.checked_sub(begun.elapsed()).unwrap_or(now);
        report.cursor.until = report.cursor.until.min(begun);
        if !report.asked_again.is_empty() {
            let count = report.asked_again.len();
            info!(hook = ?hook, count, "requested {count} lost deliveries again");
        }
        Ok(report)
    }

    /// Returns the logs of a hook, and as whom each is read: every App has one of its own.
    pub(super) fn logs<'a>(&self, hook: &'a HookRef) -> Vec<Log<'a>> {
        match hook {
            HookRef::Shared => {
                let path = || "/app/hook/deliveries".to_owned();
                let log = |app: Arc<Identity>| Log {
                    name: app.name.clone(),
                    app: Some(app),
                    scope: None,
                    path: path(),
                };
                self.api.apps().into_iter().map(log).collect()
            }
            HookRef::Scope { scope, id } => {
                let path = format!("{}/deliveries", route::hook(scope, *id).path);
                vec![Log { name: path.clone(), app: None, scope: Some(scope), path }]
            }
        }
    }

    /// Reads the newest page of a log.
    pub(super) async fn newest(&self, log: &Log<'_>) -> Result<Vec<DeliveryAttempt>, ApiFailure> {
        let route = route::other("deliveries", log.path.clone()).with("per_page", SHOWN_ATTEMPTS);
        let answer = self.ask_log(log, Lane::Check, &ApiRequest::get(route)).await;
        Ok(answer
            .and_then(readable)?
            .read::<Vec<Attempt>>()?
            .into_iter()
            .map(Attempt::shown)
            .collect())
    }

    async fn sweep(
        &self,
        log: &Log<'_>,
        cursor: Option<&SweepCursor>,
        report: &mut SweepReport,
    ) -> Result<(), ApiFailure> {
        let until = cursor.map(|it| it.until);
        let since = || reach_back(until, self.api.watch.there());
        let newest = self.stretch(log, None, since).await?;
        report.read += newest.attempts.len();
        self.count(&newest.attempts);
        let (due, waiting) = missed(&newest.attempts, self.api.watch.there());
        for attempt in waiting {
            report.leave(attempt, &newest.attempts);
        }
        for attempt in due {
            if !self.ask_again(log, attempt, report).await {
                report.leave(attempt, &newest.attempts);
            }
        }
        let old = cursor.and_then(|it| it.rest.iter().find(|rest| rest.log == log.name));
        let rest = match (newest.stopped_at, old) {
            (Some(page), old) => {
                let since = old.map_or_else(since, |old| old.since);
                Some(Rest { log: log.name.clone(), page, since })
            }
            (None, Some(old)) => self.sweep_rest(log, old, report).await,
            (None, None) => None,
        };
        report.cursor.rest.extend(rest);
        Ok(())
    }

    /// Reads on where an earlier sweep was stopped; returns what is left to read after that.
    async fn sweep_rest(
        &self,
        log: &Log<'_>,
        rest: &Rest,
        report: &mut SweepReport,
    ) -> Option<Rest> {
        let since = || rest.since.max(reach_back(None, self.api.watch.there()));
        let stretch = match self.stretch(log, Some(rest.page.clone()), since).await {
            Ok(stretch) => stretch,
            // A page that GitHub no longer knows is out of its reach.
            Err(ApiFailure::Denied { why }) => {
                info!(
                    log = log.name,
                    "hook log `{}`: the rest of an old sweep is dropped: {why}", log.name
                );
                return None;
            }
            Err(ApiFailure::Held { .. } | ApiFailure::Lost { .. }) => return Some(rest.clone()),
        };
        report.read += stretch.attempts.len();
        self.count(&stretch.attempts);
        let (due, waiting) = missed(&stretch.attempts, self.api.watch.there());
        for attempt in due.into_iter().chain(waiting) {
            // The newest stretch may have reached this far.
            let asked = report.asked_again.iter().any(|it| it.as_str() == attempt.guid);
            if !asked && !self.ask_again(log, attempt, report).await {
                report.left += 1;
            }
        }
        stretch.stopped_at.map(|page| Rest { page, ..rest.clone() })
    }

    fn count(&self, attempts: &[Attempt]) {
        for (guid, (at, _, taken)) in first_tries(attempts) {
            self.delivery_stats.logged(guid, at, taken);
        }
    }

    /// Asks for one delivery; tells whether GitHub will send it.
    async fn ask_again(&self, log: &Log<'_>, attempt: &Attempt, report: &mut SweepReport) -> bool {
        let route = route::other("redeliver", format!("{}/{}/attempts", log.path, attempt.id));
        let answer = self.ask_log(log, Lane::Check, &ApiRequest::post(route, None)).await;
        let taken = answer.is_ok_and(|answer| answer.status == 202);
        if taken {
            report.asked_again.push(DeliveryId::new(attempt.guid.as_str()));
        }
        taken
    }

    /// Reads the log from a page back to a date, or as far as the budget lets us.
    async fn stretch(
        &self,
        log: &Log<'_>,
        page: Option<String>,
        since: impl Fn() -> Timestamp,
    ) -> Result<Stretch, ApiFailure> {
        let mut stretch = Stretch { attempts: Vec::new(), stopped_at: page };
        for number in 0..MAX_PAGES {
            let mut route: Route = route::other("deliveries", log.path.clone());
            route = route.with("per_page", &PAGE_ITEMS.to_string());
            if let Some(cursor) = &stretch.stopped_at {
                route = route.with("cursor", cursor);
            }
            let answer = self.ask_log(log, Lane::List, &ApiRequest::get(route)).await;
            let answer = match answer.and_then(readable) {
                Ok(answer) => answer,
                Err(ApiFailure::Held { .. } | ApiFailure::Lost { .. }) if number > 0 => {
                    return Ok(stretch);
                }
                Err(failure) => return Err(failure),
            };
            let (page, since) = (answer.read::<Vec<Attempt>>()?, since());
            let past = page.iter().any(|it| it.delivered_at.is_some_and(|at| at < since));
            let wanted = page.into_iter().filter(|it| it.delivered_at.is_none_or(|at| at >= since));
            stretch.attempts.extend(wanted);
            stretch.stopped_at = next_cursor(&answer).filter(|_| !past);
            if stretch.stopped_at.is_none() {
                break;
            }
        }
        Ok(stretch)
    }

    async fn ask_log(
        &self,
        log: &Log<'_>,
        lane: Lane,
        question: &ApiRequest<'_>,
    ) -> Result<ApiAnswer, ApiFailure> {
        match (&log.app, log.scope) {
            (Some(app), _) => self.api.ask_as(app, lane, question).await,
            (None, Some(scope)) => self.api.ask(scope, lane, question).await,
            (None, None) => {
                Err(ApiFailure::Denied { why: "the log of a hook without App and scope".into() })
            }
        }
    }
}

fn readable(answer: ApiAnswer) -> Result<ApiAnswer, ApiFailure> {
    match answer.status {
        200 => Ok(answer),
        _ => Err(answer.unexpected("cannot read the deliveries of a hook")),
    }
}

/// Holds what was read of a log, newest first, and where it was stopped.
struct Stretch {
    attempts: Vec<Attempt>,
    stopped_at: Option<String>,
}

/// Points at one log and who may read it.
pub(super) struct Log<'a> {
    /// What tells it from others.
    name: String,
    app: Option<Arc<Identity>>,
    scope: Option<&'a Scope>,
    path: String,
}

/// Decides where to stop reading: behind the last sweep, never further than GitHub can reach.
fn reach_back(cursor: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let before = |at: Timestamp, span: Duration| at.checked_sub(span).unwrap_or(Timestamp::MIN);
    let furthest = before(now, REDELIVERY_WINDOW);
    cursor.map_or(furthest, |cursor| before(cursor.min(now), OVERLAP).max(furthest))
}

/// Decides which attempts to repeat, oldest first, and which must wait: their time has not come.
fn missed(attempts: &[Attempt], now: Timestamp) -> (Vec<&Attempt>, Vec<&Attempt>) {
    let mut by_guid: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
    for attempt in attempts.iter().filter(|it| it.event == "workflow_job" && !it.guid.is_empty()) {
        by_guid.entry(&attempt.guid).or_default().push(attempt);
    }
    let mut due = Vec::new();
    let mut waiting = Vec::new();
    for tried in by_guid.values() {
        if tried.iter().any(|it| is_taken(it)) {
            continue;
        }
        let Some(newest) = tried.iter().max_by_key(|it| (it.delivered_at, it.id)) else { continue };
        if is_due(newest, tried.len(), now) { due.push(*newest) } else { waiting.push(*newest) }
    }
    due.sort_by_key(|it| (it.delivered_at, it.id));
    (due, waiting)
}

/// Returns when each delivery was first tried, and whether that was taken.
fn first_tries(attempts: &[Attempt]) -> BTreeMap<&str, (Timestamp, u64, Taken)> {
    let mut first: BTreeMap<&str, (Timestamp, u64, Taken)> = BTreeMap::new();
    for attempt in attempts.iter().filter(|it| it.event == "workflow_job" && !it.guid.is_empty()) {
        let Some(at) = attempt.delivered_at else { continue };
        let taken = if is_taken(attempt) { Taken::Yes } else { Taken::No };
        let known = first.entry(&attempt.guid).or_insert((at, attempt.id, taken));
        if (at, attempt.id) < (known.0, known.1) {
            *known = (at, attempt.id, taken);
        }
    }
    first
}

fn is_taken(attempt: &Attempt) -> bool {
    (200..300).contains(&attempt.status_code)
}

/// Decides whether to try once more: the first repetition at once, the next after 1, 2, 4 … minutes.
fn is_due(newest: &Attempt, tried: usize, now: Timestamp) -> bool {
    if tried <= 1 {
        return true;
    }
    let doublings = u32::try_from(tried - 2).unwrap_or(u32::MAX);
    let wait = doubled(Duration::from_mins(1), MAX_REPEAT_DELAY, doublings);
    newest.delivered_at.is_none_or(|at| {
        let age = now.duration_since(at);
        age.as_secs() >= 0 && age.unsigned_abs() >= wait
    })
}

/// Returns the cursor of the next page, from the link whose address we do not follow.
fn next_cursor(answer: &ApiAnswer) -> Option<String> {
    let link = answer.header("link")?;
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let address = next.split('<').nth(1)?.split('>').next()?;
    let query = address.split('?').nth(1)?;
    query.split('&').find_map(|pair| pair.strip_prefix("cursor=")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + minute * 60).unwrap()
    }

    fn attempt(id: u64, guid: &str, minute: i64, status_code: u16) -> Attempt {
        let (guid, event) = (guid.to_owned(), "workflow_job".to_owned());
        Attempt { id, guid, delivered_at: Some(at(minute)), status_code, event }
    }

    #[test]
    fn a_guid_that_was_taken_once_is_left_alone() {
        let log = [attempt(1, "a", 0, 502), attempt(2, "a", 1, 202), attempt(3, "b", 2, 500)];
        let (due, waiting) = missed(&log, at(10));
        assert_eq!((due.iter().map(|it| it.id).collect::<Vec<_>>(), waiting.len()), (vec![3], 0));
    }

    #[test]
    fn the_newest_attempt_is_asked_for_the_oldest_delivery_first() {
        let log = [
            attempt(9, "late", 8, 0),
            attempt(5, "early", 2, 502),
            attempt(6, "early", 3, 503),
            attempt(7, "early", 1, 500),
        ];
        let (due, _) = missed(&log, at(60));
        assert_eq!(due.iter().map(|it| it.id).collect::<Vec<_>>(), [6, 9]);
    }

    #[test]
    fn repeated_failures_are_asked_for_at_growing_intervals() {
        for (tried, minutes) in [(2, 1), (3, 2), (4, 4), (7, 32), (8, 60), (50, 60)] {
            let newest = attempt(1, "a", 0, 500);
            assert!(!is_due(&newest, tried, at(minutes - 1)), "{tried} too soon");
            assert!(is_due(&newest, tried, at(minutes)), "{tried} too late");
            assert!(!is_due(&newest, tried, at(-5)), "our clock is behind");
        }
        assert!(is_due(&attempt(1, "a", 0, 500), 1, at(0)), "the first at once");
    }

    #[test]
    fn the_cursor_never_passes_a_delivery_that_is_still_missing() {
        let log = [attempt(1, "a", 0, 500), attempt(2, "a", 7, 500), attempt(3, "b", 5, 500)];
        let cursor = SweepCursor::all_until(at(60));
        let mut report = SweepReport { read: 3, asked_again: vec![], left: 0, cursor };
        report.leave(&log[2], &log);
        assert_eq!((report.left, report.cursor.until), (1, at(5)));
        report.leave(&log[1], &log);
        assert_eq!((report.left, report.cursor.until), (2, at(0)), "its first attempt counts");
        assert!(reach_back(Some(report.cursor.until), at(61)) < at(0));
    }

    #[test]
    fn the_first_try_of_a_delivery_decides_whether_it_was_missed() {
        let log = [attempt(3, "a", 9, 202), attempt(1, "a", 1, 502), attempt(2, "b", 2, 202)];
        let tries: Vec<_> = first_tries(&log).into_iter().collect();
        assert_eq!(tries, [("a", (at(1), 1, Taken::No)), ("b", (at(2), 2, Taken::Yes))]);
    }

    #[test]
    fn other_events_are_not_ours_to_repeat() {
        let other = Attempt { event: "push".into(), ..attempt(1, "a", 0, 500) };
        assert_eq!(missed(&[other], at(9)).0.len(), 0);
    }

    #[test]
    fn a_sweep_overlaps_the_last_by_15_minutes_and_reaches_back_three_days_at_most() {
        let minutes = |then: Timestamp, now: Timestamp| now.duration_since(then).as_mins();
        assert_eq!(minutes(reach_back(Some(at(0)), at(1)), at(1)), 16);
        assert_eq!(minutes(reach_back(None, at(0)), at(0)), 72 * 60);
        assert_eq!(minutes(reach_back(Some(at(-99_999)), at(0)), at(0)), 72 * 60);
        assert_eq!(minutes(reach_back(Some(at(99)), at(0)), at(0)), 15, "a cursor of the future");
    }
}
