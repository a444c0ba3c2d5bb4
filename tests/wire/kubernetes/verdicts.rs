//! Every verdict on a real pod: written by a kubelet, read through the API, judged.

use ostler_actors::model::{
    Binding, Conclusion, End, Findings, JobStanding, MachinePhase, SetupStory, VerdictClass,
    WarrantKind, judge,
};
use ostler_actors::ports::{CreateError, Inventory as _, Provider as _};
use serde_json::{Value, json};

use super::yard::{Yard, ended, exact, order, part, runner, running, waiting};

/// Holds one way a pod can end, and why it did.
struct Row {
    name: &'static str,
    status: Value,
    job: JobStanding,
    verdict: VerdictClass,
}

fn row(name: &'static str, status: Value, job: JobStanding, verdict: VerdictClass) -> Row {
    Row { name, status, job, verdict }
}

fn with_reason(mut status: Value, reason: &str) -> Value {
    status["phase"] = json!("Failed");
    status["reason"] = json!(reason);
    status
}

fn disrupted(reason: &str) -> Value {
    let mut status = runner("Failed", ended(143, "Error"));
    status["conditions"] =
        json!([{ "type": "DisruptionTarget", "status": "True", "reason": reason }]);
    status
}

fn rows() -> Vec<Row> {
    use JobStanding::{None, Running, Unknown};
    let over = || JobStanding::Over(Some(Conclusion::Success));
    let done = |code, reason| runner("Failed", ended(code, reason));
    let clean = || runner("Succeeded", ended(0, "Completed"));
    let poller =
        json!({ "phase": "Failed", "initContainerStatuses": [part("poller", ended(1, "Error"))] });
    vec![
        row("clean", clean(), over(), VerdictClass::Clean),
        row("wasted", clean(), None, VerdictClass::Wasted),
        row("handshake-lost", clean(), Running, VerdictClass::HandshakeLost),
        row("zero-unasked", clean(), Unknown, VerdictClass::Unknown),
        row("runner-error", done(1, "Error"), Running, VerdictClass::RunnerError),
        row("outdated", done(7, "Error"), None, VerdictClass::OutdatedRunner),
        row("host-oom", done(137, "OOMKilled"), Running, VerdictClass::HostOom),
        row("guest-killed", done(137, "Error"), Running, VerdictClass::GuestKilled),
        row("invented", done(137, "ContainerStatusUnknown"), Running, VerdictClass::Unknown),
        row("terminated", done(143, "Error"), Running, VerdictClass::Terminated),
        row("aborted", done(134, "Error"), Running, VerdictClass::Aborted),
        row("crashed", done(139, "Error"), Running, VerdictClass::Crashed),
        row("poller-failed", poller, None, VerdictClass::BootFailed),
        row("evicted", with_reason(done(137, "Error"), "Evicted"), Running, VerdictClass::Evicted),
        row("drained", disrupted("EvictionByEvictionAPI"), Running, VerdictClass::Evicted),
        row("preempted", disrupted("PreemptionByScheduler"), Running, VerdictClass::Preempted),
        row(
            "deadline",
            with_reason(json!({ "phase": "Failed" }), "DeadlineExceeded"),
            Running,
            VerdictClass::Deadline,
        ),
        row("node-lost", with_reason(json!({}), "NodeLost"), Running, VerdictClass::NodeLost),
        row("pod-gc", disrupted("DeletionByPodGC"), Running, VerdictClass::NodeLost),
        row("full-node", with_reason(json!({}), "OutOfcpu"), None, VerdictClass::Unschedulable),
        row("silent", json!({ "phase": "Failed" }), None, VerdictClass::Unreported),
    ]
}

#[tokio::test]
async fn every_end_of_a_real_pod_gets_its_verdict() {
    let Some(yard) = Yard::open().await else { return };
    for Row { name, status, job, verdict } in rows() {
        let view = yard.stand(name, status).await;
        let MachinePhase::Over(facts) = view.phase.clone() else { panic!("{name}: {view:?}") };
        let remains = yard.provider.remains(&exact(&view), false).await;
        assert_eq!(remains.exit.as_ref(), Some(&facts), "{name}");
        let end = End::Exited(facts);
        let warrant = WarrantKind::OwnEnd;
        let findings = Findings {
            end: Some(&end),
            warrant,
            remains: &remains,
            job,
            was_ready: true,
            dismissed: None,
            setup: SetupStory::Untold,
        };
        let judged = judge(&findings);
        assert_eq!(judged.class, verdict, "{name}: {judged:?}");
    }
}

#[tokio::test]
async fn why_a_real_pod_never_came_up_is_told() {
    let Some(yard) = Yard::open().await else { return };
    let unplaced = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }] });
    let image = runner("Pending", waiting("ImagePullBackOff"));
    let nothing = runner("Pending", waiting("ContainerCreating"));
    let config = runner("Pending", waiting("CreateContainerConfigError"));
    for (name, status, verdict, word) in [
        ("unplaced", unplaced, VerdictClass::Unschedulable, "3 Insufficient memory"),
        ("image", image, VerdictClass::ImagePull, "ImagePullBackOff"),
        ("nothing", nothing, VerdictClass::BootFailed, "never started"),
        ("config", config, VerdictClass::BootFailed, "CreateContainerConfigError"),
    ] {
        let view = yard.stand(name, status).await;
        let remains = yard.provider.remains(&exact(&view), true).await;
        let (warrant, job) = (WarrantKind::NeverBegan, JobStanding::None);
        let judged = judge(&Findings {
            end: None,
            warrant,
            remains: &remains,
            job,
            was_ready: false,
            dismissed: None,
            setup: SetupStory::Untold,
        });
        assert_eq!(judged.class, verdict, "{name}: {judged:?}");
        assert!(judged.evidence.join("\n").contains(word), "{name}: {judged:?}");
    }
}

#[tokio::test]
async fn a_pod_that_somebody_else_deleted_says_so() {
    let Some(yard) = Yard::open().await else { return };
    let view = yard.stand("taken", runner("Running", running())).await;
    yard.place.kubelet.wrote("taken", "runner", "at work\n");
    yard.place.pods().delete("taken", &Default::default()).await.unwrap();
    let leaving = yard.view("taken").await;
    assert!(leaving.leaving && leaving.phase == MachinePhase::Running, "{leaving:?}");
    let remains = yard.provider.remains(&exact(&view), true).await;
    let text = serde_json::to_string(&remains.tail).unwrap();
    assert!(text.contains("at work"), "{text}");
    for (deleted_externally, verdict) in
        [(true, VerdictClass::DeletedExternally), (false, VerdictClass::Vanished)]
    {
        let end = End::Gone { deleted_externally };
        let (warrant, job) = (WarrantKind::OwnEnd, JobStanding::Running);
        let findings = Findings {
            end: Some(&end),
            warrant,
            remains: &remains,
            job,
            was_ready: true,
            dismissed: None,
            setup: SetupStory::Untold,
        };
        assert_eq!(judge(&findings).class, verdict);
    }
}

#[tokio::test]
async fn a_pod_the_cluster_refuses_was_never_made() {
    let Some(yard) = Yard::open().await else { return };
    let mut bad = order("Not_A_Name", Binding::Late);
    bad.stamp.instance = Some("bad".into());
    let error = yard.provider.create(bad).await.unwrap_err();
    assert!(matches!(&error, CreateError::Refused { why, .. } if why.contains("(422)")), "{error}");
    let mut bad = order("bad-overlay", Binding::Late);
    bad.machine.extra = json!({ "pod": { "spec": { "nodeselector": {"a": "b"} } } });
    let error = yard.provider.create(bad).await.unwrap_err();
    assert!(error.to_string().contains("`pod.spec.nodeselector` is not a field"), "{error}");
    let mut bad = order("no-memory", Binding::Late);
    bad.machine.extra = json!({ "pod": { "spec": { "containers": [
        { "name": "runner", "resources": { "requests": { "memory": "9Gi" } } },
    ] } } });
    let error = yard.provider.create(bad).await.unwrap_err();
    let why = error.to_string();
    assert!(
        matches!(error, CreateError::Refused { .. }) && why.contains("must be less than"),
        "{why}"
    );
}

#[tokio::test]
async fn a_full_quota_is_told_as_such() {
    let Some(yard) = Yard::open().await else { return };
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "few", "namespace": yard.place.namespace },
        "spec": { "hard": { "pods": "0" } },
    });
    yard.place.apply_object(quota).await;
    // Without a controller the quota is counted from what its status says.
    let status = json!({ "status": { "hard": { "pods": "0" }, "used": { "pods": "0" } } });
    let quotas: kube::Api<k8s_openapi::api::core::v1::ResourceQuota> =
        kube::Api::namespaced(yard.place.cluster.admin(), &yard.place.namespace);
    let patch = kube::api::Patch::Merge(&status);
    quotas.patch_status("few", &Default::default(), &patch).await.unwrap();
    let error = yard.provider.create(order("one-more", Binding::Late)).await.unwrap_err();
    let CreateError::Refused { why, .. } = error else { panic!("{error}") };
    assert!(why.contains("exceeded quota: few"), "{why}");
    let end = End::NotCreated { why };
    let remains = yard.provider.remains(&super::yard::by_name("one-more"), false).await;
    let (warrant, job) = (WarrantKind::OwnEnd, JobStanding::None);
    let judged = judge(&Findings {
        end: Some(&end),
        warrant,
        remains: &remains,
        job,
        was_ready: false,
        dismissed: None,
        setup: SetupStory::Untold,
    });
    assert_eq!(judged.class, VerdictClass::Unschedulable, "no room is no failure: {judged:?}");
}
