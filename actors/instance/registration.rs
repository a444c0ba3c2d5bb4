//! The registration at the forge: minted under a fresh name, removed for certain.
//!
//! A mint is committed before it is sent: `Uncertain(name)` means that the forge may know the
//! name. An unanswered mint is looked up by that name, removed if it is there, and minted
//! under the next name. A 404 is absence only when it comes twice, [`MISSING_CONFIRM_AFTER`]
//! apart: on a bad day one authenticated call in a thousand is answered with a false one.
//!
//! A machine that was adopted may be registered under any number (`x`, `x-2`): its registrations
//! are looked for by that form, removed one by one, and gone when none is left.

use std::time::Duration;

use super::effect::{Effect, EffectKind};
use super::transition::{Backoff, Transition};
use crate::model::{Registration, RunnerView, Sighting, Timestamp, What, after, elapsed, is_due};
use crate::ports::{Deregistered, ForgeError, MintError, Minted};

/// How far apart two 404s must be.
const MISSING_CONFIRM_AFTER: Duration = Duration::from_secs(10);
/// After this a registration that cannot be removed is left to the forge.
const WRITE_OFF_AFTER: Duration = Duration::from_hours(24);

const MINT_BACKOFF: Backoff = (Duration::from_secs(2), Duration::from_mins(1));
const LOOKUP_BACKOFF: Backoff = (Duration::from_secs(2), Duration::from_mins(1));
const REMOVAL_BACKOFF: Backoff = (Duration::from_secs(2), Duration::from_mins(5));
/// After a refusal: the runner works, and works for longer than a call that failed stays broken.
const REFUSED_BACKOFF: Backoff = (Duration::from_secs(15), Duration::from_mins(5));

/// How often a registration must not be found before it counts as removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbsenceProof {
    /// One 404 will do: the runner's one job is over, and a false one harms no job.
    Once,
    Twice,
}

/// What an answer of the forge means for the removal of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalProgress {
    Pending,
    Gone,
    /// The forge refused to remove the runner: a job runs there.
    JobRuns,
}

/// Mints registrations and removes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Registrar {
    mint: MintAttempts,
    removal: RemovalAttempts,
}

#[derive(Clone, Debug, Default)]
struct MintAttempts {
    /// Whether the committed name was certainly not registered, so that it may be sent again.
    may_repeat: bool,
    next_at: Option<Timestamp>,
    /// Tries in a row that failed.
    tries: u32,
}

#[derive(Clone, Debug, Default)]
struct RemovalAttempts {
    /// When the first of the current row of 404s came.
    missing_since: Option<Timestamp>,
    next_at: Option<Timestamp>,
    /// Tries in a row that did not settle it.
    tries: u32,
    /// When this owner learned that the registration is gone.
    gone_at: Option<Timestamp>,
}

impl Registrar {
    /// Commits the next name and sends the mint.
    pub(super) fn mint(&mut self, ctx: &mut Transition<'_>) {
        ctx.row.mints += 1;
        ctx.row.doubt_since = None;
        let name = ctx.row.runner_name(ctx.row.mints);
        ctx.row.registration = Registration::Uncertain(name.clone());
        self.removal = RemovalAttempts::default();
        self.mint.may_repeat = false;
        ctx.start(Effect::Mint(name));
    }

    /// Makes progress towards a fresh registration whose JIT config we hold: repeats a mint that
    /// registered nothing, removes a lost one, takes the next name.
    pub(super) fn drive_mint(&mut self, ctx: &mut Transition<'_>) {
        if ctx.is_in_flight(EffectKind::Mint) {
            return;
        }
        if let Some(at) = self.mint.next_at
            && !ctx.is_time(at)
        {
            return;
        }
        match ctx.row.registration.clone() {
            Registration::None | Registration::Gone | Registration::WrittenOff => self.mint(ctx),
            Registration::Uncertain(name) if self.mint.may_repeat => {
                self.mint.may_repeat = false;
                ctx.start(Effect::Mint(name));
            }
            // A registration of ours without its JIT config is of no use: it is removed, and the
            // next name is minted.
            Registration::Uncertain(_) | Registration::Known { .. } => {
                self.drive_removal(AbsenceProof::Twice, ctx);
            }
        }
    }

    /// Takes the answer to a mint; returns it where it brought a usable registration.
    pub(super) fn minted(
        &mut self,
        answer: Result<Minted, MintError>,
        ctx: &mut Transition<'_>,
    ) -> Option<Minted> {
        let Registration::Uncertain(name) = ctx.row.registration.clone() else {
            return None;
        };
        match answer {
            Ok(minted) => {
                self.mint.tries = 0;
                self.mint.next_at = None;
                ctx.row.registration = Registration::Known { name: name.clone(), id: minted.id };
                ctx.record(What::Minted(name));
                return Some(minted);
            }
            // Nothing was registered: the same name may be sent again.
            Err(MintError::Later { after, why }) => {
                self.mint.may_repeat = true;
                self.mint_later(after, ctx);
                ctx.record(What::MintFailed(why));
            }
            Err(MintError::Refused { why }) => {
                ctx.row.registration = Registration::None;
                self.mint_later(None, ctx);
                ctx.record(What::MintFailed(why));
            }
            Err(error @ (MintError::Taken(_) | MintError::Unanswered { .. })) => {
                ctx.record(What::MintFailed(error.to_string()));
            }
        }
        None
    }

    /// Takes back the name of a mint that certainly registered nothing; returns whether no
    /// registration may exist now.
    pub(super) fn forget_unsent(&mut self, ctx: &mut Transition<'_>) -> bool {
        let is_unsent = matches!(ctx.row.registration, Registration::Uncertain(_))
            && self.mint.may_repeat
            && !ctx.is_in_flight(EffectKind::Mint);
        if is_unsent {
            ctx.row.registration = Registration::None;
            self.mint = MintAttempts::default();
        }
        ctx.row.registration == Registration::None
    }

    /// Makes progress towards a registration that is certainly gone; returns whether it is.
    pub(super) fn drive_removal(&mut self, proof: AbsenceProof, ctx: &mut Transition<'_>) -> bool {
        if !ctx.row.registration.may_exist() {
            return true;
        }
        // A mint in flight may still register what we would not find.
        if ctx.is_in_flight(EffectKind::Mint)
            || ctx.is_in_flight(EffectKind::Deregister)
            || ctx.is_in_flight(EffectKind::ReadRunner)
        {
            return false;
        }
        if self.removal.missing_since.is_some() && proof == AbsenceProof::Once {
            self.gone("one 404 after its job", ctx);
            if !ctx.row.registration.may_exist() {
                return true;
            }
        }
        if let Some(at) = self.removal.next_at
            && !ctx.is_time(at)
        {
            return false;
        }
        match ctx.row.registration.clone() {
            // How often an adopted machine had been registered, and under which number its runner
            // listens, is not on record.
            Registration::Uncertain(_) if ctx.row.adopted => ctx.start(Effect::FindRunner),
            Registration::Uncertain(name) => ctx.start(Effect::ReadRunner(name, None)),
            Registration::Known { id, .. } => ctx.start(Effect::Deregister(id)),
            Registration::None | Registration::Gone | Registration::WrittenOff => {}
        }
        false
    }

    /// Takes the answer to a deregistration.
    pub(super) fn deregistered(
        &mut self,
        answer: &Result<Deregistered, ForgeError>,
        ctx: &mut Transition<'_>,
    ) -> RemovalProgress {
        match answer {
            Ok(Deregistered::Removed) => self.gone("204", ctx),
            Ok(Deregistered::NotFound) => self.missing(ctx),
            Ok(Deregistered::Working) => {
                self.removal.missing_since = None;
                self.remove_later(REFUSED_BACKOFF, None, ctx);
                ctx.record(What::DeregisterRefused);
                RemovalProgress::JobRuns
            }
            Err(ForgeError::Later { after, .. }) => {
                self.remove_later(REMOVAL_BACKOFF, *after, ctx);
                RemovalProgress::Pending
            }
        }
    }

    /// Takes a direct read of the registration while it is being removed.
    pub(super) fn looked_up(
        &mut self,
        seen: &Sighting<RunnerView>,
        ctx: &mut Transition<'_>,
    ) -> RemovalProgress {
        let Registration::Uncertain(name) = ctx.row.registration.clone() else {
            return RemovalProgress::Pending;
        };
        match seen {
            Sighting::Seen(view) => {
                self.removal.missing_since = None;
                let name = if ctx.row.adopted { view.name.clone() } else { name };
                ctx.row.registration = Registration::Known { name, id: view.id };
                RemovalProgress::Pending
            }
            Sighting::Absent => self.missing(ctx),
            Sighting::Unknown(_) => {
                self.remove_later(LOOKUP_BACKOFF, None, ctx);
                RemovalProgress::Pending
            }
        }
    }

    /// Gives up on a registration that could not be removed for a day.
    pub(super) fn write_off(since: Timestamp, ctx: &mut Transition<'_>) {
        if ctx.row.registration.may_exist() && is_due(since, WRITE_OFF_AFTER, ctx.now) {
            ctx.row.registration = Registration::WrittenOff;
            ctx.record(What::WrittenOff);
        }
        ctx.wake_at(after(since, WRITE_OFF_AFTER));
    }

    /// Returns when this owner learned that the registration is gone: now, if not before.
    pub(super) fn gone_since(&mut self, now: Timestamp) -> Timestamp {
        *self.removal.gone_at.get_or_insert(now)
    }

    /// Begins the hold after the removal anew.
    pub(super) fn restart_hold(&mut self) {
        self.removal.gone_at = None;
    }

    fn missing(&mut self, ctx: &mut Transition<'_>) -> RemovalProgress {
        let first = match self.removal.missing_since {
            Some(first) if elapsed(first, ctx.now) >= MISSING_CONFIRM_AFTER => {
                return self.gone("404 twice", ctx);
            }
            Some(first) => first,
            None => *self.removal.missing_since.insert(ctx.now),
        };
        self.removal.next_at = Some(after(first, MISSING_CONFIRM_AFTER));
        RemovalProgress::Pending
    }

    fn gone(&mut self, how: &str, ctx: &mut Transition<'_>) -> RemovalProgress {
        // One registration of an adopted machine is gone; there may be another, under another
        // number, until a search finds none.
        let searched = !matches!(ctx.row.registration, Registration::Known { .. });
        ctx.row.registration = if ctx.row.adopted && !searched {
            Registration::Uncertain(ctx.row.runner_name(1))
        } else {
            Registration::Gone
        };
        ctx.row.sealed_jit = None;
        self.removal = RemovalAttempts { gone_at: Some(ctx.now), ..RemovalAttempts::default() };
        ctx.record(What::Deregistered(how.into()));
        RemovalProgress::Gone
    }

    fn mint_later(&mut self, at_least: Option<Duration>, ctx: &Transition<'_>) {
        self.mint.next_at = Some(ctx.next_try(MINT_BACKOFF, &mut self.mint.tries, at_least));
    }

    fn remove_later(&mut self, backoff: Backoff, at_least: Option<Duration>, ctx: &Transition<'_>) {
        self.removal.next_at = Some(ctx.next_try(backoff, &mut self.removal.tries, at_least));
    }
}
