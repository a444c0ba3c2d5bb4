//! The ledger at a test: inputs in, changes saved and checked after each.

mod attempts;
pub(crate) mod doubles;
mod explaining;
mod facts;
mod findings;
mod offers;
mod pools;
mod property;
mod restarts;
mod shell;
mod verdicts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::change::{Act, LedgerChange};
use super::index::JobIndex;
use super::ledger::{Ledger, LedgerInput};
use super::offers::OfferKey;
use super::{InstanceChange, InstanceUpdate, JobFinding};
use crate::model::{
    Binding, Conclusion, Event, Generation, Home, InstanceId, Job, JobFact, JobId, JobNotice,
    JobReading, MachineSpec, Offer, OfferEnd, OfferStage, Place, Policy, PoolId, PoolSpec, Refusal,
    Sighting, Subject, Timestamp, What, after,
};
use crate::pool::Demand;
use crate::settings::{RequeueSettings, Settings};

pub(crate) fn place() -> Place {
    Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
}

pub(crate) fn pool(id: &str, labels: &[&str]) -> PoolSpec {
    PoolSpec {
        id: id.into(),
        forge: "github".into(),
        scope: "acme".parse().unwrap(),
        provider: "k8s".into(),
        binding: Binding::Late,
        labels: labels.iter().collect(),
        accept_unlabelled: false,
        runner_group: "Default".into(),
        min_idle: 0,
        max: 10,
        machine: MachineSpec::default(),
        revision: "1".into(),
        prefix: id.into(),
        policy: Policy::default(),
    }
}

/// Returns where the runners of the test pools register.
pub(crate) fn home() -> Home {
    Home { forge: "github".into(), scope: "acme".parse().unwrap() }
}

pub(crate) fn id(number: u64) -> JobId {
    JobId { forge: "github".into(), number }
}

pub(crate) fn settings() -> RequeueSettings {
    Settings::default().requeue
}

pub(crate) const T0: Timestamp = Timestamp::UNIX_EPOCH;

pub(crate) fn notice(job: u64, fact: JobFact, runner: Option<&str>) -> JobNotice {
    JobNotice {
        id: id(job),
        place: place(),
        run: 1,
        name: "build".into(),
        url: String::new(),
        labels: ["linux"].iter().collect(),
        fact,
        runner: runner.map(Into::into),
        queued_at: T0,
        delivery: None,
    }
}

pub(crate) const QUEUED: JobFact = JobFact::Queued;
pub(crate) const RUNS: JobFact = JobFact::InProgress;
pub(crate) const OVER: JobFact = JobFact::Completed(Conclusion::Success);

/// Holds a ledger and what a store would hold of it.
pub(crate) struct TestLedger {
    pub(crate) ledger: Ledger,
    pub(crate) now: Timestamp,
    pub(crate) rows: BTreeMap<JobId, Job>,
    pub(crate) tombstones: BTreeMap<JobId, Timestamp>,
    pub(crate) events: BTreeMap<(Subject, u32), Event>,
    pub(crate) pools: Vec<Arc<PoolSpec>>,
}

impl TestLedger {
    /// Opens a test with one late-bound pool, `linux`.
    pub(crate) fn new() -> Self {
        Self::with(vec![pool("linux", &["linux"])])
    }

    pub(crate) fn with(pools: Vec<PoolSpec>) -> Self {
        let mut test = Self {
            ledger: Ledger::restore(settings(), vec![], vec![], vec![], T0),
            now: T0,
            rows: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            events: BTreeMap::new(),
            pools: pools.into_iter().map(Arc::new).collect(),
        };
        test.know_pools();
        test
    }

    /// Hands over an input, and saves what it changed.
    pub(crate) fn handle(&mut self, input: LedgerInput) -> Vec<Act> {
        let change = self.ledger.handle(input, self.now);
        self.save(change)
    }

    pub(crate) fn know_pools(&mut self) -> Vec<Act> {
        self.handle(LedgerInput::Pools(self.pools.clone()))
    }

    /// Restarts from the rows, as after a crash.
    pub(crate) fn restart(&mut self) {
        let rows = || self.rows.values().cloned();
        let open = rows().filter(Job::is_live).collect();
        let closed = rows().filter(|job| job.closed.is_some()).collect();
        let tombstones = self.tombstones.clone().into_iter().collect();
        self.ledger = Ledger::restore(settings(), open, closed, tombstones, self.now);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = after(self.now, time);
    }

    pub(crate) fn notice(&mut self, job: u64, fact: JobFact, runner: Option<&str>) -> Vec<Act> {
        self.handle(LedgerInput::Notice(notice(job, fact, runner)))
    }

    pub(crate) fn instance(&mut self, instance: &str, what: InstanceChange) -> Vec<Act> {
        let update = InstanceUpdate { id: instance.into(), pool: "linux".into(), what };
        self.handle(LedgerInput::Instance(update))
    }

    /// Lets an instance appear and wait for an offer.
    pub(crate) fn waits(&mut self, instance: &str) -> Vec<Act> {
        self.instance(instance, InstanceChange::Answers(home(), vec![instance.into()]));
        self.instance(instance, InstanceChange::Offerable(None))
    }

    /// Offers a job to an instance, and lets it be delivered.
    pub(crate) fn delivered(&mut self, job: u64, instance: &str) -> Generation {
        self.waits(instance);
        self.notice(job, QUEUED, None);
        let generation = self.job(job).generation;
        assert!(self.deliver(job, instance, generation));
        generation
    }

    pub(crate) fn deliver(&mut self, job: u64, instance: &str, generation: Generation) -> bool {
        let offer = offer_key(job, instance, generation);
        let (change, allowed) = self.ledger.deliver(&offer, self.now);
        self.save(change);
        allowed
    }

    pub(crate) fn tick(&mut self) -> Vec<Act> {
        self.handle(LedgerInput::Tick)
    }

    pub(crate) fn offer_answered(
        &mut self,
        job: u64,
        instance: &str,
        generation: Generation,
        answer: Option<Result<(), Refusal>>,
    ) -> Vec<Act> {
        let offer = offer_key(job, instance, generation);
        self.handle(LedgerInput::OfferAnswered { offer, answer })
    }

    /// Returns a question to the forge as of now, to be answered later.
    pub(crate) fn question(&self, job: u64) -> JobFinding {
        let row = self.job(job);
        JobFinding {
            job: id(job),
            instance: row.holder().cloned(),
            generation: row.generation,
            begun: self.now,
            seen: Sighting::Unknown("not asked yet".into()),
        }
    }

    pub(crate) fn answer(&mut self, question: JobFinding, seen: Sighting<JobReading>) -> Vec<Act> {
        self.handle(LedgerInput::Finding(JobFinding { seen, ..question }))
    }

    /// Asks and answers at once.
    pub(crate) fn find(&mut self, job: u64, seen: Sighting<JobReading>) -> Vec<Act> {
        let question = self.question(job);
        self.answer(question, seen)
    }

    pub(crate) fn job(&self, job: u64) -> &Job {
        self.rows.get(&id(job)).expect("the job has a row")
    }

    pub(crate) fn demand(&self) -> Demand {
        self.ledger.demand(&"linux".into())
    }

    pub(crate) fn timeline(&self, job: u64) -> Vec<What> {
        let events = self.events.range((Subject::Job(id(job)), 0)..);
        events
            .take_while(|((subject, _), _)| *subject == Subject::Job(id(job)))
            .map(|(_, event)| event.what.clone())
            .collect()
    }

    /// Saves a change as a store would, and checks everything that must always hold.
    pub(crate) fn save(&mut self, change: LedgerChange) -> Vec<Act> {
        for (id, job) in &change.save.jobs {
            if let Some(before) = self.rows.get(id) {
                check_step(before, job);
            }
            self.rows.insert(id.clone(), job.clone());
        }
        self.tombstones.extend(change.save.tombstones);
        if let Some(before) = change.save.forget_before {
            self.tombstones.retain(|_, at| *at >= before);
        }
        self.events.extend(change.save.events);
        self.check(&change.acts);
        change.acts
    }

    fn check(&self, acts: &[Act]) {
        let mut recount = JobIndex::default();
        let mut offered_to: BTreeMap<&InstanceId, &JobId> = BTreeMap::new();
        for (job, held) in self.ledger.open_jobs() {
            let id = &job.id;
            recount.add(job, held);
            assert_eq!(self.rows.get(id), Some(job), "memory is not what was saved");
            assert!(!self.tombstones.contains_key(id), "{id} is open after its end");
            assert!(job.is_live(), "{id} is open and not live");
            if let Some(offer) = job.open_offer() {
                let other = offered_to.insert(&offer.instance, id);
                assert_eq!(other, None, "{} has two offers", offer.instance);
                assert_eq!(offer.generation, job.generation);
                assert_eq!(job.execution, None, "{id} runs and has an offer");
            }
        }
        assert_eq!(*self.ledger.index(), recount, "the index drifted");
        assert!(self.ledger.tombstones().eq(self.tombstones.keys().cloned()));
        for act in acts {
            if let Act::Offer { instance, job, generation, .. } = act {
                let offer = self.rows[job].open_offer().expect("only a saved offer is sent");
                assert_eq!((&offer.instance, offer.generation), (instance, *generation));
            }
        }
        if self.ledger.knows_pools() {
            self.check_demand();
        }
    }

    fn check_demand(&self) {
        for pool in &self.pools {
            let waiting = |of_held: bool| {
                self.ledger.open_jobs().filter(move |(job, held)| {
                    job.fact == QUEUED
                        && job.holder().is_none()
                        && job.pool.as_ref() == Some(&pool.id)
                        && *held == of_held
                        && !job.rests()
                })
            };
            let queued = u32::try_from(waiting(false).count()).unwrap();
            let (reported, broken) = self.ledger.reported(&pool.id);
            let rests = |(job, _): (&Job, bool)| job.rests() && job.pool.as_ref() == Some(&pool.id);
            let blocked =
                waiting(true).next().is_some() || broken && self.ledger.open_jobs().any(rests);
            let failed = waiting(true).filter(|_| broken);
            let oldest = failed.chain(waiting(false)).map(|(job, _)| job.queued_at).min();
            let demand = Demand { queued, blocked, oldest };
            assert_eq!(reported, Some(demand), "{} has another demand than it was sent", pool.id);
        }
    }
}

/// Checks what no single save may do to a job.
fn check_step(before: &Job, job: &Job) {
    assert!(job.generation >= before.generation, "the generation of {} sank", job.id);
    assert!(!before.fact.is_over() || job.fact.is_over(), "{} was resurrected", job.id);
    assert!(job.events >= before.events);
    if before.open_offer().is_some_and(|offer| offer.stage == OfferStage::Delivered)
        && let Offer::Ended { why, .. } = job.offer
    {
        let forbidden = [OfferEnd::Lapsed, OfferEnd::Refused, OfferEnd::InstanceEnded];
        assert!(!forbidden.contains(&why), "a delivered offer ended as {why:?}");
    }
}

pub(crate) fn reading(fact: JobFact, runner: Option<&str>) -> Sighting<JobReading> {
    Sighting::Seen(JobReading { fact, runner: runner.map(Into::into), run_over: false })
}

pub(super) fn offer_key(job: u64, instance: &str, generation: Generation) -> OfferKey {
    OfferKey { job: id(job), instance: instance.into(), generation }
}

/// Returns what was sent to an instance, in order.
pub(super) fn sent_to<'a>(acts: &'a [Act], who: &str) -> Vec<&'a Act> {
    let is_for = |act: &&Act| match act {
        Act::Offer { instance, .. }
        | Act::EndOffer { instance, .. }
        | Act::ShowExecution { instance, .. }
        | Act::ShowJobOver { instance, .. } => instance.as_str() == who,
        Act::Demand { .. }
        | Act::AskForge(..)
        | Act::TellDeath(_)
        | Act::Announce(_)
        | Act::Show(_)
        | Act::Hide(_) => false,
    };
    acts.iter().filter(is_for).collect()
}

pub(super) fn ended(who: &str, job: u64, generation: u64, why: OfferEnd) -> Act {
    Act::EndOffer { instance: who.into(), job: id(job), generation: Generation(generation), why }
}

pub(super) fn executes(who: &str, job: u64) -> Act {
    Act::ShowExecution { instance: who.into(), job: id(job) }
}

pub(super) fn offered(who: &str, job: u64, generation: u64) -> Act {
    let (instance, generation) = (who.into(), Generation(generation));
    Act::Offer { instance, job: id(job), generation, delivered: false }
}

pub(super) fn asked(acts: &[Act]) -> Vec<u64> {
    acts.iter()
        .filter_map(|act| if let Act::AskForge(job, _) = act { Some(job.number) } else { None })
        .collect()
}

pub(super) fn linux() -> PoolId {
    "linux".into()
}
