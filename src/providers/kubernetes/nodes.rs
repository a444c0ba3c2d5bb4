//! Nodes that should get no new work: those that are being emptied (cordoned, or marked by those who
//! take nodes away), and those that the control plane calls unreachable or not ready.
//!
//! A taint as such says nothing: a pool may live on nodes of its own behind one that its pods
//! tolerate. So only the marks of known hands count. A node that is merely silent is not emptied:
//! its pods may still be working, and they cannot be moved; but no job should be sent there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, NodeSpec};
use kube::Api;
use kube::core::{ApiResource, Object};
use kube::runtime::{WatchStreamExt as _, watcher};
use ostler_actors::model::HostName;
use ostler_actors::ports::{DrainSink, HostDrains, Watching};
use serde::de::IgnoredAny;

use super::client::Reached;
use super::provider::Kubernetes;

/// How soon an unreachable cluster is asked for its nodes again.
const REACH_RETRY_DELAY: Duration = Duration::from_secs(15);

/// Taints by which nodes are taken away, and who writes them.
const HANDS: &[(&str, &str)] = &[
    ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler takes it away"),
    ("karpenter.sh/disrupted", "Karpenter takes it away"),
    ("karpenter.sh/disruption", "Karpenter takes it away"),
    ("aws-node-termination-handler/", "its cloud takes it away"),
    ("cloud.google.com/impending-node-termination", "its cloud takes it away"),
    ("remediator.kubernetes.azure.com/unschedulable", "its cloud takes it away"),
    ("node.cloudprovider.kubernetes.io/shutdown", "its cloud shut it down"),
    ("node.kubernetes.io/out-of-service", "it is declared out of service"),
];

/// Taints by which the control plane says that a node does not answer, or not as it should.
const SILENT: &[&str] = &["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"];

/// Nodes that are being emptied, and why.
pub type DrainedNodes = BTreeMap<HostName, String>;

/// Holds the nodes that should get no new work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConditions {
    /// Those that are being emptied, and why.
    pub drained: DrainedNodes,
    /// Those that do not answer.
    pub unreachable: BTreeSet<HostName>,
}

impl NodeConditions {
    /// Takes over how a node is now.
    fn update(&mut self, node: &Shape) {
        let Some(name) = node.metadata.name.as_deref().map(HostName::from) else { return };
        self.remove(node);
        if let Some(why) = why(&node.spec) {
            self.drained.insert(name.clone(), why);
        }
        if is_silent(&node.spec) {
            self.unreachable.insert(name);
        }
    }

    fn remove(&mut self, node: &Shape) {
        if let Some(name) = node.metadata.name.as_deref().map(HostName::from) {
            self.drained.remove(&name);
            self.unreachable.remove(&name);
        }
    }
}

/// A node as it is read: nothing of its long status.
type Shape = Object<NodeSpec, IgnoredAny>;

/// Says why a node is being emptied; nothing if it is not.
fn why(node: &NodeSpec) -> Option<String> {
    if node.unschedulable == Some(true) {
        return Some("it is cordoned".into());
    }
    let by_hand = |key: &str| {
        let known = HANDS.iter().find(|(hand, _)| {
            if hand.ends_with('/') { key.starts_with(hand) } else { key == *hand }
        });
        known.map(|(_, why)| format!("{why} (taint `{key}`)"))
    };
    node.taints.iter().flatten().find_map(|taint| by_hand(&taint.key))
}

/// Returns whether the control plane says that a node does not answer.
fn is_silent(node: &NodeSpec) -> bool {
    node.taints.iter().flatten().any(|taint| SILENT.contains(&taint.key.as_str()))
}

#[derive(Default)]
struct Memory {
    known: NodeConditions,
    /// What the listing under way has shown so far.
    listing: Option<NodeConditions>,
}

impl Memory {
    /// Takes an event; returns whether what is known is whole.
    fn take(&mut self, event: watcher::Event<Shape>) -> bool {
        match event {
            watcher::Event::Init => self.listing = Some(NodeConditions::default()),
            watcher::Event::InitApply(node) => {
                if let Some(listing) = &mut self.listing {
                    listing.update(&node);
                }
            }
            watcher::Event::InitDone => self.known = self.listing.take().unwrap_or_default(),
            watcher::Event::Apply(node) => self.known.update(&node),
            watcher::Event::Delete(node) => self.known.remove(&node),
        }
        self.listing.is_none()
    }
}

impl Reached {
    fn slim_nodes(&self) -> Api<Shape> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<Node>(&()))
    }
}

impl Kubernetes {
    /// Follows which nodes should get no new work: all of them at each change, or why that is not
    /// known at the moment. Never ends.
    pub async fn node_conditions(
        &self,
    ) -> Result<impl Stream<Item = Result<NodeConditions, String>> + Send + use<>, String> {
        let reached = self.state.cluster.reach().await.map_err(|why| why.to_string())?;
        let events = watcher(reached.slim_nodes(), watcher::Config::default()).default_backoff();
        let mut memory = Memory::default();
        Ok(events.filter_map(move |event| {
            let word = match event {
                Ok(event) => memory.take(event).then(|| Ok(memory.known.clone())),
                Err(why) => Some(Err(why.to_string())),
            };
            std::future::ready(word)
        }))
    }
}

impl HostDrains for Kubernetes {
    fn watch_drains(&self, sink: Arc<dyn DrainSink>) -> Watching {
        let task = tokio::spawn(report_drains(self.clone(), sink)).abort_handle();
        Watching::until_dropped(move || task.abort())
    }
}

async fn report_drains(cluster: Kubernetes, sink: Arc<dyn DrainSink>) {
    loop {
        match cluster.node_conditions().await {
            Ok(nodes) => {
                let mut nodes = Box::pin(nodes);
                while let Some(conditions) = nodes.next().await {
                    match conditions {
                        Ok(NodeConditions { drained, unreachable }) => {
                            sink.draining(drained);
                            sink.unreachable(unreachable);
                        }
                        Err(why) => sink.blind(why),
                    }
                }
            }
            Err(why) => sink.blind(why),
        }
        tokio::time::sleep(REACH_RETRY_DELAY).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, spec: &serde_json::Value) -> Shape {
        let text = json!({ "metadata": { "name": name }, "spec": spec, "status": { "x": [1] } });
        serde_json::from_value(text).unwrap()
    }

    fn tainted(key: &str, effect: &str) -> serde_json::Value {
        json!({ "taints": [
            { "key": "dedicated", "value": "ci", "effect": "NoSchedule" },
            { "key": key, "effect": effect },
        ] })
    }

    #[test]
    fn the_program_that_takes_a_node_away_is_named() {
        for (key, effect, by) in [
            ("ToBeDeletedByClusterAutoscaler", "NoSchedule", "cluster autoscaler"),
            ("karpenter.sh/disrupted", "NoSchedule", "Karpenter"),
            ("aws-node-termination-handler/spot-itn", "NoExecute", "cloud"),
            ("node.kubernetes.io/out-of-service", "NoExecute", "out of service"),
        ] {
            let said = why(&node("n", &tainted(key, effect)).spec).expect(key);
            assert!(said.contains(by) && said.contains(key), "{said}");
        }
        let cordoned = node("n", &json!({ "unschedulable": true }));
        assert_eq!(why(&cordoned.spec).as_deref(), Some("it is cordoned"));
    }

    #[test]
    fn a_node_of_its_own_and_a_silent_one_are_not_left() {
        for (key, effect) in [
            ("runners", "NoExecute"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
            ("node.kubernetes.io/not-ready", "NoSchedule"),
            ("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule"),
        ] {
            assert_eq!(why(&node("n", &tainted(key, effect)).spec), None, "{key}");
        }
        assert_eq!(why(&node("n", &json!({ "unschedulable": false })).spec), None);
    }

    #[test]
    fn a_node_that_the_control_plane_calls_silent_gets_no_new_work_until_it_answers() {
        let mut memory = Memory::default();
        let silent = |memory: &Memory| -> Vec<String> {
            memory.known.unreachable.iter().map(ToString::to_string).collect()
        };
        for key in SILENT {
            memory.take(watcher::Event::Apply(node("n", &tainted(key, "NoExecute"))));
            assert_eq!(silent(&memory), ["n"], "{key}");
            assert!(memory.known.drained.is_empty(), "its pods stay");
            memory.take(watcher::Event::Apply(node("n", &json!({}))));
            assert!(silent(&memory).is_empty(), "{key}");
        }
    }

    #[test]
    fn what_a_listing_shows_counts_when_it_is_whole() {
        let leaving = |name: &str| node(name, &json!({ "unschedulable": true }));
        let mut memory = Memory::default();
        let names = |memory: &Memory| {
            memory.known.drained.keys().map(ToString::to_string).collect::<Vec<String>>()
        };
        assert!(!memory.take(watcher::Event::Init));
        assert!(!memory.take(watcher::Event::InitApply(leaving("a"))));
        assert_eq!(names(&memory), Vec::<String>::new());
        assert!(memory.take(watcher::Event::InitDone));
        assert!(memory.take(watcher::Event::Apply(leaving("b"))));
        assert_eq!(names(&memory), ["a", "b"]);
        assert!(memory.take(watcher::Event::Apply(node("a", &json!({})))), "uncordoned");
        memory.take(watcher::Event::Delete(leaving("b")));
        assert_eq!(names(&memory), Vec::<String>::new());
    }
}
