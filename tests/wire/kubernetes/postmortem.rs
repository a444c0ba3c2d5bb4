//! The post-mortem of a real pod: its log by way of the API server, its node, its events.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use ostler_actors::model::{Remains, Tail};
use ostler_actors::ports::Inventory as _;
use serde_json::json;

use super::yard::{Yard, ended, exact, part, runner};
use crate::support::HANG_LIMIT;
use crate::support::kubelet::Said;

fn text(remains: &Remains) -> &str {
    match &remains.tail {
        Tail::Captured(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_end_of_the_runners_log_is_kept_and_made_harmless() {
    let Some(yard) = Yard::open().await else { return };
    let view = yard.stand("loud", runner("Failed", ended(1, "Error"))).await;
    let log: Vec<String> = (0..1000).map(|line| format!("line {line} \u{1b}[31m\n")).collect();
    yard.place.kubelet.wrote("loud", "runner", &log.concat());
    let remains = yard.provider.remains(&exact(&view), true).await;
    let tail = text(&remains);
    assert_eq!(tail.lines().count(), 200);
    assert!(tail.starts_with("line 800 \\u{1b}") && tail.contains("line 999"), "{tail}");
    assert_eq!(yard.provider.remains(&exact(&view), false).await.tail, Tail::NotNeeded);
}

#[tokio::test]
async fn lines_that_are_too_long_do_not_cost_the_last_words() {
    let Some(yard) = Yard::open().await else { return };
    let view = yard.stand("long", runner("Failed", ended(1, "Error"))).await;
    let line = "x".repeat(20_000);
    let log = format!("{line}\n").repeat(200);
    yard.place.kubelet.wrote("long", "runner", &format!("{log}the last words\n"));
    let remains = yard.provider.remains(&exact(&view), true).await;
    assert!(text(&remains).ends_with("the last words"));
    assert!(text(&remains).len() <= 64 * 1024);
}

#[tokio::test]
async fn the_log_of_the_life_before_is_asked_for_where_this_one_says_nothing() {
    let Some(yard) = Yard::open().await else { return };
    let mut again = part("runner", ended(1, "Error"));
    again["restartCount"] = json!(1);
    let status = json!({ "phase": "Failed", "containerStatuses": [again] });
    let view = yard.stand("again", status).await;
    yard.place.kubelet.wrote("again", "runner", "");
    yard.place.kubelet.says("again", "runner", true, Said::Text("before\n".into()));
    assert_eq!(text(&yard.provider.remains(&exact(&view), true).await), "before");
    assert!(yard.place.kubelet.asked().iter().any(|it| it.contains("previous=true")));
}

#[tokio::test]
async fn the_log_of_the_part_that_failed_is_kept() {
    let Some(yard) = Yard::open().await else { return };
    let poller = part("poller", ended(1, "Error"));
    let status = json!({ "phase": "Failed", "initContainerStatuses": [poller] });
    let view = yard.stand("unborn", status).await;
    yard.place.kubelet.wrote(
        "unborn",
        "poller",
        "refused: this token is for somebody else (401)\n",
    );
    let remains = yard.provider.remains(&exact(&view), true).await;
    assert!(text(&remains).contains("refused"), "{remains:?}");
}

#[tokio::test]
async fn a_kubelet_that_never_answers_costs_the_log_and_nothing_else() {
    let Some(yard) = Yard::open().await else { return };
    let view = yard.stand("silent", runner("Failed", ended(137, "OOMKilled"))).await;
    yard.place.kubelet.says("silent", "runner", false, Said::Silence);
    let whom = exact(&view);
    let asked = tokio::time::timeout(HANG_LIMIT, yard.provider.remains(&whom, true)).await;
    let remains = asked.expect("waits for a kubelet that never answers");
    assert!(matches!(remains.tail, Tail::Unavailable(_)), "{remains:?}");
    assert_eq!(remains.exit.unwrap().code, Some(137));
}

#[tokio::test]
async fn the_node_and_the_last_events_are_evidence() {
    let Some(yard) = Yard::open().await else { return };
    let view = yard.stand("witnessed", runner("Failed", ended(137, "Error"))).await;
    yard.place.kubelet.wrote("witnessed", "runner", "x\n");
    let sick = json!({ "status": { "conditions": [
        { "type": "Ready", "status": "True", "reason": "KubeletReady" },
        { "type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory" },
    ] } });
    let params = PatchParams::default();
    let nodes = yard.place.nodes();
    nodes.patch_status(&yard.place.node(), &params, &Patch::Strategic(&sick)).await.unwrap();
    let events: Api<Event> = Api::namespaced(yard.place.cluster.admin(), &yard.place.namespace);
    for (number, uid) in [(1, view.uid.clone()), (2, Some("another".into()))] {
        let event = json!({
            "metadata": { "name": format!("e{number}") },
            "involvedObject": { "kind": "Pod", "namespace": yard.place.namespace, "name": "witnessed", "uid": uid },
            "reason": "Evicting", "message": format!("event {number}"), "count": 3,
            "lastTimestamp": "2026-11-18T01:00:00Z",
        });
        let event = serde_json::from_value(event).unwrap();
        events.create(&PostParams::default(), &event).await.unwrap();
    }
    let told = yard.provider.remains(&exact(&view), true).await.notes.join("\n");
    assert!(told.contains("MemoryPressure=True (KubeletHasInsufficientMemory)"), "{told}");
    assert!(told.contains("Evicting: event 1 (3 times)"), "{told}");
    assert!(!told.contains("event 2"), "{told}");
}
