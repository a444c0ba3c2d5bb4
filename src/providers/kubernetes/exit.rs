//! From a pod's status to how its machine is, and how it ended.
//!
//! The pod's own word (evicted, preempted, node lost) explains any exit code below it, so it comes
//! first; then the runner's container; then whichever part failed before the runner began. The pod's
//! phase alone is no end (see `ending`):
//!
//! | container `runner` | phase not terminal | `Succeeded`, `Failed` |
//! |---|---|---|
//! | waiting, never started | booting, or running while its poller runs | over |
//! | running, or its status contradicts itself | running; doubt | doubt |
//! | no status, and it may have begun | booting | doubt |
//! | terminated | over | over |
//! | terminated, `ContainerStatusUnknown` | doubt | over |

use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ostler_actors::model::{ExitFacts, MachinePhase, Timestamp};

use super::guard::{self, Build, Runner, is_in_doubt, is_invented, is_terminal};
use super::seen::{POLLER, RUNNER, Seen, Statuses as _};

/// Returns how the machine is.
pub(super) fn phase(pod: &Seen) -> MachinePhase {
    if guard::is_unproven_end(pod) {
        return MachinePhase::Doubt(format!(
            "its pod is {}, and its runner is not seen to have ended",
            pod.phase()
        ));
    }
    if is_terminal(pod) {
        return MachinePhase::Over(facts(pod));
    }
    if is_in_doubt(pod) {
        let node = pod.spec.node_name.as_deref().unwrap_or("unknown");
        return MachinePhase::Doubt(format!("its node `{node}` does not answer"));
    }
    if guard::build(pod) == Build::Strange {
        return match pod.phase() {
            "Running" => MachinePhase::Running,
            _ => MachinePhase::Booting,
        };
    }
    match guard::runner(pod) {
        // Nothing restarts it: other containers may go on, the runner does not come back.
        Runner::Over(end) if !is_invented(end) => MachinePhase::Over(facts(pod)),
        Runner::Over(_) => MachinePhase::Doubt("its node lost the runner's container".into()),
        Runner::Odd | Runner::Unlisted => {
            MachinePhase::Doubt("the status of its runner contradicts itself".into())
        }
        Runner::Running | Runner::Again => MachinePhase::Running,
        Runner::Waiting if polls(pod) => MachinePhase::Running,
        Runner::Waiting => MachinePhase::Booting,
    }
}

/// Returns how the machine ended, as far as its pod tells.
pub(super) fn facts(pod: &Seen) -> ExitFacts {
    let told = match ended(pod) {
        Some((part, end)) => ExitFacts {
            code: Some(end.exit_code),
            signal: end.signal.filter(|signal| *signal > 0),
            reason: end.reason.clone().filter(|word| !word.is_empty()),
            machine_reason: None,
            part: (part != RUNNER).then(|| part.to_owned()),
            ended_at: end.finished_at.as_ref().map(date),
        },
        None => ExitFacts::default(),
    };
    ExitFacts { machine_reason: pod_reason(pod), ..told }
}

/// Returns why a pod that is not over does not come up, or is being taken away, in the words a
/// verdict is found by.
pub(super) fn hindrance(pod: &Seen) -> Option<ExitFacts> {
    let machine_reason = pod_reason(pod).or_else(|| waits_for_image(pod)).or_else(|| unplaced(pod));
    let reason = waiting_reason(pod);
    (machine_reason.is_some() || reason.is_some()).then(|| ExitFacts {
        machine_reason,
        reason,
        ..ExitFacts::default()
    })
}

/// Returns what the pod says about itself in words, for people.
pub(super) fn messages(pod: &Seen) -> Vec<String> {
    let status = pod.status.as_ref();
    let mut told: Vec<String> = Vec::new();
    let mut tell = |text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let text = text.to_owned();
            if !told.contains(&text) {
                told.push(text);
            }
        }
    };
    tell(status.and_then(|status| status.message.as_deref()));
    for kind in ["DisruptionTarget", "PodScheduled"] {
        let condition =
            pod.condition(kind).filter(|it| (it.status == "True") == (kind == "DisruptionTarget"));
        tell(condition.and_then(|condition| condition.message.as_deref()));
    }
    for part in pod.first_parts().iter().chain(pod.parts()) {
        let Some(state) = &part.state else { continue };
        tell(state.waiting.as_ref().and_then(|waiting| waiting.message.as_deref()));
        tell(state.terminated.as_ref().and_then(|end| end.message.as_deref()));
        let failed =
            state.terminated.as_ref().filter(|end| end.exit_code != 0 && part.name != RUNNER);
        if let Some(end) = failed {
            let text = format!("container `{}` ended with {}", part.name, end.exit_code);
            tell(Some(&text));
        }
    }
    told
}

/// Returns the container whose log tells most: the runner's, unless another failed before it.
pub(super) fn loudest(pod: &Seen) -> String {
    ended(pod).map_or(RUNNER, |(part, _)| part).to_owned()
}

/// Returns the end that explains the machine's: the runner's own, or else of whichever part failed.
fn ended(pod: &Seen) -> Option<(&str, &ContainerStateTerminated)> {
    let runner = pod.parts().iter().find(|part| part.name == RUNNER);
    let of_runner = runner.and_then(|part| end_of(part).or_else(|| former_end_of(part)));
    if let Some(end) = of_runner {
        return Some((RUNNER, end));
    }
    // Of a runner that began, the end of its poller tells nothing.
    if matches!(guard::runner(pod), Runner::Running | Runner::Again | Runner::Unlisted) {
        return None;
    }
    let parts = pod.first_parts().iter().chain(pod.parts());
    let mut ends = parts.filter_map(|part| Some((part.name.as_str(), end_of(part)?)));
    let failed = ends.clone().find(|(_, end)| end.exit_code != 0);
    // A poller that left in peace without a runner after it is the last that was heard.
    failed.or_else(|| ends.rfind(|(name, _)| *name != POLLER || is_terminal(pod)))
}

fn end_of(part: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    part.state.as_ref()?.terminated.as_ref()
}

fn former_end_of(part: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    part.last_state.as_ref()?.terminated.as_ref()
}

/// Returns the pod-level word: its own reason, or who disrupted it.
fn pod_reason(pod: &Seen) -> Option<String> {
    if let Some(word) = pod.reason() {
        return Some(word.to_owned());
    }
    // A pod that succeeded was not hurt by who wanted it gone.
    let disrupted = pod.condition("DisruptionTarget").filter(|it| it.status == "True");
    let word = disrupted.filter(|_| pod.phase() != "Succeeded").and_then(|it| it.reason.clone());
    word.filter(|word| !word.is_empty())
}

fn waits_for_image(pod: &Seen) -> Option<String> {
    waiting_reasons(pod)
        .find(|word| {
            matches!(
                *word,
                "ErrImagePull"
                    | "ImagePullBackOff"
                    | "InvalidImageName"
                    | "ErrImageNeverPull"
                    | "ImageInspectError"
                    | "RegistryUnavailable"
            )
        })
        .map(str::to_owned)
}

fn unplaced(pod: &Seen) -> Option<String> {
    let placed = pod.condition("PodScheduled").filter(|it| it.status == "False")?;
    placed.reason.clone().filter(|word| !word.is_empty())
}

/// Returns why a container waits, where that is more than the usual course of things.
fn waiting_reason(pod: &Seen) -> Option<String> {
    let usual = |word: &&str| !matches!(*word, "PodInitializing" | "ContainerCreating");
    waiting_reasons(pod).find(usual).map(str::to_owned)
}

fn waiting_reasons(pod: &Seen) -> impl Iterator<Item = &str> {
    let parts = pod.first_parts().iter().chain(pod.parts());
    parts.filter_map(|part| part.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
}

/// Returns whether the poller runs.
fn polls(pod: &Seen) -> bool {
    let poller = pod.first_parts().iter().find(|part| part.name == POLLER);
    poller.and_then(|part| part.state.as_ref()).is_some_and(|state| state.running.is_some())
}

fn date(time: &Time) -> Timestamp {
    time.0
}

#[cfg(test)]
mod tests;
