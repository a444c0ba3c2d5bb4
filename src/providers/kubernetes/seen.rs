//! A pod as it is read: of its spec only what tells its shape, of its status everything.
//!
//! Nothing else of a pod is decoded, and nothing of it is kept: at the stream each becomes a view.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};
use kube::core::Object;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

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
