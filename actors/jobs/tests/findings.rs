use super::*;
use crate::model::{Closure, JobState};
use crate::mutants::{self, Mutant};

const ORPHAN: Duration = Duration::from_mins(5);

#[test]
fn a_delivered_offer_of_a_job_still_queued_is_ended_and_the_job_queued_again() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.pass(ORPHAN);
    let acts = test.find(1, reading(QUEUED, None));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::Requeued)]);
    assert_eq!(test.demand().queued, 1);
    assert!(matches!(test.job(1).offer, Offer::Ended { why: OfferEnd::Requeued, .. }));
}

#[test]
fn a_late_finding_never_touches_a_successor() {
    let story = || {
        let mut test = TestLedger::new();
        test.delivered(1, "a");
        test.pass(ORPHAN);
        let question = test.question(1);
        test.find(1, reading(QUEUED, None));
        test.waits("b");
        let generation = test.job(1).generation;
        assert!(test.deliver(1, "b", generation));
        test.pass(ORPHAN);
        let before = test.job(1).clone();
        test.answer(question, reading(QUEUED, None));
        before == *test.job(1)
    };
    assert!(story());
    mutants::choose(Some(Mutant::NoGenerationCheck));
    let unharmed = story();
    mutants::choose(None);
    assert!(!unharmed, "the mistake can be made");
}

#[test]
fn an_answer_to_a_question_from_before_the_delivery_says_nothing_about_it() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    let question = test.question(1);
    test.pass(Duration::from_secs(1));
    test.deliver(1, "a", Generation(1));
    test.answer(question, reading(QUEUED, None));
    assert!(test.job(1).open_offer().is_some());
}

#[test]
fn a_finding_in_progress_records_the_execution() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let acts = test.find(1, reading(RUNS, Some("a")));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)]);
    assert_eq!(test.job(1).state(), JobState::Running);
}

#[test]
fn a_finding_completed_buries_the_job() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let acts = test.find(1, reading(OVER, Some("a")));
    assert!(test.tombstones.contains_key(&id(1)));
    assert!(matches!(
        sent_to(&acts, "a")[..],
        [Act::ShowExecution { .. }, Act::ShowJobOver { over, .. }] if over.names_us
    ));
}

#[test]
fn a_job_the_forge_took_back_from_a_runner_wants_one_again() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    // The forge's reads lag behind its notices by seconds.
    test.find(1, reading(QUEUED, None));
    assert_eq!(test.job(1).state(), JobState::Running);
    test.instance("a", InstanceChange::Ended);
    let acts = test.find(1, reading(QUEUED, None));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::Requeued)]);
    assert_eq!(test.job(1).state(), JobState::Queued);
    assert_eq!(test.job(1).generation, Generation(2));
    assert_eq!(test.demand().queued, 1);
    // A late notice of the old execution is believed, and asked about at once.
    let acts = test.notice(1, RUNS, Some("a"));
    assert_eq!(asked(&acts), [1]);
}

#[test]
fn a_queued_job_of_a_finished_run_is_closed() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let seen = Sighting::Seen(JobReading { fact: QUEUED, runner: None, run_over: true });
    let acts = test.find(1, seen);
    assert_eq!(test.job(1).closed, Some(Closure::RunOver));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::JobOver)]);
    assert!(test.tombstones.is_empty(), "only a forge's `completed` makes a tombstone");
}

#[test]
fn two_misses_close_a_job_whose_neighbours_answer() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    test.notice(2, QUEUED, None);
    test.find(1, Sighting::Absent);
    test.pass(Duration::from_mins(1));
    test.find(2, reading(QUEUED, None));
    test.find(1, Sighting::Absent);
    assert_eq!(test.job(1).closed, Some(Closure::NotFound));
    assert_eq!(test.job(2).closed, None);
}

#[test]
fn a_repository_that_is_out_of_sight_closes_nothing() {
    let mut test = TestLedger::new();
    for job in [1, 2] {
        test.notice(job, QUEUED, None);
        test.find(job, reading(QUEUED, None));
    }
    for _ in 0..5 {
        test.pass(Duration::from_mins(1));
        for job in [1, 2] {
            test.find(job, Sighting::Absent);
        }
    }
    assert_eq!(test.job(1).closed, None);
    assert_eq!(test.job(2).closed, None);
}

#[test]
fn one_miss_between_answers_is_forgotten() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    for _ in 0..5 {
        test.find(1, Sighting::Absent);
        test.find(1, reading(QUEUED, None));
    }
    assert_eq!(test.job(1).closed, None);
}

#[test]
fn a_failed_look_changes_nothing() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let before = test.job(1).clone();
    assert_eq!(test.find(1, Sighting::Unknown("502".into())), []);
    assert_eq!(*test.job(1), before);
}

#[test]
fn the_same_answer_again_adds_to_the_event_and_writes_no_new_one() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    let before = test.events.len();
    for _ in 0..3 {
        test.find(1, reading(QUEUED, None));
    }
    assert_eq!(test.events.len(), before + 1);
    assert_eq!(test.events.values().next_back().unwrap().count, 3);
}

#[test]
fn a_job_out_of_sight_is_given_up_a_day_after_its_machine_is_gone_and_not_before() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    let denied_for = |test: &mut TestLedger, hours: u64| {
        for _ in 0..hours {
            test.pass(Duration::from_hours(1));
            test.find(1, Sighting::Absent);
        }
        test.job(1).state()
    };
    assert_eq!(denied_for(&mut test, 30), JobState::Running, "its machine may be at work");
    test.find(1, reading(RUNS, Some("a")));
    test.instance("a", InstanceChange::Deleted);
    assert_eq!(denied_for(&mut test, 24), JobState::Running);
    assert_eq!(denied_for(&mut test, 1), JobState::Closed);
}

#[test]
fn a_runner_that_ended_without_a_named_job_has_the_oldest_open_jobs_of_its_pool_asked_about() {
    let mut test = TestLedger::new();
    for job in 1..=9 {
        let queued_at = after(T0, Duration::from_secs(job));
        test.handle(LedgerInput::Notice(JobNotice { queued_at, ..notice(job, QUEUED, None) }));
    }
    assert_eq!(asked(&test.instance("a", InstanceChange::EndedUnnamed)), [1, 2, 3, 4]);
    // Those that end with it have others asked about.
    assert_eq!(asked(&test.instance("b", InstanceChange::EndedUnnamed)), [5, 6, 7, 8]);
    assert_eq!(asked(&test.instance("c", InstanceChange::EndedUnnamed)), [9]);
    let before = test.demand().queued;
    test.find(1, reading(OVER, Some("a")));
    assert_eq!(test.demand().queued, before - 1, "it was demand that nothing waited for");
    test.pass(Duration::from_mins(1));
    assert_eq!(asked(&test.instance("d", InstanceChange::EndedUnnamed)), [2, 3, 4, 5]);
}
