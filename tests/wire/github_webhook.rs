//! Deliveries as they come: signatures first, then payloads of every shape.

use aws_lc_rs::hmac;
use jiff::Timestamp;
use ostler::github::webhook::{
    MAX_DELIVERY_BYTES, Request, Secrets, WebhookEvent, WebhookRefusal, open,
};
use ostler_actors::model::{Conclusion, ForgeId, JobFact, JobNotice, Place, Scope};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::github_data;

const SECRET: &str = "It's a Secret to Everybody";

fn now() -> Timestamp {
    "2026-11-17T12:00:00Z".parse().unwrap()
}

fn sign(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body);
    tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn read(event: &str, body: &[u8]) -> Result<WebhookEvent, WebhookRefusal> {
    let signature = sign(SECRET, body);
    let request =
        Request { event: Some(event), delivery: Some("g-1"), signature: Some(&signature), body };
    let scopes = [Scope::Organization("acme".into()), Scope::Enterprise("initech".into())];
    open(
        &Secrets::new(&[SECRET.to_owned().into()]),
        request,
        &ForgeId::new("github"),
        &scopes,
        now(),
    )
}

fn payload() -> Value {
    json!({
        "action": "queued",
        "workflow_job": {
            "id": 7, "run_id": 5, "run_attempt": 1, "name": "build", "status": "queued",
            "html_url": "https://github.com/acme/web/actions/runs/5/job/7", "conclusion": null,
            "labels": ["self-hosted", "Linux"], "runner_id": null, "runner_name": null,
            "created_at": "2026-11-17T11:59:00Z", "started_at": "2026-11-17T11:59:00Z",
            "completed_at": null, "steps": [],
        },
        "repository": {"id": 1, "name": "web", "full_name": "acme/web", "owner": {"login": "acme"}},
        "organization": {"login": "acme"},
        "sender": {"login": "ada"},
    })
}

/// Changes one field of the usual payload; `/workflow_job/name` for instance.
fn with(pointer: &str, value: Value) -> Value {
    let mut payload = payload();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    payload.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(field.into(), value);
    payload
}

fn without(pointer: &str) -> Value {
    let mut payload = payload();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    payload.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    payload
}

fn job(payload: &Value) -> JobNotice {
    match read("workflow_job", payload.to_string().as_bytes()) {
        Ok(WebhookEvent::Job(news)) => news.notice,
        other => panic!("{other:?} from {payload}"),
    }
}

#[test]
fn the_signature_of_githubs_own_documentation_is_right() {
    let known = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let request = Request {
        event: Some("ping"),
        delivery: None,
        signature: Some(known),
        body: b"Hello, World!",
    };
    let forge = ForgeId::new("github");
    let secrets = Secrets::new(&[SECRET.to_owned().into()]);
    assert_eq!(open(&secrets, request, &forge, &[], now()), Ok(WebhookEvent::Ping));
    let other = Request { body: b"Hello, World?", ..request };
    assert_eq!(open(&secrets, other, &forge, &[], now()), Err(WebhookRefusal::BadSignature));
}

#[test]
fn either_of_two_secrets_will_do_and_no_third() {
    let secrets = Secrets::new(&["old".to_owned().into(), "new".to_owned().into()]);
    let body = payload().to_string();
    for (secret, good) in [("old", true), ("new", true), ("third", false), ("", false)] {
        let signature = sign(secret, body.as_bytes());
        let request = Request {
            event: Some("workflow_job"),
            delivery: Some("g"),
            signature: Some(&signature),
            body: body.as_bytes(),
        };
        let opened = open(&secrets, request, &ForgeId::new("github"), &[], now());
        assert_eq!(opened.is_ok(), good, "{secret}");
    }
    let none = Secrets::new(&[]);
    let signature = sign("", b"{}");
    let request =
        Request { event: Some("ping"), delivery: None, signature: Some(&signature), body: b"{}" };
    let refused = open(&none, request, &ForgeId::new("github"), &[], now());
    assert_eq!(refused, Err(WebhookRefusal::BadSignature), "no secret accepts no delivery");
}

#[test]
fn nothing_is_read_before_the_signature_is_right() {
    let forge = ForgeId::new("github");
    let secrets = Secrets::new(&[SECRET.to_owned().into()]);
    let good = sign(SECRET, b"{}");
    for signature in [
        Some("sha1=0000"),
        Some("sha256="),
        Some("sha256=zz"),
        Some("sha256=757"),
        Some(""),
        Some(&good[..good.len() - 2]),
        Some("SHA256=00"),
        Some("sha256=é"),
    ] {
        let request = Request { event: None, delivery: None, signature, body: b"not even json" };
        let opened = open(&secrets, request, &forge, &[], now());
        assert_eq!(opened, Err(WebhookRefusal::BadSignature), "{signature:?}");
    }
    let unsigned = Request { event: None, delivery: None, signature: None, body: b"{}" };
    assert_eq!(open(&secrets, unsigned, &forge, &[], now()), Err(WebhookRefusal::Unsigned));
    let huge = vec![b' '; MAX_DELIVERY_BYTES + 1];
    let request = Request { event: None, delivery: None, signature: Some(&good), body: &huge };
    assert_eq!(open(&secrets, request, &forge, &[], now()), Err(WebhookRefusal::TooLarge));
}

#[test]
fn a_queued_job_becomes_a_notice() {
    let notice = job(&payload());
    assert_eq!((notice.id.number, notice.run), (7, 5));
    assert_eq!(
        notice.place,
        Place { owner: "acme".into(), repository: "web".into(), enterprise: None }
    );
    assert_eq!(notice.fact, JobFact::Queued);
    assert_eq!(notice.labels, ["linux", "self-hosted"].iter().collect());
    assert_eq!(notice.queued_at, "2026-11-17T11:59:00Z".parse::<Timestamp>().unwrap());
    assert_eq!(notice.delivery, Some("g-1".into()));
    assert_eq!((notice.runner, notice.name.as_str()), (None, "build"));
}

#[test]
fn the_action_says_what_happened() {
    let facts = [
        ("queued", JobFact::Queued),
        ("waiting", JobFact::Waiting),
        ("in_progress", JobFact::InProgress),
        ("completed", JobFact::Completed(Conclusion::Other("unknown".into()))),
    ];
    for (action, fact) in facts {
        assert_eq!(job(&with("/action", json!(action))).fact, fact);
    }
    for action in ["requested", "pending", "", "exploded"] {
        let body = with("/action", json!(action)).to_string();
        let news = read("workflow_job", body.as_bytes());
        assert!(matches!(news, Ok(WebhookEvent::Ignored(_))), "{action}: {news:?}");
    }
}

#[test]
fn every_conclusion_is_understood_or_kept_as_it_is() {
    let words = [
        ("success", Conclusion::Success),
        ("failure", Conclusion::Failure),
        ("cancelled", Conclusion::Cancelled),
        ("skipped", Conclusion::Skipped),
        ("timed_out", Conclusion::TimedOut),
        ("action_required", Conclusion::Other("action_required".into())),
        ("neutral", Conclusion::Other("neutral".into())),
        ("invented_tomorrow", Conclusion::Other("invented_tomorrow".into())),
    ];
    for (word, conclusion) in words {
        let mut payload = with("/workflow_job/conclusion", json!(word));
        payload["action"] = json!("completed");
        payload["workflow_job"]["runner_name"] = json!("m1");
        let notice = job(&payload);
        assert_eq!(notice.fact, JobFact::Completed(conclusion));
        assert_eq!(notice.runner, Some("m1".into()));
    }
}

#[test]
fn a_queued_job_names_no_runner_whatever_an_old_field_says() {
    assert_eq!(job(&with("/workflow_job/runner_name", json!("GitHub Actions 5"))).runner, None);
    let mut begun = with("/workflow_job/runner_name", json!(""));
    begun["action"] = json!("in_progress");
    assert_eq!(job(&begun).runner, None, "an empty name is no name");
}

#[test]
fn what_is_missing_null_or_new_does_no_harm() {
    for field in ["name", "html_url", "status", "conclusion", "labels", "runner_name", "steps"] {
        job(&without(&format!("/workflow_job/{field}")));
        job(&with(&format!("/workflow_job/{field}"), Value::Null));
    }
    for pointer in ["/organization", "/sender"] {
        job(&without(pointer));
        job(&with(pointer, Value::Null));
    }
    job(&with("/workflow_job/invented", json!({"deep": [1, {"er": null}]})));
    job(&with("/deployment", json!({"id": 1})));
    assert_eq!(job(&with("/workflow_job/labels", json!([]))).labels, [""; 0].iter().collect());
}

#[test]
fn a_job_without_dates_is_dated_when_it_is_heard_of() {
    let mut payload = without("/workflow_job/created_at");
    payload["workflow_job"]["started_at"] = json!("yesterday");
    assert_eq!(job(&payload).queued_at, now());
    payload["workflow_job"]["started_at"] = json!("2026-11-17T11:58:00+00:00");
    assert_eq!(job(&payload).queued_at, "2026-11-17T11:58:00Z".parse::<Timestamp>().unwrap());
}

#[test]
fn jobs_of_others_are_recognized() {
    let mut payload = with("/repository/owner", json!({"login": "stranger"}));
    let body = payload.to_string();
    let news = read("workflow_job", body.as_bytes()).unwrap();
    assert!(matches!(&news, WebhookEvent::Elsewhere(place) if place.owner == "stranger"));
    assert_eq!(news.outcome(), "elsewhere");
    payload["enterprise"] = json!({"id": 1, "slug": "Initech"});
    assert_eq!(job(&payload).place.enterprise.as_deref(), Some("Initech"));
    payload["enterprise"] = json!({"id": 1, "slug": null});
    assert!(matches!(
        read("workflow_job", payload.to_string().as_bytes()),
        Ok(WebhookEvent::Elsewhere(_))
    ));
}

#[test]
fn other_events_are_ignored_politely() {
    for event in ["push", "workflow_run", "check_run", "installation", "", "\u{0}\u{7}"] {
        let news = read(event, b"{}").unwrap();
        assert!(matches!(news, WebhookEvent::Ignored(_)), "{event}: {news:?}");
    }
    assert_eq!(read("ping", b"anything at all"), Ok(WebhookEvent::Ping));
}

#[test]
fn what_cannot_be_read_is_refused_without_quoting_it() {
    let whole = payload().to_string().into_bytes();
    let mut shapes: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("null", b"null".to_vec()),
        ("a list", b"[]".to_vec()),
        ("a number", b"7".to_vec()),
        ("no job", without("/workflow_job").to_string().into_bytes()),
        ("no repository", without("/repository").to_string().into_bytes()),
        ("no owner", without("/repository/owner").to_string().into_bytes()),
        ("no id", without("/workflow_job/id").to_string().into_bytes()),
        ("a negative id", with("/workflow_job/id", json!(-1)).to_string().into_bytes()),
        ("a text for an id", with("/workflow_job/id", json!("7")).to_string().into_bytes()),
        ("labels as text", with("/workflow_job/labels", json!("linux")).to_string().into_bytes()),
        ("a form", [b"payload=".as_slice(), &whole].concat()),
        ("two payloads", [whole.as_slice(), &whole].concat()),
        ("not UTF-8", [b"{\"action\":\"".as_slice(), b"\xff\xfe", b"\"}"].concat()),
        (
            "UTF-16",
            String::from_utf8(whole.clone())
                .unwrap()
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
        ),
        ("deep", [b"[".repeat(100_000), b"]".repeat(100_000)].concat()),
        ("compressed", b"\x1f\x8b\x08\x00\x00\x00".to_vec()),
    ];
    for cut in [1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        shapes.push(("truncated", whole[..cut].to_vec()));
    }
    for (name, body) in shapes {
        let refused = read("workflow_job", &body);
        let Err(refusal @ WebhookRefusal::Malformed(_)) = refused else {
            panic!("{name}: {refused:?}")
        };
        assert!(!refusal.to_string().contains("acme"), "{name}: {refusal}");
    }
}

#[test]
fn a_mark_before_the_text_and_a_very_long_payload_are_read() {
    let body = [b"\xef\xbb\xbf".as_slice(), payload().to_string().as_bytes()].concat();
    assert!(matches!(read("workflow_job", &body), Ok(WebhookEvent::Job(_))));
    let step = json!({"name": "x".repeat(1_000), "status": "queued", "number": 1});
    let long = with("/workflow_job/steps", Value::Array(vec![step; 5_000]));
    assert_eq!(job(&long).id.number, 7);
}

/// GitHub's own examples, fetched by `make test`; without them there is nothing to read.
#[test]
fn every_example_of_github_is_read() {
    let Some(examples) = github_data::webhook_examples() else { return };
    assert!(examples.len() >= 10, "only {} examples", examples.len());
    for (name, body) in examples {
        let event = name.split('.').next().unwrap();
        let signature = sign(SECRET, &body);
        let request = Request {
            event: Some(event),
            delivery: Some("g"),
            signature: Some(&signature),
            body: &body,
        };
        let secrets = Secrets::new(&[SECRET.to_owned().into()]);
        let payload: Value = serde_json::from_slice(&body).unwrap();
        let owner = payload.pointer("/repository/owner/login").and_then(Value::as_str);
        let scope = Scope::Organization(owner.unwrap_or("unknown").to_owned());
        let news = open(&secrets, request, &ForgeId::new("github"), &[scope], now()).unwrap();
        match (event, news) {
            ("ping", WebhookEvent::Ping) => {}
            ("workflow_job", WebhookEvent::Job(news)) => {
                let notice = news.notice;
                let action = payload["action"].as_str().unwrap();
                let rank = ["waiting", "queued", "in_progress", "completed"]
                    .iter()
                    .position(|it| *it == action);
                assert_eq!(Some(usize::from(notice.fact.rank())), rank, "{name}");
                assert_eq!(
                    notice.labels.len(),
                    payload["workflow_job"]["labels"].as_array().unwrap().len()
                );
            }
            (event, news) => panic!("{name}: {event} became {news:?}"),
        }
    }
}

proptest! {
    /// Whatever is signed with our secret is read or refused, and never ends the program.
    #[test]
    fn no_bytes_do_harm(body in prop::collection::vec(any::<u8>(), 0..300), event in "[a-z_]{0,12}") {
        drop(read(&event, &body));
        prop_assert!(!matches!(read("workflow_job", &body), Ok(WebhookEvent::Job(_))));
    }

    /// A payload with any one byte changed is read or refused, and never signed by the old signature.
    #[test]
    fn one_changed_byte_breaks_the_signature(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let whole = payload().to_string().into_bytes();
        let mut body = whole.clone();
        let at = at.index(body.len());
        body[at] = to;
        drop(read("workflow_job", &body));
        let signature = sign(SECRET, &whole);
        let request =
            Request { event: Some("ping"), delivery: None, signature: Some(&signature), body: &body };
        let secrets = Secrets::new(&[SECRET.to_owned().into()]);
        let opened = open(&secrets, request, &ForgeId::new("github"), &[], now());
        prop_assert_eq!(opened.is_ok(), body == whole);
    }
}
