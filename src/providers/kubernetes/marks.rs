//! Marks on pods for programs that drain nodes: whether a job may be on them.
//!
//! The cluster autoscaler, Karpenter and disruption budgets read them; nothing of ours reads them
//! back, so a lost mark costs a pod its protection for a while and never its life.

use async_trait::async_trait;
use kube::api::{Patch, PatchParams};
use ostler_actors::ports::{MachineMarks, MachineRef, Protection};
use serde_json::{Value, json};

use super::client::{CALL, within};
use super::names::{JOB, STATE};
use super::provider::Kubernetes;

const CLUSTER_AUTOSCALER: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const KARPENTER: &str = "karpenter.sh/do-not-disrupt";

#[async_trait]
impl MachineMarks for Kubernetes {
    async fn mark(
        &self,
        machine: &MachineRef,
        protection: Protection,
        job: Option<&str>,
    ) -> Result<(), String> {
        let reached = self.state.cluster.reach().await.map_err(|why| why.to_string())?;
        let body = patch(protection, machine.uid.as_deref(), job);
        let (pods, params) = (reached.pods(), PatchParams::default());
        match within(CALL, pods.patch(machine.name.as_str(), &params, &Patch::Merge(&body))).await {
            Ok(_) => Ok(()),
            // Gone, or a successor of the same name: some servers call another uid invalid.
            Err(failure) if matches!(failure.code(), Some(404 | 409)) => Ok(()),
            Err(failure) if failure.to_string().contains("metadata.uid") => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }

    async fn forget_jit(&self, machine: &MachineRef) -> Result<(), String> {
        self.state.drop_secret(machine.name.as_str()).await.map_err(|why| why.to_string())
    }
}

/// Returns the label's value.
pub(super) fn label(protection: Protection) -> &'static str {
    match protection {
        Protection::Busy => "busy",
        Protection::Idle => "idle",
    }
}

/// Returns the annotations; one that is to be absent is nothing.
pub(super) fn annotations(protection: Protection) -> [(&'static str, Option<&'static str>); 2] {
    match protection {
        Protection::Busy => [(CLUSTER_AUTOSCALER, Some("false")), (KARPENTER, Some("true"))],
        Protection::Idle => [(CLUSTER_AUTOSCALER, Some("true")), (KARPENTER, None)],
    }
}

/// Returns the change of a pod's metadata that says so, with the job that runs there.
fn patch(protection: Protection, uid: Option<&str>, job: Option<&str>) -> Value {
    let mut marks = json!({});
    for (key, value) in annotations(protection) {
        marks[key] = json!(value);
    }
    marks[JOB] = json!(job);
    let mut metadata = json!({ "labels": { STATE: label(protection) }, "annotations": marks });
    // With its uid a patch never reaches a successor of the same name.
    if let Some(uid) = uid {
        metadata["uid"] = json!(uid);
    }
    json!({ "metadata": metadata })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_say_the_same_to_everyone() {
        assert_eq!(
            patch(Protection::Busy, Some("u"), Some("github/7")),
            json!({"metadata": {"uid": "u", "labels": {"ostler.dev/state": "busy"}, "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "karpenter.sh/do-not-disrupt": "true",
                "ostler.dev/job": "github/7",
            }}})
        );
        assert_eq!(
            patch(Protection::Idle, None, None),
            json!({"metadata": {"labels": {"ostler.dev/state": "idle"}, "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                "karpenter.sh/do-not-disrupt": null,
                "ostler.dev/job": null,
            }}})
        );
    }
}
