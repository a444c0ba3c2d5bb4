//! Pods as an API server would show them, for the tests of this folder.

#![expect(clippy::needless_pass_by_value, reason = "so that a test can write `json!(…)`")]

use serde_json::{Value, json};

use super::seen::Seen;

/// Returns a split pod with this status.
pub(super) fn split(status: Value) -> Seen {
    pod(json!([{ "name": "runner" }]), json!([{ "name": "poller" }]), status)
}

/// Returns a pod without a poller with this status.
pub(super) fn single(status: Value) -> Seen {
    pod(json!([{ "name": "runner" }]), json!([]), status)
}

/// Returns a pod of these containers.
pub(super) fn pod(containers: Value, first: Value, status: Value) -> Seen {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "linux-1", "uid": "u1" },
        "spec": { "nodeName": "n1", "containers": containers, "initContainers": first },
        "status": status,
    }))
    .unwrap()
}

/// Returns the status of a pod whose runner stands so.
pub(super) fn runner(state: Value) -> Value {
    with_runner(json!({ "state": state }))
}

/// Returns the status of a pod whose runner's status has these fields.
pub(super) fn with_runner(fields: Value) -> Value {
    let mut status = json!({
        "name": "runner", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
    });
    for (key, value) in fields.as_object().unwrap() {
        status[key] = value.clone();
    }
    json!({ "phase": "Running", "containerStatuses": [status] })
}

/// Returns a terminated state.
pub(super) fn ended(code: i32, reason: &str) -> Value {
    json!({ "terminated": {
        "exitCode": code, "reason": reason, "finishedAt": "2026-11-18T01:00:00Z",
    } })
}
