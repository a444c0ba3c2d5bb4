use super::*;
use crate::pool::fixtures::{at, report, spec};

fn looked(id: &str, state: State) -> Report {
    Report { looked: true, ..report(id, state) }
}

#[test]
fn a_pool_is_settled_only_when_its_rows_were_read_and_looked_at() {
    let mut reports = Reports::default();
    assert!(!reports.is_settled(), "nothing was read");
    assert!(!reports.is_empty());
    reports.began_with(&[]);
    assert!(reports.is_settled() && reports.is_empty());

    reports.unlooked.insert("a".into());
    reports.hear(Report { looked: false, ..report("a", State::Idle) });
    assert!(!reports.is_settled());
    reports.hear(looked("a", State::Idle));
    assert!(reports.is_settled());
}

#[test]
fn an_outcome_is_news_once() {
    let mut reports = Reports::default();
    let failed = Report { outcome: Some(Outcome::Failed), ..report("a", State::Ended) };
    assert_eq!(reports.hear(failed.clone()), Some(Outcome::Failed));
    assert_eq!(reports.hear(failed), None);
}

#[test]
fn whoever_was_asked_counts_as_going_until_it_speaks_or_is_silent_for_a_minute() {
    let mut reports = Reports::default();
    reports.hear(looked("a", State::Idle));
    reports.hear(looked("b", State::Idle));
    reports.ask(&"a".into(), at(0));
    reports.ask(&"b".into(), at(0));
    assert_eq!(Tally::of(reports.reports()).free, 0);
    reports.hear(looked("b", State::Idle));
    reports.lapse(at(59));
    assert_eq!(Tally::of(reports.reports()).free, 1, "b spoke");
    assert_eq!(reports.next_lapse(), Some(at(60)));
    reports.lapse(at(60));
    assert_eq!(Tally::of(reports.reports()).free, 2);
    assert_eq!(reports.next_lapse(), None);
}

#[test]
fn a_pool_says_why_it_takes_no_more_work() {
    let spec = spec(0, 1);
    let mut reports = Reports::default();
    assert_eq!(reports.accepts(&spec, false, false), Accepts::Work);
    assert_eq!(reports.accepts(&spec, true, true), Accepts::Draining);
    assert_eq!(reports.accepts(&spec, false, true), Accepts::Broken);
    reports.hear(looked("a", State::Idle));
    assert_eq!(reports.accepts(&spec, false, false), Accepts::Work, "one is free");
    reports.hear(looked("a", State::Deleting));
    assert_eq!(reports.accepts(&spec, false, false), Accepts::Full);
}
