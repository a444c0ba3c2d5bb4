//! Deleting real pods: with grace, unless the node is proven gone.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use ostler::providers::kubernetes::{Kubernetes, KubernetesSettings};
use ostler_actors::model::{MachineView, Sighting};
use ostler_actors::ports::{Deletion, Grace, Inventory as _, Provider as _};
use serde_json::json;

use super::fixture::{Fixture, exact, runner, running, settings};
use crate::support::daemon::until;

/// Makes a running pod and a provider to whom any delay is overdue.
async fn stage() -> Option<(Fixture, Kubernetes, MachineView)> {
    let fixture = Fixture::open().await?;
    let view = fixture.stand("m1", runner("Running", running())).await;
    let hasty = KubernetesSettings { overdue: Duration::ZERO, ..settings(&fixture.place, None) };
    // Its grace is part of when it is due.
    let one_second = DeleteParams { grace_period_seconds: Some(1), ..Default::default() };
    fixture.place.pods().delete("m1", &one_second).await.unwrap();
    Some((fixture, Kubernetes::open(hasty).unwrap(), view))
}

async fn is_gone(provider: &Kubernetes, view: &MachineView) -> bool {
    provider.read(&exact(view)).await == Sighting::Absent
}

/// Deletes again and again, as an owner does.
async fn delete_until_gone(provider: &Kubernetes, view: &MachineView) {
    until("it is gone", async || {
        provider.delete(&exact(view), Grace::Usual).await.unwrap();
        is_gone(provider, view).await
    })
    .await;
}

#[tokio::test]
async fn a_pod_on_a_living_node_is_given_the_time_it_needs() {
    let Some((_fixture, provider, view)) = stage().await else { return };
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for _ in 0..3 {
        let answer = provider.delete(&exact(&view), Grace::Usual).await.unwrap();
        assert_eq!(answer, Deletion::Accepted);
    }
    let Sighting::Seen(left) = provider.read(&exact(&view)).await else { panic!("forced") };
    assert!(left.leaving, "overdue, and its node may still be running it");
}

#[tokio::test]
async fn a_pod_whose_node_does_not_exist_any_more_is_taken_away() {
    let Some((fixture, provider, view)) = stage().await else { return };
    fixture.place.nodes().delete(&fixture.place.node(), &Default::default()).await.unwrap();
    delete_until_gone(&provider, &view).await;
}

#[tokio::test]
async fn a_pod_whose_node_was_declared_out_of_service_is_taken_away() {
    let Some((fixture, provider, view)) = stage().await else { return };
    let taint = json!({ "spec": { "taints": [
        { "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" },
    ] } });
    let nodes = fixture.place.nodes();
    nodes
        .patch(&fixture.place.node(), &PatchParams::default(), &Patch::Merge(&taint))
        .await
        .unwrap();
    delete_until_gone(&provider, &view).await;
}

#[tokio::test]
async fn a_forced_pod_goes_at_once() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.stand("m1", runner("Running", running())).await;
    let answer = fixture.provider.delete(&exact(&view), Grace::Usual).await.unwrap();
    assert_eq!(answer, Deletion::Accepted);
    assert!(fixture.view("m1").await.leaving, "the usual grace waits for the kubelet");
    let answer = fixture.provider.delete(&exact(&view), Grace::Zero).await.unwrap();
    assert_eq!(answer, Deletion::Accepted);
    assert!(is_gone(&fixture.provider, &view).await);
}
