use super::*;
use crate::model::{JobOver, JobState, NamedRunner, RunnerId};
use crate::mutants::{self, Mutant};

fn over(who: &str, job: u64, names_us: bool) -> Act {
    let over = JobOver { job: id(job), conclusion: Some(Conclusion::Success), names_us, at: T0 };
    Act::ShowJobOver { instance: who.into(), over }
}

/// Returns every order of the given items.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for at in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

#[test]
fn notices_end_equal_in_whatever_order_and_however_often_they_come() {
    // 4 kinds twice each: 8! orders, of which those that swap twins are the same.
    let kinds = [0_usize, 0, 1, 1, 2, 2, 3, 3];
    let facts = [JobFact::Waiting, QUEUED, RUNS, OVER];
    let mut all = orders(&kinds);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 2520);
    let mut ends = Vec::new();
    for order in all {
        let mut test = TestLedger::new();
        test.instance("a", InstanceChange::Answers(home(), vec!["a".into()]));
        for kind in order {
            let runner = (kind >= 2).then_some("a");
            test.notice(1, facts[kind].clone(), runner);
        }
        let mut job = test.job(1).clone();
        job.events = 0;
        assert_eq!(job.state(), JobState::Completed);
        assert_eq!(test.ledger.open_jobs().count(), 0);
        ends.push((job, test.tombstones));
    }
    ends.dedup();
    assert_eq!(ends.len(), 1, "{ends:#?}");
}

#[test]
fn nothing_resurrects_a_completed_job_not_even_after_a_restart() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    test.notice(1, OVER, None);
    test.restart();
    test.know_pools();
    for fact in [JobFact::Waiting, QUEUED, RUNS] {
        test.notice(1, fact, None);
    }
    assert_eq!(test.ledger.open_jobs().count(), 0);
    assert_eq!(test.demand(), Demand::default());
}

#[test]
fn a_waiting_job_is_no_demand_until_it_is_released() {
    let mut test = TestLedger::new();
    test.notice(1, JobFact::Waiting, None);
    assert_eq!(test.demand().queued, 0);
    test.pass(Duration::from_hours(48));
    test.notice(1, QUEUED, None);
    assert_eq!(test.demand().queued, 1);
    test.tick();
    assert_eq!(test.job(1).state(), JobState::Queued, "it is as young as its release");
}

#[test]
fn an_execution_where_it_was_offered_ends_the_offer_as_executed() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let acts = test.notice(1, RUNS, Some("a"));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)]);
    assert!(matches!(test.job(1).offer, Offer::Ended { why: OfferEnd::Executed, .. }));
    assert_eq!(test.job(1).state(), JobState::Running);
}

#[test]
fn a_swap_of_two_binds_both_and_frees_both() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.delivered(2, "b");
    // The forge ran 2 on a and 1 on b.
    let acts = test.notice(2, RUNS, Some("a"));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 2), &ended("a", 1, 1, OfferEnd::Displaced)]);
    assert_eq!(sent_to(&acts, "b"), [&ended("b", 2, 1, OfferEnd::TakenElsewhere)]);
    assert_eq!(test.demand().queued, 1, "1 wants a runner again");
    let acts = test.notice(1, RUNS, Some("b"));
    assert_eq!(sent_to(&acts, "b"), [&executes("b", 1)]);
    assert_eq!(test.demand().queued, 0);
    // A repetition changes nothing.
    for (job, runner) in [(2, "a"), (1, "b")] {
        assert_eq!(test.notice(job, RUNS, Some(runner)), []);
    }
}

#[test]
fn a_ring_of_three_binds_each_where_it_runs() {
    let mut test = TestLedger::new();
    for (job, instance) in [(1, "a"), (2, "b"), (3, "c")] {
        test.delivered(job, instance);
    }
    for (job, runner) in [(1, "b"), (2, "c"), (3, "a")] {
        test.notice(job, RUNS, Some(runner));
    }
    for (job, runner) in [(1, "b"), (2, "c"), (3, "a")] {
        let run = test.job(job).execution.clone().unwrap();
        assert_eq!(run.instance.as_str(), runner);
        assert_eq!(test.job(job).open_offer(), None);
    }
    assert_eq!(test.demand().queued, 0);
}

#[test]
fn a_displaced_job_is_offered_to_the_next_waiting_instance_in_the_same_save() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.waits("b");
    let acts = test.notice(9, RUNS, Some("a"));
    assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 2)]);
}

#[test]
fn a_job_on_a_foreign_runner_frees_the_instance_it_was_offered_to() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let acts = test.notice(1, RUNS, Some("another"));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::TakenElsewhere)]);
    assert_eq!(test.job(1).execution, None);
    assert_eq!(test.demand().queued, 0, "it runs");
}

#[test]
fn a_job_in_progress_without_a_runners_name_leaves_a_delivered_offer_alone() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    assert_eq!(sent_to(&test.notice(1, RUNS, None), "a"), Vec::<&Act>::new());
    assert!(test.job(1).open_offer().is_some());
    let acts = test.notice(1, RUNS, Some("a"));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)]);
}

#[test]
fn an_undelivered_offer_ends_when_the_job_runs_anywhere() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    let acts = test.notice(1, RUNS, None);
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::TakenElsewhere)]);
}

#[test]
fn an_execution_is_recognised_by_any_name_and_also_later() {
    let mut test = TestLedger::new();
    test.notice(1, RUNS, Some("odd-name"));
    assert_eq!(test.job(1).execution, None);
    let acts =
        test.instance("a", InstanceChange::Answers(home(), vec!["a".into(), "odd-name".into()]));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)]);
    test.instance("b", InstanceChange::Answers(home(), vec!["b".into()]));
    let acts = test.notice(2, RUNS, Some("b-2"));
    assert_eq!(sent_to(&acts, "b"), [&executes("b", 2)]);
}

#[test]
fn a_second_runner_named_by_a_notice_is_asked_about_and_not_believed() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.waits("b");
    test.notice(1, RUNS, Some("a"));
    let acts = test.notice(1, RUNS, Some("b"));
    assert_eq!(asked(&acts), [1]);
    assert_eq!(test.job(1).holder(), Some(&"a".into()));
    let acts = test.find(1, reading(RUNS, Some("b")));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 0, OfferEnd::TakenElsewhere)]);
    assert_eq!(sent_to(&acts, "b"), [&executes("b", 1)]);
}

#[test]
fn a_completion_is_credited_to_the_runner_it_names() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    let acts = test.notice(1, OVER, Some("a"));
    assert_eq!(sent_to(&acts, "a"), [&over("a", 1, true)]);
}

#[test]
fn a_completion_without_a_name_does_not_name_the_runner_it_ran_on() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    let acts = test.notice(1, OVER, None);
    assert_eq!(sent_to(&acts, "a"), [&over("a", 1, false)]);
}

#[test]
fn p4_a_completion_is_never_credited_to_the_instance_merely_offered_the_job() {
    let story = || {
        let mut test = TestLedger::new();
        test.delivered(1, "a");
        let acts = test.notice(1, OVER, Some("another"));
        sent_to(&acts, "a").into_iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(story(), [ended("a", 1, 1, OfferEnd::JobOver)]);
    mutants::choose(Some(Mutant::CompletionByOfferedJob));
    let mistaken = story();
    mutants::choose(None);
    assert!(mistaken.contains(&over("a", 1, true)), "the mistake can be made: {mistaken:?}");
}

#[test]
fn a_completion_that_comes_first_still_binds_and_displaces() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let acts = test.notice(2, OVER, Some("a"));
    assert_eq!(
        sent_to(&acts, "a"),
        [&executes("a", 2), &ended("a", 1, 1, OfferEnd::Displaced), &over("a", 2, true)]
    );
}

#[test]
fn a_stale_job_is_closed_and_only_an_execution_reopens_it() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    test.pass(Duration::from_hours(24));
    test.tick();
    assert_eq!(test.job(1).state(), JobState::Closed);
    test.restart();
    test.know_pools();
    test.notice(1, QUEUED, None);
    assert_eq!(test.job(1).state(), JobState::Closed, "a late notice does not reopen it");
    test.instance("a", InstanceChange::Answers(home(), vec!["a".into()]));
    test.notice(1, RUNS, Some("a"));
    assert_eq!(test.job(1).state(), JobState::Running);
    assert!(test.timeline(1).contains(&What::Reopened));
}

#[test]
fn tombstones_are_forgotten_after_eight_days() {
    let mut test = TestLedger::new();
    test.notice(1, OVER, None);
    test.pass(Duration::from_hours(8 * 24));
    test.tick();
    assert_eq!(test.tombstones.len(), 1);
    // They go by whole hours.
    test.pass(Duration::from_hours(1));
    test.tick();
    assert_eq!(test.tombstones.len(), 0);
}

#[test]
fn a_delivery_is_handled_with_the_change_it_causes_also_when_it_causes_none() {
    let mut test = TestLedger::new();
    for (number, guid) in [(1, "first"), (1, "again"), (99, "unserved")] {
        let mut report = notice(number, QUEUED, None);
        report.delivery = Some(guid.into());
        if number == 99 {
            report.labels = ["windows"].iter().collect();
        }
        let change = test.ledger.handle(LedgerInput::Notice(report), T0);
        assert_eq!(change.save.handled, [guid.into()]);
        test.save(change);
    }
}

#[test]
fn a_job_that_no_pool_serves_gets_no_row_and_is_remembered_until_a_pool_can() {
    let mut test = TestLedger::new();
    let mut report = notice(1, QUEUED, None);
    report.labels = ["windows"].iter().collect();
    let change = test.ledger.handle(LedgerInput::Notice(report), T0);
    assert!(
        matches!(&change.acts[..], [Act::Announce(event), Act::Show(_)] if matches!(event.what, What::Unserved(_)))
    );
    test.save(change);
    assert!(test.rows.is_empty());
    assert_eq!(test.ledger.show(&id(1)).unwrap().fact, QUEUED);
    test.pools.push(Arc::new(pool("windows", &["windows"])));
    test.know_pools();
    assert_eq!(test.job(1).pool, Some("windows".into()));
}

#[test]
fn notices_that_come_before_the_pools_are_known_are_kept() {
    let mut test = TestLedger::new();
    test.restart();
    test.notice(1, QUEUED, None);
    assert!(test.rows.is_empty());
    let acts = test.know_pools();
    assert_eq!(test.job(1).pool, Some(linux()));
    let demand = Demand { queued: 1, blocked: false, oldest: Some(T0) };
    assert!(acts.contains(&Act::Demand { pool: linux(), demand }));
}

#[test]
fn a_held_back_job_that_no_pool_served_is_served_once_it_is_released_and_a_pool_can() {
    let mut test = TestLedger::new();
    let report = |fact| {
        let mut report = notice(1, fact, None);
        report.labels = ["windows"].iter().collect();
        report
    };
    let change = test.ledger.handle(LedgerInput::Notice(report(JobFact::Waiting)), T0);
    test.save(change);
    test.pools.push(Arc::new(pool("windows", &["windows"])));
    test.know_pools();
    assert!(test.rows.is_empty());
    let change = test.ledger.handle(LedgerInput::Notice(report(QUEUED)), T0);
    test.save(change);
    assert_eq!(test.job(1).pool, Some("windows".into()));
    assert_eq!(test.job(1).fact, QUEUED);
}

#[test]
fn a_foreign_job_is_not_ours_because_its_runner_has_the_name_of_one_whose_pool_is_gone() {
    let mut test = TestLedger::new();
    test.instance("a", InstanceChange::Answers(home(), vec!["a".into()]));
    test.pools.clear();
    test.know_pools();
    let mut foreign = notice(1, RUNS, Some("a"));
    foreign.place.owner = "another".into();
    let change = test.ledger.handle(LedgerInput::Notice(foreign), T0);
    test.save(change);
    assert!(test.rows.is_empty(), "it is no job of ours");
    test.notice(2, RUNS, Some("a"));
    assert_eq!(test.job(2).state(), JobState::Running, "this one is");
}

/// Returns a report of a job that runs on a runner of this name and number.
fn runs_on(job: u64, name: &str, number: u64) -> JobNotice {
    let runner = NamedRunner { id: Some(RunnerId(number)), ..NamedRunner::from(name) };
    JobNotice { runner: Some(runner), ..notice(job, RUNS, None) }
}

#[test]
fn a_strangers_runner_of_the_same_name_and_another_number_proves_nothing_here() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.instance("a", InstanceChange::Registered("a".into(), RunnerId(7)));
    let acts = test.handle(LedgerInput::Notice(runs_on(2, "a", 8)));
    assert_eq!(sent_to(&acts, "a"), Vec::<&Act>::new());
    assert_eq!(test.job(2).execution, None);
    assert!(test.job(1).open_offer().is_some(), "its own offer stands");
    let over = JobNotice { fact: OVER, ..runs_on(2, "a", 8) };
    let acts = test.handle(LedgerInput::Notice(over));
    assert_eq!(sent_to(&acts, "a"), Vec::<&Act>::new(), "the end of that job is not its end");
    let acts = test.handle(LedgerInput::Notice(runs_on(1, "a", 7)));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)]);
}

#[test]
fn a_strangers_runner_of_the_same_name_in_another_scope_proves_nothing_here() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    let mut foreign = notice(1, RUNS, Some("a"));
    foreign.id.number = 2;
    test.handle(LedgerInput::Notice(JobNotice { fact: QUEUED, runner: None, ..foreign.clone() }));
    // Its pool serves the organization; this instance is of the time when it served one repository.
    let home = Home { scope: "acme/api".parse().unwrap(), ..home() };
    test.instance("a", InstanceChange::Answers(home, vec!["a".into()]));
    let acts = test.handle(LedgerInput::Notice(foreign));
    assert_eq!(sent_to(&acts, "a"), Vec::<&Act>::new());
    assert_eq!(test.job(2).execution, None);
}

#[test]
fn a_job_that_was_taken_for_ours_by_its_name_alone_is_asked_about_once_our_number_is_known() {
    let mut test = TestLedger::new();
    test.waits("a");
    let acts = test.handle(LedgerInput::Notice(runs_on(1, "a", 8)));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 1)], "nothing else is known yet");
    let acts = test.instance("a", InstanceChange::Registered("a".into(), RunnerId(7)));
    assert_eq!(asked(&acts), [1]);
    let runner = NamedRunner { id: Some(RunnerId(8)), ..NamedRunner::from("a") };
    let seen = JobReading { fact: RUNS, runner: Some(runner), run_over: false };
    let acts = test.find(1, Sighting::Seen(seen));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 0, OfferEnd::TakenElsewhere)]);
    assert_eq!(test.job(1).execution, None);
}
