//! How an owner comes to its instance, and the row it begins with.

use super::transition::InstanceInput;
use crate::model::{
    Event, Home, Instance, InstanceId, MachineName, MachineView, PoolSpec, Reason, Registration,
    RemovalRequest, RunnerName, State, Subject, Timestamp, Urgency, Version, What, WriteId,
};

/// Tells how an owner comes to its instance.
pub(crate) enum Origin {
    New(InstanceId),
    /// A stored row, after a restart.
    Row(Box<Instance>),
    /// A stored row whose owner died, and whether by a panic.
    Revived(Box<Instance>, bool),
    /// A machine of ours that had no live record, and where its runner registers.
    Adopted(InstanceId, Box<MachineView>, Home),
}

impl Origin {
    /// Returns the row, and the first input where the row is stored already.
    pub(super) fn begin(
        self,
        spec: &PoolSpec,
        now: Timestamp,
    ) -> (Instance, Option<InstanceInput>) {
        match self {
            Self::New(id) => (requested_row(id, spec, now), None),
            Self::Row(row) => (*row, Some(InstanceInput::Start)),
            Self::Revived(row, panicked) => (*row, Some(InstanceInput::Revived { panicked })),
            Self::Adopted(id, view, home) => (adopted_row(id, &view, home, spec, now), None),
        }
    }
}

/// Returns the row of a new instance; nothing exists yet.
pub(crate) fn requested_row(id: InstanceId, spec: &PoolSpec, now: Timestamp) -> Instance {
    Instance {
        machine: MachineName::new(id.as_str()),
        id,
        pool: spec.id.clone(),
        provider: spec.provider.clone(),
        forge: spec.forge.clone(),
        scope: spec.scope.clone(),
        binding: spec.binding,
        revision: spec.revision.clone(),
        uid: None,
        host: None,
        state: State::PendingCreate,
        since: now,
        created_at: now,
        version: Version(0),
        write: WriteId(0),
        events: 0,
        removal: None,
        create_called_at: None,
        create_refused: None,
        seen_at: None,
        ready_at: None,
        once_started: false,
        worked: false,
        mints: 0,
        registration: Registration::None,
        doubt_since: None,
        sealed_jit: None,
        setup_report: None,
        witness_since: None,
        offer: None,
        executing: None,
        job_over: None,
        end: None,
        warrant: None,
        verdict: None,
        machine_gone_at: None,
        adopted: false,
    }
}

/// Returns the row of a machine that had none: possibly busy, possibly registered under its own
/// name or any number of it, and to be removed. All warrants apply.
///
/// The forge and the scope come from `home`, not from the spec: the pool that adopts the machine
/// may be another than the one it was created for, or have moved since.
fn adopted_row(
    id: InstanceId,
    view: &MachineView,
    home: Home,
    spec: &PoolSpec,
    now: Timestamp,
) -> Instance {
    let mut row = requested_row(id, spec, now);
    row.forge = home.forge;
    row.scope = home.scope;
    row.machine = view.name.clone();
    row.uid.clone_from(&view.uid);
    row.host.clone_from(&view.host);
    row.state = State::Retiring;
    row.seen_at = Some(now);
    row.mints = 1;
    row.registration = Registration::Uncertain(RunnerName::new(view.name.as_str()));
    row.removal = Some(RemovalRequest {
        urgency: Urgency::Retire,
        reason: Reason::Orphan,
        by: None,
        at: now,
    });
    row.adopted = true;
    row
}

/// Returns the events that open a timeline.
pub(super) fn first_events(row: &mut Instance, now: Timestamp) -> Vec<Event> {
    let what =
        if row.adopted { What::Adopted { machine: row.machine.clone() } } else { What::Wanted };
    row.events = 1;
    let subject = Subject::Instance(row.id.clone());
    vec![Event { subject, seq: 1, at: now, last_at: now, count: 1, what }]
}
