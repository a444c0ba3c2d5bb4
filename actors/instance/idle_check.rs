//! The check before a removal that no job runs on the machine: deregister, hold, look.
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

use super::effect::Effect;
use super::registration::{AbsenceProof, Registrar};
use super::transition::{Backoff, Transition};
use super::witness::Witness;
use crate::model::{JobId, Registration, RunnerName, Sighting, State, Timestamp, Worker, after};
use crate::mutants::{self, Mutant};

/// How often an owner looks for work that the forge has not named.
const UNNAMED_WORK_INTERVAL: Duration = Duration::from_secs(30);
/// Between two looks that could not tell.
const LOOK_BACKOFF: Backoff = (Duration::from_secs(10), Duration::from_mins(1));

/// How careful a check must be.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleCriteria {
    /// What proves the removal of the registration.
    proof: AbsenceProof,
    /// How long to hold after it.
    hold: Duration,
    /// Whether a decisive look is needed after the hold.
    needs_look: bool,
}

impl IdleCriteria {
    /// Nothing may be assumed about work on the machine.
    pub(super) fn full(ctx: &Transition<'_>) -> Self {
        // A runner that was never registered cannot have been given a job.
        let hold =
            if ctx.was_ever_registered() { ctx.policy().idle_confirm } else { Duration::ZERO };
        Self { proof: AbsenceProof::Twice, hold, needs_look: true }
    }

    /// The one job of the runner is over; what is left is to let the machine end by itself.
    pub(super) fn after_its_job(ctx: &Transition<'_>) -> Self {
        Self { proof: AbsenceProof::Once, hold: ctx.policy().linger, needs_look: false }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct IdleCheck {
    /// When the next decisive look may begin.
    look_at: Option<Timestamp>,
    /// Looks that could not tell.
    tries: u32,
    /// Whether the machine has no witness, so that the forge is asked.
    ask_forge: bool,
    /// What the decisive look brought, once it says that no job is there.
    free: Option<String>,
}

impl IdleCheck {
    /// Starts over: what was concluded before does not hold any more.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Makes progress with the check; returns what was seen once the machine is free.
    pub(super) fn drive(
        &mut self,
        criteria: IdleCriteria,
        registrar: &mut Registrar,
        witness: &mut Witness,
        ctx: &mut Transition<'_>,
    ) -> Option<String> {
        if !registrar.drive_removal(criteria.proof, ctx) {
            return None;
        }
        let held_until = after(registrar.gone_since(ctx.now), criteria.hold);
        if !ctx.is_time(held_until) {
            return None;
        }
        let held = format!("registration gone, held {} s", criteria.hold.as_secs());
        if !criteria.needs_look {
            return Some(held);
        }
        if let Some(free) = &self.free {
            return Some(format!("{held}, then {free}"));
        }
        let at = *self.look_at.get_or_insert(held_until);
        self.look_when_due(at, witness, ctx);
        None
    }

    /// Looks now and then for work that cannot be named; returns what says that there is none.
    pub(super) fn drive_unnamed_work(
        &mut self,
        witness: &mut Witness,
        ctx: &mut Transition<'_>,
    ) -> Option<String> {
        let at = *self.look_at.get_or_insert(after(ctx.now, UNNAMED_WORK_INTERVAL));
        let free = self.free.take();
        if free.is_none() {
            self.look_when_due(at, witness, ctx);
        }
        free
    }

    /// Takes what the machine's own witness says, if a decisive look was due when it began.
    pub(super) fn machine_answered(
        &mut self,
        begun: Timestamp,
        worker: Worker,
        ctx: &Transition<'_>,
    ) {
        let Some(at) = self.look_at else {
            return;
        };
        if begun < at || !matches!(ctx.row.state, State::Retiring | State::Busy) {
            return;
        }
        match worker {
            Worker::Absent => self.free = Some("the machine shows no worker".into()),
            Worker::Unknown if mutants::is(Mutant::UnknownMeansIdle) => {
                self.free = Some("the machine is silent".into());
            }
            Worker::NoWitness if runner_to_ask(ctx).is_some() => self.ask_forge = true,
            // What was assigned here is long over, and the registration was gone for the whole hold.
            Worker::Present if ctx.is_worker_overdue() => {
                self.free = Some("its worker outlived the job for too long".into());
            }
            // Never registered: the forge cannot have given it anything.
            Worker::NoWitness => self.free = Some("it was never registered".into()),
            Worker::Unknown | Worker::Present => self.look_later(ctx),
        }
    }

    /// Takes the forge's answer that it does not name a job in progress here, or does not say.
    pub(super) fn forge_answered(
        &mut self,
        begun: Timestamp,
        seen: &Sighting<JobId>,
        ctx: &Transition<'_>,
    ) {
        match seen {
            // Work that is proven is not the idle check's any more.
            Sighting::Seen(_) => {}
            Sighting::Absent => {
                if self.look_at.is_some_and(|at| begun >= at) {
                    self.free = Some("the forge names no job in progress here".into());
                }
            }
            Sighting::Unknown(_) => self.look_later(ctx),
        }
    }

    /// Asks the witness: the supervisor on the machine, the machine's provider, or the forge where
    /// neither can tell.
    fn look_when_due(&self, at: Timestamp, witness: &mut Witness, ctx: &mut Transition<'_>) {
        if !ctx.is_time(at) {
            return;
        }
        if witness.speaks(ctx) {
            witness.request_look(at, ctx.now);
            return;
        }
        match runner_to_ask(ctx) {
            Some(runner) if self.ask_forge => ctx.start(Effect::FindWork(runner)),
            _ => ctx.start(Effect::ReadMachine),
        }
    }

    fn look_later(&mut self, ctx: &Transition<'_>) {
        self.look_at = Some(ctx.next_try(LOOK_BACKOFF, &mut self.tries, None));
    }
}

/// Returns the runner to ask the forge about, where one was ever minted or may have been; a job
/// that names another mint of the same machine counts as well.
fn runner_to_ask(ctx: &Transition<'_>) -> Option<RunnerName> {
    match &ctx.row.registration {
        Registration::Uncertain(name) | Registration::Known { name, .. } => Some(name.clone()),
        Registration::None | Registration::Gone | Registration::WrittenOff => {
            ctx.was_ever_registered().then(|| ctx.row.runner_name(ctx.row.mints))
        }
    }
}
