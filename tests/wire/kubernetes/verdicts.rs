//! Every verdict on a real pod: written by a kubelet, read through the API, judged.

use std::collections::BTreeSet;

use ostler_actors::model::{
    Binding, Conclusion, End, ExitReport, Findings, JobStatus, MachinePhase, SetupStory, Verdict,
    VerdictClass, WarrantKind, judge,
};
use ostler_actors::ports::{CreateError, Deletion, Grace, Inventory as _, Provider as _};
use serde_json::{Value, json};

use super::fixture::{Fixture, by_name, ended, exact, order, part, runner, running, waiting};

/// Holds one way a pod can end, and why it did.
struct Row {
    name: &'static str,
    status: Value,
    job: JobStatus,
    verdict: VerdictClass,
}

fn row(name: &'static str, status: Value, job: JobStatus, verdict: VerdictClass) -> Row {
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
    use JobStatus::{None, Running, Unknown};
    let over = || JobStatus::Over(Some(Conclusion::Success));
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
            with_reason(runner("Failed", waiting("ContainerCreating")), "DeadlineExceeded"),
            Running,
            VerdictClass::Deadline,
        ),
        row(
            "node-lost",
            with_reason(done(137, "Error"), "NodeLost"),
            Running,
            VerdictClass::NodeLost,
        ),
        row("pod-gc", disrupted("DeletionByPodGC"), Running, VerdictClass::NodeLost),
        row("full-node", with_reason(json!({}), "OutOfcpu"), None, VerdictClass::Evicted),
        row("silent", runner("Failed", waiting("")), None, VerdictClass::Unreported),
    ]
}

/// Judges what a pod left.
fn judged(
    end: Option<&End>,
    warrant: WarrantKind,
    exit_report: &ExitReport,
    job: JobStatus,
) -> Verdict {
    judge(&Findings {
        end,
        warrant,
        exit_report,
        job,
        was_ready: !matches!(warrant, WarrantKind::NeverBegan),
        worked: false,
        create_called: true,
        dismissed: None,
        setup: SetupStory::Untold,
    })
}

/// Judges every way a pod can end by itself.
async fn judge_ends(fixture: &Fixture) -> BTreeSet<VerdictClass> {
    let mut seen = BTreeSet::new();
    for Row { name, status, job, verdict } in rows() {
        let view = fixture.stand(name, status).await;
        let MachinePhase::Over(facts) = view.phase.clone() else { panic!("{name}: {view:?}") };
        let exit_report = fixture.provider.exit_report(&exact(&view), false).await;
        assert_eq!(exit_report.exit.as_ref(), Some(&facts), "{name}");
        let judged = judged(Some(&End::Exited(facts)), WarrantKind::OwnEnd, &exit_report, job);
        assert_eq!(judged.class, verdict, "{name}: {judged:?}");
        seen.insert(judged.class);
    }
    seen
}

/// Judges every reason for which a pod does not come up.
async fn judge_waiting(fixture: &Fixture) -> BTreeSet<VerdictClass> {
    let unplaced = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }] });
    let image = runner("Pending", waiting("ImagePullBackOff"));
    let nothing = runner("Pending", waiting("ContainerCreating"));
    let config = runner("Pending", waiting("CreateContainerConfigError"));
    let mut seen = BTreeSet::new();
    for (name, status, verdict, word) in [
        ("unplaced", unplaced, VerdictClass::Unschedulable, "3 Insufficient memory"),
        ("image", image, VerdictClass::ImagePull, "ImagePullBackOff"),
        ("nothing", nothing, VerdictClass::BootFailed, "never started"),
        ("config", config, VerdictClass::BootFailed, "CreateContainerConfigError"),
    ] {
        let view = fixture.stand(name, status).await;
        let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
        let judged = judged(None, WarrantKind::NeverBegan, &exit_report, JobStatus::None);
        assert_eq!(judged.class, verdict, "{name}: {judged:?}");
        assert!(judged.evidence.join("\n").contains(word), "{name}: {judged:?}");
        seen.insert(judged.class);
    }
    seen
}

/// Judges pods that we remove while they run, each with its warrant, and removes them.
async fn judge_removals(fixture: &Fixture) -> BTreeSet<VerdictClass> {
    let over = || JobStatus::Over(Some(Conclusion::Success));
    let mut seen = BTreeSet::new();
    for (name, warrant, job, verdict, grace) in [
        ("idle", WarrantKind::Idle, JobStatus::None, VerdictClass::Removed, Grace::Usual),
        ("served", WarrantKind::Served, over(), VerdictClass::Removed, Grace::Usual),
        ("zombie", WarrantKind::Zombie, over(), VerdictClass::Zombie, Grace::Usual),
        ("forced", WarrantKind::Operator, JobStatus::Running, VerdictClass::Forced, Grace::Zero),
    ] {
        let view = fixture.stand(name, runner("Running", running())).await;
        fixture.place.kubelet.wrote(name, "runner", "listening\n");
        let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
        assert_eq!(exit_report.exit, None, "{name} has not ended");
        let judged = judged(None, warrant, &exit_report, job);
        assert_eq!(judged.class, verdict, "{name}: {judged:?}");
        seen.insert(judged.class);
        let deleted = fixture.provider.delete(&exact(&view), grace).await.unwrap();
        assert_eq!(deleted, Deletion::Accepted);
        let left = fixture.place.pods().get_opt(name).await.unwrap();
        match grace {
            Grace::Zero => assert!(left.is_none(), "{name} goes at once"),
            Grace::Usual => {
                let grace = left.unwrap().metadata.deletion_grace_period_seconds;
                assert_eq!(grace, Some(60), "{name} is given its time");
            }
        }
    }
    seen
}

/// Judges pods that a stranger deleted: seen leaving, or just gone.
async fn judge_gone(fixture: &Fixture) -> BTreeSet<VerdictClass> {
    let view = fixture.stand("taken", runner("Running", running())).await;
    fixture.place.kubelet.wrote("taken", "runner", "at work\n");
    fixture.place.pods().delete("taken", &Default::default()).await.unwrap();
    let leaving = fixture.view("taken").await;
    assert!(leaving.leaving && leaving.phase == MachinePhase::Running, "{leaving:?}");
    let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
    let text = serde_json::to_string(&exit_report.tail).unwrap();
    assert!(text.contains("at work"), "{text}");
    let gone = |deleted_externally, exit_report: &ExitReport| {
        let end = End::Gone { deleted_externally };
        judged(Some(&end), WarrantKind::OwnEnd, exit_report, JobStatus::Running).class
    };
    assert_eq!(gone(true, &exit_report), VerdictClass::DeletedExternally);
    let nothing = fixture.provider.exit_report(&by_name("never-seen-again"), true).await;
    assert_eq!(gone(false, &nothing), VerdictClass::Vanished);
    BTreeSet::from([VerdictClass::DeletedExternally, VerdictClass::Vanished])
}

/// Judges a pod that the cluster did not take.
async fn judge_refusal(fixture: &Fixture) -> BTreeSet<VerdictClass> {
    let CreateError::Refused { why, .. } =
        fixture.provider.create(order("Not_A_Name", Binding::Late)).await.unwrap_err()
    else {
        panic!("nothing was made")
    };
    let nothing = fixture.provider.exit_report(&by_name("not-a-name"), false).await;
    let end = End::NotCreated { why };
    let judged = judged(Some(&end), WarrantKind::OwnEnd, &nothing, JobStatus::None);
    assert_eq!(judged.class, VerdictClass::CreateFailed, "{judged:?}");
    BTreeSet::from([judged.class])
}

#[tokio::test]
async fn every_verdict_is_found_on_a_real_pod() {
    let Some(fixture) = Fixture::open().await else { return };
    let mut seen = judge_ends(&fixture).await;
    seen.extend(judge_waiting(&fixture).await);
    seen.extend(judge_removals(&fixture).await);
    seen.extend(judge_gone(&fixture).await);
    seen.extend(judge_refusal(&fixture).await);
    assert_eq!(seen, BTreeSet::from(VerdictClass::ALL), "each word of the table, and none beside");
}

#[tokio::test]
async fn a_pod_the_cluster_refuses_was_never_made() {
    let Some(fixture) = Fixture::open().await else { return };
    let mut bad = order("Not_A_Name", Binding::Late);
    bad.stamp.instance = Some("bad".into());
    let error = fixture.provider.create(bad).await.unwrap_err();
    assert!(matches!(&error, CreateError::Refused { why, .. } if why.contains("(422)")), "{error}");
    let mut bad = order("bad-overlay", Binding::Late);
    bad.machine.extra = json!({ "pod": { "spec": { "nodeselector": {"a": "b"} } } });
    let error = fixture.provider.create(bad).await.unwrap_err();
    assert!(error.to_string().contains("`pod.spec.nodeselector` is not a field"), "{error}");
    let mut bad = order("no-memory", Binding::Late);
    bad.machine.extra = json!({ "pod": { "spec": { "containers": [
        { "name": "runner", "resources": { "requests": { "memory": "9Gi" } } },
    ] } } });
    let error = fixture.provider.create(bad).await.unwrap_err();
    let why = error.to_string();
    assert!(
        matches!(error, CreateError::Refused { .. }) && why.contains("must be less than"),
        "{why}"
    );
}

#[tokio::test]
async fn a_full_quota_is_reported_as_such() {
    let Some(fixture) = Fixture::open().await else { return };
    fixture.place.limit_pods(0).await;
    let error = fixture.provider.create(order("one-more", Binding::Late)).await.unwrap_err();
    let CreateError::Refused { why, .. } = error else { panic!("{error}") };
    assert!(why.contains("exceeded quota: few"), "{why}");
    let end = End::NotCreated { why };
    let exit_report = fixture.provider.exit_report(&by_name("one-more"), false).await;
    let judged = judged(Some(&end), WarrantKind::OwnEnd, &exit_report, JobStatus::None);
    assert_eq!(judged.class, VerdictClass::Unschedulable, "no room is no failure: {judged:?}");
}
