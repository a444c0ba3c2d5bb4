//! Shows that each checker can fail; fixtures for the two files below.

mod everything;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::instance::requested_row;
use crate::mail::Mailbox;
use crate::model::{
    Asked, Conclusion, Confidence, End, Epoch, Event, Execution, ExitFacts, ExitRecord, Fault,
    ForgeId, Generation, HeldOffer, Instance, InstanceId, Job, JobFact, JobId, JobOver, Offer,
    OfferEnd, OfferStage, OpenOffer, Place, PoolId, Reason, Registration, RemovalRequest,
    RequestedBy, RunnerId, State, Subject, Tail, Timestamp, Urgency, Verdict, VerdictClass,
    Version, Warrant, WarrantKind, What, after,
};
use crate::pool::fixtures::spec;
use crate::ports::InstanceSave;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn job_id(number: u64) -> JobId {
    JobId { forge: ForgeId::new("github"), number }
}

/// A healthy row in the given state.
fn row(state: State) -> Instance {
    let lives = state.was_created();
    let going = state.is_delete_decided();
    let warrant = Warrant { kind: WarrantKind::OwnEnd, evidence: vec![], at: now() };
    Instance {
        state,
        version: Version(5),
        events: 5,
        create_called_at: lives.then(now),
        seen_at: lives.then(now),
        end: state.is_over().then_some(End::Gone { deleted_externally: false }),
        warrant: going.then_some(warrant),
        verdict: going.then_some(VerdictClass::Vanished),
        machine_gone_at: (state == State::Deleted).then(now),
        ..requested_row("linux-1".into(), &spec(0, 1), now())
    }
}

fn next(before: &Instance, state: State) -> Instance {
    let mut after = row(state);
    after.version = before.version.next();
    after.events = before.events + 1;
    after
}

fn save(before: Option<&Instance>, after: Instance, moves: &[State]) -> InstanceSave {
    let mut events = Vec::new();
    let mut at = before.map(|row| row.state);
    for to in moves {
        if let Some(from) = at {
            let what = What::Moved { from, to: *to, why: "test".into() };
            let subject = Subject::Instance(after.id.clone());
            events.push(Event { subject, seq: 1, at: now(), last_at: now(), count: 1, what });
        }
        at = Some(*to);
    }
    let is_new = after.verdict.is_some() && before.is_none_or(|row| row.verdict.is_none());
    let exit = is_new.then(|| record(&after));
    let replaces = before.map_or(Version(0), |row| row.version);
    InstanceSave { row: after, replaces, epoch: Epoch(1), events, exit }
}

fn record(row: &Instance) -> ExitRecord {
    ExitRecord {
        instance: row.id.clone(),
        pool: row.pool.clone(),
        job: row.executing.clone(),
        exit: None,
        tail: Tail::NotNeeded,
        warrant: WarrantKind::OwnEnd,
        verdict: Verdict {
            class: row.verdict.unwrap_or(VerdictClass::Unknown),
            fault: Fault::Provider,
            confidence: Confidence::Low,
            evidence: vec![],
            advice: String::new(),
        },
        at: now(),
        provisional: None,
        revisions: 0,
    }
}

fn over(names_us: bool) -> JobOver {
    let conclusion = Some(Conclusion::Success);
    JobOver { job: job_id(7), conclusion, names_us, at: now() }
}

fn warranted(row: &mut Instance, kind: WarrantKind) {
    row.warrant = Some(Warrant { kind, evidence: vec![], at: now() });
    row.verdict = Some(VerdictClass::Removed);
    if kind != WarrantKind::OwnEnd {
        row.end = None;
    }
}

#[track_caller]
fn breaks(violations: &[Violation], number: u8) {
    assert!(
        violations.iter().any(|violation| violation.number == number),
        "I{number} holds: {violations:?}"
    );
}

#[track_caller]
fn holds(violations: &[Violation]) {
    assert!(violations.is_empty(), "{violations:?}");
}

/// Breaks a healthy step from `from` to `to` by `harm` and returns what the checker says.
fn harmed(
    from: State,
    to: State,
    harm: impl FnOnce(&mut Instance, &mut Instance),
) -> Vec<Violation> {
    let mut before = row(from);
    let mut after = next(&before, to);
    harm(&mut before, &mut after);
    let moves: &[State] = if from == to { &[] } else { &[to] };
    let save = save(Some(&before), after, moves);
    check_save(Some(&before), &save)
}

#[test]
fn the_table_counts_from_one_without_a_gap() {
    for (at, invariant) in INVARIANTS.iter().enumerate() {
        assert_eq!(usize::from(invariant.number), at + 1);
        assert!(invariant.sentence.ends_with('.'), "{}", invariant.sentence);
    }
}

#[test]
fn the_guide_to_the_tests_names_every_invariant_and_every_known_failure() {
    let guide = include_str!("../../tests/README.md");
    for invariant in INVARIANTS {
        let row = format!("| I{} | {} |", invariant.number, invariant.name);
        assert!(guide.contains(&row), "no row {row:?}");
        if let Checked::Elsewhere(story) = invariant.checked {
            assert!(guide.contains(&format!("`{story}`")), "no story {story:?}");
        }
    }
    for failure in 1..=64 {
        let story = format!("| F{failure:02} | `f{failure:02}_");
        let excuse = format!("| F{failure:02} | not covered: ");
        assert!(guide.contains(&story) || guide.contains(&excuse), "no row for F{failure:02}");
    }
}

#[test]
fn a_healthy_life_breaks_nothing() {
    use State::{
        Busy, Creating, Deleted, Deleting, Ended, Idle, PendingCreate, PendingDelete, Reserved,
        Starting,
    };
    let mut before: Option<Instance> = None;
    for state in [
        PendingCreate,
        Creating,
        Starting,
        Idle,
        Reserved,
        Busy,
        Ended,
        PendingDelete,
        Deleting,
        Deleted,
    ] {
        let mut after = row(state);
        after.version = before.as_ref().map_or(Version(1), |row| row.version.next());
        let whole = save(before.as_ref(), after.clone(), &[state]);
        holds(&check_save(before.as_ref(), &whole));
        holds(&check_rows(before.as_ref(), &after));
        before = Some(after);
    }
}

#[test]
fn a_broken_promise_is_a_figure_and_a_sentence() {
    let registry = Registry::default();
    let broken = harmed(State::Busy, State::Deleting, |_, _| {});
    report(&registry, &broken);
    assert_eq!(registry.violations(), broken.len() as u64);
    let text = broken[0].to_string();
    assert!(text.starts_with("I31 is broken by `linux-1`: went from busy to deleting"), "{text}");
}
