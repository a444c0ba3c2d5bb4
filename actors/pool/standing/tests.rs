use super::*;
use crate::pool::fixtures::{at, report, spec};

fn looked(id: &str, state: State) -> Report {
    Report { looked: true, ..report(id, state) }
}

#[test]
fn a_pool_is_settled_only_when_its_rows_were_read_and_looked_at() {
    let mut standing = Standing::default();
    assert!(!standing.is_settled(), "nothing was read");
    assert!(!standing.is_empty());
    standing.began_with(&[]);
    assert!(standing.is_settled() && standing.is_empty());

    standing.unlooked.insert("a".into());
    standing.hear(Report { looked: false, ..report("a", State::Idle) });
    assert!(!standing.is_settled());
    standing.hear(looked("a", State::Idle));
    assert!(standing.is_settled());
}

#[test]
fn an_outcome_is_news_once() {
    let mut standing = Standing::default();
    let failed = Report { outcome: Some(Outcome::Failed), ..report("a", State::Ended) };
    assert_eq!(standing.hear(failed.clone()), Some(Outcome::Failed));
    assert_eq!(standing.hear(failed), None);
}

#[test]
fn whoever_was_asked_counts_as_going_until_it_speaks_or_is_silent_for_a_minute() {
    let mut standing = Standing::default();
    standing.hear(looked("a", State::Idle));
    standing.hear(looked("b", State::Idle));
    standing.ask(&"a".into(), at(0));
    standing.ask(&"b".into(), at(0));
    assert_eq!(Tally::of(standing.reports()).free, 0);
    standing.hear(looked("b", State::Idle));
    standing.lapse(at(59));
    assert_eq!(Tally::of(standing.reports()).free, 1, "b spoke");
    assert_eq!(standing.next_lapse(), Some(at(60)));
    standing.lapse(at(60));
    assert_eq!(Tally::of(standing.reports()).free, 2);
    assert_eq!(standing.next_lapse(), None);
}

#[test]
fn a_pool_says_why_it_takes_no_more_work() {
    let spec = spec(0, 1);
    let mut standing = Standing::default();
    assert_eq!(standing.accepts(&spec, false, false), Accepts::Work);
    assert_eq!(standing.accepts(&spec, true, true), Accepts::Draining);
    assert_eq!(standing.accepts(&spec, false, true), Accepts::Broken);
    standing.hear(looked("a", State::Idle));
    assert_eq!(standing.accepts(&spec, false, false), Accepts::Work, "one is free");
    standing.hear(looked("a", State::Deleting));
    assert_eq!(standing.accepts(&spec, false, false), Accepts::Full);
}
