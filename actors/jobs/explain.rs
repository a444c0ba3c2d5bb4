//! Why a job waits, or what became of it, in sentences for people.

mod holdups;

use std::sync::Arc;
use std::time::Duration;

pub use holdups::{BudgetLeft, HoldUps, why_it_waits};

use super::Accepts;
use super::routing::{JobRequirements, JobRoute, route};
use crate::model::{
    Attempt, Closure, Event, Job, JobState, OfferStage, PoolId, PoolSpec, State, Timestamp, What,
    elapsed,
};
use crate::registry::PoolView;

/// Holds a pool as the config describes it and as its supervisor last saw it.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    pub spec: Arc<PoolSpec>,
    /// What its supervisor last showed; `None` until it has.
    pub view: Option<Arc<PoolView>>,
}

impl PoolStatus {
    fn accepts(&self) -> Accepts {
        match &self.view {
            Some(view) if view.draining => Accepts::Draining,
            Some(view) if view.breaker.is_some() => Accepts::Broken,
            Some(view) if machines(view) >= view.max => Accepts::Full,
            Some(_) | None => Accepts::Work,
        }
    }
}

/// Explains a job: why it waits, with numbers, or where it runs, or how it ended.
pub fn explain_job(
    job: &Job,
    events: &[Event],
    pools: &[PoolStatus],
    holdups: &HoldUps,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = match job.state() {
        JobState::Waiting => {
            vec!["The forge holds it back by a deployment rule; no runner may serve it yet.".into()]
        }
        JobState::Queued => queued(job, events, pools, holdups, now),
        JobState::Offered => offered(job, now),
        JobState::Running => vec![running(job, now)],
        JobState::Completed => vec![format!("It is over: the forge says {:?}.", job.fact)],
        JobState::Closed => vec![closed(job)],
    };
    lines.extend(attempts(job, now));
    lines.extend(asked(job, now));
    lines
}

/// Names the attempts to serve the job, and when the next is made.
fn attempts(job: &Job, now: Timestamp) -> Vec<String> {
    let all = &job.attempts;
    if all.failed == 0 {
        return Vec::new();
    }
    let first = (all.made as usize).saturating_sub(all.last.len()) + 1;
    let line = |(number, attempt): (usize, &Attempt)| {
        let (began, on) = (ago(attempt.began, now), &attempt.instance);
        let verdict = attempt.verdict.map(|verdict| format!("; verdict on the machine: {verdict}"));
        let end = match attempt.failed {
            Some(_) => "the job did not begin there",
            None if job.state() == JobState::Queued => "the job went elsewhere",
            None => "it stands",
        };
        format!("Attempt {number}, {began} ago on `{on}`: {end}{}.", verdict.unwrap_or_default())
    };
    let mut lines: Vec<String> = (first..).zip(&all.last).map(line).collect();
    lines.extend(rest(job, now));
    lines
}

/// Describes until when a job rests, and why.
fn rest(job: &Job, now: Timestamp) -> Option<String> {
    let until = job.attempts.rests_until.filter(|_| job.rests())?;
    let (failed, next) = (job.attempts.failed, ago(now, until));
    Some(if job.attempts.is_parked() {
        format!(
            "It is parked: {failed} attempts came to nothing. It is tried every hour, next in {next}, and \
             sooner once its pool serves another job, recovers or changes."
        )
    } else {
        format!("{failed} attempts came to nothing; the next is made in {next}.")
    })
}

fn queued(
    job: &Job,
    events: &[Event],
    pools: &[PoolStatus],
    holdups: &HoldUps,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = vec![format!("It has waited for a runner for {}.", ago(job.queued_at, now))];
    let accepting: Vec<_> = pools.iter().map(|pool| (&*pool.spec, pool.accepts())).collect();
    match (&job.pool, route(&JobRequirements::of(job), &accepting)) {
        (None, JobRoute::Unserved(why)) => lines.push(format!("No pool can serve it: {why}.")),
        (None, JobRoute::To(pool) | JobRoute::Held { pool, .. }) => {
            lines.push(format!("Pool `{pool}` can serve it and will get it."));
        }
        (Some(pool), _) => lines.extend(in_queue_of(pool, pools, holdups, now)),
    }
    lines.extend(last_offer(events, now));
    lines
}

/// Describes the pool a job waits for.
fn in_queue_of(
    pool: &PoolId,
    pools: &[PoolStatus],
    holdups: &HoldUps,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = vec![format!("It is demand of pool `{pool}`, which fits its labels best.")];
    let status = pools.iter().find(|status| status.spec.id == *pool);
    let Some((status, view)) = status.and_then(|it| Some((it, it.view.as_ref()?))) else {
        lines.push(format!("Pool `{pool}` has not reported yet."));
        return lines;
    };
    lines.push(match status.accepts() {
        Accepts::Draining => format!("Pool `{pool}` is draining and creates nothing."),
        Accepts::Broken => format!(
            "Pool `{pool}` creates one probe at a time: creation has failed repeatedly for {}.",
            ago(view.breaker.unwrap_or(now), now)
        ),
        Accepts::Full => format!(
            "Pool `{pool}` is at its maximum: {} of {} machines ({}).",
            machines(view),
            view.max,
            states(view)
        ),
        Accepts::Work if !view.settled => format!(
            "Pool `{pool}` creates nothing until every machine it had before the restart is checked."
        ),
        Accepts::Work => format!(
            "Pool `{pool}` has {} of {} machines ({}) and wants {}.",
            machines(view),
            view.max,
            states(view),
            view.want
        ),
    });
    lines.push(format!("{} jobs wait for it.", view.demand));
    lines.extend(holdups.describe(status, now));
    lines
}

fn offered(job: &Job, now: Timestamp) -> Vec<String> {
    let Some(offer) = job.open_offer() else { return Vec::new() };
    let (instance, since) = (&offer.instance, ago(offer.since, now));
    vec![match offer.stage {
        OfferStage::Offered => format!("It is offered to `{instance}` since {since}."),
        OfferStage::Delivered => format!(
            "It is delivered to `{instance}` since {since}; the forge has not said yet that it \
             runs there."
        ),
    }]
}

fn running(job: &Job, now: Timestamp) -> String {
    match (&job.execution, &job.runner) {
        (Some(run), _) => format!("It runs on `{}` since {}.", run.instance, ago(run.since, now)),
        (None, Some(runner)) => {
            let name = &runner.name;
            format!("The forge says that it runs on `{name}`, which is no runner of ours.")
        }
        (None, None) => "The forge says that it runs, and not where.".into(),
    }
}

fn closed(job: &Job) -> String {
    match job.closed {
        Some(Closure::Stale) => "It was given up: no runner took it for a day.".into(),
        Some(Closure::RunOver) => "It was given up: its workflow run is over.".into(),
        Some(Closure::NotFound) => {
            "It was given up: the forge no longer knows it, and knows others of its repository."
                .into()
        }
        None => "It was given up.".into(),
    }
}

fn asked(job: &Job, now: Timestamp) -> Option<String> {
    let last = job.asked.last_at?;
    let missing = match job.asked.missing {
        0 => "",
        _ => " and did not find it",
    };
    let times = match job.asked.times {
        0 | 1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    };
    Some(format!("The forge was asked {times}, last {} ago{missing}.", ago(last, now)))
}

fn last_offer(events: &[Event], now: Timestamp) -> Option<String> {
    let mut latest_first = events.iter().rev();
    let last = latest_first.find(|event| matches!(event.what, What::Unoffered { .. }))?;
    Some(format!("{} ago: {}.", ago(last.last_at, now), last.what))
}

fn machines(view: &PoolView) -> u32 {
    view.states.iter().filter(|(state, _)| *state != State::Deleted).map(|(_, count)| count).sum()
}

fn states(view: &PoolView) -> String {
    let live = view.states.iter().filter(|(state, _)| *state != State::Deleted);
    let parts: Vec<String> = live.map(|(state, count)| format!("{count} {state}")).collect();
    if parts.is_empty() { "none yet".into() } else { parts.join(", ") }
}

/// Returns an age for people.
fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = elapsed(then, now).as_secs();
    match Duration::from_secs(seconds) {
        age if age < Duration::from_mins(1) => format!("{seconds} s"),
        age if age < Duration::from_hours(1) => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
