//! The whole program with a real API server: warm pods, pollers as real processes, jobs of the
//! simulated GitHub, and a kubelet that is played.

#![expect(
    clippy::unwrap_used,
    clippy::default_trait_access,
    clippy::needless_pass_by_value,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod farm;

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use ostler::demo::agent::Deed;
use ostler::providers::kubernetes::AUDIENCE;
use ostler_actors::model::{OfferEnd, State, Subject, What};
use ostler_actors::ports::Records as _;
use serde_json::json;

use crate::support::daemon::until;
use farm::{Farm, PATIENCE, pool};

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_pod_gets_its_job_late_and_goes_when_it_is_done() {
    let Some(mut farm) = Farm::start(&pool(1, 3)).await else { return };
    let warm = farm.warm_pod().await;
    let pod = farm.place.pods().get(&warm.name).await.unwrap();
    assert!(!serde_json::to_string(&pod).unwrap().contains("jit_config"));
    assert!(farm.stage.github.runners().is_empty(), "a warm pod is not registered");
    farm.until_state(&warm.name, State::Idle).await;
    assert_eq!(farm.label(&warm.name).await, "idle");

    let job = farm.stage.queue(Deed::Succeed, 500);
    let staged = warm.until_staged().await;
    until("the pod is protected", PATIENCE, async || farm.label(&warm.name).await == "busy").await;
    // Its answer was lost: asking again brings the same.
    let token = farm.place.token("warm", Some(AUDIENCE), Some(&warm.name)).await;
    let again = farm.ask(&token, "").await;
    assert_eq!(again.0, 200, "{again:?}");
    assert_eq!(again.1["jit_config"].as_str().unwrap(), staged);

    let runner = farm.run_runner(&warm).await;
    farm.stage.until_at_work(&[job]).await;
    farm.end_runner(&warm, runner).await;
    farm.stage.until_all_jobs_are_over(&mut farm.daemon).await;
    farm.until_gone(&warm.name).await;
    let record = farm.records().exit(&warm.name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "clean", "{record:?}");
    farm.stage.check_jobs();
    farm.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pod_itself_gets_its_work() {
    let Some(farm) = Farm::start(&pool(2, 2)).await else { return };
    let (one, other) = (farm.warm_pod().await, farm.warm_pod().await);
    farm.until_state(&one.name, State::Idle).await;
    farm.until_state(&other.name, State::Idle).await;
    assert_eq!(farm.ask("", "").await.0, 401, "no token");
    assert_eq!(farm.ask("garbage", "").await.0, 401);
    let place = &farm.place;
    let for_the_api = place.token("warm", None, Some(&one.name)).await;
    assert_eq!(farm.ask(&for_the_api, "").await.0, 401, "a token for somebody else");
    let unbound = place.token("warm", Some(AUDIENCE), None).await;
    assert_eq!(farm.ask(&unbound, "").await.0, 401, "a token of no pod");
    let good = place.token("warm", Some(AUDIENCE), Some(&one.name)).await;
    assert_eq!(farm.ask(&good, "{").await.0, 400);
    // A pod that is none of ours, with a token as good as theirs.
    let stranger = json!({ "metadata": { "name": "stranger" }, "spec": {
        "serviceAccountName": "warm", "containers": [{ "name": "runner", "image": "i" }],
    } });
    let stranger = serde_json::from_value(stranger).unwrap();
    place.pods().create(&Default::default(), &stranger).await.unwrap();
    let strange = place.token("warm", Some(AUDIENCE), Some("stranger")).await;
    assert_eq!(farm.ask(&strange, "").await.0, 410, "nobody has work for it");
    let body = json!({ "instance": one.name }).to_string();
    assert_eq!(farm.ask(&strange, &body).await.0, 410, "whomever it asks for");
    // A namesake of a pod that is gone: the name is right, the pod is not.
    farm.replace_pod(&other.name).await;
    let namesake = place.token("warm", Some(AUDIENCE), Some(&other.name)).await;
    assert_eq!(farm.ask(&namesake, "").await.0, 403, "the name alone proves nothing");
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_released_mid_job_and_the_reaper_ticks_for_an_hour() {
    let Some(farm) = Farm::start(&pool(0, 2)).await else { return };
    let github = &farm.stage.github;
    // A job is offered, and its claim is released because the forge still calls it queued.
    let claimed = farm.stage.queue(Deed::Succeed, 100);
    let warm = farm.warm_pod().await;
    warm.until_staged().await;
    let released = |what: &What| matches!(what, What::OfferEnded(_, OfferEnd::Requeued));
    farm.until_told(&warm.name, released).await;
    github.finish(claimed, "cancelled");
    // Its runner takes another job, and nobody ever hears of it.
    github.lie(|lies| {
        lies.lost_webhooks = 1000;
        lies.forbidden = vec!["/actions/runs", "/jobs"];
    });
    let taken = farm.stage.queue(Deed::Succeed, 66_000);
    let runner = farm.run_runner(&warm).await;
    farm.stage.until_at_work(&[taken]).await;
    // Sixty ticks of the reaper, and a pool that has more than it wants.
    let uid = farm.place.pods().get(&warm.name).await.unwrap().metadata.uid;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let pod = farm.place.pods().get(&warm.name).await.expect("the pod lives");
    assert_eq!((pod.metadata.uid, pod.metadata.deletion_timestamp), (uid, None));
    let timeline = farm.timeline(&warm.name).await;
    let refused = |what: &What| matches!(what, What::Refused { .. } | What::DeregisterRefused);
    assert!(timeline.iter().any(refused), "the refusal is on record: {timeline:#?}");
    // And the job ends as it should.
    farm.end_runner(&warm, runner).await;
    // Its registration is asked for again only after a while, so refused as it was.
    until("the pod is gone", PATIENCE, async || {
        farm.place.pods().get_opt(&warm.name).await.unwrap().is_none()
    })
    .await;
    assert_eq!(farm.stage.job(taken).starts, 1);
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_pods_leave_a_cordoned_node_and_busy_ones_stay() {
    let Some(mut farm) = Farm::start(&pool(1, 2)).await else { return };
    let busy = farm.warm_pod().await;
    let job = farm.stage.queue(Deed::Succeed, 20_000);
    busy.until_staged().await;
    let runner = farm.run_runner(&busy).await;
    farm.stage.until_at_work(&[job]).await;
    let idle = farm.warm_pod().await;
    farm.until_state(&idle.name, State::Idle).await;
    farm.until_state(&busy.name, State::Busy).await;
    let cordon = json!({ "spec": { "unschedulable": true } });
    let nodes = farm.place.nodes();
    let node = farm.place.node();
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
    farm.until_gone(&idle.name).await;
    assert!(farm.place.pods().get_opt(&busy.name).await.unwrap().is_some());
    farm.end_runner(&busy, runner).await;
    farm.stage.until_all_jobs_are_over(&mut farm.daemon).await;
    farm.stage.check_jobs();
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_comes_up_is_taken_back_with_its_reason() {
    let Some(farm) = Farm::start_with(&pool(1, 1), json!(null)).await else { return };
    let name = farm.next_pod().await;
    farm.place
        .say(
            &name,
            json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }] }),
        )
        .await;
    farm.until_gone(&name).await;
    let record = farm.records().exit(&name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "unschedulable", "{record:?}");
    assert!(record.verdict.evidence.join("\n").contains("3 Insufficient memory"), "{record:?}");
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_whose_pods_the_cluster_refuses_changes_nothing() {
    let Some(mut farm) = Farm::start(&pool(0, 1)).await else { return };
    let typo = format!("{}\nnodeselector = {{ a = \"b\" }}\n", pool(0, 1));
    farm.reconfigure(&typo);
    until("the edit is refused", PATIENCE, async || {
        let ready = farm.daemon.ready();
        ready.is_some_and(|ready| ready.config().contains("`pod.spec.nodeselector` is not a field"))
    })
    .await;
    let misfit = format!("{}\nactiveDeadlineSeconds = -5\n", pool(0, 1));
    farm.reconfigure(&misfit);
    until("the cluster refuses it", PATIENCE, async || {
        farm.daemon.ready().is_some_and(|ready| ready.config().contains("activeDeadlineSeconds"))
    })
    .await;
    farm.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_live_names_the_missing_verb() {
    let Some(farm) = Farm::start(&pool(0, 1)).await else { return };
    let (_, text) = farm.check_live(None);
    assert!(text.contains("may do all that is needed"), "{text}");
    assert!(text.contains("pods of pool `linux` are accepted"), "{text}");
    assert!(!text.contains("provider k8s  rights        WRONG"), "{text}");
    farm.place.add_account("nobody").await;
    let token = farm.place.token("nobody", None, None).await;
    let (code, text) = farm.check_live(Some(&token));
    assert_eq!(code, 1);
    for right in ["create pods", "watch pods", "get pods/log", "create tokenreviews"] {
        assert!(text.contains(&format!("may not {right} in the")), "{right}: {text}");
    }
    assert!(!text.contains("secrets"), "no pool binds early: {text}");
    farm.finish().await;
}

/// Returns what a timeline tells.
async fn told(farm: &Farm, name: &str) -> Vec<What> {
    let subject = Subject::Instance(name.into());
    let events = farm.records().timeline(&subject).await.unwrap();
    events.into_iter().map(|event| event.what).collect()
}
