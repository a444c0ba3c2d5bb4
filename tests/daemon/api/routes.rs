use serde_json::json;

use super::*;
use crate::support::daemon::ENDLESS_JOB;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_answers_with_what_it_promises() {
    let mut house = House::open(&one_idle()).await;
    let idle = house.instance_in("idle").await;
    let (name, eye) = (idle["name"].as_str().expect("a name").to_owned(), house.eye.clone());

    let fleet = eye.get("/api/v1/fleet").json();
    assert_eq!(fleet["name"], "tested");
    assert_eq!((&fleet["leader"], &fleet["stage"]), (&json!(true), &json!("leading")));
    assert_eq!(fleet["instances"]["states"]["busy"], 0, "zeros are written");
    assert_eq!((&fleet["leaks"], &fleet["violations"]), (&json!(0), &json!(0)));
    assert_eq!(fleet["pools"][0]["name"], "linux");
    assert_eq!(fleet["forges"][0]["name"], "github");
    assert_eq!(fleet["controller"].as_str().map(str::len), Some(36));

    let pools = eye.get("/api/v1/pools").json();
    assert_eq!(pools["items"][0]["labels"], json!(["linux", "self-hosted"]));
    assert_eq!(pools["next_cursor"], json!(null));
    let pool = eye.get("/api/v1/pools/linux").json();
    assert!(pool["explain"][0].as_str().expect("a line").contains("target"), "{pool}");
    let said = eye.get("/api/v1/pools/linux/explain").json();
    assert_eq!(said["subject"], json!({"kind": "pool", "name": "linux"}));

    let upper = name.to_uppercase();
    for (query, count) in [
        (format!("q={upper}"), 1),
        ("q=no-such-name".to_owned(), 0),
        (format!("q={name}&state=busy"), 0),
        ("stuck=true".to_owned(), 0),
        ("stuck=false&pool=linux".to_owned(), 1),
    ] {
        let found = eye.get(&format!("/api/v1/instances?{query}")).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(count), "{query}: {found}");
    }
    assert_eq!(eye.get("/api/v1/instances?state=deleted&q=x").status, 400);
    assert_eq!(eye.get("/api/v1/instances?stuck=perhaps").status, 400);
    let one = eye.get(&format!("/api/v1/instances/{name}")).json();
    assert_eq!((&one["state"], &one["owned"]), (&json!("idle"), &json!(true)));
    assert_eq!(one["death"], json!(null));
    let timeline = eye.get(&format!("/api/v1/instances/{name}/timeline")).json();
    let kinds: Vec<_> = timeline["items"].as_array().expect("events").iter().collect();
    assert_eq!(kinds[0]["kind"], "wanted", "{timeline}");
    let moved = kinds.iter().find(|event| event["kind"] == "moved").expect("a move");
    assert_eq!(moved["detail"]["from"], "pending_create", "{moved}");
    let said = eye.get(&format!("/api/v1/instances/{name}/explain")).json();
    assert!(said["lines"][0].as_str().expect("a line").contains("ready and has no job"), "{said}");

    let config = eye.get("/api/v1/config").json();
    assert_eq!(config["http"]["tokens"][0]["name"], "ops");
    assert!(!config.to_string().contains(OPS), "{config}");
    let version = eye.get("/api/v1/version").json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(house.anonymous.get("/openapi.json").json()["info"]["title"], "Ostler");
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_death_is_shown_with_verdict_log_and_timeline_after_the_instance_is_gone() {
    let mut house = House::open(&pool(0, 4)).await;
    let name = house.death().await;
    let eye = house.eye.clone();
    until("nothing is left of it", async || {
        eye.get(&format!("/api/v1/instances/{name}")).json()["state"] == "deleted"
    })
    .await;
    let death = eye.get(&format!("/api/v1/deaths/{name}")).json();
    assert_eq!(death["verdict"], "crashed", "{death}");
    assert!(!death["log_tail"].as_array().expect("lines").is_empty(), "{death}");
    let gone = eye.get("/api/v1/instances?state=deleted").json();
    assert_eq!(gone["items"][0]["name"], json!(name));
    let one = eye.get(&format!("/api/v1/instances/{name}")).json();
    assert_eq!(one["death"]["verdict"], "crashed");
    assert_eq!(one["warrant"]["kind"], "own_end");
    let timeline = eye.get(&format!("/api/v1/instances/{name}/timeline")).json();
    let last = timeline["items"].as_array().expect("events").last().expect("one").clone();
    assert_eq!(last["detail"]["to"], "deleted", "{timeline}");

    // By verdict, pool and date.
    for (query, count) in [
        ("verdict=crashed", 1),
        ("verdict=clean", 0),
        ("pool=linux", 1),
        ("pool=other", 0),
        ("since=2001-01-01T00:00:00Z", 1),
        ("since=2100-01-01T00:00:00Z", 0),
    ] {
        let found = eye.get(&format!("/api/v1/deaths?{query}")).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(count), "{query}");
    }
    let job = death["job"].as_str().expect("a job").to_owned();
    until("the job is over", async || {
        eye.get(&format!("/api/v1/jobs/{}", job.replace('/', "%2F"))).json()["state"] == "completed"
    })
    .await;
    let number = job.rsplit('/').next().expect("a number");
    let by_number = eye.get(&format!("/api/v1/jobs/{number}")).json();
    assert_eq!((&by_number["id"], &by_number["instance"]), (&json!(job), &json!(name)));
    let said = eye.get(&format!("/api/v1/jobs/{number}/explain")).json();
    assert!(said["lines"][0].as_str().expect("a line").contains("over"), "{said}");
    let told = eye.get(&format!("/api/v1/jobs/{number}/timeline")).json();
    assert!(told["items"].as_array().is_some_and(|events| events.len() > 1), "{told}");
    let all = eye.get("/api/v1/jobs").json();
    assert_eq!(all["items"][0]["id"], json!(job));
    assert_eq!(eye.get("/api/v1/jobs?state=completed").json()["items"][0]["id"], json!(job));
    until("its wait is shown", async || {
        let pool = eye.get("/api/v1/pools/linux").json();
        pool["queue_seconds"][0]["max"].as_f64().is_some_and(|it| it >= 0.0)
    })
    .await;
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_waits_says_why() {
    let mut house = House::open(&pool(0, 1)).await;
    let first = house.stage.queue(Step::Succeed, ENDLESS_JOB);
    house.stage.until_at_work(&[first]).await;
    house.instance_in("busy").await;
    house.stage.queue(Step::Succeed, 10);
    let eye = house.eye.clone();
    let queued = || eye.get("/api/v1/jobs?state=queued").json();
    until("a job waits", async || {
        queued()["items"][0]["why"].as_str().is_some_and(|why| why.contains("maximum: 1 of 1"))
    })
    .await;
    let job = queued()["items"][0].clone();
    let number = job["id"].as_str().and_then(|id| id.rsplit('/').next()).expect("a number");
    let said = eye.get(&format!("/api/v1/jobs/{number}/explain")).json().to_string();
    assert!(said.contains("is at its maximum: 1 of 1 machines"), "{said}");
    let fleet = eye.get("/api/v1/fleet").json();
    assert_eq!((&fleet["jobs"]["queued"], &fleet["jobs"]["running"]), (&json!(1), &json!(1)));

    // No pool serves this one, and it says what is missing.
    let place = ostler_actors::model::Place {
        owner: "acme".into(),
        repository: "web".into(),
        enterprise: None,
    };
    let job = ostler::demo::github::JobPlan {
        name: "odd".into(),
        labels: ["self-hosted", "linux", "gpu"].iter().collect(),
        script: json!(ostler::demo::agent::Script { step: Step::Succeed, millis: 1 }),
    };
    house.stage.github.queue(&place, job);
    until("an unserved job is shown", async || {
        queued()["items"].as_array().is_some_and(|jobs| {
            jobs.iter()
                .any(|job| job["pool"].is_null() && job["why"].to_string().contains("lacks [gpu]"))
        })
    })
    .await;
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_parted_and_the_parts_fit() {
    let mut house = House::open(&pool(3, 4)).await;
    let eye = house.eye.clone();
    until("three are idle", async || {
        house.daemon.must_live();
        eye.get("/api/v1/fleet").json()["instances"]["states"]["idle"] == 3
    })
    .await;
    let whole = eye.get("/api/v1/instances?pool=linux").json();
    let names = |part: &Value| -> Vec<String> {
        let items = part["items"].as_array().expect("a list").iter();
        items.map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (mut cursor, mut parts) = (String::new(), Vec::new());
    for _ in 0..3 {
        let part = eye.get(&format!("/api/v1/instances?limit=1{cursor}")).json();
        parts.extend(names(&part));
        let Some(next) = part["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(parts, names(&whole));
    assert!(names(&eye.get("/api/v1/instances?pool=other").json()).is_empty());
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_understood_is_refused_with_the_reason() {
    let mut house = House::open(&pool(0, 1)).await;
    let eye = house.eye.clone();
    for (path, status) in [
        ("/api/v1/nothing", 404),
        ("/api/v1/pools/unknown", 404),
        ("/api/v1/pools/unknown/explain", 404),
        ("/api/v1/instances/unknown", 404),
        ("/api/v1/instances/unknown/timeline", 404),
        ("/api/v1/instances/unknown/explain", 404),
        ("/api/v1/instances/%00", 404),
        ("/api/v1/deaths/unknown", 404),
        ("/api/v1/jobs/unknown", 404),
        ("/api/v1/jobs/7", 404),
        ("/api/v1/jobs/elsewhere%2F7", 404),
        ("/api/v1/jobs/7/explain", 404),
        ("/api/v1/jobs/7/timeline", 404),
        ("/api/v1/instances?state=lively", 400),
        ("/api/v1/instances?limit=0", 400),
        ("/api/v1/instances?limit=1001", 400),
        ("/api/v1/instances?limit=many", 400),
        ("/api/v1/instances?state=deleted&cursor=mine", 400),
        ("/api/v1/jobs?state=queued&cursor=mine", 400),
        ("/api/v1/jobs?cursor=mine", 400),
        ("/api/v1/jobs?state=lively", 400),
        ("/api/v1/deaths?verdict=odd", 400),
        ("/api/v1/deaths?since=yesterday", 400),
        ("/api/v1/deaths?cursor=x", 400),
    ] {
        let answer = eye.get(path);
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path}");
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{path}");
        assert!(problem["detail"].as_str().is_some_and(|text| text.len() > 10), "{problem}");
    }
    let wrong = house.ops.send("PUT", "/api/v1/fleet", None);
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET")));
    let wrong = house.ops.send("POST", "/api/v1/instances/x", None);
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, DELETE")));
    house.daemon.must_live();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_drains_resumes_and_sends_away_and_all_of_it_is_on_record() {
    let mut house = House::open(&one_idle()).await;
    let idle = house.instance_in("idle").await;
    let name = idle["name"].as_str().expect("a name").to_owned();
    let ops = house.ops.clone();

    let drained = ops.post("/api/v1/pools/linux/drain", &json!({}));
    assert_eq!((drained.status, drained.json()), (200, json!({"pool": "linux", "draining": true})));
    assert_eq!(ops.post("/api/v1/pools/unknown/drain", &json!({})).status, 404);
    until("it drains", async || ops.get("/api/v1/pools/linux").json()["draining"] == true).await;
    until("the drained instance is gone", async || {
        ops.get(&format!("/api/v1/instances/{name}")).json()["state"] == "deleted"
    })
    .await;
    let gone = ops.send("DELETE", &format!("/api/v1/instances/{name}"), None);
    assert_eq!(gone.status, 409, "{gone:?}");
    assert_eq!(ops.post("/api/v1/pools/linux/resume", &json!({})).status, 200);
    let fresh = house.instance_in("idle").await;
    let path = format!("/api/v1/instances/{}", fresh["name"].as_str().expect("a name"));

    let unsaid = ops.send("DELETE", &path, Some(r#"{"force": true}"#));
    assert_eq!(unsaid.status, 400, "force needs a reason: {unsaid:?}");
    let told = ops.send("DELETE", &path, Some(r#"{"why": "it looks odd"}"#));
    assert_eq!((told.status, &told.json()["answer"]), (200, &json!("going")), "{told:?}");
    until("it is gone", async || ops.get(&path).json()["state"] == "deleted").await;
    let removal = ops.get(&path).json()["removal"].clone();
    assert_eq!((&removal["who"], &removal["why"]), (&json!("ops"), &json!("it looks odd")));

    let fresh = house.instance_in("idle").await;
    let path = format!("/api/v1/instances/{}", fresh["name"].as_str().expect("a name"));
    let forced = ops.send("DELETE", &path, Some(r#"{"force": true, "why": "line one\nline two"}"#));
    assert_eq!(forced.status, 200, "{forced:?}");
    assert_eq!(ops.post("/api/v1/instances/unknown/forget", &json!({"why": "x"})).status, 404);
    let adopted = ops.post("/api/v1/foreign/adopt", &json!({"why": "the backup was restored"}));
    assert_eq!((adopted.status, adopted.json()), (200, json!({"machines": 0})));

    let records = house.stage.records().await;
    let page = ostler::ports::Page { limit: 100, cursor: None };
    let log = ostler::ports::History::audits(&records, &page).await.expect("the audit log");
    let operator_actions: Vec<String> = log.items.iter().map(|it| it.entry.what.clone()).collect();
    assert_eq!(
        operator_actions,
        ["foreign.adopt", "instance.go", "instance.go", "pool.resume", "pool.drain"],
        "newest first"
    );
    assert!(log.items.iter().all(|it| it.entry.who == "ops"));
    records.close().await;
    house.stage.leave();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forgotten_instance_is_a_leak_on_record() {
    let mut house = House::open(&one_idle()).await;
    let idle = house.instance_in("idle").await;
    let name = idle["name"].as_str().expect("a name").to_owned();
    let path = format!("/api/v1/instances/{name}");
    assert_eq!(house.ops.post(&format!("{path}/forget"), &json!({"why": " "})).status, 400);
    assert_eq!(house.ops.post(&format!("{path}/forget"), &json!({})).status, 400);
    let told = house.ops.post(&format!("{path}/forget"), &json!({"why": "the host burnt down"}));
    assert_eq!(told.status, 200, "{told:?}");
    let ops = house.ops.clone();
    until("it is struck off", async || ops.get(&path).json()["state"] == "deleted").await;
    until("it counts as a leak", async || ops.get("/api/v1/fleet").json()["leaks"] == 1).await;
    house.stage.leave();
}
