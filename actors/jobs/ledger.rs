//! Every job, its forge fact and our offer: inputs in, changes out, nothing else.
//!
//! The ledger composes small parts, each with its own state and its own file; `mod.rs` lists
//! them. An input goes to the part it is for. What that part wants of another it returns as
//! effects, which the ledger carries out at once. When an input is handled, free instances are
//! offered waiting jobs and pools are sent their demand, and everything that changed leaves as
//! one [`LedgerChange`]: the caller saves it before it acts, and handles no other input in between
//! without adding it to the same save.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::admission::Admission;
use super::attempts::{self, Attempts};
use super::change::{Act, FactReport, JobEffect, LedgerChange, ReportSource};
use super::demand::{DemandRouter, Prefer};
use super::findings::JobFindings;
use super::finished::FinishedJobs;
use super::instances::{KnownInstances, NamesReport};
use super::offers::{OfferKey, Offers};
use super::open_jobs::OpenJobs;
use super::unnamed::UnnamedWork;
use super::verdicts::{HeardFact, ProvisionalVerdicts};
use super::{Accepts, InstanceChange, InstanceUpdate, JobFinding, expiry, facts, offers};
use crate::model::{
    Closure, ExitRecord, Home, Instance, InstanceId, Job, JobFact, JobId, JobNotice, JobOver,
    JobStatus, OfferEnd, OfferStage, PoolId, PoolSpec, Refusal, RunnerId, RunnerName, Timestamp,
};
use crate::requeue::AskReason;
use crate::settings::RequeueSettings;

/// Composes the parts of the ledger.
pub(crate) struct Ledger {
    jobs: OpenJobs,
    finished: FinishedJobs,
    admission: Admission,
    instances: KnownInstances,
    demand: DemandRouter,
    offers: Offers,
    findings: JobFindings,
    unnamed: UnnamedWork,
    attempts: Attempts,
    settings: RequeueSettings,
    /// Notices that came before the pools were known, when no job could be routed.
    early: Vec<JobNotice>,
    /// Jobs whose rows cannot be decoded: they are not served, and their rows stay as they are.
    quarantined: BTreeSet<JobId>,
    verdicts: ProvisionalVerdicts,
}

/// What happens to the ledger.
pub(crate) enum LedgerInput {
    Notice(JobNotice),
    Finding(JobFinding),
    Instance(InstanceUpdate),
    OfferAnswered {
        offer: OfferKey,
        /// Taken, or why not; `None` is no answer in time.
        answer: Option<Result<(), Refusal>>,
    },
    /// The pools there are, in the order of the config.
    Pools(Vec<Arc<PoolSpec>>),
    PoolStatus {
        pool: PoolId,
        accepts: Accepts,
    },
    Tick,
    /// A job has rested for long enough.
    Wake,
}

impl Ledger {
    /// Takes over what the store kept: open jobs, closed ones, and tombstones.
    pub(crate) fn restore(
        settings: RequeueSettings,
        open: Vec<Job>,
        closed: Vec<Job>,
        tombstones: Vec<(JobId, Timestamp)>,
        now: Timestamp,
    ) -> Self {
        let mut jobs = OpenJobs::default();
        for job in open.into_iter().filter(Job::is_live) {
            jobs.add(job, now);
        }
        let attempts = Attempts::restore(&jobs);
        Self {
            jobs,
            finished: FinishedJobs::restore(closed, tombstones),
            admission: Admission::default(),
            instances: KnownInstances::default(),
            demand: DemandRouter::default(),
            offers: Offers::default(),
            findings: JobFindings::default(),
            unnamed: UnnamedWork::default(),
            attempts,
            settings,
            early: Vec::new(),
            quarantined: BTreeSet::new(),
            verdicts: ProvisionalVerdicts::default(),
        }
    }

    /// Takes over the records whose verdicts are not settled.
    pub(crate) fn restore_verdicts(&mut self, provisional: Vec<ExitRecord>) {
        self.verdicts = ProvisionalVerdicts::restore(provisional);
    }

    /// Sets jobs aside whose rows cannot be decoded.
    pub(crate) fn quarantine(&mut self, jobs: BTreeSet<JobId>) {
        self.quarantined = jobs;
    }

    /// Learns from a row where the runners of its pool register, which the config may not name.
    pub(crate) fn learn_home(&mut self, row: &Instance) {
        self.admission.suppose_home(&row.pool, || row.home());
    }

    /// Handles one input, and returns all that it changed.
    pub(crate) fn handle(&mut self, input: LedgerInput, now: Timestamp) -> LedgerChange {
        match input {
            LedgerInput::Notice(notice) if self.demand.knows_pools() => self.notice(notice, now),
            LedgerInput::Notice(notice) => self.early.push(notice),
            LedgerInput::Finding(finding) => {
                let (jobs, instances) = (&mut self.jobs, &self.instances);
                let effects = self.findings.handle(finding, jobs, instances, now);
                self.perform(effects, now);
            }
            LedgerInput::Instance(update) => self.instance_update(update, now),
            LedgerInput::OfferAnswered { offer, answer } => {
                let taken = matches!(answer, Some(Ok(())));
                // Once it was delivered, only the forge can say that it failed.
                if !taken && offers::stage_of(&offer, &self.jobs) == Some(OfferStage::Offered) {
                    let refusal = answer.and_then(Result::err);
                    let why = refusal.map_or(OfferEnd::Refused, OfferEnd::of_refusal);
                    self.perform([JobEffect::EndOffer { job: offer.job, why }], now);
                }
            }
            LedgerInput::Pools(specs) => self.set_pools(specs, now),
            LedgerInput::PoolStatus { pool, accepts } => {
                if self.demand.is_broken(&pool) && accepts != Accepts::Broken {
                    attempts::hurry(&pool, "its pool creates machines again", &mut self.jobs, now);
                }
                self.demand.set_accepts(&pool, accepts, &mut self.jobs, &self.offers, now);
            }
            LedgerInput::Tick => self.tick(now),
            // The jobs whose time has come are offered below.
            LedgerInput::Wake => {}
        }
        self.finish(now)
    }

    /// Marks an offer as delivered, if it is open; the answer counts once the change is saved.
    pub(crate) fn deliver(&mut self, offer: &OfferKey, now: Timestamp) -> (LedgerChange, bool) {
        let is_new = offers::stage_of(offer, &self.jobs) == Some(OfferStage::Offered);
        let open = offers::deliver(offer, &mut self.jobs, now);
        let delivered = self.jobs.get(&offer.job).and_then(|job| job.open_offer()).cloned();
        if let Some(delivered) = delivered.filter(|_| open && is_new) {
            self.attempts.begin(&offer.job, &delivered, &mut self.jobs, now);
        }
        (self.finish(now), open)
    }

    /// Returns whether an offer is still open.
    pub(crate) fn is_open(&mut self, offer: &OfferKey, now: Timestamp) -> (LedgerChange, bool) {
        let open = offers::is_open(offer, &mut self.jobs);
        (self.finish(now), open)
    }

    /// Returns when the next job has rested for long enough.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.jobs.index().resting().next().map(|(until, _)| *until)
    }

    /// Returns a job as it is remembered, also one that is closed or that no pool serves.
    pub(crate) fn show(&self, id: &JobId) -> Option<&Job> {
        let remembered = || self.finished.closed(id).or_else(|| self.admission.unserved(id));
        self.jobs.get(id).or_else(remembered)
    }

    fn notice(&mut self, notice: JobNotice, now: Timestamp) {
        self.jobs.save_handled(notice.delivery.clone());
        let JobNotice { id: job, place, fact, runner, .. } = &notice;
        let runner = runner.as_ref().map(|runner| &runner.name);
        let heard = HeardFact { job, place, fact, runner };
        self.verdicts.heard(&heard, &mut self.jobs, now);
        if self.quarantined.contains(&notice.id) {
            return self.pass_on(notice, now);
        }
        let id = notice.id.clone();
        let waited = self.jobs.get(&id).is_some_and(|job| job.fact == JobFact::Waiting);
        if self.finished.is_over(&id) || self.jobs.get(&id).is_none() && !self.admit(&notice, now) {
            return;
        }
        // A job that a deployment rule held back is as young as its release.
        let released = waited && notice.fact == JobFact::Queued;
        let queued_at = notice.queued_at.max(if released { now } else { notice.queued_at });
        if self.jobs.get(&id).is_some_and(|job| job.queued_at < queued_at) {
            self.jobs.update(&id, now, |job| job.queued_at = queued_at);
        }
        let JobNotice { fact, runner, .. } = notice;
        let report = FactReport { job: id, fact, runner, source: ReportSource::Notice };
        self.perform([JobEffect::Report(report)], now);
    }

    /// Tells the instance that a notice names what it says of a job whose row cannot be decoded: to
    /// it that is proof of work, or of its end, like any other.
    fn pass_on(&mut self, notice: JobNotice, now: Timestamp) {
        let JobNotice { id: job, place, runner, fact, .. } = notice;
        let named =
            runner.and_then(|runner| self.instances.named(&runner, &job.forge, &place).cloned());
        let Some(instance) = named else { return };
        let conclusion = match fact {
            JobFact::Waiting | JobFact::Queued => return,
            JobFact::InProgress => None,
            JobFact::Completed(conclusion) => Some(conclusion),
        };
        self.jobs.send(Act::ShowExecution { instance: instance.clone(), job: job.clone() });
        if conclusion.is_some() {
            let over = JobOver { job, conclusion, names_us: true, at: now };
            self.jobs.send(Act::ShowJobOver { instance, over });
        }
    }

    /// Opens a job that is not open, if it concerns us; returns whether it does.
    fn admit(&mut self, notice: &JobNotice, now: Timestamp) -> bool {
        if self.finished.closed(&notice.id).is_some() {
            let proves = notice.fact.rank() >= JobFact::InProgress.rank();
            return proves && self.finished.reopen(&notice.id, &mut self.jobs, now);
        }
        let (forge, place) = (&notice.id.forge, &notice.place);
        let runner = notice.runner.as_ref();
        let runner = runner.and_then(|runner| self.instances.named(runner, forge, place));
        let runs_in = runner.and_then(|instance| self.instances.pool_of(instance));
        let (demand, offers) = (&self.demand, &self.offers);
        let route = |requirements: &_, jobs: &_| demand.route(requirements, jobs, offers);
        self.admission.admit(notice, runs_in, route, &mut self.jobs, now)
    }

    fn set_pools(&mut self, specs: Vec<Arc<PoolSpec>>, now: Timestamp) {
        for pool in self.demand.revised(&specs) {
            attempts::hurry(&pool, "its pool has a new shape", &mut self.jobs, now);
        }
        for spec in &specs {
            let home = Home { forge: spec.forge.clone(), scope: spec.scope.clone() };
            self.admission.set_home(&spec.id, home);
        }
        self.demand.set_pools(specs);
        self.demand.assign_all(&mut self.jobs, &self.offers, now);
        let (demand, index, offers) = (&self.demand, self.jobs.index(), &self.offers);
        let served = self.admission.served_now(|it| demand.route(it, index, offers));
        for job in served {
            self.admission.recall(&job, &mut self.jobs, now);
            self.demand.assign(&job, Prefer::BestPool, &mut self.jobs, &self.offers, now);
        }
        for notice in std::mem::take(&mut self.early) {
            self.notice(notice, now);
        }
    }

    fn instance_update(&mut self, update: InstanceUpdate, now: Timestamp) {
        let InstanceUpdate { id, pool, what } = update;
        match what {
            InstanceChange::Answers(home, names) => {
                self.names_reported(&id, &pool, home, names, now);
            }
            InstanceChange::Registered(name, number) => self.registered(&id, name, number),
            InstanceChange::Offerable(host) => {
                self.instances.add(&id, &pool);
                if self.instances.is_alive(&id) {
                    self.offers.wait(&id, &pool, host);
                }
            }
            InstanceChange::Unavailable | InstanceChange::Working(None) => {
                self.offers.withdraw(&id);
            }
            InstanceChange::Working(Some(job)) => self.working(id, job, now),
            InstanceChange::RunnerLost => {
                let ask_again_after = self.settings.orphan_after;
                for job in expiry::jobs_to_ask_about(&id, &self.jobs, ask_again_after, now) {
                    self.jobs.send(Act::AskForge(job, AskReason::InstanceEnded));
                }
            }
            InstanceChange::DeliveryInDoubt => {
                for job in offers::delivered_to(&id, &self.jobs) {
                    self.jobs.send(Act::AskForge(job, AskReason::InstanceEnded));
                }
            }
            InstanceChange::EndedUnnamed => {
                for job in self.unnamed.suspects(&pool, &self.jobs, now) {
                    self.jobs.send(Act::AskForge(job, AskReason::Unnamed));
                }
            }
            InstanceChange::Judged(verdict) => {
                self.attempts.judged(&id, verdict, &mut self.jobs, now);
            }
            InstanceChange::Ended => self.instance_ended(&id, &pool, now),
            InstanceChange::Concluded(record) => self.concluded(*record, now),
            InstanceChange::LearnedOf(job, status) => {
                self.verdicts.learned(&id, &job, status, &mut self.jobs, now);
            }
            InstanceChange::Deleted => {
                self.instance_ended(&id, &pool, now);
                self.instances.remove(&id);
                self.attempts.forget(&id);
            }
        }
    }

    /// Recognises runners by the names an instance reports, and repeats what a new owner may
    /// have missed.
    fn names_reported(
        &mut self,
        id: &InstanceId,
        pool: &PoolId,
        home: Home,
        names: Vec<RunnerName>,
        now: Timestamp,
    ) {
        let index = self.jobs.index();
        let mut recognised: Vec<JobId> =
            names.iter().flat_map(|name| index.unclaimed(name)).cloned().collect();
        let running = index.running_on(id);
        let report = self.instances.set_names(id, pool, home, names);
        recognised.retain(|job| {
            let runner = self.jobs.get(job).and_then(|job| Some((job, job.runner.as_ref()?)));
            runner.is_some_and(|(job, runner)| {
                self.instances.runner_of(job, runner).as_ref() == Some(id)
            })
        });
        let execute = |job| JobEffect::Execute { job, instance: id.clone() };
        self.perform(recognised.into_iter().map(execute), now);
        if report == NamesReport::NewOwner {
            for job in running {
                self.jobs.send(Act::ShowExecution { instance: id.clone(), job });
            }
            offers::repeat(id, &mut self.jobs);
        }
    }

    /// Learns the number of a registration. A job that was believed to run here by the name alone,
    /// and names another number, runs on a stranger's runner: the forge is asked.
    fn registered(&mut self, id: &InstanceId, name: RunnerName, number: RunnerId) {
        let is_other = |job: &JobId| {
            let runner = self.jobs.get(job).and_then(|job| job.runner.as_ref());
            runner.is_some_and(|runner| {
                runner.name == name && runner.id.is_some_and(|of_job| of_job != number)
            })
        };
        let mut believed = self.jobs.index().running_on(id);
        believed.retain(is_other);
        self.instances.set_number(id, name, number);
        for job in believed {
            self.jobs.send(Act::AskForge(job, AskReason::InstanceEnded));
        }
    }

    /// Learns from the instance itself which job runs on it.
    fn working(&mut self, id: InstanceId, job: JobId, now: Timestamp) {
        self.offers.withdraw(&id);
        if self.finished.is_over(&job) {
            // The end was sent when it came; this owner has missed it.
            let over = JobOver { job, conclusion: None, names_us: false, at: now };
            self.jobs.send(Act::ShowJobOver { instance: id, over });
            return;
        }
        let is_open = self.jobs.get(&job).is_some()
            || self.finished.reopen(&job, &mut self.jobs, now)
            || self.admission.recall(&job, &mut self.jobs, now);
        let proven = self.jobs.index().running_on(&id).contains(&job);
        if is_open && !proven {
            self.perform([JobEffect::Execute { job, instance: id }], now);
        }
    }

    fn instance_ended(&mut self, id: &InstanceId, pool: &PoolId, now: Timestamp) {
        self.offers.withdraw(id);
        if self.instances.end(id, pool) {
            let effects = offers::instance_ended(id, &self.jobs);
            self.perform(effects, now);
        }
    }

    /// Takes the record of an end; what is known of its job already may be more than its owner knew.
    fn concluded(&mut self, record: ExitRecord, now: Timestamp) {
        let (id, known) = (record.instance.clone(), record.job.clone());
        self.verdicts.concluded(record, &mut self.jobs, now);
        for job in self.jobs.index().running_on(&id) {
            self.verdicts.learned(&id, &job, JobStatus::Running, &mut self.jobs, now);
        }
        if let Some(job) = known.filter(|job| self.finished.is_over(job)) {
            self.verdicts.learned(&id, &job, JobStatus::Over(None), &mut self.jobs, now);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        self.verdicts.expire(&mut self.jobs, now);
        for job in expiry::lapsed_offers(&self.jobs, self.settings.offer_stale, now) {
            self.perform([JobEffect::EndOffer { job, why: OfferEnd::Lapsed }], now);
        }
        for job in expiry::stale_jobs(&self.jobs, now) {
            self.perform([JobEffect::Close { job, why: Closure::Stale }], now);
        }
        self.finished.expire(&mut self.jobs, now);
        self.findings.expire(now);
    }

    /// Carries effects out in order, each with all that follows from it before the next.
    fn perform(&mut self, effects: impl IntoIterator<Item = JobEffect>, now: Timestamp) {
        for effect in effects {
            let (jobs, instances) = (&mut self.jobs, &self.instances);
            let next = match effect {
                JobEffect::Report(report) => {
                    if let Some(place) = jobs.get(&report.job).map(|job| job.place.clone()) {
                        let FactReport { job, fact, runner, .. } = &report;
                        let runner = runner.as_ref().map(|runner| &runner.name);
                        let heard = HeardFact { job, place: &place, fact, runner };
                        self.verdicts.heard(&heard, jobs, now);
                    }
                    facts::report(report, jobs, instances, now)
                }
                JobEffect::Execute { job, instance } => {
                    if let Some(pool) = instances.pool_of(&instance) {
                        attempts::hurry(pool, "its pool served another job", jobs, now);
                    }
                    facts::execute(job, &instance, jobs, instances, now)
                }
                JobEffect::End { job, conclusion } => {
                    facts::end(&job, conclusion, jobs, now);
                    continue;
                }
                JobEffect::Close { job, why } => facts::close(job, why, jobs, now),
                JobEffect::EndOffer { job, why } => {
                    offers::end(job, why, jobs, now).into_iter().collect()
                }
                JobEffect::Assign { job, prefer } => {
                    self.demand.assign(&job, prefer, jobs, &self.offers, now);
                    continue;
                }
                JobEffect::Withdraw(instance) => {
                    self.offers.withdraw(&instance);
                    continue;
                }
                JobEffect::Archive(job) => {
                    self.finished.archive(&job, jobs, now);
                    continue;
                }
                JobEffect::Send(act) => {
                    jobs.send(act);
                    continue;
                }
            };
            self.perform(next, now);
        }
    }

    /// Settles which instance serves which job, and returns all that this input changed.
    fn finish(&mut self, now: Timestamp) -> LedgerChange {
        if self.demand.knows_pools() {
            for job in attempts::wake(&mut self.jobs, now) {
                let prefer = Prefer::CurrentPool;
                self.demand.assign(&job, prefer, &mut self.jobs, &self.offers, now);
            }
            self.demand.assign_held(&mut self.jobs, &self.offers, now);
            self.offers.offer_all(&self.demand.pool_ids(), &mut self.jobs, now);
            for pool in self.demand.broken() {
                self.offers.offer_to_probe(&pool, &mut self.jobs, now);
            }
            self.demand.report(&mut self.jobs);
        }
        self.jobs.take_change()
    }
}

/// What the tests check after each input.
#[cfg(test)]
impl Ledger {
    /// Returns every open job, and whether no pool takes it.
    pub(super) fn open_jobs(&self) -> impl Iterator<Item = (&Job, bool)> {
        self.jobs.iter()
    }

    pub(super) fn index(&self) -> &super::index::JobIndex {
        self.jobs.index()
    }

    pub(super) fn tombstones(&self) -> impl Iterator<Item = JobId> {
        self.finished.over()
    }

    pub(super) fn knows_pools(&self) -> bool {
        self.demand.knows_pools()
    }

    pub(super) fn demand(&self, pool: &PoolId) -> crate::pool::Demand {
        self.demand.demand(pool, self.jobs.index())
    }

    /// Returns what a pool was last sent, and whether it is broken.
    pub(super) fn reported(&self, pool: &PoolId) -> (Option<crate::pool::Demand>, bool) {
        self.demand.reported(pool)
    }
}
