//! Deleting a pod: this very one, with its usual grace.
//!
//! A delete carries the pod's uid, so that it never reaches a successor of the same name. Grace 0
//! tells the API server to forget the pod although its containers may still run, so it is used
//! only when an operator forces it, or when the node is proven gone: the pod is overdue, and its
//! node does not exist any more or was declared out of service by a person.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Preconditions};
use ostler_actors::ports::{Deletion, Grace, MachineRef};
use tracing::warn;

use super::client::{CALL, Failure, within};
use super::provider::ProviderState;
use super::seen::Seen;

/// The taint by which a person declares that nothing runs on a node any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

impl ProviderState {
    pub(super) async fn delete(
        &self,
        machine: &MachineRef,
        grace: Grace,
    ) -> Result<Deletion, Failure> {
        let uid = match &machine.uid {
            Some(uid) => uid.clone(),
            None => match self.find(machine).await?.and_then(|pod| pod.metadata.uid) {
                Some(uid) => uid,
                None => return Ok(Deletion::NotFound),
            },
        };
        let seconds = match grace {
            Grace::Usual => None,
            Grace::Zero => Some(0),
        };
        let target = MachineRef { name: machine.name.clone(), uid: Some(uid) };
        let Some(left) = self.remove(&target, seconds).await? else {
            return Ok(Deletion::NotFound);
        };
        if let Left::Pod(pod) = left
            && grace == Grace::Usual
            && is_overdue(&pod, self.settings.overdue, Timestamp::now())
            && let Some(why) = self.node_is_gone(&pod).await
        {
            let name = &machine.name;
            warn!(machine.name = %name, "pod `{name}` is deleted without grace: {why}");
            self.remove(&target, Some(0)).await?;
        }
        Ok(Deletion::Accepted)
    }

    /// Sends the delete; nothing if this pod is not there.
    async fn remove(
        &self,
        target: &MachineRef,
        grace: Option<u32>,
    ) -> Result<Option<Left>, Failure> {
        let pods = self.cluster.reach().await?.pods();
        let preconditions = Preconditions { uid: target.uid.clone(), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match within(CALL, pods.delete(target.name.as_str(), &params)).await {
            Ok(answer) => {
                Ok(Some(answer.left().map_or(Left::Nothing, |pod| Left::Pod(Box::new(pod)))))
            }
            Err(failure) if failure.code() == Some(404) => Ok(None),
            // Another pod has that name now; or it changed just then, which is worth repeating.
            Err(failure) if failure.code() == Some(409) => match self.find(target).await? {
                None => Ok(None),
                Some(_) => Err(failure),
            },
            Err(failure) => Err(failure),
        }
    }

    /// Returns why the node of a pod is certainly gone; nothing if that cannot be said.
    async fn node_is_gone(&self, pod: &Seen) -> Option<String> {
        let name = pod.spec.node_name.as_deref()?;
        let nodes = self.cluster.reach().await.ok()?.nodes();
        match within(CALL, nodes.get_opt(name)).await {
            Ok(None) => Some(format!("it is overdue and its node `{name}` does not exist")),
            Ok(Some(node)) if is_out_of_service(&node) => {
                Some(format!("it is overdue and its node `{name}` is declared out of service"))
            }
            Ok(Some(_)) | Err(_) => None,
        }
    }
}

/// What a delete leaves behind.
enum Left {
    Pod(Box<Seen>),
    Nothing,
}

/// Returns whether a pod should have been gone long ago: its time includes its grace.
fn is_overdue(pod: &Seen, after: std::time::Duration, now: Timestamp) -> bool {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    let due = pod.metadata.deletion_timestamp.as_ref();
    due.is_some_and(|due| now.duration_since(due.0) >= after)
}

pub(super) fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == OUT_OF_SERVICE))
}
