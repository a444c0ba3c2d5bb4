//! What the forge says of a job, and where it runs.
//!
//! ```text
//! waiting ─▶ queued ─▶ in_progress ─▶ completed (tombstone: nothing comes after)
//!               │            ▲
//!               └─▶ closed ──┘  only an execution reopens a job that we gave up
//! ```
//!
//! A fact only rises, whatever is late, doubled or reordered. Where a job runs is the forge's
//! proof alone: it gives any runner any job whose labels fit. So the execution of B on the
//! instance that was offered A binds B there and frees A, in one transaction, and a job that
//! runs elsewhere frees the instance it was offered to.
//!
//! These are functions of one job's row; what they cause elsewhere they return as
//! [`JobEffect`]s, in the order in which the ledger carries them out.

use super::change::{Act, FactReport, JobEffect, ReportSource};
use super::demand::Prefer;
use super::instances::KnownInstances;
use super::open_jobs::OpenJobs;
use crate::model::{
    Closure, Conclusion, Execution, InstanceId, JobFact, JobId, JobOver, NamedRunner, OfferEnd,
    OfferStage, Timestamp, What,
};
use crate::mutants::{self, Mutant};
use crate::requeue::AskReason;

/// Lets a fact rise.
pub(super) fn report(
    report: FactReport,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    let FactReport { job: id, fact, runner, source } = report;
    match fact {
        JobFact::Waiting => Vec::new(),
        JobFact::Queued => release(id, jobs, now),
        JobFact::InProgress => progress(id, runner.as_ref(), source, jobs, instances, now),
        JobFact::Completed(conclusion) => complete(id, &conclusion, runner, jobs, instances, now),
    }
}

/// Records that a deployment rule no longer holds a job back.
fn release(id: JobId, jobs: &mut OpenJobs, now: Timestamp) -> Vec<JobEffect> {
    if jobs.get(&id).is_none_or(|job| job.fact != JobFact::Waiting) {
        return Vec::new();
    }
    jobs.update(&id, now, |job| {
        job.fact = JobFact::Queued;
        // The forge keeps the time of a job's creation; its wait for a runner begins now.
        if job.heard_at < now {
            job.queued_at = now;
        }
    });
    jobs.record(&id, What::JobReported(JobFact::Queued), now);
    vec![JobEffect::Assign { job: id, prefer: Prefer::BestPool }]
}

/// Records that a job runs, on a runner of ours or elsewhere.
fn progress(
    id: JobId,
    runner: Option<&NamedRunner>,
    source: ReportSource,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    start(&id, jobs, now);
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    let proven = job.execution.as_ref().map(|run| run.instance.clone());
    let named = runner.and_then(|runner| instances.runner_of(job, runner));
    let is_newer = source == ReportSource::Answer || proven.is_none();
    if runner.is_some() && runner != job.runner.as_ref() && is_newer {
        jobs.update(&id, now, |job| job.runner = runner.cloned());
    }
    match (named, proven) {
        (Some(named), Some(proven)) if named == proven => Vec::new(),
        // Notices name two runners of ours, and may be out of order: only the forge can tell
        // which one came last.
        (Some(_), Some(_)) if source == ReportSource::Notice => {
            vec![JobEffect::Send(Act::AskForge(id, AskReason::InstanceEnded))]
        }
        (Some(instance), _) => vec![JobEffect::Execute { job: id, instance }],
        (None, _) => runs_elsewhere(id, runner.is_some(), source, jobs, instances, now),
    }
}

/// Lets the fact rise to `in_progress`, and reopens a job that was given up.
fn start(id: &JobId, jobs: &mut OpenJobs, now: Timestamp) {
    let Some(job) = jobs.get(id) else { return };
    let (closed, risen) = (job.closed.is_some(), job.fact.rank() < JobFact::InProgress.rank());
    if closed {
        jobs.update(id, now, |job| (job.closed, job.over_at) = (None, None));
        jobs.record(id, What::Reopened, now);
    }
    if risen {
        jobs.update(id, now, |job| job.fact = JobFact::InProgress);
        jobs.record(id, What::JobReported(JobFact::InProgress), now);
    }
}

/// Binds a job to the instance it is proven to run on, and frees what that was offered.
pub(super) fn execute(
    id: JobId,
    instance: &InstanceId,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    start(&id, jobs, now);
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    let (generation, before) = (job.generation, job.execution.clone());
    let offered = job.open_offer().map(|offer| offer.instance.clone());
    let pool = instances.pool_of(instance).cloned();
    jobs.update(&id, now, |job| {
        job.execution = Some(Execution { instance: instance.clone(), since: now });
        job.pool = pool.or(job.pool.take());
    });
    jobs.record(&id, What::ExecutingOn(instance.clone()), now);
    // This message goes first: an instance that only receives the end of its offer calls itself
    // idle.
    jobs.send(Act::ShowExecution { instance: instance.clone(), job: id.clone() });

    let mut effects = Vec::new();
    if let Some(offered) = offered {
        let here = offered == *instance;
        let why = if here { OfferEnd::Executed } else { OfferEnd::TakenElsewhere };
        effects.push(JobEffect::EndOffer { job: id.clone(), why });
    }
    if let Some(before) = before.filter(|before| before.instance != *instance) {
        let (instance, job, why) = (before.instance, id.clone(), OfferEnd::TakenElsewhere);
        effects.push(JobEffect::Send(Act::EndOffer { instance, job, generation, why }));
    }
    let displaced = jobs.index().offered_to(instance).into_iter().filter(|other| *other != id);
    effects.extend(displaced.map(|job| JobEffect::EndOffer { job, why: OfferEnd::Displaced }));
    effects.push(JobEffect::Withdraw(instance.clone()));
    if instances.is_over(instance) {
        effects.push(JobEffect::Send(Act::AskForge(id, AskReason::InstanceEnded)));
    }
    effects
}

/// Frees an instance whose job runs on a runner it does not answer to.
fn runs_elsewhere(
    id: JobId,
    named: bool,
    source: ReportSource,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    // After a restart an instance may not have reported its names yet: a notice that names an
    // unknown runner does not prove that it is not this one.
    let excluded = |instance: &InstanceId| {
        named && (source == ReportSource::Answer || instances.has_names(instance))
    };
    if let Some(offer) = job.open_offer() {
        // Without its JIT config the instance cannot be the one.
        if offer.stage == OfferStage::Offered || excluded(&offer.instance) {
            return vec![JobEffect::EndOffer { job: id, why: OfferEnd::TakenElsewhere }];
        }
    } else if let Some(run) = job.execution.clone()
        && source == ReportSource::Answer
        && excluded(&run.instance)
    {
        let generation = job.generation;
        jobs.update(&id, now, |job| job.execution = None);
        let (instance, why) = (run.instance, OfferEnd::TakenElsewhere);
        jobs.record(&id, What::Unoffered { instance: instance.clone(), why }, now);
        jobs.send(Act::EndOffer { instance, job: id, generation, why });
    }
    Vec::new()
}

/// Records that a job is over: nothing comes after.
fn complete(
    id: JobId,
    conclusion: &Conclusion,
    runner: Option<NamedRunner>,
    jobs: &mut OpenJobs,
    instances: &KnownInstances,
    now: Timestamp,
) -> Vec<JobEffect> {
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    let ran = job.execution.as_ref().map(|run| run.instance.clone());
    let named = runner.as_ref().and_then(|runner| instances.runner_of(job, runner));
    let offered = job.open_offer().map(|offer| offer.instance.clone());
    if runner.is_some() {
        jobs.update(&id, now, |job| job.runner = runner);
    }
    let mut effects = Vec::new();
    // A completion that overtook its `in_progress` is the only proof of where the job ran.
    if let Some(named) = named.clone().filter(|named| Some(named) != ran.as_ref()) {
        effects.push(JobEffect::Execute { job: id.clone(), instance: named });
    }
    effects.push(JobEffect::End { job: id.clone(), conclusion: conclusion.clone() });
    effects.push(JobEffect::EndOffer { job: id.clone(), why: OfferEnd::JobOver });
    let over = |instance, names_us| {
        let (job, conclusion) = (id.clone(), Some(conclusion.clone()));
        let over = JobOver { job, conclusion, names_us, at: now };
        JobEffect::Send(Act::ShowJobOver { instance, over })
    };
    // The end of a job is credited only to the runner that the forge names.
    if let Some(instance) = ran.filter(|ran| Some(ran) != named.as_ref()) {
        effects.push(over(instance, false));
    }
    if let Some(instance) = named {
        effects.push(over(instance, true));
    } else if let Some(instance) = offered
        && mutants::is(Mutant::CompletionByOfferedJob)
    {
        effects.push(over(instance, true));
    }
    effects.push(JobEffect::Archive(id));
    effects
}

/// Lets the fact rise to `completed`.
pub(super) fn end(id: &JobId, conclusion: Conclusion, jobs: &mut OpenJobs, now: Timestamp) {
    let fact = JobFact::Completed(conclusion);
    jobs.update(id, now, |job| {
        (job.fact, job.closed, job.over_at) = (fact.clone(), None, Some(now));
    });
    jobs.record(id, What::JobReported(fact), now);
}

/// Gives a job up that the forge never called completed.
pub(super) fn close(
    id: JobId,
    why: Closure,
    jobs: &mut OpenJobs,
    now: Timestamp,
) -> Vec<JobEffect> {
    let Some(job) = jobs.get(&id) else { return Vec::new() };
    let (ran, generation) = (job.execution.clone(), job.generation);
    jobs.update(&id, now, |job| {
        (job.closed, job.over_at, job.execution) = (Some(why), Some(now), None);
    });
    jobs.record(&id, What::Closed(why), now);
    let why = OfferEnd::JobOver;
    let mut effects = vec![JobEffect::EndOffer { job: id.clone(), why }];
    if let Some(run) = ran {
        let (instance, job) = (run.instance, id.clone());
        effects.push(JobEffect::Send(Act::EndOffer { instance, job, generation, why }));
    }
    effects.push(JobEffect::Archive(id));
    effects
}
