//! The machine, as far as anyone has seen it.
//!
//! Seeing is evidence wherever it comes from: a direct read, a watch, a listing, a call of the
//! machine itself. Not seeing counts only in a direct read, and only twice, `absence_confirm`
//! apart, for a machine that was seen before. A read that fails proves nothing.
//!
//! The probe plans the direct reads and counts; what a sighting means for the rest of the life
//! cycle is decided in [`lifecycle`](super::lifecycle).

use std::time::Duration;

use super::effect::{Effect, EffectKind};
use super::transition::{Backoff, Transition};
use crate::model::{
    Began, MachinePhase, MachineView, State, Timestamp, What, Worker, after, elapsed,
};
use crate::mutants::{self, Mutant};

/// Between two reads that found nothing or failed.
const BLIND_READ_BACKOFF: Backoff = (Duration::from_secs(5), Duration::from_mins(1));

#[derive(Clone, Debug, Default)]
pub(super) struct MachineProbe {
    /// Whether the machine was read since the owner started, or there is nothing to read.
    has_looked: bool,
    /// When to read the machine next, whatever the state.
    read_at: Option<Timestamp>,
    /// Reads in a row that brought nothing.
    blind_reads: u32,
    /// When the first of the current row of absent reads began.
    absent_since: Option<Timestamp>,
    /// Reads that began before this prove no absence.
    absences_from: Option<Timestamp>,
    /// When the machine was last seen, by whatever means.
    last_seen: Option<Timestamp>,
    /// Whether the machine was seen being deleted by someone else.
    is_leaving: bool,
    /// Whether the machine's runner ever started, as last seen.
    began: Option<Began>,
    /// What the machine's witness said last.
    worker: Option<Worker>,
    /// The doubt recorded last.
    doubt: Option<String>,
}

impl MachineProbe {
    /// Reads the machine when a read is due.
    pub(super) fn drive(&mut self, ctx: &mut Transition<'_>) {
        if !ctx.row.machine_may_exist() || ctx.is_cut_off() {
            self.has_looked = true;
            return;
        }
        let due = match self.read_at {
            Some(at) => ctx.is_time(at),
            None => !self.has_looked,
        };
        if due {
            ctx.start(Effect::ReadMachine);
        }
    }

    /// Reads the machine when a planned read is due.
    pub(super) fn drive_planned(&self, ctx: &mut Transition<'_>) {
        if let Some(at) = self.read_at
            && ctx.is_time(at)
        {
            ctx.start(Effect::ReadMachine);
        }
    }

    /// Takes a direct read that found the machine.
    pub(super) fn found(&mut self, ctx: &mut Transition<'_>) {
        self.has_looked = true;
        self.blind_reads = 0;
        self.read_at = None;
        if self.absent_since.take().is_some() && !ctx.row.state.is_past_return() {
            ctx.record(What::Reappeared);
        }
    }

    /// Takes what a machine looks like, from a direct read, a watch or a listing. Returns whether
    /// that means anything for the instance: not before a machine was ordered, nor after its end.
    pub(super) fn observe(&mut self, view: &MachineView, ctx: &mut Transition<'_>) -> bool {
        match ctx.row.state {
            State::PendingCreate | State::Ended | State::Deleting | State::Deleted => return false,
            State::Creating
            | State::Starting
            | State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::PendingDelete => {}
        }
        self.seen_now(ctx);
        ctx.row.create_called_at.get_or_insert(ctx.now);
        ctx.row.seen_at.get_or_insert(ctx.now);
        if ctx.row.uid.is_none() {
            ctx.row.uid.clone_from(&view.uid);
        }
        if ctx.row.host.is_none() {
            ctx.row.host.clone_from(&view.host);
        }
        self.began = Some(view.began);
        self.worker = Some(view.worker);
        ctx.row.once_started |= view.began == Began::Yes || view.worker == Worker::Present;
        if view.ready && ctx.row.ready_at.is_none() {
            ctx.row.ready_at = Some(ctx.now);
        }
        self.is_leaving |= view.leaving;
        match &view.phase {
            MachinePhase::Over(_) => return true,
            MachinePhase::Doubt(why) => {
                if self.doubt.as_ref() != Some(why) {
                    self.doubt = Some(why.clone());
                    ctx.record(What::SightingUnknown(why.clone()));
                }
            }
            MachinePhase::Booting | MachinePhase::Running => self.doubt = None,
        }
        if ctx.row.state == State::Creating {
            ctx.move_to(State::Starting, "the machine exists");
        }
        true
    }

    /// Takes a direct read that did not find the machine; returns whether it says anything.
    pub(super) fn not_found(&mut self, begun: Timestamp) -> bool {
        self.has_looked = true;
        self.blind_reads = 0;
        // A slow answer may be older than a sighting; it says nothing about what came after, and
        // is not the read that was planned since.
        let counts = self.last_seen.is_none_or(|seen| begun >= seen);
        if counts {
            self.read_at = None;
        }
        counts
    }

    /// Takes a direct read that could not tell.
    pub(super) fn read_failed(&mut self, ctx: &Transition<'_>) {
        // An instance whose deletion is decided holds its place anyway: its pool need not wait for
        // a read that succeeds.
        self.has_looked |= ctx.row.state.is_delete_decided();
        self.read_later(ctx);
    }

    /// Takes a watch or listing that does not show the machine: the machine is read.
    pub(super) fn missed(&mut self, ctx: &Transition<'_>) {
        if ctx.row.seen_at.is_some() && !ctx.row.state.is_over() {
            self.read_now(ctx);
        }
    }

    /// Takes a machine's own request for work: it exists and is ready.
    pub(super) fn polled(&mut self, ctx: &mut Transition<'_>) {
        if ctx.row.state.is_booted() {
            return;
        }
        ctx.row.seen_at.get_or_insert(ctx.now);
        ctx.row.ready_at.get_or_insert(ctx.now);
        self.has_looked = true;
        if ctx.row.state == State::Creating && ctx.row.create_called_at.is_some() {
            ctx.move_to(State::Starting, "the machine asks for work");
        }
    }

    /// Takes a call of the machine during its setup: a machine that calls exists, whatever the
    /// provider has answered so far.
    pub(super) fn called(&mut self, ctx: &mut Transition<'_>) {
        ctx.row.seen_at.get_or_insert(ctx.now);
        self.seen_now(ctx);
        if ctx.row.state == State::Creating {
            ctx.move_to(State::Starting, "the machine calls");
        }
    }

    /// Counts an absent read; returns whether it is the second, so far apart from the first.
    pub(super) fn confirms_absence(
        &mut self,
        begun: Timestamp,
        apart: Duration,
        ctx: &mut Transition<'_>,
    ) -> bool {
        if mutants::is(Mutant::OneAbsenceProves) {
            return true;
        }
        if self.absences_from.is_some_and(|from| begun < from) {
            self.read_now(ctx);
            return false;
        }
        match self.absent_since {
            Some(first) if elapsed(first, begun) >= apart => true,
            Some(first) => {
                self.read_at = Some(after(first, apart));
                false
            }
            None => {
                self.absent_since = Some(begun);
                self.read_at = Some(after(begun, apart));
                if ctx.row.state != State::Deleting {
                    ctx.record(What::FirstAbsence);
                }
                false
            }
        }
    }

    /// Plans a read for now, unless one is in flight.
    pub(super) fn read_now(&mut self, ctx: &Transition<'_>) {
        if !ctx.is_in_flight(EffectKind::ReadMachine) {
            self.read_at = Some(ctx.now);
        }
    }

    /// Plans another read, later each time nothing is found or said.
    pub(super) fn read_later(&mut self, ctx: &Transition<'_>) {
        self.read_at = Some(ctx.next_try(BLIND_READ_BACKOFF, &mut self.blind_reads, None));
    }

    pub(super) fn read_at(&mut self, at: Timestamp) {
        self.read_at = Some(at);
    }

    pub(super) fn is_read_planned(&self) -> bool {
        self.read_at.is_some()
    }

    /// Drops the planned read.
    pub(super) fn cancel_read(&mut self) {
        self.read_at = None;
    }

    /// Drops the count of absent reads: what was read before proves nothing about what comes now.
    pub(super) fn discard_absences(&mut self) {
        self.absent_since = None;
    }

    /// Counts only absent reads that begin from now on, and reads at once.
    pub(super) fn count_absences_from_now(&mut self, ctx: &Transition<'_>) {
        self.absent_since = None;
        self.absences_from = Some(ctx.now);
        self.read_now(ctx);
    }

    pub(super) fn is_confirming_absence(&self) -> bool {
        self.absent_since.is_some()
    }

    /// Spares the pool the wait for a first read: the machine is known from another source.
    pub(super) fn skip_first_read(&mut self) {
        self.has_looked = true;
    }

    /// Returns whether the machine was read since the owner started, or need not be.
    pub(super) fn has_looked(&self) -> bool {
        self.has_looked
    }

    /// Returns whether the machine was seen being deleted by someone else.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Returns whether nothing says that the machine may be gone soon, or gone already.
    pub(super) fn is_well(&self) -> bool {
        self.absent_since.is_none() && self.doubt.is_none() && !self.is_leaving
    }

    /// Returns whether the machine itself proved that its runner never started.
    pub(super) fn never_began(&self) -> bool {
        self.began == Some(Began::Never)
    }

    pub(super) fn shows_worker(&self) -> bool {
        self.worker == Some(Worker::Present)
    }

    fn seen_now(&mut self, ctx: &mut Transition<'_>) {
        self.has_looked = true;
        self.last_seen = Some(ctx.now);
        if self.absent_since.take().is_some() {
            self.read_at = None;
            ctx.record(What::Reappeared);
        }
    }
}
