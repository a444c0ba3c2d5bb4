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

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use ostler::demo::agent::Step;
use ostler::ports::{DeathQuery, History as _, Page};
use ostler::providers::kubernetes::{AUDIENCE, Need, RIGHTS};
use ostler_actors::model::{OfferEnd, Reason, State, Subject, WarrantKind, What};
use ostler_actors::ports::Records as _;
use serde_json::{Value, json};

use crate::support::cluster::Cluster;
use crate::support::daemon::{ENDLESS_JOB, LONG_JOB, until};
use farm::{DUE, Farm, polling, pool, pool_with};

/// Longer than some ticks of the reaper.
const FEW_TICKS: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_pod_gets_its_job_late_and_goes_when_it_is_done() {
    let Some(mut farm) = Farm::start(&pool(1, 3)).await else { return };
    let warm = farm.warm_pod().await;
    let pod = farm.place.pods().get(&warm.name).await.unwrap();
    assert!(!serde_json::to_string(&pod).unwrap().contains("jit_config"));
    assert!(farm.stage.github.runners().is_empty(), "a warm pod is not registered");
    farm.until_state(&warm.name, State::Idle).await;
    assert_eq!(farm.label(&warm.name).await, "idle");

    let job = farm.stage.queue(Step::Succeed, 500);
    let staged = warm.until_staged().await;
    until("the pod is protected", async || farm.label(&warm.name).await == "busy").await;
    // Its answer was lost: asking again brings the same.
    let token = farm.place.token("warm", Some(AUDIENCE), Some(&warm.name)).await;
    let again = farm.ask(&token, "").await;
    assert_eq!(again.0, 200, "{again:?}");
    assert_eq!(again.1["jit_config"].as_str().unwrap(), staged);
    // Whomever it says it asks for: the token decides.
    let body = json!({ "instance": "another" }).to_string();
    let again = farm.ask(&token, &body).await;
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
async fn pods_of_the_first_release_are_adopted_by_this_one() {
    let Some(old) = super::upgrade::first_release() else { return };
    let Some(mut farm) = Farm::start_program(old, &pool(1, 3)).await else { return };
    let busy = farm.warm_pod().await;
    farm.until_state(&busy.name, State::Idle).await;
    let first = farm.stage.queue(Step::Succeed, 20_000);
    busy.until_staged().await;
    let runner = farm.run_runner(&busy).await;
    farm.stage.until_at_work(&[first]).await;
    let idle = farm.warm_pod().await;
    farm.until_state(&idle.name, State::Idle).await;
    let before = farm.pods().await;

    farm.upgrade().await;
    assert_eq!(farm.pods().await, before, "no pod was touched");
    farm.until_state(&busy.name, State::Busy).await;
    // The poller of the old program gets its job from the new one.
    let second = farm.stage.queue(Step::Succeed, 500);
    idle.until_staged().await;
    let other = farm.run_runner(&idle).await;
    farm.stage.until_at_work(&[second]).await;
    farm.end_runner(&idle, other).await;
    farm.end_runner(&busy, runner).await;
    farm.stage.until_all_jobs_are_over(&mut farm.daemon).await;
    for name in [&busy.name, &idle.name] {
        farm.until_gone(name).await;
        super::upgrade::check_timeline(farm.records(), name).await;
    }
    farm.stage.check_jobs();
    farm.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_pod_itself_gets_its_work() {
    // The row of the replaced pod must still be live when this test asks about it.
    let lasting = pool_with("absence_confirm = \"1h\"", 2, 2);
    let Some(farm) = Farm::start(&lasting).await else { return };
    let (one, other) = (farm.warm_pod().await, farm.warm_pod().await);
    farm.until_state(&one.name, State::Idle).await;
    farm.until_state(&other.name, State::Idle).await;
    assert_eq!(farm.ask("", "").await.0, 401, "no token");
    assert_eq!(farm.ask("garbage", "").await.0, 401);
    let place = &farm.place;
    let for_the_api = place.token("warm", None, Some(&one.name)).await;
    assert_eq!(farm.ask(&for_the_api, "").await.0, 401, "a token for another audience");
    let unbound = place.token("warm", Some(AUDIENCE), None).await;
    assert_eq!(farm.ask(&unbound, "").await.0, 401, "a token of no pod");
    let good = place.token("warm", Some(AUDIENCE), Some(&one.name)).await;
    let old = place.outdated(&good);
    assert_eq!(farm.ask(&old, "").await.0, 401, "a token of yesterday");
    assert_eq!(farm.ask(&good, "{").await.0, 400);
    // A pod that is none of ours, with a token as good as theirs.
    let stranger = json!({ "metadata": { "name": "stranger" }, "spec": {
        "serviceAccountName": "warm", "containers": [{ "name": "runner", "image": "i" }],
    } });
    let stranger = serde_json::from_value(stranger).unwrap();
    place.pods().create(&Default::default(), &stranger).await.unwrap();
    let strange = place.token("warm", Some(AUDIENCE), Some("stranger")).await;
    assert_eq!(farm.ask(&strange, "").await.0, 410, "there is no work for it");
    let body = json!({ "instance": one.name }).to_string();
    assert_eq!(farm.ask(&strange, &body).await.0, 410, "whomever it asks for");
    // A namesake of a pod that is gone: the name is right, the pod is not.
    farm.replace_pod(&other.name).await;
    let namesake = place.token("warm", Some(AUDIENCE), Some(&other.name)).await;
    assert_eq!(farm.ask(&namesake, "").await.0, 403, "the name alone proves nothing");
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_released_mid_job_and_the_reaper_ticks_sixty_times() {
    let Some(farm) = Farm::start(&pool(0, 2)).await else { return };
    let github = &farm.stage.github;
    // A job is offered, and its claim is released because the forge still calls it queued.
    let claimed = farm.stage.queue(Step::Succeed, 100);
    let warm = farm.warm_pod().await;
    warm.until_staged().await;
    let released = |what: &What| matches!(what, What::OfferEnded(_, OfferEnd::Requeued));
    farm.until_reported(&warm.name, released).await;
    github.finish(claimed, "cancelled");
    // Its runner takes another job, and no report of it ever arrives.
    github.lie(|lies| {
        lies.lost_webhooks = 1000;
        lies.forbidden = vec!["/actions/runs", "/jobs"];
    });
    let taken = farm.stage.queue(Step::Succeed, 66_000);
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
    until("the pod is gone", async || {
        farm.place.pods().get_opt(&warm.name).await.unwrap().is_none()
    })
    .await;
    assert_eq!(farm.stage.job(taken).starts, 1);
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_pods_leave_a_node_that_is_taken_away_and_busy_ones_stay() {
    let cordon = json!({ "spec": { "unschedulable": true } });
    let autoscaler = json!({ "spec": { "taints": [
        { "key": "ToBeDeletedByClusterAutoscaler", "value": "1700000000", "effect": "NoSchedule" },
    ] } });
    let (one, other) = tokio::join!(left(cordon, "cordoned"), left(autoscaler, "autoscaler"));
    assert_eq!(one, other, "both or neither");
}

/// Lets a node be taken away under an idle and a busy pod; returns nothing where there is no server.
async fn left(mark: Value, word: &str) -> Option<()> {
    let mut farm = Farm::start(&pool(1, 2)).await?;
    let busy = farm.warm_pod().await;
    let job = farm.stage.queue(Step::Succeed, LONG_JOB);
    busy.until_staged().await;
    let runner = farm.run_runner(&busy).await;
    farm.stage.until_at_work(&[job]).await;
    let idle = farm.warm_pod().await;
    farm.until_state(&idle.name, State::Idle).await;
    farm.until_state(&busy.name, State::Busy).await;
    let (nodes, node) = (farm.place.nodes(), farm.place.node());
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&mark)).await.unwrap();
    farm.until_gone(&idle.name).await;
    let asked =
        |what: &What| matches!(what, What::RemovalRequested { reason: Reason::HostDrain, .. });
    let timeline = farm.timeline(&idle.name).await;
    assert!(timeline.iter().any(asked), "{word}: {timeline:#?}");
    let record = farm.records().exit(&idle.name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "removed", "{word}: {record:?}");
    let pod = farm.place.pods().get(&busy.name).await.expect("a pod at work stays");
    assert_eq!(pod.metadata.deletion_timestamp, None);
    assert_eq!(farm.label(&busy.name).await, "busy");
    farm.end_runner(&busy, runner).await;
    farm.stage.until_all_jobs_are_over(&mut farm.daemon).await;
    farm.stage.check_jobs();
    farm.leave();
    Some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_forces_a_pod_at_work_away_and_is_named() {
    let Some(farm) = Farm::start(&pool(0, 1)).await else { return };
    let job = farm.stage.queue(Step::Succeed, ENDLESS_JOB);
    let warm = farm.warm_pod().await;
    warm.until_staged().await;
    let mut runner = farm.run_runner(&warm).await;
    farm.stage.until_at_work(&[job]).await;
    farm.until_state(&warm.name, State::Busy).await;
    // Without force it stays, however often it is asked.
    assert!(!farm.delete(&warm.name, &[]).contains("forced"));
    assert_eq!(farm.label(&warm.name).await, "busy");
    farm.delete(&warm.name, &["--force", "--why", "the node is on fire"]);
    until("the pod is gone", async || {
        farm.place.pods().get_opt(&warm.name).await.unwrap().is_none()
    })
    .await;
    // With its pod goes what runs there.
    runner.kill().unwrap();
    runner.wait().unwrap();
    farm.until_gone(&warm.name).await;
    let record = farm.records().exit(&warm.name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "forced", "{record:?}");
    let timeline = farm.timeline(&warm.name).await;
    let told = |what: &What| matches!(what, What::Warranted { evidence, .. } if evidence.join(" ").contains("the node is on fire"));
    assert!(timeline.iter().any(told), "{timeline:#?}");
    farm.leave();
}

/// Tells what the guard makes of a pod whose boot deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// It never began: it is taken away as such.
    Takes,
    /// It began: its owner must prove that it is free before it is deleted.
    Refuses,
    /// Nothing can be told of it: it stays.
    Keeps,
}

/// Every way a pod may stand when its boot deadline passes.
fn shapes() -> Vec<(&'static str, Value, Guard)> {
    let part = |state: Value, started: bool, last: Value| {
        json!([{
            "name": "runner", "image": "i", "imageID": "", "ready": false, "started": started,
            "restartCount": 0, "state": state, "lastState": last,
        }])
    };
    let waiting = || json!({ "waiting": { "reason": "PodInitializing" } });
    let once = json!({ "terminated": { "exitCode": 137, "reason": "Error" } });
    let running = json!({ "running": { "startedAt": "2026-11-18T01:00:00Z" } });
    let of = |phase: &str, parts: Value| json!({ "phase": phase, "containerStatuses": parts });
    vec![
        ("no statuses", json!({ "phase": "Pending" }), Guard::Takes),
        ("waiting", of("Pending", part(waiting(), false, json!({}))), Guard::Takes),
        ("running", of("Running", part(running, true, json!({}))), Guard::Refuses),
        ("terminated once", of("Running", part(waiting(), false, once)), Guard::Refuses),
        ("a contradiction", of("Pending", part(waiting(), true, json!({}))), Guard::Keeps),
        ("a lost node", json!({ "phase": "Unknown" }), Guard::Keeps),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_mixed_batch_the_boot_deadline_takes_only_pods_that_never_began() {
    let count = u32::try_from(shapes().len()).unwrap();
    let patient = pool_with("boot_timeout = \"1h\"", count, count);
    let Some(farm) = Farm::start_with(&patient, json!(null)).await else { return };
    let mut pods = Vec::new();
    for (what, status, guard) in shapes() {
        let name = farm.next_pod().await;
        farm.place.say(&name, status).await;
        let uid = farm.place.pods().get(&name).await.unwrap().metadata.uid;
        pods.push((what, name, uid, guard));
    }
    // The deadline may pass only after every pod has the status that the guard shall judge.
    farm.reconfigure(&pool_with(DUE, count, count));
    for (_, name, ..) in pods.iter().filter(|(.., guard)| *guard == Guard::Takes) {
        farm.until_gone(name).await;
    }
    let never = |what: &What| matches!(what, What::Warranted { kind: WarrantKind::NeverBegan, .. });
    for (what, name, uid, guard) in pods {
        let timeline = farm.timeline(&name).await;
        let taken = timeline.iter().any(never);
        assert_eq!(taken, guard == Guard::Takes, "{what}: {timeline:#?}");
        if guard == Guard::Keeps {
            let pod = farm.place.pods().get(&name).await.expect(what);
            assert_eq!((pod.metadata.uid, pod.metadata.deletion_timestamp), (uid, None), "{what}");
        }
    }
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_under_the_daemon_costs_none_of_five_hundred_pods() {
    let Some(cluster) = Cluster::alone().await else { return };
    let patient = "start_permits = 1000\nstart_permits_per_host = 1000\nboot_timeout = \"1h\"";
    let many = pool_with(patient, 500, 500);
    let mut farm =
        Farm::start_in(cluster.place().await, &many, json!({ "phase": "Pending" })).await;
    let stand = async || {
        let rows = farm.records().live_instances(None).await.unwrap();
        rows.iter().filter(|row| row.state == State::Starting && row.host.is_some()).count()
    };
    until("all stand", async || stand().await == 500).await;
    let before = farm.pods().await;
    assert_eq!(before.len(), 500);

    // The server dies, and etcd forgets: some ticks of the reaper see nothing, later ones all.
    cluster.down().await;
    cluster.forget_the_past();
    tokio::time::sleep(FEW_TICKS).await;
    cluster.up().await;
    // Then a listing shows nothing, and the watch calls every pod gone: its label was taken away.
    let mark = async |label: Value| {
        let patch = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": label } } });
        for name in before.keys() {
            let patch = Patch::Merge(&patch);
            farm.place.pods().patch(name, &PatchParams::default(), &patch).await.unwrap();
        }
    };
    mark(json!(null)).await;
    tokio::time::sleep(FEW_TICKS).await;
    mark(json!("ostler")).await;
    assert_eq!(farm.pods().await, before, "every pod is the one it was");
    assert_eq!(cluster.calls("DELETE").await, 0, "and no pod was deleted");
    assert_eq!(stand().await, 500, "nor was anybody given up");

    // What happens now is heard of.
    let first = before.keys().next().unwrap();
    let runner = json!({ "name": "runner", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": { "waiting": { "reason": "PodInitializing" } } });
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "containerStatuses": [runner] });
    farm.place.say(first, evicted).await;
    farm.until_gone(first).await;
    let record = farm.records().exit(&first.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "evicted", "{record:?}");
    assert!(cluster.calls("DELETE").await > 0, "this figure can move");
    farm.daemon.must_live();
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_never_comes_up_is_taken_back_with_its_reason() {
    let patient = pool_with("boot_timeout = \"1h\"", 1, 1);
    let Some(farm) = Farm::start_with(&patient, json!(null)).await else { return };
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
    farm.reconfigure(&pool_with(DUE, 1, 1));
    farm.until_gone(&name).await;
    let record = farm.records().exit(&name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "unschedulable", "{record:?}");
    assert!(record.verdict.evidence.join("\n").contains("3 Insufficient memory"), "{record:?}");
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_pod_has_a_secret_until_its_runner_is_online() {
    let early = pool_with("binding = \"early\"", 1, 1);
    let up = json!({ "phase": "Pending" });
    let Some(mut farm) = Farm::start_with(&early, up).await else { return };
    let name = farm.next_pod().await;
    let secrets: kube::Api<Secret> =
        kube::Api::namespaced(farm.place.cluster.admin(), &farm.place.namespace);
    let secret = secrets.get(&name).await.unwrap();
    let jit = secret.data.unwrap()["jitconfig"].0.clone();
    let file = farm.stage.path("staged.jit");
    std::fs::write(&file, jit).unwrap();
    let mut runner = farm.run(&name, &file).await;
    farm.until_state(&name, State::Idle).await;
    until("the secret is gone", async || secrets.get_opt(&name).await.unwrap().is_none()).await;
    assert!(farm.pods().await.contains_key(&name), "and the pod is there");
    assert_eq!(farm.label(&name).await, "busy", "it may be given a job at any moment");
    let job = farm.stage.queue(Step::Succeed, 100);
    farm.stage.until_all_jobs_are_over(&mut farm.daemon).await;
    assert_eq!(farm.stage.job(job).starts, 1);
    runner.kill().ok();
    runner.wait().unwrap();
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_stranger_deletes_is_examined_while_it_is_there() {
    let Some(farm) = Farm::start(&pool(0, 1)).await else { return };
    let job = farm.stage.queue(Step::Succeed, ENDLESS_JOB);
    let warm = farm.warm_pod().await;
    warm.until_staged().await;
    let mut runner = farm.run_runner(&warm).await;
    farm.stage.until_at_work(&[job]).await;
    farm.until_state(&warm.name, State::Busy).await;
    farm.place.kubelet.wrote(&warm.name, "runner", "in the middle of a job\n");
    farm.place.detain(&warm.name).await;
    farm.place.pods().delete(&warm.name, &Default::default()).await.unwrap();
    // Its log is asked for at once: when the pod is gone, so is its log.
    until("its log is asked for", async || {
        farm.place.kubelet.asked().iter().any(|target| target.contains(&warm.name))
    })
    .await;
    let pod = farm.place.pods().get(&warm.name).await.expect("it is still there");
    assert!(pod.metadata.deletion_timestamp.is_some());
    runner.kill().unwrap();
    runner.wait().unwrap();
    farm.place.dismiss(&warm.name).await;
    farm.until_gone(&warm.name).await;
    let record = farm.records().exit(&warm.name.as_str().into()).await.unwrap().unwrap();
    assert_eq!(record.verdict.class.as_str(), "deleted_externally", "{record:?}");
    let tail = serde_json::to_string(&record.tail).unwrap();
    assert!(tail.contains("in the middle of a job"), "{record:?}");
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_quota_holds_creation_back_until_there_is_room() {
    let Some(cluster) = Cluster::shared().await else { return };
    let place = cluster.place().await;
    place.limit_pods(1).await;
    let farm = Farm::start_in(place, &pool(2, 2), polling()).await;
    let first = farm.warm_pod().await;
    farm.until_state(&first.name, State::Idle).await;
    // No instance failed: there is no room.
    let mut deaths = Vec::new();
    until("a create was refused", async || {
        let page = Page { cursor: None, limit: 10 };
        deaths = farm.records().deaths(&DeathQuery::default(), &page).await.unwrap().items;
        !deaths.is_empty()
    })
    .await;
    for death in &deaths {
        assert_eq!(death.verdict.class.as_str(), "unschedulable", "{death:?}");
        assert!(death.verdict.evidence.join("\n").contains("exceeded quota"), "{death:?}");
    }
    assert_eq!(farm.pods().await.len(), 1);
    farm.place.limit_pods(2).await;
    let second = farm.warm_pod().await;
    farm.until_state(&second.name, State::Idle).await;
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_starts_a_few_pods_at_a_time() {
    let pace = "start_permits_per_host = 2\nboot_timeout = \"1h\"";
    let few = |idle| pool_with(pace, idle, 6);
    let Some(farm) = Farm::start(&few(1)).await else { return };
    // The first pod shows which node there is.
    let mut warm = vec![farm.warm_pod().await];
    farm.until_state(&warm[0].name, State::Idle).await;
    farm.reconfigure(&few(6));
    for standing in [3, 5, 6] {
        until("some start", async || farm.pods().await.len() == standing).await;
        tokio::time::sleep(FEW_TICKS).await;
        assert_eq!(farm.pods().await.len(), standing, "no other pod until these are up");
        while warm.len() < standing {
            warm.push(farm.warm_pod().await);
        }
    }
    farm.leave();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_whose_pods_the_cluster_refuses_changes_nothing() {
    let Some(mut farm) = Farm::start(&pool(0, 1)).await else { return };
    let typo = format!("{}\nnodeselector = {{ a = \"b\" }}\n", pool(0, 1));
    farm.reconfigure(&typo);
    until("the edit is refused", async || {
        let ready = farm.daemon.ready();
        ready.is_some_and(|ready| ready.config().contains("`pod.spec.nodeselector` is not a field"))
    })
    .await;
    let misfit = format!("{}\nactiveDeadlineSeconds = -5\n", pool(0, 1));
    farm.reconfigure(&misfit);
    until("the cluster refuses it", async || {
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
    farm.place.add_account("outsider").await;
    let token = farm.place.token("outsider", None, None).await;
    let (code, text) = farm.check_live(Some(&token));
    assert_eq!(code, 1);
    for right in RIGHTS {
        let told = text.contains(&format!("may not {right}"));
        assert_eq!(told, right.need != Need::Early, "no pool binds early: {right}: {text}");
    }
    farm.finish().await;
}

/// Returns what a timeline tells.
async fn reported(farm: &Farm, name: &str) -> Vec<What> {
    let subject = Subject::Instance(name.into());
    let events = farm.records().timeline(&subject).await.unwrap();
    events.into_iter().map(|event| event.what).collect()
}
