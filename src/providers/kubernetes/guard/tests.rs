use serde_json::json;

use super::super::fixtures::{ended, pod, runner, single, split, with_runner};
use super::*;

fn proof(began: Began, worker: Worker) -> Proof {
    Proof { began, worker }
}

const NOTHING: Proof = Proof { began: Began::Never, worker: Worker::Absent };

#[test]
fn a_runner_that_was_never_started_never_began() {
    let waiting = || runner(json!({ "waiting": { "reason": "PodInitializing" } }));
    for status in [json!({}), json!({ "phase": "Pending" }), waiting(), runner(json!({}))] {
        assert_eq!(examine(&split(status.clone())), NOTHING, "{status}");
        assert_eq!(examine(&single(status.clone())), NOTHING, "{status}");
    }
    let not_started = with_runner(json!({ "state": { "waiting": {} }, "started": false }));
    assert_eq!(examine(&split(not_started)), NOTHING);
}

#[test]
fn a_running_runner_of_a_split_pod_began_and_only_the_forge_knows_its_work() {
    let running = runner(json!({ "running": { "startedAt": "2026-11-18T01:00:00Z" } }));
    assert_eq!(examine(&split(running.clone())), proof(Began::Yes, Worker::NoWitness));
    assert_eq!(examine(&single(running)), proof(Began::Unknown, Worker::NoWitness));
    let started = with_runner(json!({ "state": { "running": {} }, "started": true }));
    assert_eq!(examine(&split(started)), proof(Began::Yes, Worker::NoWitness));
}

#[test]
fn a_runner_that_ended_now_or_once_began() {
    let over = runner(ended(0, "Completed"));
    assert_eq!(examine(&split(over)), proof(Began::Yes, Worker::Absent));
    for once in [
        json!({ "state": { "waiting": {} }, "lastState": ended(137, "Error") }),
        json!({ "lastState": ended(1, "Error") }),
        json!({ "state": { "waiting": {} }, "restartCount": 1 }),
    ] {
        let pod = split(with_runner(once.clone()));
        assert_eq!(examine(&pod), proof(Began::Yes, Worker::NoWitness), "{once}");
    }
}

#[test]
fn an_end_that_the_kubelet_invented_says_nothing_about_a_worker() {
    let lost = runner(ended(137, "ContainerStatusUnknown"));
    assert_eq!(examine(&split(lost.clone())), proof(Began::Yes, Worker::Unknown));
    let mut over = lost;
    over["phase"] = json!("Failed");
    assert_eq!(examine(&split(over)), proof(Began::Yes, Worker::Absent));
}

#[test]
fn a_status_that_contradicts_itself_proves_nothing() {
    let both = json!({ "state": { "running": {}, "waiting": {} } });
    let started = json!({ "state": { "waiting": {} }, "started": true });
    let three = json!({ "state": { "running": {}, "terminated": { "exitCode": 0 } } });
    for odd in [both, started, three] {
        let pod = split(with_runner(odd.clone()));
        assert_eq!(examine(&pod), proof(Began::Unknown, Worker::Unknown), "{odd}");
    }
    let mut twice = runner(json!({ "waiting": {} }));
    let again = twice["containerStatuses"][0].clone();
    twice["containerStatuses"].as_array_mut().unwrap().push(again);
    assert_eq!(examine(&split(twice)), proof(Began::Unknown, Worker::Unknown));
}

#[test]
fn a_shape_that_is_not_ours_proves_nothing() {
    let shapes = [
        (json!([{ "name": "agent" }]), json!([])),
        (json!([]), json!([{ "name": "poller" }])),
        (json!([{ "name": "runner" }, { "name": "runner" }]), json!([{ "name": "poller" }])),
        (json!([{ "name": "runner" }]), json!([{ "name": "poller" }, { "name": "poller" }])),
    ];
    for (containers, first) in shapes {
        for status in [json!({}), runner(json!({ "waiting": {} })), runner(ended(0, ""))] {
            let pod = pod(containers.clone(), first.clone(), status);
            assert_eq!(examine(&pod), proof(Began::Unknown, Worker::NoWitness));
        }
    }
}

#[test]
fn old_reports_of_a_silent_node_prove_nothing() {
    for doubt in
        [json!({ "phase": "Unknown" }), json!({ "phase": "Running", "reason": "NodeLost" })]
    {
        assert_eq!(examine(&split(doubt)), proof(Began::Unknown, Worker::Unknown));
    }
}

#[test]
fn a_pod_that_is_over_and_lists_no_runner_proves_nothing_unless_none_can_have_begun() {
    let over = |reason: &str| json!({ "phase": "Failed", "reason": reason });
    assert_eq!(examine(&split(over("Evicted"))), proof(Began::Unknown, Worker::Unknown));
    assert_eq!(examine(&single(over("Evicted"))), proof(Began::Unknown, Worker::Unknown));
    assert_eq!(examine(&split(over("OutOfmemory"))), NOTHING);
    let mut polling = over("Evicted");
    polling["initContainerStatuses"] = json!([{
        "name": "poller", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "running": {} },
    }]);
    assert_eq!(examine(&split(polling)), NOTHING);
}

#[test]
fn what_runs_beside_the_runner_proves_nothing_about_it() {
    let status = json!({ "phase": "Running", "containerStatuses": [
        { "name": "dind", "image": "", "imageID": "", "ready": true, "restartCount": 3,
          "state": { "running": {} }, "started": true },
        { "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
          "state": { "waiting": {} } },
    ] });
    assert_eq!(examine(&split(status)), NOTHING);
}
