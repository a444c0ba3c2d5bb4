use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;

use super::unserved::{AskReason, find};
use super::*;
use crate::jobs::tests::doubles::{StoreDouble, run_paused, settle};
use crate::jobs::tests::{QUEUED, RUNS, TestLedger, id, reading, settings};
use crate::jobs::{JobFinding, ToLedger};
use crate::mail::{ActorRef, Mailbox};
use crate::model::{
    InstanceId, Job, JobFact, JobId, JobNotice, JobReading, Observation, Place, RunnerView, Scope,
    Sighting, State, Timestamp, after,
};
use crate::ports::{Roster, RunnerRef};
use crate::supervise::StopGuard;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn live(instances: &[(&str, State)]) -> BTreeMap<InstanceId, State> {
    instances.iter().map(|(id, state)| ((*id).into(), *state)).collect()
}

/// Returns why jobs are asked about, `age` after they were made.
fn asked(jobs: &[Job], instances: &[(&str, State)], now: Timestamp) -> Vec<(u64, AskReason)> {
    let found = find(jobs, &live(instances), now, &settings());
    found.into_iter().map(|question| (question.job.number, question.why)).collect()
}

fn delivered() -> Job {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.job(1).clone()
}

fn running() -> Job {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    test.job(1).clone()
}

fn queued() -> Job {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    test.job(1).clone()
}

fn at(age: Duration) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, age)
}

#[test]
fn a_delivered_offer_without_execution_is_asked_about_when_it_is_old_or_its_instance_ended() {
    let job = [delivered()];
    let young = at(MINUTE);
    assert_eq!(asked(&job, &[("a", State::Reserved)], young), []);
    assert_eq!(asked(&job, &[("a", State::Ended)], young), [(1, AskReason::InstanceEnded)]);
    assert_eq!(asked(&job, &[], young), [(1, AskReason::InstanceEnded)]);
    assert_eq!(asked(&job, &[("a", State::Reserved)], at(5 * MINUTE)), [(1, AskReason::Unproven)]);
}

#[test]
fn an_undelivered_offer_is_never_asked_about() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    assert_eq!(asked(&[test.job(1).clone()], &[], at(10 * HOUR)), []);
}

#[test]
fn a_running_job_is_checked_at_growing_intervals() {
    let mut job = running();
    let mut ages = Vec::new();
    for minute in 1..=200 {
        let now = at(minute * MINUTE);
        if !asked(std::slice::from_ref(&job), &[("a", State::Busy)], now).is_empty() {
            ages.push(minute);
            job.asked.last_at = Some(now);
        }
    }
    assert_eq!(ages, [5, 15, 60, 120, 180]);
}

#[test]
fn a_job_that_ran_on_an_ended_instance_is_asked_about_again_and_again() {
    let mut job = running();
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(MINUTE)), [(1, AskReason::InstanceEnded)]);
    job.asked.last_at = Some(at(MINUTE));
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(2 * MINUTE)), []);
    assert_eq!(asked(&[job], &[], at(6 * MINUTE)), [(1, AskReason::InstanceEnded)]);
}

#[test]
fn a_long_queued_job_is_asked_about_every_hour_and_a_doubted_one_at_once() {
    let mut job = queued();
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(59 * MINUTE)), []);
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(HOUR)), [(1, AskReason::Waiting)]);
    job.asked.last_at = Some(at(HOUR));
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(HOUR + 59 * MINUTE)), []);
    job.asked.missing = 1;
    assert_eq!(
        asked(std::slice::from_ref(&job), &[], at(HOUR + MINUTE)),
        [(1, AskReason::Waiting)]
    );
    job.asked.missing = 2;
    assert_eq!(asked(&[job], &[], at(HOUR + MINUTE)), []);
}

#[test]
fn jobs_that_are_closed_or_held_back_are_not_asked_about() {
    let closed = Job { closed: Some(crate::model::Closure::Stale), ..queued() };
    let held = Job { fact: JobFact::Waiting, ..queued() };
    assert_eq!(asked(&[closed, held], &[], at(2 * HOUR)), []);
}

#[test]
fn a_job_whose_pool_was_taken_away_is_asked_about_at_once_and_then_every_hour() {
    let mut job = Job { pool: None, ..queued() };
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(MINUTE)), [(1, AskReason::Waiting)]);
    job.asked.last_at = Some(at(MINUTE));
    assert_eq!(asked(std::slice::from_ref(&job), &[], at(HOUR)), []);
    assert_eq!(asked(&[job], &[], at(HOUR + MINUTE)), [(1, AskReason::Waiting)]);
    let runs = Job { pool: None, execution: None, fact: RUNS, ..running() };
    assert_eq!(asked(&[runs], &[], at(5 * MINUTE)), [(1, AskReason::Running)]);
}

/// A forge that keeps what it is asked and answers after a second.
#[derive(Default)]
struct Oracle {
    asked: Mutex<Vec<JobId>>,
    at_once: Mutex<(u32, u32)>,
    silent: bool,
}

#[async_trait]
impl Roster for Oracle {
    async fn runners(&self, _: &Scope) -> Observation<Vec<RunnerView>> {
        Observation::Unusable(String::new())
    }

    async fn runner(&self, _: &Scope, _: &RunnerRef) -> Sighting<RunnerView> {
        Sighting::Unknown(String::new())
    }

    async fn runner_of(&self, _: &Scope, _: &crate::model::MachineName) -> Sighting<RunnerView> {
        Sighting::Unknown(String::new())
    }

    async fn job(&self, job: &JobId, _: &Place, _: u64) -> Sighting<JobReading> {
        self.asked.lock().unwrap().push(job.clone());
        {
            let mut at_once = self.at_once.lock().unwrap();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        tokio::time::sleep(if self.silent { HOUR } else { Duration::from_secs(1) }).await;
        self.at_once.lock().unwrap().0 -= 1;
        reading(QUEUED, None)
    }

    async fn work_of(&self, _: &Scope, _: &RunnerRef) -> Sighting<JobId> {
        Sighting::Unknown(String::new())
    }

    async fn open_jobs(&self, _: &Scope) -> Observation<Vec<JobNotice>> {
        Observation::Unusable(String::new())
    }
}

/// Starts the actor; findings are kept.
fn open(
    records: &Arc<StoreDouble>,
    oracle: &Arc<Oracle>,
) -> (ActorRef<ToRequeue>, Arc<Mutex<Vec<JobFinding>>>, StopGuard) {
    let findings: Arc<Mutex<Vec<JobFinding>>> = Arc::default();
    let kept = Arc::clone(&findings);
    let ledger = ActorRef::default();
    ledger.install(Mailbox::new(move |message| {
        if let ToLedger::Finding(finding) = message {
            kept.lock().unwrap().push(finding);
        }
        Ok(())
    }));
    let actor_ref = ActorRef::default();
    let roster: Arc<dyn Roster> = Arc::clone(oracle) as _;
    let stop_guard = start(RequeueStart {
        actor_ref: actor_ref.clone(),
        fleet: ActorRef::default(),
        ledger,
        base: records.base(),
        rosters: BTreeMap::from([("github".into(), roster)]),
        settings: settings(),
    });
    (actor_ref, findings, stop_guard)
}

#[test]
fn at_most_eight_questions_are_under_way_and_all_are_answered() {
    run_paused(async {
        let (records, oracle) = (Arc::<StoreDouble>::default(), Arc::<Oracle>::default());
        for number in 0..50 {
            let job = Job { id: id(number), ..delivered() };
            records.lock().jobs.insert(job.id.clone(), job);
        }
        let (_actor_ref, findings, _stop_guard) = open(&records, &oracle);
        tokio::time::sleep(settings().tick + Duration::from_secs(10)).await;
        assert_eq!(findings.lock().unwrap().len(), 50);
        assert_eq!(oracle.at_once.lock().unwrap().1, 8);
    });
}

#[test]
fn a_targeted_question_is_put_at_once_and_bound_to_the_attempt() {
    run_paused(async {
        let (records, oracle) = (Arc::<StoreDouble>::default(), Arc::<Oracle>::default());
        let job = delivered();
        records.lock().jobs.insert(job.id.clone(), job.clone());
        let (actor_ref, findings, _stop_guard) = open(&records, &oracle);
        settle().await;
        actor_ref.tell(ToRequeue::Ask(id(1), AskReason::InstanceEnded)).unwrap();
        actor_ref.tell(ToRequeue::Ask(id(2), AskReason::InstanceEnded)).unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let findings = findings.lock().unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].instance, Some("a".into()));
        assert_eq!(findings[0].generation, job.generation);
        assert_eq!(findings[0].seen, reading(QUEUED, None));
    });
}

#[test]
fn a_job_that_lost_its_runner_is_asked_about_while_routine_questions_wait_for_a_slow_forge() {
    run_paused(async {
        let records = Arc::<StoreDouble>::default();
        let oracle = Arc::new(Oracle { silent: true, ..Oracle::default() });
        let long_ago = Timestamp::from_second(-7200).unwrap();
        for number in 0..200 {
            let job = Job { id: id(number), queued_at: long_ago, ..queued() };
            records.lock().jobs.insert(job.id.clone(), job);
        }
        let job = Job { id: id(500), ..delivered() };
        let (actor_ref, _findings, _stop_guard) = open(&records, &oracle);
        tokio::time::sleep(settings().tick + Duration::from_secs(1)).await;
        records.lock().jobs.insert(job.id.clone(), job);
        actor_ref.tell(ToRequeue::Ask(id(500), AskReason::InstanceEnded)).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(oracle.asked.lock().unwrap().contains(&id(500)));
    });
}

#[test]
fn a_silent_forge_is_unknown_and_its_place_is_given_to_the_next() {
    run_paused(async {
        let records = Arc::<StoreDouble>::default();
        let oracle = Arc::new(Oracle { silent: true, ..Oracle::default() });
        for number in 0..9 {
            let job = Job { id: id(number), ..delivered() };
            records.lock().jobs.insert(job.id.clone(), job);
        }
        let (_actor_ref, findings, _stop_guard) = open(&records, &oracle);
        tokio::time::sleep(settings().tick + Duration::from_secs(61)).await;
        let findings = findings.lock().unwrap();
        assert_eq!(findings.len(), 9);
        assert!(findings.iter().all(|it| matches!(it.seen, Sighting::Unknown(_))));
    });
}

#[test]
fn nothing_is_asked_and_no_instance_read_while_nothing_is_open() {
    run_paused(async {
        let (records, oracle) = (Arc::<StoreDouble>::default(), Arc::<Oracle>::default());
        let (_actor_ref, _findings, _stop_guard) = open(&records, &oracle);
        tokio::time::sleep(HOUR).await;
        assert_eq!(records.lock().instance_reads, 0);
        assert!(oracle.asked.lock().unwrap().is_empty());
    });
}
