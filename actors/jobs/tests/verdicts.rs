//! Verdicts that the forge may still correct, at the ledger: its owner may be gone.

use super::*;
use crate::model::{
    Confidence, End, ExitFacts, ExitRecord, Fault, JobStatus, Provisional, REVISION_PLACE, Tail,
    Verdict, VerdictClass, WarrantKind,
};
use crate::ports::ExitRevision;

/// Returns the record of a runner that left with 0 at T0, as its owner judged it.
fn left(instance: &str, job: Option<u64>) -> ExitRecord {
    let exit = ExitFacts { code: Some(0), ..ExitFacts::default() };
    let known = if job.is_some() { JobStatus::Running } else { JobStatus::None };
    let class = if job.is_some() { VerdictClass::HandshakeLost } else { VerdictClass::Wasted };
    ExitRecord {
        instance: instance.into(),
        pool: "linux".into(),
        job: job.map(id),
        exit: Some(exit.clone()),
        tail: Tail::NotNeeded,
        warrant: WarrantKind::OwnEnd,
        verdict: Verdict {
            class,
            fault: Fault::Runner,
            confidence: Confidence::Medium,
            evidence: vec![],
            advice: String::new(),
        },
        at: T0,
        provisional: Some(Box::new(Provisional {
            until: after(T0, Duration::from_mins(30)),
            forge: "github".into(),
            scope: "acme".parse().unwrap(),
            runner: instance.into(),
            end: Some(End::Exited(exit)),
            job: known,
            was_ready: true,
            worked: true,
            dismissed: None,
            setup: None,
            remarks: vec![],
        })),
        revisions: 0,
    }
}

fn open() -> Ledger {
    let mut ledger = Ledger::restore(settings(), vec![], vec![], vec![], T0);
    ledger.handle(LedgerInput::Pools(vec![Arc::new(pool("linux", &["linux"]))]), T0);
    ledger
}

fn tell(ledger: &mut Ledger, instance: &str, what: InstanceChange, minute: u64) -> LedgerChange {
    let update = InstanceUpdate { id: instance.into(), pool: "linux".into(), what };
    ledger.handle(LedgerInput::Instance(update), minutes(minute))
}

fn concluded(record: ExitRecord) -> InstanceChange {
    InstanceChange::Concluded(Box::new(record))
}

fn hear(ledger: &mut Ledger, notice: JobNotice, minute: u64) -> LedgerChange {
    ledger.handle(LedgerInput::Notice(notice), minutes(minute))
}

fn minutes(minute: u64) -> Timestamp {
    after(T0, Duration::from_mins(minute))
}

/// Returns what was revised: instance, class, whether it is settled, whether its log is dropped.
fn revised(change: &LedgerChange) -> Vec<(String, VerdictClass, bool, bool)> {
    let of = |ExitRevision { record, drop_tail }: &ExitRevision| {
        let settled = record.provisional.is_none();
        (record.instance.to_string(), record.verdict.class, settled, *drop_tail)
    };
    change.save.revisions.values().map(of).collect()
}

fn logged(change: &LedgerChange) -> usize {
    change.acts.iter().filter(|act| matches!(act, Act::TellDeath(_))).count()
}

#[test]
fn a_completion_that_comes_when_the_owner_is_gone_revises_its_verdict_with_an_event() {
    let mut ledger = open();
    hear(&mut ledger, notice(1, QUEUED, None), 0);
    tell(&mut ledger, "a", InstanceChange::Answers(home(), vec!["a".into()]), 0);
    hear(&mut ledger, notice(1, RUNS, Some("a")), 0);
    tell(&mut ledger, "a", InstanceChange::Ended, 0);
    let quiet = tell(&mut ledger, "a", concluded(left("a", Some(1))), 0);
    assert_eq!(revised(&quiet), [], "its owner wrote the record");
    tell(&mut ledger, "a", InstanceChange::Deleted, 0);

    let change = hear(&mut ledger, notice(1, OVER, Some("a")), 2);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Clean, true, true)]);
    let place = (Subject::Instance("a".into()), REVISION_PLACE + 1);
    let event = &change.save.events[&place];
    let (from, to) = (VerdictClass::HandshakeLost, VerdictClass::Clean);
    assert_eq!(event.what, What::VerdictRevised { from, to, settled: true });
    assert_eq!(logged(&change), 0, "an ordinary end costs no log");
    let again = hear(&mut ledger, notice(1, OVER, Some("a")), 3);
    assert_eq!(revised(&again), [], "twice is once");
}

#[test]
fn notices_that_all_come_after_the_end_revise_the_verdict_of_the_runner_they_name() {
    let mut ledger = open();
    tell(&mut ledger, "a", concluded(left("a", None)), 0);
    tell(&mut ledger, "a", InstanceChange::Deleted, 0);
    let change = hear(&mut ledger, notice(1, RUNS, Some("a-2")), 1);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::HandshakeLost, false, false)]);
    let change = hear(&mut ledger, notice(1, OVER, Some("a-2")), 2);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Clean, true, true)]);
}

#[test]
fn a_strangers_runner_of_the_same_name_revises_nothing() {
    let mut ledger = open();
    tell(&mut ledger, "a", concluded(left("a", None)), 0);
    let mut elsewhere = notice(1, OVER, Some("a"));
    elsewhere.place.owner = "other".into();
    assert_eq!(revised(&hear(&mut ledger, elsewhere, 1)), []);
    let mut other_forge = notice(1, OVER, Some("a"));
    other_forge.id.forge = "ghes".into();
    assert_eq!(revised(&hear(&mut ledger, other_forge, 1)), []);
    assert_eq!(revised(&hear(&mut ledger, notice(1, OVER, Some("b")), 1)), []);
}

#[test]
fn a_verdict_without_a_correction_is_settled_after_half_an_hour_and_its_log_is_shown_once() {
    let mut ledger = open();
    tell(&mut ledger, "a", concluded(left("a", None)), 0);
    assert_eq!(revised(&ledger.handle(LedgerInput::Tick, minutes(29))), []);
    let change = ledger.handle(LedgerInput::Tick, minutes(30));
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Wasted, true, false)]);
    assert_eq!(logged(&change), 1);
    let change = ledger.handle(LedgerInput::Tick, minutes(31));
    assert_eq!((revised(&change).len(), logged(&change)), (0, 0));
    assert_eq!(revised(&hear(&mut ledger, notice(1, OVER, Some("a")), 32)), [], "it is too late");
}

#[test]
fn a_new_ledger_goes_on_where_the_last_one_stopped() {
    let mut ledger = open();
    ledger.restore_verdicts(vec![left("a", Some(1)), left("b", None)]);
    let change = hear(&mut ledger, notice(1, OVER, Some("a")), 2);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Clean, true, true)]);
    let change = ledger.handle(LedgerInput::Tick, minutes(40));
    assert_eq!(revised(&change), [("b".into(), VerdictClass::Wasted, true, false)]);
}

#[test]
fn what_was_known_of_the_job_before_the_record_came_counts() {
    let mut ledger = open();
    hear(&mut ledger, notice(1, QUEUED, None), 0);
    tell(&mut ledger, "a", InstanceChange::Answers(home(), vec!["a".into()]), 0);
    hear(&mut ledger, notice(1, RUNS, Some("a")), 0);
    hear(&mut ledger, notice(1, OVER, Some("a")), 0);
    let change = tell(&mut ledger, "a", concluded(left("a", Some(1))), 0);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Clean, true, true)]);
    let learned = JobStatus::Over(Some(Conclusion::Success));
    let change = tell(&mut ledger, "a", InstanceChange::LearnedOf(id(1), learned), 0);
    assert_eq!(revised(&change), [], "it is settled");
}

#[test]
fn what_an_owner_learns_after_its_record_was_written_revises_it() {
    let mut ledger = open();
    tell(&mut ledger, "a", concluded(left("a", None)), 0);
    let learned = JobStatus::Over(Some(Conclusion::Failure));
    let change = tell(&mut ledger, "a", InstanceChange::LearnedOf(id(1), learned), 1);
    assert_eq!(revised(&change), [("a".into(), VerdictClass::Clean, true, true)]);
}

#[test]
fn an_owner_that_records_another_end_is_believed() {
    let mut ledger = open();
    tell(&mut ledger, "a", concluded(left("a", Some(1))), 0);
    let settled = ExitRecord { provisional: None, ..left("a", Some(1)) };
    tell(&mut ledger, "a", concluded(settled), 1);
    assert_eq!(revised(&hear(&mut ledger, notice(1, OVER, Some("a")), 2)), []);
    assert_eq!(revised(&ledger.handle(LedgerInput::Tick, minutes(40))), []);
}

#[test]
fn so_many_are_remembered_and_no_more() {
    let mut ledger = open();
    let mut settled = 0;
    for number in 0..10_003 {
        let change = tell(&mut ledger, "x", concluded(left(&format!("x{number}"), None)), 0);
        settled += revised(&change).len();
    }
    assert_eq!(settled, 3);
}
