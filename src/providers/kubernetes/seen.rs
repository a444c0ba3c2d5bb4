//! A pod as it is read: of its spec only what tells its shape, of its status everything.
//!
//! Nothing else of a pod is decoded, and nothing of it is kept: at the stream each becomes a view.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use kube::core::Object;
use ostler_actors::model::{HostName, MachineName, MachineView};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::guard::{self, Build, Runner};
use super::{exit, names};

/// The container that runs the runner.
pub(super) const RUNNER: &str = "runner";
/// The init container that waits for a job.
pub(super) const POLLER: &str = "poller";

/// A pod as it is read.
pub(super) type Seen = Object<Shape, PodStatus>;

/// Holds what of a pod's spec tells its shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Shape {
    pub(super) node_name: Option<String>,
    pub(super) containers: Vec<Part>,
    pub(super) init_containers: Vec<Part>,
    pub(super) termination_grace_period_seconds: Option<i64>,
}

/// Holds what is read of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Part {
    pub(super) name: String,
    /// Whether it has a readiness probe.
    #[serde(rename = "readinessProbe", deserialize_with = "is_there")]
    pub(super) probed: bool,
}

fn is_there<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(value)?.is_some())
}

/// Looks into a pod's status, which may not be there at all.
pub(super) trait Statuses {
    /// Returns how the pod stands: `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    fn phase(&self) -> &str;
    /// Returns the pod-level word.
    fn reason(&self) -> Option<&str>;
    /// Returns the statuses of the containers that run side by side.
    fn parts(&self) -> &[ContainerStatus];
    /// Returns the statuses of the containers that run first.
    fn first_parts(&self) -> &[ContainerStatus];
    fn condition(&self, kind: &str) -> Option<&PodCondition>;
}

impl Statuses for Seen {
    fn phase(&self) -> &str {
        self.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
    }

    fn reason(&self) -> Option<&str> {
        let word = self.status.as_ref().and_then(|status| status.reason.as_deref());
        word.filter(|word| !word.is_empty())
    }

    fn parts(&self) -> &[ContainerStatus] {
        let parts = self.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        parts.unwrap_or_default()
    }

    fn first_parts(&self) -> &[ContainerStatus] {
        let status = self.status.as_ref();
        status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default()
    }

    fn condition(&self, kind: &str) -> Option<&PodCondition> {
        let conditions = self.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == kind)
    }
}

/// Returns what a pod shows; nothing for one without a name.
pub(super) fn view(pod: &Seen) -> Option<MachineView> {
    let proof = guard::examine(pod);
    Some(MachineView {
        name: MachineName::new(pod.metadata.name.as_deref()?),
        uid: pod.metadata.uid.clone(),
        stamp: names::stamp(&pod.metadata),
        phase: exit::phase(pod),
        worker: proof.worker,
        began: proof.began,
        ready: is_ready(pod),
        leaving: pod.metadata.deletion_timestamp.is_some(),
        host: pod.spec.node_name.as_deref().map(HostName::from),
    })
}

/// Returns whether the runner is known to be ready: a probe of its own says so. A late-bound pod
/// says it by asking for work, any other by coming online at the forge.
fn is_ready(pod: &Seen) -> bool {
    let probed = pod.spec.containers.iter().any(|part| part.name == RUNNER && part.probed);
    let ready = pod.parts().iter().any(|part| part.name == RUNNER && part.ready);
    guard::build(pod) == Build::Single && guard::runner(pod) == Runner::Running && probed && ready
}
