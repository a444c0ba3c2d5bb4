//! The guard on real pods: what each shape proves, and that no delete reaches another pod.

use ostler_actors::model::{Began, Binding, MachinePhase, Sighting, Worker};
use ostler_actors::ports::{Deletion, Grace, Inventory as _, Provider as _};
use serde_json::{Value, json};

use super::fixture::{Fixture, ended, exact, order, part, runner, running, waiting};

/// Every row: how the runner stands, and what that proves.
fn rows() -> Vec<(&'static str, Value, Began, Worker)> {
    let poller = |state| json!({ "initContainerStatuses": [part("poller", state)] });
    let mut once = part("runner", waiting("CrashLoopBackOff"));
    once["lastState"] = ended(137, "Error");
    let mut odd = part("runner", waiting("PodInitializing"));
    odd["started"] = json!(true);
    vec![
        ("no-status", json!({ "phase": "Pending" }), Began::Never, Worker::Absent),
        ("polling", poller(running()), Began::Never, Worker::Absent),
        ("waiting", runner("Pending", waiting("PodInitializing")), Began::Never, Worker::Absent),
        ("running", runner("Running", running()), Began::Yes, Worker::NoWitness),
        ("terminated", runner("Running", ended(0, "Completed")), Began::Yes, Worker::Absent),
        (
            "once-terminated",
            json!({ "phase": "Running", "containerStatuses": [once] }),
            Began::Yes,
            Worker::NoWitness,
        ),
        (
            "contradiction",
            json!({ "phase": "Pending", "containerStatuses": [odd] }),
            Began::Unknown,
            Worker::Unknown,
        ),
        ("lost", json!({ "phase": "Unknown" }), Began::Unknown, Worker::Unknown),
    ]
}

#[tokio::test]
async fn every_shape_of_a_real_pod_proves_what_the_table_says() {
    let Some(fixture) = Fixture::open().await else { return };
    for (name, status, _, _) in rows() {
        fixture.stand(name, status).await;
    }
    // One at a time, and all of them in one listing.
    let listed = fixture.provider.list().await;
    let ostler_actors::model::Observation::Complete(listed) = listed else { panic!("{listed:?}") };
    assert_eq!(listed.len(), rows().len());
    for (name, _, began, worker) in rows() {
        let view = fixture.view(name).await;
        assert_eq!((view.began, view.worker), (began, worker), "{name}");
        assert!(listed.contains(&view), "{name}: a listing shows the same");
        assert_eq!(view.host.unwrap().as_str(), fixture.place.node());
    }
}

#[tokio::test]
async fn a_failed_pod_whose_runner_still_has_its_grace_is_not_over() {
    let Some(fixture) = Fixture::open().await else { return };
    let played = |state: Value| {
        let mut status = runner("Failed", state);
        status["reason"] = json!("DeadlineExceeded");
        status["initContainerStatuses"] = json!([part("poller", ended(0, "Completed"))]);
        status
    };
    let view = fixture.stand("graceful", played(running())).await;
    assert!(matches!(view.phase, MachinePhase::Doubt(_)), "{view:?}");
    assert_eq!((view.began, view.worker), (Began::Yes, Worker::NoWitness));
    fixture.place.say("graceful", played(ended(137, "Error"))).await;
    let MachinePhase::Over(facts) = fixture.view("graceful").await.phase else {
        panic!("its runner ended")
    };
    assert_eq!((facts.code, facts.part), (Some(137), None), "the runner's end, not the poller's");
    assert_eq!(facts.machine_reason.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test]
async fn a_pod_that_is_not_built_by_us_proves_nothing() {
    let Some(fixture) = Fixture::open().await else { return };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "strange", "labels": { "app.kubernetes.io/managed-by": "ostler" } },
        "spec": { "containers": [{ "name": "agent", "image": "i" }] },
    });
    let pod = serde_json::from_value(pod).unwrap();
    fixture.place.pods().create(&Default::default(), &pod).await.unwrap();
    let view = fixture.view("strange").await;
    assert_eq!((view.began, view.worker), (Began::Unknown, Worker::NoWitness));
    assert_eq!(view.phase, MachinePhase::Booting);
}

#[tokio::test]
async fn a_runner_without_a_poller_is_judged_by_the_forge_once_it_started() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.create(order("early", Binding::Early)).await;
    fixture.place.bind("early").await;
    let before = fixture.view("early").await;
    assert_eq!((before.began, before.worker), (Began::Never, Worker::Absent));
    fixture.place.say("early", runner("Running", running())).await;
    let after = fixture.view("early").await;
    assert_eq!((after.began, after.worker), (Began::Unknown, Worker::NoWitness));
}

#[tokio::test]
async fn a_pod_deleted_under_us_is_not_found_and_its_successor_lives() {
    let Some(fixture) = Fixture::open().await else { return };
    let first = fixture.create(order("same-name", Binding::Late)).await;
    fixture.place.pods().delete("same-name", &Default::default()).await.unwrap();
    assert_eq!(fixture.provider.read(&exact(&first)).await, Sighting::Absent);
    let answer = fixture.provider.delete(&exact(&first), Grace::Usual).await.unwrap();
    assert_eq!(answer, Deletion::NotFound);
    let second = fixture.create(order("same-name", Binding::Late)).await;
    for grace in [Grace::Usual, Grace::Zero] {
        let answer = fixture.provider.delete(&exact(&first), grace).await.unwrap();
        assert_eq!(answer, Deletion::NotFound);
    }
    assert_eq!(fixture.provider.read(&exact(&first)).await, Sighting::Absent);
    assert_eq!(fixture.view("same-name").await.uid, second.uid);
}
