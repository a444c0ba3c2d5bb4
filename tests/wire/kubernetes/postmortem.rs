//! The post-mortem of a real pod: its log by way of the API server, its node, its events.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ostler_actors::model::{ExitReport, Tail};
use ostler_actors::ports::Inventory as _;
use serde_json::json;

use super::fixture::{Fixture, ended, exact, part, runner};
use crate::support::HANG_LIMIT;
use crate::support::kubelet::Said;

fn text(exit_report: &ExitReport) -> &str {
    match &exit_report.tail {
        Tail::Captured(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_end_of_the_runners_log_is_kept_and_made_harmless() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.stand("loud", runner("Failed", ended(1, "Error"))).await;
    let log: Vec<String> = (0..1000).map(|line| format!("line {line} \u{1b}[31m\n")).collect();
    fixture.place.kubelet.wrote("loud", "runner", &log.concat());
    let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
    let tail = text(&exit_report);
    assert_eq!(tail.lines().count(), 200);
    assert!(tail.starts_with("line 800 \\u{1b}") && tail.contains("line 999"), "{tail}");
    assert_eq!(fixture.provider.exit_report(&exact(&view), false).await.tail, Tail::NotNeeded);
}

#[tokio::test]
async fn lines_that_are_too_long_do_not_cost_the_end_of_the_log() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.stand("long", runner("Failed", ended(1, "Error"))).await;
    let line = "x".repeat(20_000);
    let log = format!("{line}\n").repeat(200);
    fixture.place.kubelet.wrote("long", "runner", &format!("{log}the last words\n"));
    let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
    assert!(text(&exit_report).ends_with("the last words"));
    assert!(text(&exit_report).len() <= 64 * 1024);
}

#[tokio::test]
async fn the_log_of_the_life_before_is_asked_for_where_this_one_says_nothing() {
    let Some(fixture) = Fixture::open().await else { return };
    let mut again = part("runner", ended(1, "Error"));
    again["restartCount"] = json!(1);
    let status = json!({ "phase": "Failed", "containerStatuses": [again] });
    let view = fixture.stand("again", status).await;
    fixture.place.kubelet.wrote("again", "runner", "");
    fixture.place.kubelet.says("again", "runner", true, Said::Text("before\n".into()));
    assert_eq!(text(&fixture.provider.exit_report(&exact(&view), true).await), "before");
    assert!(fixture.place.kubelet.asked().iter().any(|it| it.contains("previous=true")));
}

#[tokio::test]
async fn the_log_of_the_part_that_failed_is_kept() {
    let Some(fixture) = Fixture::open().await else { return };
    let poller = part("poller", ended(1, "Error"));
    let status = json!({ "phase": "Failed", "initContainerStatuses": [poller] });
    let view = fixture.stand("unborn", status).await;
    fixture.place.kubelet.wrote(
        "unborn",
        "poller",
        "refused: this token is for another audience (401)\n",
    );
    let exit_report = fixture.provider.exit_report(&exact(&view), true).await;
    assert!(text(&exit_report).contains("refused"), "{exit_report:?}");
}

#[tokio::test]
async fn a_kubelet_that_never_answers_costs_the_log_and_nothing_else() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.stand("silent", runner("Failed", ended(137, "OOMKilled"))).await;
    fixture.place.kubelet.says("silent", "runner", false, Said::Silence);
    let whom = exact(&view);
    let asked = tokio::time::timeout(HANG_LIMIT, fixture.provider.exit_report(&whom, true)).await;
    let remains = asked.expect("waits for a kubelet that never answers");
    assert!(matches!(remains.tail, Tail::Unavailable(_)), "{remains:?}");
    assert_eq!(remains.exit.unwrap().code, Some(137));
}

#[tokio::test]
async fn the_node_and_the_last_events_are_evidence() {
    let Some(fixture) = Fixture::open().await else { return };
    let view = fixture.stand("witnessed", runner("Failed", ended(137, "Error"))).await;
    fixture.place.kubelet.wrote("witnessed", "runner", "x\n");
    let sick = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "reason": "KubeletReady" },
        { "type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory" },
    ] } });
    let params = PatchParams::default();
    let nodes = fixture.place.nodes();
    nodes.patch_status(&fixture.place.node(), &params, &Patch::Strategic(&sick)).await.unwrap();
    let events: Api<Event> =
        Api::namespaced(fixture.place.cluster.admin(), &fixture.place.namespace);
    for (number, uid) in [(1, view.uid.clone()), (2, Some("another".into()))] {
        let event = json!({
            "metadata": { "name": format!("e{number}") },
            "involvedObject": { "kind": "Pod", "namespace": fixture.place.namespace, "name": "witnessed", "uid": uid },
            "reason": "Evicting", "message": format!("event {number}"), "count": 3,
            "lastTimestamp": "2026-11-18T01:00:00Z",
        });
        let event = serde_json::from_value(event).unwrap();
        events.create(&PostParams::default(), &event).await.unwrap();
    }
    let told = fixture.provider.exit_report(&exact(&view), true).await.remarks.join("\n");
    assert!(told.contains("MemoryPressure=True (KubeletHasInsufficientMemory)"), "{told}");
    assert!(told.contains("Evicting: event 1 (3 times)"), "{told}");
    assert!(!told.contains("event 2"), "{told}");
}
