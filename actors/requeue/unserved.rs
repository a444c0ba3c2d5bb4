//! Which jobs the forge is asked about, and when again.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    Generation, InstanceId, Job, JobFact, JobId, OfferStage, Place, State, Timestamp, elapsed,
    is_due,
};
use crate::settings::RequeueSettings;

/// The ages at which a running job is asked about, before it is every hour.
const RUNNING_CHECK_AFTER: [Duration; 3] =
    [Duration::from_mins(5), Duration::from_mins(15), Duration::from_hours(1)];

/// How often a job that waits for a runner is asked about.
const QUEUED_ASK_INTERVAL: Duration = Duration::from_hours(1);
/// How often a job that its forge holds back is asked about.
const HELD_BACK_ASK_INTERVAL: Duration = Duration::from_hours(24);

/// Asks about one job; the answer is bound to the attempt that stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuestion {
    pub job: JobId,
    pub place: Place,
    pub run: u64,
    /// The instance it is offered to or runs on.
    pub instance: Option<InstanceId>,
    pub generation: Generation,
    pub why: AskReason,
}

/// Tells why a job is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AskReason {
    /// Its instance ended, is nowhere, or lost the forge.
    InstanceEnded,
    /// It was delivered, and the forge has not said that it runs.
    Unproven,
    /// An instance of its pool worked and ended, and no job was named: it may have been this one.
    Unnamed,
    /// It has run for long without a report.
    Running,
    /// It has waited for long, or its pool was taken away.
    Waiting,
}

impl AskReason {
    /// Returns whether the job may have lost its runner: such a question waits for no other.
    pub(crate) fn is_urgent(self) -> bool {
        match self {
            Self::InstanceEnded | Self::Unproven | Self::Unnamed => true,
            Self::Running | Self::Waiting => false,
        }
    }
}

/// Returns the question about a job, if it is one to ask about at all.
///
/// A job that no pool ever served has no row, so it never comes here. One that has a row was
/// ours once: it was routed to a pool, or ran on a runner of ours. Taking its pool away does
/// not take the question away: no other actor would ask what became of it.
pub(crate) fn question(job: &Job, why: AskReason) -> Option<JobQuestion> {
    job.is_live().then(|| JobQuestion {
        job: job.id.clone(),
        place: job.place.clone(),
        run: job.run,
        instance: job.holder().cloned(),
        generation: job.generation,
        why,
    })
}

/// Finds the jobs to ask about, those that may be stranded first.
pub(crate) fn find(
    jobs: &[Job],
    live: &BTreeMap<InstanceId, State>,
    now: Timestamp,
    settings: &RequeueSettings,
) -> Vec<JobQuestion> {
    let mut found: Vec<JobQuestion> =
        jobs.iter().filter_map(|job| question(job, why(job, live, now, settings)?)).collect();
    found.sort_by(|a, b| (a.why, &a.job).cmp(&(b.why, &b.job)));
    found
}

/// Returns why a job is due to be asked about now, if it is.
fn why(
    job: &Job,
    live: &BTreeMap<InstanceId, State>,
    now: Timestamp,
    settings: &RequeueSettings,
) -> Option<AskReason> {
    let ended = |id: &InstanceId| live.get(id).is_none_or(|state| state.is_over());
    let orphan_after = settings.orphan_after;
    // One 404 may be a lie; it is asked again at once, and then without haste.
    let missing_once = job.asked.missing == 1;
    if let Some(offer) = job.open_offer() {
        let due = match offer.stage {
            // It lapses by itself.
            OfferStage::Offered => return None,
            OfferStage::Delivered => missing_once || asked_before(job, orphan_after, now),
        };
        return match ended(&offer.instance) {
            true if due => Some(AskReason::InstanceEnded),
            false if due && is_due(offer.since, orphan_after, now) => Some(AskReason::Unproven),
            true | false => None,
        };
    }
    if let Some(run) = &job.execution {
        return if ended(&run.instance) {
            (missing_once || asked_before(job, orphan_after, now))
                .then_some(AskReason::InstanceEnded)
        } else {
            (missing_once || is_growing(job, run.since, now)).then_some(AskReason::Running)
        };
    }
    let (floor, repeat, why) = match job.fact {
        JobFact::InProgress => {
            return (missing_once || is_growing(job, job.heard_at, now))
                .then_some(AskReason::Running);
        }
        // Polls ask only where there are pools: what happened to it before its pool went is asked
        // at once.
        JobFact::Queued if job.pool.is_none() => {
            (Duration::ZERO, QUEUED_ASK_INTERVAL, AskReason::Waiting)
        }
        JobFact::Queued => (QUEUED_ASK_INTERVAL, QUEUED_ASK_INTERVAL, AskReason::Waiting),
        // A deployment rule may hold a job for weeks.
        JobFact::Waiting => (HELD_BACK_ASK_INTERVAL, HELD_BACK_ASK_INTERVAL, AskReason::Waiting),
        JobFact::Completed(_) => return None,
    };
    let due = is_due(job.queued_at, floor, now) && (missing_once || asked_before(job, repeat, now));
    due.then_some(why)
}

/// Returns whether the last answer is older than `wait`, or there was none.
fn asked_before(job: &Job, wait: Duration, now: Timestamp) -> bool {
    job.asked.last_at.is_none_or(|last| is_due(last, wait, now))
}

/// Returns whether one of the growing ages has passed since the last answer.
fn is_growing(job: &Job, since: Timestamp, now: Timestamp) -> bool {
    let age = elapsed(since, now);
    let hours = Duration::from_hours(age.as_secs() / 3600);
    let passed = RUNNING_CHECK_AFTER.into_iter().chain([hours]).filter(|step| *step <= age).max();
    let Some(step) = passed.filter(|step| !step.is_zero()) else { return false };
    job.asked.last_at.is_none_or(|last| elapsed(since, last) < step)
}
