//! Early binding on real objects: a Secret that the pod owns, and that goes when it is spent.
//! And the marks that keep others from evicting a pod at work.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use ostler::providers::kubernetes::AUDIENCE;
use ostler_actors::model::{Binding, Sighting};
use ostler_actors::ports::{
    CreateError, Inventory as _, MachineAuth as _, MachineMarks as _, MachineRef, MachineToken,
    Protection, Provider as _, TokenReview,
};
use serde_json::json;

use super::fixture::{Fixture, by_name, exact, order};
use crate::support::daemon::until;

fn secrets(fixture: &Fixture) -> Api<Secret> {
    Api::namespaced(fixture.place.cluster.admin(), &fixture.place.namespace)
}

#[tokio::test]
async fn a_registered_runner_finds_its_config_in_a_secret_that_its_pod_owns() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.create(order("early", Binding::Early)).await;
    let secret = secrets(&fixture).get("early").await.unwrap();
    assert_eq!(secret.immutable, Some(true));
    let owner = &secret.metadata.owner_references.unwrap()[0];
    assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("Pod", view.uid.as_ref()));
    assert_eq!(secret.data.unwrap()["jitconfig"].0, b"as it came");
    let pod = fixture.place.pods().get("early").await.unwrap();
    let text = serde_json::to_string(&pod).unwrap();
    assert!(!text.contains("as it came"), "the pod itself does not hold it");
    assert!(text.contains("\"secretName\":\"early\""));
    for _ in 0..2 {
        fixture.provider.forget_jit(&exact(&view)).await.unwrap();
        assert!(secrets(&fixture).get_opt("early").await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_pod_whose_secret_is_refused_is_taken_back() {
    let Some(fixture) = Fixture::open().await else { return };
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "none", "namespace": fixture.place.namespace },
        "spec": { "hard": { "secrets": "0" } },
        "status": { "hard": { "secrets": "0" }, "used": { "secrets": "0" } },
    });
    fixture.place.apply_object(quota.clone()).await;
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> =
        Api::namespaced(fixture.place.cluster.admin(), &fixture.place.namespace);
    let patch = kube::api::Patch::Merge(&quota);
    quotas.patch_status("none", &Default::default(), &patch).await.unwrap();
    let error = fixture.provider.create(order("early", Binding::Early)).await.unwrap_err();
    let CreateError::Refused { why, .. } = error else { panic!("{error}") };
    assert!(why.contains("Secret") && why.contains("exceeded quota"), "{why}");
    assert_eq!(fixture.provider.read(&by_name("early")).await, Sighting::Absent);
}

#[tokio::test]
async fn the_marks_of_a_pod_are_flipped_with_its_work() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.create(order("m1", Binding::Late)).await;
    let marks = async || {
        let pod = fixture.place.pods().get("m1").await.unwrap();
        let text = |map: Option<&std::collections::BTreeMap<String, String>>, key: &str| {
            map.and_then(|map| map.get(key).cloned()).unwrap_or_default()
        };
        let (labels, remarks) = (pod.metadata.labels.as_ref(), pod.metadata.annotations.as_ref());
        [
            text(labels, "ostler.dev/state"),
            text(remarks, "cluster-autoscaler.kubernetes.io/safe-to-evict"),
            text(remarks, "karpenter.sh/do-not-disrupt"),
            text(remarks, "ostler.dev/job"),
        ]
    };
    assert_eq!(marks().await, ["idle", "true", "", ""]);
    fixture.provider.mark(&exact(&view), Protection::Busy, Some("github/7")).await.unwrap();
    assert_eq!(marks().await, ["busy", "false", "true", "github/7"]);
    let other = MachineRef { uid: Some("another".into()), ..exact(&view) };
    fixture.provider.mark(&other, Protection::Idle, None).await.unwrap();
    assert_eq!(marks().await[0], "busy", "a successor's marks are not ours");
    fixture.provider.mark(&exact(&view), Protection::Idle, None).await.unwrap();
    assert_eq!(marks().await, ["idle", "true", "", ""]);
    fixture.provider.mark(&by_name("gone"), Protection::Busy, None).await.unwrap();
}

#[tokio::test]
async fn whose_a_token_is_is_asked_once_and_remembered_for_a_while() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.place.add_account("warm").await;
    let view = fixture.create(order("m1", Binding::Late)).await;
    let token = MachineToken::new(fixture.place.token("warm", Some(AUDIENCE), Some("m1")).await);
    let identity = MachineRef { name: "m1".into(), uid: view.uid.clone() };
    assert_eq!(fixture.provider.review(&token).await, TokenReview::Belongs(identity.clone()));
    // Without its pod the token is worth nothing, and the server says so.
    let now = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    fixture.place.pods().delete("m1", &now).await.unwrap();
    let stranger = Fixture::in_place(Arc::clone(&fixture.place)).provider;
    until("the server refuses it", async || {
        let fresh = Fixture::in_place(Arc::clone(&fixture.place)).provider;
        matches!(fresh.review(&token).await, TokenReview::Refused(_))
    })
    .await;
    assert!(matches!(stranger.review(&token).await, TokenReview::Refused(_)));
    assert_eq!(
        fixture.provider.review(&token).await,
        TokenReview::Belongs(identity),
        "not asked again"
    );
}
