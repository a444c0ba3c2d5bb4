//! Compares what a provider or a forge lists with what the records say.
//!
//! `now` is always the moment the listing *began*, and the records were read after it ended:
//! what came to be in between is in the records and must not be missed in the listing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{
    Instance, MachineName, MachinePhase, MachineView, Observation, Registration, RunnerName,
    RunnerView, State, Timestamp, Worker, is_due,
};
use crate::ports::Controller;

/// Tells what a sweep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepFinding<'a> {
    /// A machine of ours that no record owns.
    Orphan(&'a MachineView),
    /// A machine with our stamp and a holder we never had.
    Foreign(&'a MachineView),
    /// An instance whose machine the listing does not name.
    Unlisted(&'a Instance),
    /// An instance whose machine differs from what its owner may know.
    Listed(&'a Instance, &'a MachineView),
}

/// Remembers what one complete listing leaves to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SweepMemory {
    /// Machines without a record.
    unowned: BTreeMap<MachineName, Unowned>,
    /// Since when listings are empty though machines should exist.
    empty_since: Option<Timestamp>,
}

impl SweepMemory {
    /// Returns whether no machine is without a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.unowned.is_empty() && self.empty_since.is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Unowned {
    uid: Option<String>,
    since: Timestamp,
}

/// Compares one provider's listing with the live records of that provider.
pub(crate) fn compare<'a>(
    listing: &'a Observation<Vec<MachineView>>,
    records: &'a [Instance],
    memory: &SweepMemory,
    controller: &Controller,
    confirm_after: Duration,
    now: Timestamp,
) -> (Vec<SweepFinding<'a>>, SweepMemory) {
    let Observation::Complete(views) = listing else { return (Vec::new(), memory.clone()) };
    // An empty listing may be a failure in disguise: it counts once a second one confirms it.
    if is_suspiciously_empty(views, records)
        && memory.empty_since.is_none_or(|since| !is_due(since, confirm_after, now))
    {
        let empty_since = memory.empty_since.or(Some(now));
        return (Vec::new(), SweepMemory { empty_since, ..memory.clone() });
    }
    let index = RecordIndex::of(records);
    let mut found = Vec::new();
    let mut unowned = BTreeMap::new();
    let mut listed: BTreeMap<&MachineName, &MachineView> = BTreeMap::new();

    for view in views.iter().filter(|view| view.stamp.controller.as_ref() == Some(&controller.id)) {
        listed.insert(&view.name, view);
        if index.owns(view) {
            continue;
        }
        let ours =
            view.stamp.holder.as_ref().is_some_and(|holder| controller.holders.contains(holder));
        if !ours {
            found.push(SweepFinding::Foreign(view));
            continue;
        }
        let earlier = memory.unowned.get(&view.name).filter(|earlier| earlier.uid == view.uid);
        if earlier.is_some_and(|earlier| is_due(earlier.since, confirm_after, now)) {
            found.push(SweepFinding::Orphan(view));
        }
        let since = earlier.map_or(now, |earlier| earlier.since);
        unowned.insert(view.name.clone(), Unowned { uid: view.uid.clone(), since });
    }
    for record in records {
        match listed.get(&record.machine).filter(|view| same_machine(record, view)) {
            Some(view) if matters(record, view) => found.push(SweepFinding::Listed(record, view)),
            None if is_missed(record, now) => found.push(SweepFinding::Unlisted(record)),
            Some(_) | None => {}
        }
    }
    let empty_since = memory.empty_since.filter(|_| is_suspiciously_empty(views, records));
    (found, SweepMemory { unowned, empty_since })
}

/// Tells what a listing of runners says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundRunner<'a> {
    /// Its owner should know how the forge sees its runner.
    Shown(&'a Instance, &'a RunnerView),
    /// It waits for work, and its runner is not connected.
    Offline(&'a Instance),
    /// It waits for work, and the forge does not list its runner.
    Unregistered(&'a Instance),
    /// It works, and the forge does not list its runner.
    Missed(&'a Instance),
}

/// Compares one scope's listing of runners with the live records of that scope.
pub(crate) fn compare_runners<'a>(
    listing: &'a Observation<Vec<RunnerView>>,
    records: &'a [Instance],
    now: Timestamp,
) -> Vec<FoundRunner<'a>> {
    let Observation::Complete(runners) = listing else { return Vec::new() };
    let by_name: BTreeMap<&RunnerName, &RunnerView> =
        runners.iter().map(|runner| (&runner.name, runner)).collect();
    let shown = |record: &Instance, name: &RunnerName| {
        let exactly = by_name.get(name).copied();
        let numbered = || runners.iter().find(|runner| record.answers_to(&runner.name));
        exactly.or_else(|| record.adopted.then(numbered).flatten())
    };
    let found = records.iter().filter_map(|record| match shown(record, registered_as(record)?) {
        Some(runner) if !runner.online && record.state == State::Idle => {
            Some(FoundRunner::Offline(record))
        }
        Some(runner) if is_unexpected(record, runner) => Some(FoundRunner::Shown(record, runner)),
        Some(_) => None,
        None => missing(record, now),
    });
    found.collect()
}

/// Returns what it means that a listing, begun at `now`, does not name an instance's runner. A
/// paged list may miss anybody, and a young registration for a while: its owner asks by number.
fn missing(record: &Instance, now: Timestamp) -> Option<FoundRunner<'_>> {
    let known = matches!(record.registration, Registration::Known { .. });
    let since = record.ready_at.or(record.seen_at);
    if !known || since.is_none_or(|since| since >= now) {
        return None;
    }
    match record.state {
        State::Idle => Some(FoundRunner::Unregistered(record)),
        State::Busy => Some(FoundRunner::Missed(record)),
        State::PendingCreate
        | State::Creating
        | State::Starting
        | State::Reserved
        | State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => None,
    }
}

/// Returns the name under which a runner of this instance may be registered.
pub(crate) fn registered_as(record: &Instance) -> Option<&RunnerName> {
    match &record.registration {
        Registration::Uncertain(name) | Registration::Known { name, .. } => Some(name),
        Registration::None | Registration::Gone | Registration::WrittenOff => None,
    }
}

/// Returns whether a listing is empty while machines should exist.
fn is_suspiciously_empty(views: &[MachineView], records: &[Instance]) -> bool {
    let expected = || records.iter().any(|row| row.seen_at.is_some() && row.occupies());
    views.is_empty() && expected()
}

/// Finds the owner of a machine by its name and by the provider's id.
struct RecordIndex<'a> {
    by_name: BTreeMap<&'a MachineName, &'a Instance>,
    by_uid: BTreeMap<&'a str, &'a Instance>,
}

impl<'a> RecordIndex<'a> {
    fn of(records: &'a [Instance]) -> Self {
        let live = || records.iter().filter(|row| row.state != State::Deleted);
        Self {
            by_name: live().map(|row| (&row.machine, row)).collect(),
            by_uid: live().filter_map(|row| Some((row.uid.as_deref()?, row))).collect(),
        }
    }

    fn owns(&self, view: &MachineView) -> bool {
        self.by_name.contains_key(&view.name)
            || view.uid.as_deref().is_some_and(|uid| self.by_uid.contains_key(uid))
    }
}

/// Returns whether a machine of the record's name is the record's machine.
fn same_machine(record: &Instance, view: &MachineView) -> bool {
    match (&record.uid, &view.uid) {
        (Some(known), Some(listed)) => known == listed,
        (None, _) | (_, None) => true,
    }
}

/// Returns whether a machine should have been listed: it was seen before the listing began,
/// and its end is not known.
fn is_missed(record: &Instance, now: Timestamp) -> bool {
    let alive = match record.state {
        State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => true,
        State::PendingCreate
        | State::Creating
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => false,
    };
    alive && record.seen_at.is_some_and(|seen| seen < now)
}

/// Returns whether a machine differs from what its owner may know.
fn matters(record: &Instance, view: &MachineView) -> bool {
    if record.state.is_over() {
        return false;
    }
    let over_or_in_doubt = match view.phase {
        MachinePhase::Over(_) | MachinePhase::Doubt(_) => true,
        MachinePhase::Booting | MachinePhase::Running => false,
    };
    over_or_in_doubt
        || view.leaving
        || record.seen_at.is_none()
        || (view.ready && record.ready_at.is_none())
        || (view.worker == Worker::Present && record.state != State::Busy)
}

/// Returns whether the forge's view differs from what the record makes one expect.
fn is_unexpected(record: &Instance, runner: &RunnerView) -> bool {
    let id_unknown = match &record.registration {
        Registration::Known { id, .. } => *id != runner.id,
        Registration::Uncertain(_) => true,
        Registration::None | Registration::Gone | Registration::WrittenOff => false,
    };
    let expected_busy = record.state == State::Busy;
    id_unknown || runner.busy != expected_busy || !runner.online || record.ready_at.is_none()
}

#[cfg(test)]
mod tests;
