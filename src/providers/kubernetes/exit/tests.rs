use serde_json::{Value, json};

use super::super::fixtures::{ended, pod, runner, single, split, with_runner};
use super::*;

fn over(status: Value) -> ExitFacts {
    let phase = phase(&split(status));
    let MachinePhase::Over(facts) = phase else { panic!("{phase:?}") };
    facts
}

fn failed(mut status: Value, reason: &str) -> Value {
    status["phase"] = json!("Failed");
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

#[test]
fn the_runners_end_is_reported_with_code_reason_and_time() {
    let facts = over(failed(runner(ended(137, "OOMKilled")), ""));
    assert_eq!((facts.code, facts.reason.as_deref()), (Some(137), Some("OOMKilled")));
    assert_eq!((facts.part, facts.machine_reason), (None, None));
    assert_eq!(facts.ended_at.unwrap().to_string(), "2026-11-18T01:00:00Z");
}

#[test]
fn a_signal_of_zero_is_none() {
    let zero = json!({ "terminated": { "exitCode": 143, "signal": 0, "reason": "Error" } });
    assert_eq!(over(failed(runner(zero), "")).signal, None);
}

#[test]
fn the_pods_own_message_is_reported_beside_the_exit_code() {
    for word in ["Evicted", "NodeLost", "Preempting", "DeadlineExceeded", "OutOfcpu"] {
        let facts = over(failed(runner(ended(137, "Error")), word));
        assert_eq!(facts.machine_reason.as_deref(), Some(word));
        assert_eq!(facts.code, Some(137));
        let silent = over(failed(runner(json!({ "waiting": {} })), word));
        assert_eq!((silent.machine_reason.as_deref(), silent.code), (Some(word), None));
    }
}

/// Every way a runner's container can stand, and what the pod then says of its machine, before and
/// after its phase is terminal.
#[test]
fn the_phase_of_a_pod_alone_is_no_end() {
    let polled = json!({ "name": "poller", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": ended(0, "Completed") });
    let after_poller = |mut status: Value| {
        status["initContainerStatuses"] = json!([polled]);
        status
    };
    let shapes = [
        ("waiting, never started", runner(json!({ "waiting": {} })), "booting", "over"),
        ("running", after_poller(runner(json!({ "running": {} }))), "running", "doubt"),
        (
            "contradictory",
            after_poller(runner(json!({ "running": {}, "waiting": {} }))),
            "doubt",
            "doubt",
        ),
        (
            "no status, may have begun",
            after_poller(json!({ "phase": "Running" })),
            "booting",
            "doubt",
        ),
        ("no status at all", json!({ "phase": "Pending" }), "booting", "doubt"),
        ("terminated", after_poller(runner(ended(1, "Error"))), "over", "over"),
        (
            "terminated, invented",
            after_poller(runner(ended(137, "ContainerStatusUnknown"))),
            "doubt",
            "over",
        ),
    ];
    let word = |status: Value| match phase(&split(status)) {
        MachinePhase::Booting => "booting",
        MachinePhase::Running => "running",
        MachinePhase::Over(_) => "over",
        MachinePhase::Doubt(_) => "doubt",
    };
    for (shape, status, before, after) in shapes {
        assert_eq!(word(status.clone()), before, "{shape}");
        assert_eq!(word(failed(status, "DeadlineExceeded")), after, "{shape}, Failed");
    }
}

#[test]
fn the_end_of_a_pod_whose_runner_has_its_grace_is_never_the_pollers() {
    let mut status = failed(runner(json!({ "running": {} })), "DeadlineExceeded");
    status["initContainerStatuses"] = json!([{
        "name": "poller", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": ended(0, "Completed"),
    }]);
    let pod = split(status);
    assert_eq!(loudest(&pod), "runner");
    let facts = facts(&pod);
    assert_eq!((facts.code, facts.part), (None, None));
    assert_eq!(facts.machine_reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn a_pod_that_no_node_took_is_over_by_its_phase() {
    let mut unplaced = split(failed(json!({}), ""));
    unplaced.spec.node_name = None;
    assert!(matches!(phase(&unplaced), MachinePhase::Over(_)));
    for word in ["OutOfcpu", "OutOfmemory", "NodeAffinity", "UnexpectedAdmissionError"] {
        assert_eq!(over(failed(json!({}), word)).machine_reason.as_deref(), Some(word));
    }
}

#[test]
fn the_disruption_of_a_pod_is_reported_unless_it_succeeded() {
    let disrupted = |phase: &str, code| {
        let mut status = runner(ended(code, ""));
        status["phase"] = json!(phase);
        status["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }]);
        status
    };
    let word = |phase, code| over(disrupted(phase, code)).machine_reason;
    assert_eq!(word("Failed", 143).as_deref(), Some("EvictionByEvictionAPI"));
    assert_eq!(word("Succeeded", 0), None);
    assert_eq!(messages(&split(disrupted("Failed", 143))), ["Eviction API: evicting"]);
}

#[test]
fn a_poller_that_failed_is_the_part_that_failed() {
    let status = json!({ "phase": "Failed", "initContainerStatuses": [{
        "name": "poller", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": ended(1, "Error"),
    }] });
    let facts = over(status.clone());
    assert_eq!((facts.part.as_deref(), facts.code), (Some("poller"), Some(1)));
    assert_eq!(loudest(&split(status.clone())), "poller");
    assert_eq!(messages(&split(status)), ["container `poller` ended with 1"]);
}

#[test]
fn a_runner_that_ended_is_over_though_another_container_goes_on() {
    let mut status = runner(ended(0, "Completed"));
    status["containerStatuses"].as_array_mut().unwrap().push(json!({
        "name": "dind", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "running": {} },
    }));
    assert_eq!(over(status).code, Some(0));
}

#[test]
fn an_invented_end_is_doubt_until_the_pod_is_over() {
    let lost = runner(ended(137, "ContainerStatusUnknown"));
    assert!(matches!(phase(&split(lost.clone())), MachinePhase::Doubt(_)));
    assert_eq!(over(failed(lost, "")).reason.as_deref(), Some("ContainerStatusUnknown"));
    let before = with_runner(json!({
        "state": { "waiting": {} }, "lastState": ended(137, "ContainerStatusUnknown"),
    }));
    assert_eq!(over(failed(before, "")).reason.as_deref(), Some("ContainerStatusUnknown"));
}

#[test]
fn a_node_that_does_not_answer_is_doubt_and_no_end() {
    for status in
        [json!({ "phase": "Unknown" }), json!({ "phase": "Running", "reason": "NodeLost" })]
    {
        let MachinePhase::Doubt(why) = phase(&split(status)) else { panic!("not in doubt") };
        assert!(why.contains("`n1`"), "{why}");
    }
}

#[test]
fn a_pod_comes_up_and_runs() {
    let poller = |state: Value| {
        json!({ "phase": "Pending", "initContainerStatuses": [{
        "name": "poller", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    }] })
    };
    assert_eq!(phase(&split(json!({}))), MachinePhase::Booting);
    assert_eq!(phase(&split(poller(json!({ "waiting": {} })))), MachinePhase::Booting);
    assert_eq!(phase(&split(poller(json!({ "running": {} })))), MachinePhase::Running);
    assert_eq!(phase(&single(runner(json!({ "running": {} })))), MachinePhase::Running);
    let strange = pod(json!([{ "name": "agent" }]), json!([]), json!({ "phase": "Running" }));
    assert_eq!(phase(&strange), MachinePhase::Running);
    let ended = json!({ "phase": "Succeeded", "containerStatuses": [{
        "name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": ended(0, "Completed"),
    }] });
    let gone = pod(json!([{ "name": "agent" }]), json!([]), ended);
    assert!(matches!(phase(&gone), MachinePhase::Over(_)));
}

#[test]
fn why_a_pod_does_not_come_up_is_reported_in_the_verdict() {
    let unplaced = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient memory.",
    }] });
    let word = |status: &Value| {
        let facts = hindrance(&split(status.clone())).unwrap();
        (facts.machine_reason, facts.reason)
    };
    assert_eq!(word(&unplaced), (Some("Unschedulable".into()), None));
    assert_eq!(messages(&split(unplaced)), ["0/3 nodes are available: 3 Insufficient memory."]);
    let image =
        runner(json!({ "waiting": { "reason": "ImagePullBackOff", "message": "Back-off" } }));
    assert_eq!(word(&image).0.as_deref(), Some("ImagePullBackOff"));
    let config = runner(json!({ "waiting": { "reason": "CreateContainerConfigError" } }));
    assert_eq!(word(&config), (None, Some("CreateContainerConfigError".into())));
    assert_eq!(
        hindrance(&split(runner(json!({ "waiting": { "reason": "ContainerCreating" } })))),
        None
    );
    assert_eq!(hindrance(&split(runner(json!({ "running": {} })))), None);
}
