use super::*;
use crate::model::Refusal;

#[test]
fn the_oldest_job_is_offered_to_the_longest_waiting_instance() {
    let mut test = TestLedger::new();
    test.waits("b");
    test.waits("a");
    let acts = test.notice(1, QUEUED, None);
    assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 1)]);
    assert_eq!(test.demand(), Demand::default());
    test.notice(2, QUEUED, None);
    let mut older = notice(3, QUEUED, None);
    older.queued_at = Timestamp::MIN;
    test.notice(4, QUEUED, None);
    let change = test.ledger.handle(LedgerInput::Notice(older), T0);
    test.save(change);
    assert_eq!(test.demand().queued, 2);
    let acts = test.waits("c");
    assert_eq!(sent_to(&acts, "c"), [&offered("c", 3, 1)]);
}

#[test]
fn a_refused_offer_ends_and_goes_to_the_next() {
    for answer in [Some(Err(Refusal::NotReady)), None] {
        let mut test = TestLedger::new();
        test.waits("a");
        test.notice(1, QUEUED, None);
        test.waits("b");
        let acts = test.offer_answered(1, "a", Generation(1), answer);
        assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::Refused)]);
        assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 2)]);
    }
}

#[test]
fn an_instance_that_refused_is_offered_nothing_until_it_waits_again() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    let refuse = Some(Err(Refusal::NotReady));
    test.offer_answered(1, "a", Generation(1), refuse);
    assert_eq!(test.demand().queued, 1);
    let acts = test.instance("a", InstanceChange::Offerable(None));
    assert_eq!(sent_to(&acts, "a"), [&offered("a", 1, 2)]);
}

#[test]
fn an_answer_to_an_old_offer_changes_nothing() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    test.pass(settings().offer_stale);
    test.tick();
    test.instance("a", InstanceChange::Offerable(None));
    assert_eq!(test.job(1).generation, Generation(2));
    test.offer_answered(1, "a", Generation(1), None);
    assert!(test.job(1).open_offer().is_some());
}

#[test]
fn a_taken_offer_stays_open() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    assert_eq!(test.offer_answered(1, "a", Generation(1), Some(Ok(()))), []);
    assert!(test.job(1).open_offer().is_some());
}

#[test]
fn an_undelivered_offer_lapses_and_a_delivered_one_never_does() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.waits("b");
    test.notice(2, QUEUED, None);
    test.pass(settings().offer_stale);
    let acts = test.tick();
    assert_eq!(sent_to(&acts, "b"), [&ended("b", 2, 1, OfferEnd::Lapsed)]);
    assert_eq!(sent_to(&acts, "a"), Vec::<&Act>::new());
    for _ in 0..100 {
        test.pass(Duration::from_hours(24));
        test.tick();
        assert!(test.job(1).open_offer().is_some());
    }
}

#[test]
fn a_failed_answer_does_not_end_a_delivered_offer() {
    let mut test = TestLedger::new();
    let generation = test.delivered(1, "a");
    test.offer_answered(1, "a", generation, None);
    assert!(test.job(1).open_offer().is_some());
}

#[test]
fn p5_delivery_is_allowed_only_for_the_open_offer() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    let first = test.job(1).generation;
    assert!(!test.deliver(1, "b", first));
    assert!(!test.deliver(1, "a", first.next()));
    assert!(!test.deliver(2, "a", first));
    assert!(test.deliver(1, "a", first));
    assert!(test.deliver(1, "a", first), "asking again is answered the same");
    assert_eq!(test.job(1).open_offer().unwrap().stage, OfferStage::Delivered);
}

#[test]
fn delivery_is_refused_once_the_offer_lapsed() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.notice(1, QUEUED, None);
    test.pass(settings().offer_stale);
    test.tick();
    assert!(!test.deliver(1, "a", Generation(1)));
}

#[test]
fn the_end_of_an_instance_frees_what_was_not_delivered_and_checks_the_rest() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.waits("b");
    test.notice(2, QUEUED, None);
    test.waits("c");
    test.notice(3, RUNS, Some("c"));
    assert_eq!(asked(&test.instance("a", InstanceChange::Ended)), [1]);
    assert!(test.job(1).open_offer().is_some(), "only the forge can tell");
    assert!(
        asked(&test.instance("a", InstanceChange::Deleted)).is_empty(),
        "it is not asked twice"
    );
    let acts = test.instance("b", InstanceChange::Ended);
    assert_eq!(sent_to(&acts, "b"), [&ended("b", 2, 1, OfferEnd::InstanceEnded)]);
    assert_eq!(test.demand().queued, 1);
    assert_eq!(asked(&test.instance("c", InstanceChange::Deleted)), [3]);
}

#[test]
fn an_instance_that_waits_and_ends_is_offered_nothing() {
    let mut test = TestLedger::new();
    test.waits("a");
    test.waits("b");
    test.instance("a", InstanceChange::Ended);
    test.instance("b", InstanceChange::Unavailable);
    test.notice(1, QUEUED, None);
    assert_eq!(test.demand().queued, 1);
}

#[test]
fn work_proven_by_the_instance_binds_the_job() {
    let mut test = TestLedger::new();
    test.delivered(1, "a");
    test.notice(2, QUEUED, None);
    let acts = test.instance("a", InstanceChange::Working(Some(id(2))));
    assert_eq!(sent_to(&acts, "a"), [&executes("a", 2), &ended("a", 1, 1, OfferEnd::Displaced)]);
    assert_eq!(
        test.instance("a", InstanceChange::Working(Some(id(2)))),
        [],
        "a repetition changes nothing"
    );
}

#[test]
fn an_instance_that_missed_the_end_of_its_job_gets_it_again() {
    let mut test = TestLedger::new();
    test.notice(1, OVER, None);
    let acts = test.instance("a", InstanceChange::Working(Some(id(1))));
    assert!(matches!(sent_to(&acts, "a")[..], [Act::ShowJobOver { over, .. }] if !over.names_us));
}

fn on_host(test: &mut TestLedger, instance: &str, host: &str) -> Vec<Act> {
    test.instance(instance, InstanceChange::Answers(home(), vec![instance.into()]));
    test.instance(instance, InstanceChange::Offerable(Some(host.into())))
}

#[test]
fn an_offer_whose_jit_config_was_not_fetched_ends_and_the_next_avoids_its_host() {
    let mut test = TestLedger::new();
    on_host(&mut test, "a", "dead");
    on_host(&mut test, "b", "dead");
    on_host(&mut test, "c", "well");
    test.notice(1, QUEUED, None);
    let acts = test.offer_answered(1, "a", Generation(1), Some(Err(Refusal::NotFetched)));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::NotFetched)]);
    assert_eq!(sent_to(&acts, "c"), [&offered("c", 1, 2)], "`b` has waited for longer");
    // Where there is nothing else, the host may have recovered.
    let acts = test.offer_answered(1, "c", Generation(2), Some(Err(Refusal::NotReady)));
    assert_eq!(sent_to(&acts, "b"), [&offered("b", 1, 3)]);
}

#[test]
fn a_delivery_in_doubt_is_asked_about_at_once_and_a_job_still_queued_goes_to_another_host() {
    let mut test = TestLedger::new();
    on_host(&mut test, "a", "dead");
    test.notice(1, QUEUED, None);
    assert_eq!(asked(&test.instance("a", InstanceChange::DeliveryInDoubt)), Vec::<u64>::new());
    assert!(test.deliver(1, "a", Generation(1)));
    on_host(&mut test, "b", "dead");
    on_host(&mut test, "c", "well");
    assert_eq!(asked(&test.instance("a", InstanceChange::DeliveryInDoubt)), [1]);
    assert!(test.job(1).open_offer().is_some(), "only the forge can tell");
    let acts = test.find(1, reading(QUEUED, None));
    assert_eq!(sent_to(&acts, "a"), [&ended("a", 1, 1, OfferEnd::Requeued)]);
    assert_eq!(sent_to(&acts, "c").len(), 1);
}
