use std::path::Path;
use std::sync::Arc;

use ostler_actors::model::{Labels, MachineSpec, Policy, PoolSpec};
use serde_json::{Value, json};

use super::*;

fn order(binding: Binding, extra: Value) -> CreateOrder {
    let machine = MachineSpec {
        image: "ghcr.io/actions/actions-runner:2.336.0".into(),
        flavor: String::new(),
        os: "linux".into(),
        arch: "x64".into(),
        extra,
    };
    let pool = PoolSpec {
        id: "linux".into(),
        forge: "github".into(),
        scope: "acme".parse().unwrap(),
        provider: "k8s".into(),
        binding,
        labels: Labels::from_iter(["linux"]),
        accept_unlabelled: false,
        runner_group: "Default".into(),
        min_idle: 0,
        max: 1,
        machine: machine.clone(),
        revision: "0123456789ab".into(),
        prefix: "linux".into(),
        policy: Policy::default(),
    };
    CreateOrder {
        name: "linux-abcdefghjkmn".into(),
        stamp: ostler_actors::model::Stamp {
            controller: Some("7f3f1c9e-5a4b-4c7e-9d51-000000000001".into()),
            holder: Some("7f3f1c9e-5a4b-4c7e-9d51-000000000002".into()),
            pool: Some("linux".into()),
            instance: Some("linux-abcdefghjkmn".into()),
        },
        machine,
        pool: Arc::new(pool),
        avoid: vec![],
        attempt: 1,
        jit: None,
        slot: ostler_actors::ports::CreateSlot::default(),
    }
}

fn settings() -> KubernetesSettings {
    KubernetesSettings {
        poller_image: "ostler:test".into(),
        public_url: Some("https://ostler.example.com".into()),
        ..KubernetesSettings::default()
    }
}

fn made(order: &CreateOrder) -> Value {
    serde_json::to_value(pod(order, &settings()).unwrap()).unwrap()
}

/// Compares with the file of that name; `OSTLER_GOLDEN=write` writes it anew.
fn golden(name: &str, pod: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/providers/kubernetes/pod/golden")
        .join(format!("{name}.json"));
    let text = format!("{}\n", serde_json::to_string_pretty(pod).unwrap());
    if std::env::var("OSTLER_GOLDEN").is_ok_and(|how| how == "write") {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name}: the pod changed; is that meant?\n{text}");
}

#[test]
fn a_late_bound_pod_is_the_one_on_file() {
    golden("late", &made(&order(Binding::Late, json!({}))));
}

#[test]
fn an_early_bound_pod_is_the_one_on_file() {
    golden("early", &made(&order(Binding::Early, json!({}))));
}

#[test]
fn a_pod_with_everything_an_operator_can_say_is_the_one_on_file() {
    let mut order = order(
        Binding::Late,
        json!({
            "env": { "LANG": "C.UTF-8" },
            "proxy": { "http": "http://proxy:3128", "https": null, "no_proxy": ["a", "b"] },
            "ca": "-----BEGIN CERTIFICATE-----",
            "pod": {
                "metadata": { "labels": { "team": "ci", "ostler.dev/pool": "stolen" } },
                "spec": {
                    "restartPolicy": "Always",
                    "serviceAccountName": "runner",
                    "nodeSelector": { "size": "large" },
                    "tolerations": [{ "key": "ci", "operator": "Exists" }],
                    "containers": [
                        { "name": "runner", "resources": { "limits": { "memory": "8Gi" } } },
                        { "name": "dind", "image": "docker:dind" },
                    ],
                },
            },
        }),
    );
    order.avoid = vec![HostName::from("n1")];
    golden("everything", &made(&order));
}

#[test]
fn the_runner_of_a_warm_pod_sees_no_token() {
    let pod = made(&order(Binding::Late, json!({})));
    let mounts = |part: &Value| part["volumeMounts"].to_string();
    assert!(!mounts(&pod["spec"]["containers"][0]).contains("token"));
    assert!(mounts(&pod["spec"]["initContainers"][0]).contains("token"));
    assert_eq!(pod["spec"]["automountServiceAccountToken"], json!(false));
}

#[test]
fn an_overlay_cannot_change_the_owner_of_a_pod_nor_restart_it() {
    let over = json!({ "pod": {
        "metadata": { "name": "other", "labels": { "app.kubernetes.io/managed-by": "helm" } },
        "spec": { "restartPolicy": "Always" },
    } });
    let pod = made(&order(Binding::Late, over));
    assert_eq!(pod["metadata"]["name"], json!("linux-abcdefghjkmn"));
    assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/managed-by"], json!("ostler"));
    assert_eq!(pod["spec"]["restartPolicy"], json!("Never"));
}

#[test]
fn a_mistake_in_the_overlay_is_named() {
    let told = |over: Value| {
        pod(&order(Binding::Late, json!({ "pod": over })), &settings()).unwrap_err().to_string()
    };
    let unknown = told(json!({ "spec": { "nodeselector": { "a": "b" } } }));
    assert!(unknown.starts_with("`pod.spec.nodeselector` is not a field"), "{unknown}");
    let misfit = told(json!({ "spec": { "nodeSelector": "large" } }));
    assert!(misfit.starts_with("`[pool.pod]` does not fit a pod"), "{misfit}");
    let alone =
        told(json!({ "spec": { "containers": [{ "name": "runner", "$patch": "delete" }] } }));
    assert!(alone.contains("$patch"), "{alone}");
    assert!(told(json!({ "spec": { "containers": null } })).contains("`runner`"));
}

#[test]
fn a_late_bound_pod_needs_to_know_whom_to_ask() {
    let nowhere = KubernetesSettings { public_url: None, ..settings() };
    let error = pod(&order(Binding::Late, json!({})), &nowhere).unwrap_err();
    assert!(error.to_string().contains("public_url"), "{error}");
    assert!(pod(&order(Binding::Early, json!({})), &nowhere).is_ok());
}
