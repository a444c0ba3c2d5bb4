//! The calls of a life by a bare client, under a bare watch: nothing is decided or remembered.

use std::sync::Arc;

use futures_util::StreamExt as _;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use ostler::providers::kubernetes::AUDIENCE;
use serde_json::json;
use tokio::task::JoinHandle;

use super::played;
use super::support::cluster::Place;

/// A client, its watch, and the pod it makes again and again.
pub(crate) struct Bare {
    place: Arc<Place>,
    body: Pod,
    abreast: usize,
    made: usize,
    watching: JoinHandle<()>,
}

impl Bare {
    pub(crate) async fn start(place: Arc<Place>, abreast: usize) -> Self {
        place.add_account("warm").await;
        let watched: Api<Pod> = place.pods();
        let watching = tokio::spawn(async move {
            let config = watcher::Config::default().labels("app.kubernetes.io/managed-by=ostler");
            watcher(watched, config).for_each(|_| async {}).await;
        });
        let body = played::template(&place).await;
        Self { place, body, abreast, made: 0, watching }
    }

    /// Lets so many pods live.
    pub(crate) async fn live(&mut self, pods: usize) {
        let first = self.made;
        self.made += pods;
        let (place, body) = (&self.place, &self.body);
        let life = |at: usize| life(place, body, format!("b{at}"));
        futures_util::stream::iter(first..self.made).for_each_concurrent(self.abreast, life).await;
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

async fn life(place: &Place, body: &Pod, name: String) {
    let api = &place.pods();
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
