use super::*;

#[test]
fn open_offers_and_executions_are_said_again_when_their_instance_appears() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.waits("b");
    desk.hear(2, QUEUED, None);
    desk.waits("c");
    desk.hear(3, RUNS, Some("c"));
    desk.restart();
    desk.know_pools();
    let acts = desk.news("a", InstanceChange::Answers(vec!["a".into()]));
    let again =
        Act::Offer { instance: "a".into(), job: id(1), generation: Generation(1), delivered: true };
    assert_eq!(acts, [again]);
    let acts = desk.news("b", InstanceChange::Answers(vec!["b".into()]));
    assert_eq!(acts, [offered("b", 2, 1)]);
    let acts = desk.news("c", InstanceChange::Answers(vec!["c".into()]));
    assert_eq!(acts, [executes("c", 3)]);
}

#[test]
fn a_further_mint_does_not_make_the_ledger_say_everything_again() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    assert_eq!(desk.news("a", InstanceChange::Answers(vec!["a".into(), "a-2".into()])), []);
    let acts = desk.news("a", InstanceChange::Answers(vec!["a".into(), "a-2".into()]));
    assert_eq!(sent_to(&acts, "a").len(), 1, "a new owner is told");
}

#[test]
fn c1_an_instance_whose_offer_ended_while_it_was_away_learns_so_when_it_asks() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.hear(1, RUNS, Some("somebody-else"));
    desk.restart();
    let (change, open) = desk.ledger.is_open(&id(1), &"a".into(), Generation(1), desk.now);
    assert!(!open);
    assert_eq!(change.acts, []);
}

#[test]
fn an_instance_that_missed_its_execution_is_told_when_it_asks_for_its_offer() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.hear(1, RUNS, Some("a"));
    let (change, open) = desk.ledger.is_open(&id(1), &"a".into(), Generation(1), desk.now);
    assert!(!open);
    assert_eq!(change.acts, [executes("a", 1)]);
}

#[test]
fn an_offer_stands_through_a_restart_and_may_be_delivered_before_pools_are_known() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    desk.restart();
    assert!(desk.deliver(1, "a", Generation(1)));
}

#[test]
fn after_a_restart_a_runner_that_has_not_told_its_names_is_not_called_elsewhere() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.restart();
    desk.know_pools();
    desk.hear(1, RUNS, Some("adopted-name"));
    assert!(desk.job(1).open_offer().is_some());
    let acts = desk.news("a", InstanceChange::Answers(vec!["a".into(), "adopted-name".into()]));
    assert_eq!(sent_to(&acts, "a").last(), Some(&&executes("a", 1)));
}

#[test]
fn the_timeline_goes_on_after_a_restart() {
    let mut desk = Desk::new();
    desk.hear(1, QUEUED, None);
    let before = desk.said(1).len();
    desk.restart();
    desk.know_pools();
    desk.hear(1, OVER, None);
    assert_eq!(desk.said(1).len(), before + 1);
}
