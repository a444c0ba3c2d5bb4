//! Keeps those who drain nodes away from pods that may be working, and lets them have the others.
//!
//! A late-bound pod is worth protecting from the moment a job is offered to it: nothing can be on
//! it before. An early-bound one may be given a job at any moment without our knowing, so it is
//! protected from its creation until it is deregistered. These are marks for other programs
//! (cluster autoscaler, Karpenter, a disruption budget); nothing of ours reads them back.

use ostler_actors::model::{Binding, State};
use serde_json::{Value, json};

use super::names::{JOB, STATE};

const CLUSTER_AUTOSCALER: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const KARPENTER: &str = "karpenter.sh/do-not-disrupt";

/// Tells whether a pod may be working.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// It may: nobody shall evict it.
    Busy,
    /// It cannot: whoever needs its node may have it.
    Idle,
}

/// Returns how a pod is to be protected.
pub fn protection(binding: Binding, state: State) -> Protection {
    match (state, binding) {
        (State::Reserved | State::Busy, _)
        | (
            State::PendingCreate | State::Creating | State::Starting | State::Idle,
            Binding::Early,
        ) => Protection::Busy,
        (State::PendingCreate | State::Creating | State::Starting | State::Idle, Binding::Late)
        | (
            State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted,
            _,
        ) => Protection::Idle,
    }
}

impl Protection {
    /// Returns the label's value.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Idle => "idle",
        }
    }

    /// Returns the annotations; one that is to be absent is nothing.
    pub(super) fn annotations(self) -> [(&'static str, Option<&'static str>); 2] {
        match self {
            Self::Busy => [(CLUSTER_AUTOSCALER, Some("false")), (KARPENTER, Some("true"))],
            Self::Idle => [(CLUSTER_AUTOSCALER, Some("true")), (KARPENTER, None)],
        }
    }

    /// Returns the change of a pod's metadata that says so, with the job that runs there.
    pub(super) fn patch(self, uid: Option<&str>, job: Option<&str>) -> Value {
        let mut annotations = json!({});
        for (key, value) in self.annotations() {
            annotations[key] = json!(value);
        }
        annotations[JOB] = json!(job);
        let mut metadata = json!({ "labels": { STATE: self.label() }, "annotations": annotations });
        // With its uid a patch never reaches a successor of the same name.
        if let Some(uid) = uid {
            metadata["uid"] = json!(uid);
        }
        json!({ "metadata": metadata })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_pod_may_be_evicted_until_a_job_is_offered_to_it() {
        let of = |state| protection(Binding::Late, state);
        assert_eq!(of(State::Idle), Protection::Idle);
        assert_eq!(of(State::Reserved), Protection::Busy);
        assert_eq!(of(State::Busy), Protection::Busy);
        assert_eq!(of(State::Retiring), Protection::Idle);
    }

    #[test]
    fn a_registered_pod_is_protected_from_its_creation() {
        for state in State::ALL {
            let expected = if state.is_terminating() { Protection::Idle } else { Protection::Busy };
            assert_eq!(protection(Binding::Early, state), expected, "{state}");
        }
    }

    #[test]
    fn the_marks_say_the_same_to_everyone() {
        assert_eq!(
            Protection::Busy.patch(Some("u"), Some("github/7")),
            json!({"metadata": {"uid": "u", "labels": {"ostler.dev/state": "busy"}, "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "karpenter.sh/do-not-disrupt": "true",
                "ostler.dev/job": "github/7",
            }}})
        );
        assert_eq!(
            Protection::Idle.patch(None, None),
            json!({"metadata": {"labels": {"ostler.dev/state": "idle"}, "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                "karpenter.sh/do-not-disrupt": null,
                "ostler.dev/job": null,
            }}})
        );
    }
}
