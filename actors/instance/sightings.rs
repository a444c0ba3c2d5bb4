//! What looks at the machine and the runner mean.
//!
//! Seeing is evidence wherever it comes from. Not seeing counts only in a direct read, and
//! only twice, `absence_confirm` apart, for a machine that was seen before.

use std::time::Duration;

use super::backoff::backoff;
use super::call::{Call, CallKind};
use super::notes::OfflineCheck;
use super::turn::Turn;
use crate::model::{
    Began, End, MachinePhase, MachineView, Registration, RunnerView, Sighting, State, Timestamp,
    WarrantKind, What, Worker, after, elapsed,
};
use crate::mutants::{self, Mutant};

impl Turn<'_> {
    /// Takes the answer to a direct read of the machine.
    pub(super) fn take_machine(&mut self, begun: Timestamp, seen: Sighting<MachineView>) {
        match seen {
            Sighting::Seen(view) => {
                self.notes.looked = true;
                self.notes.blind_looks = 0;
                self.notes.look_at = None;
                if self.notes.absent_since.take().is_some() && !self.row.state.is_past_return() {
                    self.tell(What::Reappeared);
                }
                self.take_view(&view);
                self.take_witness(begun, view.worker);
                self.found_during_deletion();
            }
            Sighting::Absent => {
                self.notes.looked = true;
                self.notes.blind_looks = 0;
                // A slow answer may be older than a sighting; it says nothing about what came
                // after, and is not the look that was planned since.
                if self.notes.last_seen.is_none_or(|seen| begun >= seen) {
                    self.notes.look_at = None;
                    self.take_absence(begun);
                }
            }
            Sighting::Unknown(_) => {
                // Whoever is on the way out holds its place anyway; it holds nobody else up.
                self.notes.looked |= self.row.state.is_delete_decided();
                self.take_witness(begun, Worker::Unknown);
                self.look_later();
            }
        }
    }

    /// Takes what a machine looks like, from a direct read, a watch or a listing.
    pub(super) fn take_view(&mut self, view: &MachineView) {
        match self.row.state {
            // Nothing was asked for yet, or everything is decided.
            State::PendingCreate | State::Ended | State::Deleting | State::Deleted => return,
            State::Creating
            | State::Starting
            | State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::PendingDelete => {}
        }
        self.notes.looked = true;
        self.notes.last_seen = Some(self.now);
        if self.notes.absent_since.take().is_some() {
            self.notes.look_at = None;
            self.tell(What::Reappeared);
        }
        self.row.create_called_at.get_or_insert(self.now);
        if self.row.seen_at.is_none() {
            self.row.seen_at = Some(self.now);
        }
        if self.row.uid.is_none() {
            self.row.uid.clone_from(&view.uid);
        }
        if self.row.host.is_none() {
            self.row.host.clone_from(&view.host);
        }
        self.notes.began = Some(view.began);
        self.notes.worker = Some(view.worker);
        self.row.once_started |= view.began == Began::Yes || view.worker == Worker::Present;
        if view.ready && self.row.ready_at.is_none() {
            self.row.ready_at = Some(self.now);
        }
        match &view.phase {
            MachinePhase::Over(exit) => self.machine_over(End::Exited(exit.clone())),
            MachinePhase::Doubt(why) => {
                if self.notes.doubt.as_ref() != Some(why) {
                    self.notes.doubt = Some(why.clone());
                    self.tell(What::SightingUnknown(why.clone()));
                }
            }
            MachinePhase::Booting | MachinePhase::Running => self.notes.doubt = None,
        }
        if view.leaving && !self.notes.leaving {
            self.notes.leaving = true;
            // Somebody else is deleting it: gather what it leaves while it still exists.
            self.call(Call::ExitReport { want_tail: true });
        }
        if self.row.state == State::Creating {
            self.go(State::Starting, "the machine exists");
        }
        if view.worker == Worker::Present {
            self.work_proven("the machine shows a worker");
        }
    }

    /// Takes a registration as a listing or a direct read shows it.
    pub(super) fn take_runner(&mut self, view: &RunnerView) {
        // `busy` lies both ways (actions/runner#4422); only `online` is used, and only to rise.
        if !self.row.answers_to(&view.name) {
            return;
        }
        if view.online {
            let last_online = Some(self.now);
            self.notes.offline = OfflineCheck { last_online, ..OfflineCheck::default() };
        } else {
            self.runner_lost();
        }
        if view.online && self.row.ready_at.is_none() {
            self.row.ready_at = Some(self.now);
            self.row.once_started = true;
        }
    }

    /// Takes word that the runner is offline or not listed: the job at work here is asked about.
    pub(super) fn runner_lost(&mut self) {
        self.notes.runner_lost |= self.row.state == State::Busy && self.works();
    }

    /// Looks for the runner until two direct reads, a minute apart, call it offline or do not
    /// find it; returns whether they did.
    pub(super) fn drive_offline_check(&mut self) -> bool {
        if self.notes.offline.proven {
            return true;
        }
        let due = match self.notes.offline.look_at {
            Some(at) => self.is_time(at),
            None => true,
        };
        if due && let Registration::Known { name, id } = self.row.registration.clone() {
            self.call(Call::LookRunner(name, Some(id)));
        }
        false
    }

    /// Takes a direct read of the runner that was begun to see whether it is online.
    pub(super) fn take_offline_check(&mut self, begun: Timestamp, seen: &Sighting<RunnerView>) {
        let is_old = self.notes.offline.last_online.is_some_and(|online| begun < online);
        let check = &mut self.notes.offline;
        match seen {
            Sighting::Seen(view) if view.online => self.take_runner(view),
            Sighting::Seen(_) | Sighting::Absent if is_old => {}
            Sighting::Seen(_) | Sighting::Absent => {
                check.absent = *seen == Sighting::Absent;
                match check.since {
                    Some(first) if elapsed(first, begun) >= Duration::from_mins(1) => {
                        check.proven = true;
                    }
                    Some(_) => {}
                    None => {
                        check.since = Some(begun);
                        check.look_at = Some(after(begun, Duration::from_mins(1)));
                    }
                }
            }
            Sighting::Unknown(_) => check.look_at = Some(after(self.now, Duration::from_secs(15))),
        }
    }

    /// Looks at the machine when a look is due.
    pub(super) fn drive_look(&mut self) {
        if self.row.create_called_at.is_none() && !self.row.adopted {
            self.notes.looked = true;
            return;
        }
        if self.notes.cut_off.is_some() || self.row.machine_gone_at.is_some() {
            self.notes.looked = true;
            return;
        }
        let due = match self.notes.look_at {
            Some(at) => self.is_time(at),
            None => !self.notes.looked,
        };
        if due {
            self.call(Call::LookMachine);
        }
    }

    /// Asks for a look now.
    pub(super) fn look_now(&mut self) {
        if !self.is_under_way(CallKind::LookMachine) {
            self.notes.look_at = Some(self.now);
        }
    }

    /// Ends the machine's life in the record: it is over, or gone for certain.
    pub(super) fn machine_over(&mut self, end: End) {
        if self.row.state.is_over() {
            return;
        }
        let why = match &end {
            End::Exited(_) => "the machine was seen to end",
            End::Gone { .. } => "the machine is gone",
            End::NotCreated { .. } => "the machine never came to be",
        };
        self.row.end = Some(end);
        self.row.sealed_jit = None;
        self.row.offer = None;
        self.notes.closing = None;
        self.go(State::Ended, why);
    }

    /// Takes proof that a job runs here, whichever it is.
    pub(super) fn work_proven(&mut self, why: &str) {
        let machine_lives = self.row.end.is_none();
        match self.row.state {
            State::Starting | State::Idle | State::Reserved | State::Retiring => {}
            // Forced or not: what its warrant rests on is void. Force finds its own way from here.
            State::PendingDelete if machine_lives => {
                self.row.warrant = None;
                self.row.verdict = None;
            }
            // A worker shows up after the look that called it free: a zombie, or the runner of a
            // job cancelled before pick-up that took another.
            State::Busy => {
                let cancelled = !self.job_is_done();
                self.notes.closing.take_if(|closing| match closing.warrant.kind {
                    WarrantKind::Zombie => true,
                    WarrantKind::Served => cancelled,
                    WarrantKind::OwnEnd
                    | WarrantKind::NeverBegan
                    | WarrantKind::Idle
                    | WarrantKind::Operator => false,
                });
                return;
            }
            State::PendingCreate
            | State::Creating
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => return,
        }
        self.void_conclusions();
        self.notes.vigil = super::notes::Vigil::default();
        self.row.once_started = true;
        self.row.sealed_jit = None;
        self.row.offer = None;
        self.go(State::Busy, why);
    }

    /// Drops what was being concluded without knowing of this work; force needs no conclusion.
    pub(super) fn void_conclusions(&mut self) {
        self.notes.closing.take_if(|closing| closing.warrant.kind != WarrantKind::Operator);
    }

    fn take_absence(&mut self, begun: Timestamp) {
        match self.row.state {
            State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => {
                if self.is_absence_proven(begun) {
                    self.machine_over(End::Gone { deleted_externally: self.notes.leaving });
                }
            }
            State::Creating => self.take_absence_while_creating(begun),
            State::Deleting => self.absent_during_deletion(begun),
            State::PendingCreate | State::Ended | State::PendingDelete | State::Deleted => {}
        }
    }

    /// Counts an absent read; returns whether it is the second, far enough from the first.
    pub(super) fn is_absence_proven(&mut self, begun: Timestamp) -> bool {
        let apart = self.policy().absence_confirm;
        if mutants::is(Mutant::OneAbsenceProves) {
            return true;
        }
        match self.notes.absent_since {
            Some(first) if elapsed(first, begun) >= apart => true,
            Some(first) => {
                self.notes.look_at = Some(after(first, apart));
                false
            }
            None => {
                self.notes.absent_since = Some(begun);
                self.notes.look_at = Some(after(begun, apart));
                if self.row.state != State::Deleting {
                    self.tell(What::FirstAbsence);
                }
                false
            }
        }
    }

    /// Plans another look, later each time nothing is found or said.
    pub(super) fn look_later(&mut self) {
        let wait = backoff(
            Duration::from_secs(5),
            Duration::from_mins(1),
            self.notes.blind_looks,
            self.row.id.as_str(),
        );
        self.notes.blind_looks += 1;
        self.notes.look_at = Some(after(self.now, wait));
    }

    /// Takes a machine's own question for work: it exists and is ready.
    pub(super) fn polled(&mut self) {
        if self.row.state.is_booted() {
            return;
        }
        self.row.seen_at.get_or_insert(self.now);
        self.row.ready_at.get_or_insert(self.now);
        self.notes.looked = true;
        if self.row.state == State::Creating && self.row.create_called_at.is_some() {
            self.go(State::Starting, "the machine asks for work");
        }
    }

    /// Returns whether the registration could have made the runner come online.
    pub(super) fn ever_registered(&self) -> bool {
        self.row.mints > 0 || self.row.adopted || self.row.registration != Registration::None
    }
}
