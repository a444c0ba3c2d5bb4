//! The first row of an instance: wished for, or found.

use crate::model::{
    Event, Home, Instance, InstanceId, MachineName, MachineView, PoolSpec, Reason, Registration,
    RemovalRequest, RunnerName, State, Subject, Timestamp, Urgency, Version, What, WriteId,
};

/// Returns the row of a new wish; nothing exists.
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
        seen_at: None,
        ready_at: None,
        once_started: false,
        mints: 0,
        registration: Registration::None,
        sealed_jit: None,
        setup_report: None,
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
/// name or any number of it, and wished gone. All warrants apply.
///
/// Where its runner registered is for others to know: the pool that adopts it may be another than
/// the one it was made for, or have moved since.
pub(super) fn adopted(
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
