//! What a pod's shape proves about its runner.
//!
//! A *split* pod has an init container `poller` and then a container `runner`, so that the
//! runner's start is an event of its own. A container that was never started, and never ended, is
//! positive proof that nothing worked there; anything else is not:
//!
//! | container `runner` | split | single |
//! |---|---|---|
//! | no status, or `waiting` and never anything else | never began, no worker | the same |
//! | `running` | began; whether it works only the forge knows | only the forge knows either |
//! | `terminated`, now or once (`lastState`, a restart) | began, no worker any more | ended |
//! | no status under a terminal phase, and nothing proves that none began | unknown | unknown |
//! | two states at once, twice the same name, a start without a state | unknown | unknown |
//! | no container `runner`, or two of them | unknown | unknown |
//!
//! A node that does not answer leaves old words behind: then nothing proves that nothing began. Nor
//! does a pod that is over and of which no status is left: a kubelet that evicts may drop them while
//! its containers still have their grace.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus};
use ostler_actors::model::{Began, Worker};

use super::seen::{POLLER, RUNNER, Seen, Statuses as _};

/// The kubelet's word for a container that it lost; it invents the exit code beside it.
const LOST: &str = "ContainerStatusUnknown";
/// The words of a kubelet that rejects a pod before it starts anything; `OutOf…` are others.
const REJECTIONS: &[&str] = &[
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeUnschedulable",
    "PodOSNotSupported",
    "TaintToleration",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
];

/// Tells how a pod is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// A poller first, then the runner.
    Split,
    /// The runner from the beginning.
    Single,
    /// No runner, or several: not built by us.
    Strange,
}

/// Tells how the runner's container stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Runner<'a> {
    /// It waits, and never did anything else.
    Waiting,
    Running,
    /// It ran once and waits now.
    Again,
    Over(&'a ContainerStateTerminated),
    /// Its pod is over, no status of it is left, and it may have begun.
    Unlisted,
    /// Its status contradicts itself.
    Odd,
}

/// Holds what a pod proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) began: Began,
    pub(super) worker: Worker,
}

/// Returns what a pod proves about its runner.
pub(super) fn examine(pod: &Seen) -> Proof {
    let proof = |began, worker| Proof { began, worker };
    let build = build(pod);
    if build == Build::Strange {
        return proof(Began::Unknown, Worker::NoWitness);
    }
    let split = build == Build::Split;
    match runner(pod) {
        Runner::Odd | Runner::Unlisted => proof(Began::Unknown, Worker::Unknown),
        Runner::Waiting if is_in_doubt(pod) => proof(Began::Unknown, Worker::Unknown),
        Runner::Waiting => proof(Began::Never, Worker::Absent),
        Runner::Running | Runner::Again if split => proof(Began::Yes, Worker::NoWitness),
        Runner::Running | Runner::Again => proof(Began::Unknown, Worker::NoWitness),
        Runner::Over(end) if is_invented(end) && !is_terminal(pod) => {
            proof(Began::Yes, Worker::Unknown)
        }
        Runner::Over(_) => proof(Began::Yes, Worker::Absent),
    }
}

/// Returns how a pod is built.
pub(super) fn build(pod: &Seen) -> Build {
    let runners = pod.spec.containers.iter().filter(|part| part.name == RUNNER).count();
    let pollers = pod.spec.init_containers.iter().filter(|part| part.name == POLLER).count();
    match (runners, pollers) {
        (1, 1) => Build::Split,
        (1, 0) => Build::Single,
        (_, _) => Build::Strange,
    }
}

/// Returns how the runner's container stands.
pub(super) fn runner(pod: &Seen) -> Runner<'_> {
    let mut named = pod.parts().iter().filter(|part| part.name == RUNNER);
    match (named.next(), named.next()) {
        (None, _) if is_terminal(pod) && !is_proven_unbegun(pod) => Runner::Unlisted,
        (None, _) => Runner::Waiting,
        (Some(status), None) => stands(status),
        (Some(_), Some(_)) => Runner::Odd,
    }
}

fn stands(status: &ContainerStatus) -> Runner<'_> {
    let empty = ContainerState::default();
    let now = status.state.as_ref().unwrap_or(&empty);
    let before = status.last_state.as_ref();
    let once = status.restart_count > 0
        || before.is_some_and(|state| state.terminated.is_some() || state.running.is_some());
    match (now.waiting.is_some(), now.running.is_some(), &status.state) {
        (false, false, Some(ContainerState { terminated: Some(end), .. })) => Runner::Over(end),
        (false, true, Some(ContainerState { terminated: None, .. })) => Runner::Running,
        // Without a word it waits: that is what the API says of an empty state.
        (_, false, Some(ContainerState { terminated: None, .. }) | None) => {
            match (once, status.started) {
                (true, _) => Runner::Again,
                (false, Some(true)) => Runner::Odd,
                (false, Some(false) | None) => Runner::Waiting,
            }
        }
        (_, _, _) => Runner::Odd,
    }
}

/// Returns whether a pod that is over and lists no runner proves that none began: it was on no node,
/// its node rejected it, or its poller did not end well.
fn is_proven_unbegun(pod: &Seen) -> bool {
    let rejected = |word: &str| REJECTIONS.contains(&word) || word.starts_with("OutOf");
    if pod.spec.node_name.is_none() || pod.reason().is_some_and(rejected) {
        return true;
    }
    let poller = pod.first_parts().iter().find(|part| part.name == POLLER);
    poller.is_some_and(|poller| {
        let end = poller.state.as_ref().and_then(|state| state.terminated.as_ref());
        end.is_none_or(|end| end.exit_code != 0)
    })
}

/// Returns whether a pod is over by its phase alone: its runner is not seen to have ended, nor never
/// to have begun.
pub(super) fn is_unproven_end(pod: &Seen) -> bool {
    if !is_terminal(pod) {
        return false;
    }
    if build(pod) == Build::Strange {
        return pod.parts().is_empty() || pod.parts().iter().any(|part| !has_ended(part));
    }
    match runner(pod) {
        Runner::Running | Runner::Unlisted | Runner::Odd => true,
        Runner::Waiting | Runner::Again | Runner::Over(_) => false,
    }
}

fn has_ended(part: &ContainerStatus) -> bool {
    part.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

/// Returns whether the kubelet invented an end because it lost the container.
pub(super) fn is_invented(end: &ContainerStateTerminated) -> bool {
    end.reason.as_deref() == Some(LOST)
}

/// Returns whether the pod is over as a whole.
pub(super) fn is_terminal(pod: &Seen) -> bool {
    matches!(pod.phase(), "Succeeded" | "Failed")
}

/// Returns whether the pod's node has been silent for too long.
pub(super) fn is_in_doubt(pod: &Seen) -> bool {
    pod.phase() == "Unknown" || pod.reason() == Some("NodeLost")
}

#[cfg(test)]
mod tests;
