use super::*;
use crate::instance::fixtures::spec;
use crate::instance::requested_row;
use crate::model::{
    Binding, ExitFacts, ForgeId, Generation, HeldOffer, InstanceId, JobId, JobOver, Reason,
    Refusal, RemovalRequest, RequestedBy, RunnerId, Subject, Urgency, VerdictClass, Version,
    Warrant, WarrantKind, after,
};

fn at(second: u64) -> Timestamp {
    after(Timestamp::UNIX_EPOCH, Duration::from_secs(second))
}

fn job(number: u64) -> JobId {
    JobId { forge: ForgeId::new("github"), number }
}

fn row(state: State, since: u64) -> Instance {
    let born = requested_row("linux-1".into(), &spec(Binding::Late), at(0));
    Instance { state, since: at(since), version: Version(3), ..born }
}

fn event(seq: u32, first: u64, last: u64, count: u32, what: What) -> Event {
    let subject = Subject::Instance(InstanceId::new("linux-1"));
    Event { subject, seq, at: at(first), last_at: at(last), count, what }
}

fn explained(row: &Instance, events: &[Event], now: u64) -> String {
    explain_instance(row, events, &Policy::default(), at(now)).join("\n")
}

#[track_caller]
fn says(text: &str, part: &str) {
    assert!(text.contains(part), "lacks {part:?}:\n{text}");
}

#[test]
fn every_state_is_explained_in_whole_sentences() {
    for state in State::ALL {
        let lines = explain_instance(&row(state, 0), &[], &Policy::default(), at(40));
        assert!(lines[0].starts_with(&format!("`linux-1` ({state}, for 40 s)")), "{lines:?}");
        for line in &lines {
            assert!(line.ends_with('.') && !line.contains("  "), "{line:?}");
        }
        assert!(lines.len() > 1 || state == State::Deleted, "{state} waits for nothing?");
    }
}

#[test]
fn a_slow_boot_shows_how_much_time_is_left() {
    let row = row(State::Starting, 20);
    says(&explained(&row, &[], 60), "Boot in progress 40 s of 300 s.");
}

#[test]
fn a_busy_instance_tells_who_asked_and_what_was_answered() {
    let mut row = row(State::Busy, 0);
    row.executing = Some(job(7));
    row.removal = Some(RemovalRequest {
        urgency: Urgency::Delete,
        reason: Reason::Operator,
        by: Some(RequestedBy { who: "ops".into(), why: "too old".into() }),
        at: at(30),
    });
    let refused =
        What::Refused { request: "retire (surplus) by the pool".into(), why: Refusal::Busy };
    let text = explained(&row, &[event(4, 10, 55, 12, refused)], 60);
    says(&text, "runs job github/7");
    says(&text, "Kept: the forge has not reported the end of its job.");
    says(
        &text,
        "Removal requested (delete, operator, 30 s ago by ops: too old): kept until its job is over.",
    );
    says(
        &text,
        "Refused retire (surplus) by the pool 12 times, last 5 s ago: a job runs here, or may.",
    );
}

#[test]
fn only_the_last_refusals_are_listed_the_latest_first() {
    let refuse = |n: u32| What::Refused { request: format!("ask {n}"), why: Refusal::Budget };
    let events: Vec<Event> = (0..9).map(|n| event(n, 1, 1, 1, refuse(n))).collect();
    let text = explained(&row(State::Idle, 0), &events, 60);
    assert!(text.find("ask 8").unwrap() < text.find("ask 6").unwrap());
    assert!(!text.contains("ask 5"));
}

#[test]
fn a_retiring_instance_counts_its_hold_from_the_deregistration() {
    let mut row = row(State::Retiring, 0);
    row.registration = Registration::Known { name: "linux-1".into(), id: RunnerId(9) };
    let refused = event(1, 5, 9, 2, What::DeregisterRefused);
    let text = explained(&row, std::slice::from_ref(&refused), 20);
    says(&text, "Its registration is removed first");
    says(&text, "Registered as `linux-1` (runner 9). The forge refused to remove it twice.");

    row.registration = Registration::Gone;
    let gone = event(2, 30, 30, 1, What::Deregistered("204".into()));
    says(
        &explained(&row, std::slice::from_ref(&gone), 60),
        "Held 30 s of 90 s after deregistration.",
    );
    says(&explained(&row, std::slice::from_ref(&gone), 130), "The hold is over");
    let respawned = event(3, 50, 50, 1, What::Respawned { panicked: true });
    says(&explained(&row, &[gone, respawned], 60), "Held 10 s of 90 s");
}

#[test]
fn a_failing_delete_tells_how_often_and_why() {
    let mut row = row(State::Deleting, 0);
    row.warrant = Some(Warrant {
        kind: WarrantKind::Idle,
        evidence: vec!["deregistered".into(), "no worker".into()],
        at: at(0),
    });
    row.verdict = Some(VerdictClass::Removed);
    let events = [
        event(5, 10, 20, 2, What::DeleteFailed("timeout".into())),
        event(6, 200, 200, 1, What::DeleteFailed("503".into())),
    ];
    let text = explained(&row, &events, 400);
    says(&text, "Delete failed 3 times, last 3 min 20 s ago: 503; it is retried for ever.");
    says(&text, "Its deletion was allowed 6 min 40 s ago (idle): deregistered; no worker.");
    says(&text, "Verdict removed: removed before it ended.");
    says(&text, "Stuck: deleting for more than 5 min.");
}

#[test]
fn an_unanswered_create_tells_what_is_still_to_come() {
    let mut row = row(State::Creating, 0);
    says(&explained(&row, &[], 5), "The provider has not been called yet");
    row.create_called_at = Some(at(10));
    let lost = event(1, 40, 40, 1, What::CreateUnanswered("connection reset".into()));
    let text = explained(&row, &[lost], 110);
    says(&text, "Create was called 1 min 40 s ago.");
    says(&text, "connection reset, 1 min 10 s ago");
    says(&text, "settling 100 s of 600 s");
}

#[test]
fn an_idle_instance_tells_why_it_is_idle_and_alive() {
    let mut idle = row(State::Idle, 0);
    let text = explained(&idle, &[], 100);
    says(&text, "waits for the ledger's offer");
    says(&text, "after it was idle 100 s of 300 s");
    idle.registration = Registration::Known { name: "linux-1".into(), id: RunnerId(9) };
    says(&explained(&idle, &[], 100), "takes no further offer");
    idle.binding = Binding::Early;
    says(&explained(&idle, &[], 100), "waits for the forge to give its runner a job");
    let shadow = event(1, 90, 95, 2, What::ShadowAsk(Reason::Unlisted));
    says(
        &explained(&idle, &[shadow], 100),
        "would have requested its removal (unlisted) twice, last 5 s ago",
    );
}

#[test]
fn a_reserved_instance_tells_how_far_its_offer_is() {
    let mut row = row(State::Reserved, 0);
    let offer = HeldOffer { job: job(7), generation: Generation(2), delivered: false };
    row.offer = Some(offer.clone());
    says(&explained(&row, &[], 5), "Holds offer 2 of job github/7: its JIT config is being minted");
    row.offer = Some(HeldOffer { delivered: true, ..offer });
    says(&explained(&row, &[], 5), "waits for the forge to prove the job runs");
    says(&explained(&row, &[], 300), "Stuck: reserved");
}

#[test]
fn doubt_is_explained_until_the_machine_is_seen_again() {
    let busy = row(State::Busy, 0);
    let doubt = event(1, 10, 20, 3, What::SightingUnknown("NodeLost".into()));
    let missed = event(2, 30, 30, 1, What::FirstAbsence);
    let text = explained(&busy, &[doubt.clone(), missed.clone()], 50);
    says(&text, "in doubt 30 s ago (NodeLost): the machine is kept.");
    says(&text, "not found once; a second read decides, 20 s of 60 s.");
    let back = event(3, 40, 40, 1, What::Reappeared);
    assert!(!explained(&busy, &[doubt, missed, back], 50).contains("not found once"));
}

#[test]
fn an_end_is_explained_with_its_verdict() {
    let mut row = row(State::PendingDelete, 0);
    row.end = Some(End::Exited(ExitFacts {
        code: Some(137),
        reason: Some("OOMKilled".into()),
        ..Default::default()
    }));
    row.verdict = Some(VerdictClass::HostOom);
    says(
        &explained(&row, &[], 5),
        "Verdict host_oom: the machine ended, exit code 137, signal 9, OOMKilled.",
    );
    row.end = Some(End::Gone { deleted_externally: true });
    row.verdict = None;
    says(&explained(&row, &[], 5), "No verdict yet: the machine was deleted externally.");
}

#[test]
fn a_job_that_is_over_tells_what_is_awaited() {
    let mut row = row(State::Busy, 0);
    row.executing = Some(job(7));
    row.job_over = Some(JobOver { job: job(7), conclusion: None, names_us: true, at: at(10) });
    let text = explained(&row, &[], 13);
    says(&text, "served 3 s of 5 s, a zombie after 3 s of 900 s");
}

#[test]
fn spans_are_written_as_people_say_them() {
    for (seconds, text) in [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3700, "1 h 1 min"),
        (90_000, "1 d 1 h"),
    ] {
        assert_eq!(span(Duration::from_secs(seconds)), text);
    }
}
