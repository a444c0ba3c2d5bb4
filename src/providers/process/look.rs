//! Looking at machines: their files and processes as a provider's view.

use std::fs;
use std::io;

use ostler_actors::model::{
    Began, ExitReport, MachineName, MachinePhase, MachineView, Observation, Sighting, Stamp, Tail,
    Worker,
};
use ostler_actors::ports::MachineRef;

use super::files::{self, Home, Label};
use super::machine_status::MachineStatus;
use super::procs::{self, Identity, Snapshot};
use super::state::ProviderState;
use super::{names, ring, tree};

/// A machine that was found by its reference.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) home: Home,
    pub(super) label: Label,
}

impl ProviderState {
    /// Lists all machines of the work directory.
    pub(super) fn list(&self) -> Observation<Vec<MachineView>> {
        match self.check().and_then(|()| self.list_all().map_err(|error| error.to_string())) {
            Ok(views) => Observation::Complete(views),
            Err(why) => Observation::Unusable(why),
        }
    }

    fn list_all(&self) -> io::Result<Vec<MachineView>> {
        let (boot, all) = (self.boot()?, procs::snapshot()?);
        let mut views = Vec::new();
        for entry in fs::read_dir(&self.settings.work_dir)? {
            let name = MachineName::new(entry?.file_name().to_string_lossy().as_ref());
            let target = MachineRef { name, uid: None };
            match self.find(&target) {
                Ok(Some(found)) => views.push(self.view(&found, &boot, &all)),
                Ok(None) => {}
                Err(error) => views.push(unreadable(target.name, &error)),
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    pub(super) fn read(&self, machine: &MachineRef) -> Sighting<MachineView> {
        if let Err(why) = self.check() {
            return Sighting::Unknown(why);
        }
        let look = || -> io::Result<Option<MachineView>> {
            let Some(found) = self.find(machine)? else { return Ok(None) };
            Ok(Some(self.view(&found, &self.boot()?, &procs::snapshot()?)))
        };
        match look() {
            Ok(Some(view)) => Sighting::Seen(view),
            Ok(None) => Sighting::Absent,
            Err(error) => Sighting::Unknown(error.to_string()),
        }
    }

    /// Gathers what a machine left.
    pub(super) fn exit_report(&self, machine: &MachineRef, want_tail: bool) -> ExitReport {
        let found = match self.check().map(|()| self.find(machine)) {
            Ok(Ok(Some(found))) => found,
            Ok(Ok(None)) => return ExitReport::unavailable("the machine is gone"),
            Ok(Err(error)) => return ExitReport::unavailable(error.to_string()),
            Err(why) => return ExitReport::unavailable(why),
        };
        let exit = self.stand(&found).ok().and_then(|machine_status| machine_status.facts());
        let tail = if want_tail { ring::tail(&found.home) } else { Tail::NotNeeded };
        ExitReport { exit, tail, remarks: Vec::new() }
    }

    /// Finds the machine a reference means; none if there is none, or another of its name.
    pub(super) fn find(&self, machine: &MachineRef) -> io::Result<Option<Found>> {
        let Some(directory) = names::directory(&self.settings.work_dir, &machine.name) else {
            return Ok(None);
        };
        let home = Home::new(directory);
        let Some(label) = files::read::<Label>(&home.stamp())? else { return Ok(None) };
        let same = machine.uid.as_ref().is_none_or(|uid| *uid == label.uid);
        Ok(same.then_some(Found { home, label }))
    }

    /// Returns how a machine stands now.
    pub(super) fn stand(&self, found: &Found) -> io::Result<MachineStatus> {
        MachineStatus::of(&found.home, &found.label.uid, &self.boot()?, &procs::snapshot()?)
    }

    fn view(&self, found: &Found, boot: &str, all: &Snapshot) -> MachineView {
        let Found { home, label } = found;
        match MachineStatus::of(home, &label.uid, boot, all) {
            Ok(machine_status) => MachineView {
                name: label.name.clone(),
                uid: Some(label.uid.clone()),
                stamp: label.stamp.clone(),
                phase: machine_status.phase(),
                worker: self.worker(&machine_status, home, all),
                // The runner's process begins with the machine; whether it ever came online
                // only the forge can tell.
                began: Began::Unknown,
                ready: matches!(machine_status, MachineStatus::Kept(_)) && home.ready().exists(),
                leaving: home.stop().exists(),
                host: self.host.clone(),
            },
            Err(error) => MachineView {
                uid: Some(label.uid.clone()),
                stamp: label.stamp.clone(),
                ..unreadable(label.name.clone(), &error)
            },
        }
    }

    /// Asks the machine's own witness. It answers `Absent` only when it saw the runner itself.
    fn worker(&self, machine_status: &MachineStatus, home: &Home, all: &Snapshot) -> Worker {
        let witness = self.settings.witness();
        let ask = |members| tree::worker(witness.as_ref(), all, members, &home.work());
        match machine_status {
            MachineStatus::Kept(keeping) => {
                let said = ask(&tree::below(all, keeping.keeper.pid));
                let is_itself = |runner: &Identity| {
                    all.get(&runner.pid).is_some_and(|now| now.identity() == *runner)
                };
                match (said, keeping.runner) {
                    (Worker::Absent, Some(runner)) if !is_itself(&runner) => Worker::Unknown,
                    (said, _) => said,
                }
            }
            MachineStatus::Orphaned(_, left) => {
                let alone = left.iter().filter_map(|process| all.get(&process.pid));
                let below = left.iter().flat_map(|process| tree::below(all, process.pid));
                ask(&alone.chain(below).collect::<Vec<_>>())
            }
            MachineStatus::Making | MachineStatus::Hidden if witness.is_some() => Worker::Unknown,
            MachineStatus::Making | MachineStatus::Hidden => Worker::NoWitness,
            // Nothing lives there.
            MachineStatus::Unborn
            | MachineStatus::Over(_)
            | MachineStatus::Lost
            | MachineStatus::Silent(_) => Worker::Absent,
        }
    }
}

/// Shows a machine whose files cannot be understood: it may still be working.
fn unreadable(name: MachineName, error: &io::Error) -> MachineView {
    MachineView {
        name,
        uid: None,
        stamp: Stamp::default(),
        phase: MachinePhase::Doubt(format!("its files cannot be read: {error}")),
        worker: Worker::Unknown,
        began: Began::Unknown,
        ready: false,
        leaving: false,
        host: None,
    }
}
