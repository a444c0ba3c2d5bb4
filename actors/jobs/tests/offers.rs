use super::*;
use crate::model::Refusal;

#[test]
fn the_oldest_job_is_offered_to_who_has_waited_longest() {
    let mut desk = Desk::new();
    desk.waits("b");
    desk.waits("a");
    let acts = desk.hear(1, QUEUED, None);
    assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 1)]);
    assert_eq!(desk.demand(), Demand::default());
    desk.hear(2, QUEUED, None);
    let mut older = notice(3, QUEUED, None);
    older.queued_at = Timestamp::MIN;
    desk.hear(4, QUEUED, None);
    let change = desk.ledger.notice(older, T0);
    desk.save(change);
    assert_eq!(desk.demand().queued, 2);
    let acts = desk.waits("c");
    assert_eq!(sent_to(&acts, "c"), [&offered("c", 3, 1)]);
}

#[test]
fn a_refused_offer_ends_and_goes_to_the_next() {
    for answer in [Some(Err(Refusal::NotReady)), None] {
        let mut desk = Desk::new();
        desk.waits("a");
        desk.hear(1, QUEUED, None);
        desk.waits("b");
        let change = desk.ledger.offer_answered(&id(1), &"a".into(), Generation(1), answer, T0);
        let acts = desk.save(change);
        assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::Refused)]);
        assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 2)]);
    }
}

#[test]
fn who_refused_is_offered_nothing_until_it_says_that_it_waits() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    let refuse = Some(Err(Refusal::NotReady));
    let change = desk.ledger.offer_answered(&id(1), &"a".into(), Generation(1), refuse, T0);
    desk.save(change);
    assert_eq!(desk.demand().queued, 1);
    let acts = desk.news("a", InstanceChange::Offerable);
    assert_eq!(sent_to(&acts, "a"), [&offered("a", 1, 2)]);
}

#[test]
fn an_answer_to_an_old_offer_changes_nothing() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    desk.pass(settings().offer_stale);
    desk.tick();
    desk.news("a", InstanceChange::Offerable);
    assert_eq!(desk.job(1).generation, Generation(2));
    let change = desk.ledger.offer_answered(&id(1), &"a".into(), Generation(1), None, desk.now);
    desk.save(change);
    assert!(desk.job(1).open_offer().is_some());
}

#[test]
fn a_taken_offer_stays_open() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    let change = desk.ledger.offer_answered(&id(1), &"a".into(), Generation(1), Some(Ok(())), T0);
    assert_eq!(desk.save(change), []);
    assert!(desk.job(1).open_offer().is_some());
}

#[test]
fn an_undelivered_offer_lapses_and_a_delivered_one_never_does() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.waits("b");
    desk.hear(2, QUEUED, None);
    desk.pass(settings().offer_stale);
    let acts = desk.tick();
    assert_eq!(sent_to(&acts, "b"), [&ended("b", 2, 1, OfferEnd::Lapsed)]);
    assert_eq!(sent_to(&acts, "a"), Vec::<&Act>::new());
    for _ in 0..100 {
        desk.pass(Duration::from_hours(24));
        desk.tick();
        assert!(desk.job(1).open_offer().is_some());
    }
}

#[test]
fn a_failed_answer_does_not_end_a_delivered_offer() {
    let mut desk = Desk::new();
    let generation = desk.delivered(1, "a");
    let change = desk.ledger.offer_answered(&id(1), &"a".into(), generation, None, T0);
    desk.save(change);
    assert!(desk.job(1).open_offer().is_some());
}

#[test]
fn p5_delivery_is_allowed_only_for_the_offer_that_stands() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    let first = desk.job(1).generation;
    assert!(!desk.deliver(1, "b", first));
    assert!(!desk.deliver(1, "a", first.next()));
    assert!(!desk.deliver(2, "a", first));
    assert!(desk.deliver(1, "a", first));
    assert!(desk.deliver(1, "a", first), "asking again is answered the same");
    assert_eq!(desk.job(1).open_offer().unwrap().stage, OfferStage::Delivered);
}

#[test]
fn delivery_is_refused_once_the_offer_lapsed() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.hear(1, QUEUED, None);
    desk.pass(settings().offer_stale);
    desk.tick();
    assert!(!desk.deliver(1, "a", Generation(1)));
}

#[test]
fn the_end_of_an_instance_frees_what_was_not_delivered_and_asks_about_the_rest() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.waits("b");
    desk.hear(2, QUEUED, None);
    desk.waits("c");
    desk.hear(3, RUNS, Some("c"));
    assert_eq!(asks(&desk.news("a", InstanceChange::Ended)), [1]);
    assert!(desk.job(1).open_offer().is_some(), "only the forge can tell");
    assert!(asks(&desk.news("a", InstanceChange::Deleted)).is_empty(), "it is not asked twice");
    let acts = desk.news("b", InstanceChange::Ended);
    assert_eq!(sent_to(&acts, "b"), [&ended("b", 2, 1, OfferEnd::InstanceEnded)]);
    assert_eq!(desk.demand().queued, 1);
    assert_eq!(asks(&desk.news("c", InstanceChange::Deleted)), [3]);
}

#[test]
fn an_instance_that_waits_and_ends_is_offered_nothing() {
    let mut desk = Desk::new();
    desk.waits("a");
    desk.waits("b");
    desk.news("a", InstanceChange::Ended);
    desk.news("b", InstanceChange::Unavailable);
    desk.hear(1, QUEUED, None);
    assert_eq!(desk.demand().queued, 1);
}

#[test]
fn work_proven_by_the_instance_binds_the_job() {
    let mut desk = Desk::new();
    desk.delivered(1, "a");
    desk.hear(2, QUEUED, None);
    let acts = desk.news("a", InstanceChange::Working(Some(id(2))));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 2), &ended("a", 1, 1, OfferEnd::Displaced)]);
    assert_eq!(
        desk.news("a", InstanceChange::Working(Some(id(2)))),
        [],
        "said again it is no news"
    );
}

#[test]
fn an_instance_that_missed_the_end_of_its_job_is_told_again() {
    let mut desk = Desk::new();
    desk.hear(1, OVER, None);
    let acts = desk.news("a", InstanceChange::Working(Some(id(1))));
    assert!(matches!(sent_to(&acts, "a")[..], [Act::ShowJobOver { over, .. }] if !over.names_us));
}
