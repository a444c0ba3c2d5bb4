//! The calls of a life by a bare client, under a bare watch: nobody decides or remembers anything.

use std::sync::Arc;

use futures_util::StreamExt as _;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use ostler::providers::kubernetes::AUDIENCE;
use serde_json::json;

use super::played;
use super::support::cluster::Place;

/// Lets so many pods live, a few abreast.
pub(crate) async fn lives(place: &Arc<Place>, pods: usize, abreast: usize) {
    place.add_account("warm").await;
    let api: Api<Pod> = place.pods();
    let watched = api.clone();
    let watching = tokio::spawn(async move {
        let config = watcher::Config::default().labels("app.kubernetes.io/managed-by=ostler");
        watcher(watched, config).for_each(|_| async {}).await;
    });
    let body = played::template(place).await;
    let (api, body) = (&api, &body);
    let life = |at: usize| async move {
        let name = format!("b{at}");
        let mut pod = body.clone();
        pod.metadata.name = Some(name.clone());
        let made = api.create(&PostParams::default(), &pod).await.unwrap();
        let token = played::warm_up(place, &name).await;
        review(place, token).await;
        mark(api, &name, "busy", None).await;
        played::run(place, &name).await;
        mark(api, &name, "busy", Some("github/1")).await;
        played::end(place, &name).await;
        api.get(&name).await.unwrap();
        let preconditions = Preconditions { uid: made.metadata.uid, resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        api.delete(&name, &params).await.unwrap();
        assert!(api.get_opt(&name).await.unwrap().is_none());
    };
    futures_util::stream::iter(0..pods).for_each_concurrent(abreast, life).await;
    watching.abort();
}

async fn review(place: &Place, token: String) {
    let spec = TokenReviewSpec { audiences: Some(vec![AUDIENCE.into()]), token: Some(token) };
    let question = TokenReview { spec, ..TokenReview::default() };
    let reviews = Api::<TokenReview>::all(place.cluster.admin());
    let answer = reviews.create(&PostParams::default(), &question).await.unwrap();
    assert_eq!(answer.status.unwrap().authenticated, Some(true));
}

async fn mark(api: &Api<Pod>, name: &str, state: &str, job: Option<&str>) {
    let patch = json!({ "metadata": {
        "labels": { "ostler.dev/state": state }, "annotations": { "ostler.dev/job": job },
    } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}
