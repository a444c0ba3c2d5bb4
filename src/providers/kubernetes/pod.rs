//! From an order to the pod it means.
//!
//! ```text
//!   late:   init `poller` (token of this pod, nothing else) ──files──▶ `runner` (no token at all)
//!   early:  Secret, owned by the pod, mounted ──────files──▶ `runner`
//! ```
//!
//! Either way the runner finds its JIT config unpacked below [`STAGING`] and never as an argument
//! or a variable. The operator's overlay is laid over the pod; what makes it ours (name, marks, no
//! restart) is written last.

use k8s_openapi::api::core::v1::Pod;
use ostler_actors::model::{Binding, HostName, State};
use ostler_actors::ports::{CreateOrder, Protection};
use serde_json::{Map, Value, json};

use super::marks;
use super::names::{self, CA, PREFIX, STATE};
use super::overlay;
use super::seen::{POLLER, RUNNER};
use super::settings::{AUDIENCE, KubernetesSettings};
use crate::ports::AGENT_ENV;

/// Where the runner's container finds its files.
pub(super) const STAGING: &str = "/var/run/ostler/jit";
/// Where the poller finds its token.
const TOKEN: &str = "/var/run/ostler/token";
/// Where the runner finds further certificates.
const TRUST: &str = "/var/run/ostler/ca";
/// How long a token is good; the kubelet renews it.
const TOKEN_SECONDS: u64 = 3600;

/// What the official image is told to do: take the files, run the agent.
const TAKE_AND_RUN: &str =
    "cp /var/run/ostler/jit/.[a-z]* /home/runner/ && cd /home/runner && exec ./run.sh";

/// Tells why an order makes no pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadPod {
    /// The overlay writes what a pod does not have.
    #[error("`{0}` is not a field of a pod; compare it with `kubectl explain pod`")]
    UnknownField(String),
    /// The overlay writes something of another kind than the field's.
    #[error("`[pool.pod]` does not fit a pod: {0}")]
    Misfit(String),
    /// The overlay takes the runner away.
    #[error(
        "`[pool.pod]` leaves no container `runner`, or two; the runner is the one of that name"
    )]
    NoRunner,
    /// Warm pods would not know whom to ask.
    #[error("`http.public_url` is not set, and late-bound pods ask there for work")]
    NoAddress,
}

/// Returns the pod an order means.
pub(super) fn pod(order: &CreateOrder, settings: &KubernetesSettings) -> Result<Pod, BadPod> {
    let mut made = plain(order, settings)?;
    let over = order.machine.extra.get("pod").cloned().unwrap_or_default();
    if !over.is_null() {
        overlay::lay(&mut made, &over);
    }
    mark_as_ours(&mut made, order);
    let pod: Pod =
        serde_json::from_value(made).map_err(|error| BadPod::Misfit(error.to_string()))?;
    let runners = pod.spec.iter().flat_map(|spec| &spec.containers);
    if runners.filter(|part| part.name == RUNNER).count() != 1 {
        return Err(BadPod::NoRunner);
    }
    let whole = serde_json::to_value(&pod).map_err(|error| BadPod::Misfit(error.to_string()))?;
    match overlay::lost(&over, &whole) {
        Some(path) => Err(BadPod::UnknownField(path)),
        None => Ok(pod),
    }
}

/// Returns the pod without the operator's overlay.
fn plain(order: &CreateOrder, settings: &KubernetesSettings) -> Result<Value, BadPod> {
    let late = order.pool.binding == Binding::Late;
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // No deadline: it would be counted from the pod's creation, and end a job that came late.
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 1001,
            "runAsGroup": 1001,
            "fsGroup": 1001,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "nodeSelector": {
            "kubernetes.io/os": order.machine.os,
            "kubernetes.io/arch": arch(&order.machine.arch),
        },
        "containers": [runner(order)],
        "volumes": volumes(order, late),
    });
    if late {
        spec["initContainers"] = json!([poller(order, settings)?]);
    }
    if !order.avoid.is_empty() {
        spec["affinity"] = avoiding(order);
    }
    Ok(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec }))
}

/// Writes what makes the pod ours, whatever the overlay says.
fn mark_as_ours(made: &mut Value, order: &CreateOrder) {
    let names::Marks { labels, annotations } =
        names::marks(&order.stamp, order.pool.revision.as_str());
    let protection = Protection::of(order.pool.binding, State::Starting);
    let metadata = &mut made["metadata"];
    metadata["name"] = json!(order.name);
    for (kind, ours) in [("labels", labels), ("annotations", annotations)] {
        if let Some(map) = metadata[kind].as_object_mut() {
            map.retain(|key, _| !key.starts_with(PREFIX));
        }
        for (key, value) in ours {
            metadata[kind][key] = json!(value);
        }
    }
    metadata["labels"][STATE] = json!(marks::label(protection));
    for (key, value) in marks::annotations(protection) {
        if let Some(value) = value {
            metadata["annotations"][key] = json!(value);
        }
    }
    if let Some(pem) = order.machine.extra.get("ca") {
        metadata["annotations"][CA] = pem.clone();
    }
    // A runner serves one job; one that is started again has nothing to serve.
    made["spec"]["restartPolicy"] = json!("Never");
}

fn runner(order: &CreateOrder) -> Value {
    let mut mounts = vec![json!({ "name": "jit", "mountPath": STAGING })];
    let mut env = variables(order);
    if order.machine.extra.get("ca").is_some() {
        mounts.push(json!({ "name": "ca", "mountPath": TRUST, "readOnly": true }));
        env.push(json!({ "name": "NODE_EXTRA_CA_CERTS", "value": format!("{TRUST}/ca.pem") }));
    }
    json!({
        "name": RUNNER,
        "image": order.machine.image,
        "command": ["/bin/sh", "-c", TAKE_AND_RUN],
        "env": env,
        "resources": {
            "requests": { "cpu": "1", "memory": "4Gi" },
            "limits": { "memory": "4Gi" },
        },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        "volumeMounts": mounts,
    })
}

fn poller(order: &CreateOrder, settings: &KubernetesSettings) -> Result<Value, BadPod> {
    let server = settings.public_url.as_deref().ok_or(BadPod::NoAddress)?;
    let mut args = vec![
        "poller".to_owned(),
        format!("--server={server}"),
        format!("--instance={}", order.name),
        format!("--token-file={TOKEN}/token"),
        format!("--out={STAGING}"),
    ];
    let mut mounts = vec![
        json!({ "name": "jit", "mountPath": STAGING }),
        json!({ "name": "token", "mountPath": TOKEN, "readOnly": true }),
    ];
    if order.machine.extra.get("ca").is_some() {
        mounts.push(json!({ "name": "ca", "mountPath": TRUST, "readOnly": true }));
        args.push(format!("--ca={TRUST}/ca.pem"));
    }
    Ok(json!({
        "name": POLLER,
        "image": settings.poller_image,
        "args": args,
        "resources": {
            "requests": { "cpu": "10m", "memory": "32Mi" },
            "limits": { "memory": "64Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": mounts,
    }))
}

fn volumes(order: &CreateOrder, late: bool) -> Value {
    let mut volumes = Vec::new();
    if late {
        volumes
            .push(json!({ "name": "jit", "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }));
        volumes.push(json!({ "name": "token", "projected": { "sources": [{
            "serviceAccountToken": {
                "audience": AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": "token",
            },
        }] } }));
    } else {
        volumes.push(
            json!({ "name": "jit", "secret": { "secretName": order.name, "defaultMode": 0o440 } }),
        );
    }
    if order.machine.extra.get("ca").is_some() {
        let field = format!("metadata.annotations['{CA}']");
        volumes.push(json!({ "name": "ca", "downwardAPI": { "items": [
            { "path": "ca.pem", "fieldRef": { "fieldPath": field } },
        ] } }));
    }
    Value::Array(volumes)
}

/// Returns the pool's variables and its way to the internet.
fn variables(order: &CreateOrder) -> Vec<Value> {
    let extra = &order.machine.extra;
    let mut env: Map<_, _> =
        AGENT_ENV.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    if let Some(proxy) = extra.get("proxy") {
        let list = |hosts: &Value| {
            let hosts: Vec<&str> = hosts.as_array()?.iter().filter_map(Value::as_str).collect();
            (!hosts.is_empty()).then(|| hosts.join(","))
        };
        let text = |key: &str| proxy.get(key).and_then(Value::as_str).map(str::to_owned);
        let hosts = proxy.get("no_proxy").and_then(list);
        for (name, value) in
            [("http_proxy", text("http")), ("https_proxy", text("https")), ("no_proxy", hosts)]
        {
            if let Some(value) = value {
                env.insert(name.into(), json!(value));
            }
        }
    }
    if let Some(written) = extra.get("env").and_then(Value::as_object) {
        env.extend(written.clone());
    }
    env.into_iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// Prefers other hosts than those on which machines did not come up lately.
fn avoiding(order: &CreateOrder) -> Value {
    let hosts: Vec<&str> = order.avoid.iter().map(HostName::as_str).collect();
    let elsewhere = json!({ "matchExpressions": [
        { "key": "kubernetes.io/hostname", "operator": "NotIn", "values": hosts },
    ] });
    let preferred = json!([{ "weight": 100, "preference": elsewhere }]);
    json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } })
}

/// Returns the processor in the cluster's word.
fn arch(arch: &str) -> &str {
    match arch {
        "x64" => "amd64",
        other => other,
    }
}

#[cfg(test)]
mod tests;
