//! The watch before a deletion: deregister, hold, look.
//!
//! ```text
//!  registration gone ──hold──▶ decisive look, begun after the hold ──no job──▶ free
//!        ▲                            │ unknown: the hold goes on
//!        └── 422: a job runs there    │ worker: busy
//! ```
//! `busy: false`, a single 404, an error or a missing claim are never enough. The hold must
//! be longer than the longest time from assignment to the start of the worker, because a forge
//! may remove a runner that has just been given a job.

use std::time::Duration;

use super::backoff::backoff;
use super::call::Call;
use super::registering::Proof;
use super::turn::Turn;
use crate::model::{JobId, Registration, RunnerName, Sighting, State, Timestamp, Worker, after};
use crate::mutants::{self, Mutant};

/// Tells how careful a watch must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// What proves the removal.
    pub(super) proof: Proof,
    /// How long to hold after it.
    pub(super) hold: Duration,
    /// Whether a decisive look is needed after the hold.
    pub(super) look: bool,
}

impl Turn<'_> {
    /// Returns the full watch: nothing may be assumed about work on the machine.
    pub(super) fn full_watch(&self) -> Watch {
        let hold = if self.ever_registered() { self.policy().idle_confirm } else { Duration::ZERO };
        Watch { proof: Proof::Twice, hold, look: true }
    }

    /// Makes progress with the watch; returns what was seen once the machine is free.
    pub(super) fn drive_watch(&mut self, watch: Watch) -> Option<String> {
        if !self.drive_removal(watch.proof) {
            return None;
        }
        let now = self.now;
        let gone_at = *self.notes.removal.gone_at.get_or_insert(now);
        let held_until = after(gone_at, watch.hold);
        if !self.is_time(held_until) {
            return None;
        }
        let held = format!("registration gone, held {} s", watch.hold.as_secs());
        if !watch.look {
            return Some(held);
        }
        if let Some(free) = self.notes.vigil.free.clone() {
            return Some(format!("{held}, then {free}"));
        }
        self.drive_decisive_look(held_until);
        None
    }

    fn drive_decisive_look(&mut self, held_until: Timestamp) {
        let at = *self.notes.vigil.look_at.get_or_insert(held_until);
        if self.is_time(at) {
            self.look_decisively();
        }
    }

    /// Asks the witness: the machine itself, or the forge where the machine has none.
    pub(super) fn look_decisively(&mut self) {
        match self.runner_to_ask() {
            Some(runner) if self.notes.vigil.ask_forge => self.call(Call::LookWork(runner)),
            _ => self.call(Call::LookMachine),
        }
    }

    /// Takes what the machine's own witness says, if a decisive look was due when it began.
    pub(super) fn take_witness(&mut self, begun: Timestamp, worker: Worker) {
        let Some(at) = self.notes.vigil.look_at else {
            return;
        };
        if begun < at || !matches!(self.row.state, State::Retiring | State::Busy) {
            return;
        }
        match worker {
            Worker::Absent => self.notes.vigil.free = Some("the machine shows no worker".into()),
            Worker::Unknown if mutants::is(Mutant::UnknownMeansIdle) => {
                self.notes.vigil.free = Some("the machine is silent".into());
            }
            Worker::NoWitness if self.runner_to_ask().is_some() => {
                self.notes.vigil.ask_forge = true;
            }
            // Never registered: the forge cannot have given it anything.
            Worker::NoWitness => {
                self.notes.vigil.free = Some("it was never registered".into());
            }
            Worker::Unknown | Worker::Present => self.watch_longer(),
        }
    }

    /// Takes the forge's word on whether a job in progress names this runner.
    pub(super) fn take_work(&mut self, begun: Timestamp, seen: Sighting<JobId>) {
        match seen {
            Sighting::Seen(job) => self.take_execution(job),
            Sighting::Absent => {
                if self.notes.vigil.look_at.is_some_and(|at| begun >= at) {
                    self.notes.vigil.free = Some("the forge names no job in progress here".into());
                }
            }
            Sighting::Unknown(_) => self.watch_longer(),
        }
    }

    fn watch_longer(&mut self) {
        let vigil = &mut self.notes.vigil;
        let wait = backoff(
            Duration::from_secs(10),
            Duration::from_mins(1),
            vigil.tries,
            self.row.id.as_str(),
        );
        vigil.tries += 1;
        vigil.look_at = Some(after(self.now, wait));
    }

    /// Returns the runner to ask the forge about, where one was ever minted or may have been; a
    /// job that names another mint of the same machine counts as well.
    fn runner_to_ask(&self) -> Option<RunnerName> {
        match &self.row.registration {
            Registration::Uncertain(name) | Registration::Known { name, .. } => Some(name.clone()),
            Registration::None | Registration::Gone | Registration::WrittenOff => {
                self.ever_registered().then(|| self.row.runner_name(self.row.mints))
            }
        }
    }
}
