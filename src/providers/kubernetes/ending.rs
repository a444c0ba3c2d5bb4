//! When a pod that is over is believed although its runner is not seen to have ended.
//!
//! The phase alone is no end: a kubelet may call a pod `Failed` while its runner still has its grace,
//! and delete it then is to kill a job. So a terminal phase over a runner that still runs, or of which
//! no status is left, is doubt at first. It is believed once the runner's grace and a minute are over
//! since we first saw it so, and the node proves that it is alive (its kubelet then had its time, and
//! said nothing else) or is gone:
//!
//! | node | before grace + 60 s | after |
//! |---|---|---|
//! | ready: its lease is renewed | doubt | over |
//! | does not exist, or is declared out of service | doubt | over |
//! | silent, not ready, or not readable | doubt | doubt |
//!
//! The node controller calls a node ready only while its lease is renewed (40 s at most), so a node
//! that is ready a minute after the grace has renewed it since; no right to read leases is needed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use ostler_actors::model::{MachinePhase, MachineView};

use super::client::within;
use super::delete::is_out_of_service;
use super::exit;
use super::guard;
use super::provider::ProviderState;
use super::seen::{self, Seen};

/// How long after the grace an end is believed.
const AFTER_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// What the API server fills in where a pod says nothing.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// How long a read of the node may take.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// Tells what is known of the node of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// Its lease is renewed.
    Ready,
    /// It does not exist, or nothing runs on it any more.
    Gone,
    /// Neither is known.
    Unknown,
}

/// Returns whether the end of a pod is believed that was first seen over at `since`.
pub(super) fn is_believed(
    since: Timestamp,
    grace: Option<i64>,
    node: NodeState,
    now: Timestamp,
) -> bool {
    now.duration_since(since) >= wait(grace)
        && match node {
            NodeState::Ready | NodeState::Gone => true,
            NodeState::Unknown => false,
        }
}

fn wait(grace: Option<i64>) -> SignedDuration {
    let grace = grace.unwrap_or(DEFAULT_GRACE_SECONDS).max(0);
    SignedDuration::from_secs(grace).saturating_add(AFTER_GRACE)
}

/// Remembers when pods were first seen over without the end of their runner. A new daemon begins anew.
#[derive(Debug, Default)]
pub(super) struct UnprovenEnds(Mutex<BTreeMap<String, Timestamp>>);

impl UnprovenEnds {
    /// Returns since when a pod is seen so: now, if not before.
    fn since(&self, uid: &str, now: Timestamp) -> Timestamp {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *ends.entry(uid.to_owned()).or_insert(now)
    }

    /// Forgets the pods that a complete listing does not show.
    pub(super) fn retain(&self, shown: &[MachineView]) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ends.is_empty() {
            ends.retain(|uid, _| shown.iter().any(|view| view.uid.as_ref() == Some(uid)));
        }
    }
}

impl ProviderState {
    /// Returns what a pod shows. One that is over without the end of its runner is judged by time
    /// and by its node.
    pub(super) async fn judged(&self, pod: &Seen) -> Option<MachineView> {
        let mut view = seen::view(pod)?;
        if guard::is_unproven_end(pod) && self.is_end_believed(pod).await {
            view.phase = MachinePhase::Over(exit::facts(pod));
        }
        Some(view)
    }

    async fn is_end_believed(&self, pod: &Seen) -> bool {
        let Some(uid) = pod.metadata.uid.as_deref() else { return false };
        let now = Timestamp::now();
        let since = self.unproven_ends.since(uid, now);
        let grace = pod.spec.termination_grace_period_seconds;
        if now.duration_since(since) < wait(grace) {
            return false;
        }
        is_believed(since, grace, self.node_state(pod).await, now)
    }

    async fn node_state(&self, pod: &Seen) -> NodeState {
        let Some(name) = pod.spec.node_name.as_deref() else { return NodeState::Gone };
        let Ok(reached) = self.cluster.reach().await else { return NodeState::Unknown };
        match within(NODE_TIMEOUT, reached.nodes().get_opt(name)).await {
            Ok(None) => NodeState::Gone,
            Ok(Some(node)) if is_out_of_service(&node) => NodeState::Gone,
            Ok(Some(node)) if is_ready(&node) => NodeState::Ready,
            Ok(Some(_)) | Err(_) => NodeState::Unknown,
        }
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_unproven_end_is_believed_a_minute_after_the_grace_if_the_node_lives_or_is_gone() {
        for node in [NodeState::Ready, NodeState::Gone] {
            assert!(!is_believed(at(0), Some(60), node, at(119)), "{node:?}");
            assert!(is_believed(at(0), Some(60), node, at(120)), "{node:?}");
            assert!(!is_believed(at(0), None, node, at(89)), "{node:?}");
            assert!(is_believed(at(0), None, node, at(90)), "{node:?}");
        }
        assert!(!is_believed(at(0), Some(60), NodeState::Unknown, at(100_000)));
    }

    #[test]
    fn the_first_sight_counts_and_is_forgotten_with_the_pod() {
        let ends = UnprovenEnds::default();
        assert_eq!(ends.since("u1", at(5)), at(5));
        assert_eq!(ends.since("u1", at(50)), at(5));
        ends.retain(&[]);
        assert_eq!(ends.since("u1", at(60)), at(60));
    }
}
