//! A pod as the core sees a machine.

use ostler_actors::model::{HostName, MachineName, MachineView};

use super::guard::{self, Build, Runner};
use super::seen::{RUNNER, Seen, Statuses as _};
use super::{exit, names};

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
