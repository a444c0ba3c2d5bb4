//! The post-mortem of a pod: exit facts, the end of its log, its last events, its node.
//!
//! Everything is asked for side by side and each within a limit of its own, so that one who does
//! not answer costs its own part and nothing else.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{ListParams, LogParams};
use ostler_actors::model::{ExitReport, MachinePhase, TAIL_LINES, Tail, clip};
use ostler_actors::ports::MachineRef;

use super::client::{Failure, within};
use super::exit;
use super::provider::ProviderState;
use super::seen::{Seen, Statuses as _};

/// How long each part may take; the post-mortem as a whole has ten seconds.
const PART: Duration = Duration::from_secs(4);
/// How many bytes of a log are asked for: the server cuts the end, not the beginning.
const BYTES: i64 = 1 << 20;
/// How many lines are asked for when those were too long.
const FEW_LINES: i64 = 10;
/// How many events are reported, and how many characters of each note.
const MAX_EVENTS: usize = 5;
const MAX_EVENT_CHARS: usize = 500;

/// Gathers what a pod left.
pub(super) async fn gather(
    state: &ProviderState,
    machine: &MachineRef,
    want_tail: bool,
) -> ExitReport {
    let found = tokio::time::timeout(PART, state.find(machine)).await;
    let pod = match found {
        Ok(Ok(Some(pod))) => pod,
        Ok(Ok(None)) => return ExitReport::unavailable("the machine is gone"),
        Ok(Err(failure)) => return ExitReport::unavailable(failure.to_string()),
        Err(_) => return ExitReport::unavailable("the API server does not answer"),
    };
    let exit = match exit::phase(&pod) {
        MachinePhase::Over(facts) => Some(facts),
        MachinePhase::Booting | MachinePhase::Running | MachinePhase::Doubt(_) => {
            exit::hindrance(&pod)
        }
    };
    let mut remarks = exit::messages(&pod);
    if !want_tail {
        return ExitReport {
            exit,
            tail: Tail::NotNeeded,
            remarks: remarks.iter().map(|note| short(note)).collect(),
        };
    }
    let (tail, node, events) =
        tokio::join!(tail(state, &pod), about_node(state, &pod), last_events(state, &pod));
    remarks.extend(node);
    remarks.extend(events);
    ExitReport { exit, tail, remarks: remarks.iter().map(|note| short(note)).collect() }
}

fn short(note: &str) -> String {
    let safe = clip(&note.replace('\n', " "));
    safe.chars().take(MAX_EVENT_CHARS).collect()
}

/// Returns the end of the log: of this life of the container, or of the one before.
async fn tail(state: &ProviderState, pod: &Seen) -> Tail {
    let container = exit::loudest(pod);
    let lived_before = pod
        .first_parts()
        .iter()
        .chain(pod.parts())
        .find(|part| part.name == container)
        .is_some_and(|part| part.restart_count > 0);
    let now = log(state, pod, &container, false).await;
    let event_lines = match now {
        Ok(text) if !text.trim().is_empty() || !lived_before => Ok(text),
        first => match log(state, pod, &container, true).await {
            Ok(text) => Ok(text),
            Err(_) => first,
        },
    };
    match event_lines {
        Ok(text) => Tail::Captured(clip(&text)),
        Err(failure) => Tail::Unavailable(failure.to_string()),
    }
}

async fn log(
    state: &ProviderState,
    pod: &Seen,
    container: &str,
    previous: bool,
) -> Result<String, Failure> {
    let pods = state.cluster.reach().await?.whole_pods();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let mut params = LogParams {
        container: Some(container.to_owned()),
        limit_bytes: Some(BYTES),
        previous,
        tail_lines: i64::try_from(TAIL_LINES).ok(),
        ..LogParams::default()
    };
    let text = within(PART, pods.logs(name, &params)).await?;
    if i64::try_from(text.len()).is_ok_and(|length| length < BYTES) {
        return Ok(text);
    }
    params.tail_lines = Some(FEW_LINES);
    within(PART, pods.logs(name, &params)).await
}

/// Returns what is wrong with the node a pod was on.
async fn about_node(state: &ProviderState, pod: &Seen) -> Vec<String> {
    let Some(name) = pod.spec.node_name.as_deref() else { return Vec::new() };
    let Ok(reached) = state.cluster.reach().await else { return Vec::new() };
    match within(PART, reached.nodes().get_opt(name)).await {
        Ok(Some(node)) => node_troubles(name, &node),
        Ok(None) => vec![format!("node `{name}` does not exist any more")],
        Err(failure) => vec![format!("node `{name}` could not be read: {failure}")],
    }
}

/// Returns the conditions of a node that are not as they should be.
pub(super) fn node_troubles(name: &str, node: &Node) -> Vec<String> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut troubles = Vec::new();
    for condition in conditions.into_iter().flatten() {
        let usual = if condition.type_ == "Ready" { "True" } else { "False" };
        if condition.status != usual {
            let why = condition.reason.as_deref().unwrap_or("no reason given");
            troubles
                .push(format!("node `{name}`: {}={} ({why})", condition.type_, condition.status));
        }
    }
    let spec = node.spec.as_ref();
    if spec.and_then(|spec| spec.unschedulable).unwrap_or(false) {
        troubles.push(format!("node `{name}` is cordoned"));
    }
    for taint in spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten() {
        if taint.effect == "NoExecute" {
            troubles.push(format!("node `{name}` has taint `{}`", taint.key));
        }
    }
    troubles
}

/// Returns the last events about a pod, oldest first.
async fn last_events(state: &ProviderState, pod: &Seen) -> Vec<String> {
    let Ok(reached) = state.cluster.reach().await else { return Vec::new() };
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(100);
    match within(PART, reached.events().list(&params)).await {
        Ok(events) => event_lines(events.items),
        Err(failure) => vec![format!("its events could not be read: {failure}")],
    }
}

fn event_lines(mut events: Vec<Event>) -> Vec<String> {
    let at = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        let first = event.event_time.as_ref().map(|time| time.0);
        last.or(first).unwrap_or(Timestamp::UNIX_EPOCH)
    };
    events.sort_by_key(at);
    let first = events.len().saturating_sub(MAX_EVENTS);
    let tell = |event: &Event| {
        let word = event.reason.as_deref().unwrap_or("event");
        let text = event.message.as_deref().unwrap_or_default();
        let times = event.count.filter(|count| *count > 1);
        let times = times.map(|count| format!(" ({count} times)")).unwrap_or_default();
        format!("{word}: {text}{times}")
    };
    events[first..].iter().map(tell).collect()
}
