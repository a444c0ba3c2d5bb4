use super::*;

#[test]
fn open_offers_and_executions_are_sent_again_when_their_instance_appears() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.waits("b");
    test.notice(2, QUEUED, None);
    test.waits("c");
    test.notice(3, RUNS, Some("c"));
    test.restart();
    test.know_pools();
    let acts = test.instance("a", InstanceChange::Answers(home(), vec!["a".into()]));
    let again =
        Act::Offer { instance: "a".into(), job: id(1), generation: Generation(1), delivered: true };
    assert_eq!(acts, [again]);
    let acts = test.instance("b", InstanceChange::Answers(home(), vec!["b".into()]));
    assert_eq!(acts, [offered("b", 2, 1)]);
    let acts = test.instance("c", InstanceChange::Answers(home(), vec!["c".into()]));
    assert_eq!(acts, [executes("c", 3)]);
}

#[test]
fn a_further_mint_does_not_cause_a_repetition_of_everything() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    assert_eq!(
        test.instance("a", InstanceChange::Answers(home(), vec!["a".into(), "a-2".into()])),
        []
    );
    let acts = test.instance("a", InstanceChange::Answers(home(), vec!["a".into(), "a-2".into()]));
    assert_eq!(sent_to(&acts, "a").len(), 1, "a new owner gets it");
}

#[test]
fn c1_an_instance_whose_offer_ended_while_it_was_away_learns_so_on_request() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("another"));
    test.restart();
    let (change, open) = test.ledger.is_open(&offer_key(1, "a", Generation(1)), test.now);
    assert!(!open);
    assert_eq!(change.acts, []);
}

#[test]
fn an_instance_that_missed_its_execution_gets_it_with_the_answer_about_its_offer() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(1, RUNS, Some("a"));
    let (change, open) = test.ledger.is_open(&offer_key(1, "a", Generation(1)), test.now);
    assert!(!open);
    assert_eq!(change.acts, [executes("a", 1)]);
}

#[test]
fn an_offer_stays_open_through_a_restart_and_may_be_delivered_before_pools_are_known() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    test.restart();
    assert!(test.deliver(1, "a", Generation(1)));
}

#[test]
fn after_a_restart_a_job_is_not_taken_for_running_elsewhere_before_its_instance_reported_its_names()
{
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.restart();
    test.know_pools();
    test.notice(1, RUNS, Some("adopted-name"));
    assert!(test.job(1).open_offer().is_some());
    let acts = test
        .instance("a", InstanceChange::Answers(home(), vec!["a".into(), "adopted-name".into()]));
    assert_eq!(sent_to(&acts, "a").last(), Some(&&executes("a", 1)));
}

#[test]
fn the_timeline_goes_on_after_a_restart() {
    let mut test = TestLedger::new();
    test.notice(1, QUEUED, None);
    let before = test.timeline(1).len();
    test.restart();
    test.know_pools();
    test.notice(1, OVER, None);
    assert_eq!(test.timeline(1).len(), before + 1);
}
