//! The registration: made under a fresh name, removed for certain.
//!
//! A mint is committed before it is sent: `Uncertain(name)` means that the forge may know the
//! name. An unanswered mint is looked up by that name, removed if it is there, and minted
//! under the next name. A 404 is absence only when it comes twice, [`APART`] apart: on a bad
//! day one authenticated call in a thousand is answered with a false one.
//!
//! A machine that was found may listen under any number (`x`, `x-2`): its registrations are
//! looked for by that form, removed one by one, and gone when none is left.

use std::time::Duration;

use super::backoff::backoff;
use super::call::{Call, CallKind};
use super::turn::Turn;
use crate::model::{Registration, RunnerView, Sighting, State, Timestamp, What, elapsed, is_due};
use crate::ports::{Deregistered, ForgeError, MintError, Minted};

/// How far apart two 404s must be.
pub(super) const APART: Duration = Duration::from_secs(10);
/// After this a registration that cannot be removed is left to the forge.
const WRITE_OFF: Duration = Duration::from_hours(24);

/// Tells how much proof of removal is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// One 404 will do: the runner's one job is over, a lie harms nobody.
    Once,
    Twice,
}

impl Turn<'_> {
    /// Commits the next name and sends the mint.
    pub(super) fn begin_mint(&mut self) {
        self.row.mints += 1;
        let name = self.row.runner_name(self.row.mints);
        self.row.registration = Registration::Uncertain(name.clone());
        self.notes.removal = super::notes::Removal::default();
        self.notes.minting.fresh = false;
        self.call(Call::Mint(name));
    }

    /// Makes progress towards a fresh registration whose JIT config we hold: repeats a mint
    /// that made nothing, removes a lost one, takes the next name.
    pub(super) fn drive_mint(&mut self) {
        if self.is_under_way(CallKind::Mint) {
            return;
        }
        if let Some(at) = self.notes.minting.next_at
            && !self.is_time(at)
        {
            return;
        }
        match self.row.registration.clone() {
            Registration::None | Registration::Gone | Registration::WrittenOff => self.begin_mint(),
            Registration::Uncertain(name) if self.notes.minting.fresh => {
                self.notes.minting.fresh = false;
                self.call(Call::Mint(name));
            }
            // A mint of ours without its JIT config is of no use: away with it, then the next name.
            Registration::Uncertain(_) | Registration::Known { .. } => {
                self.drive_removal(Proof::Twice);
            }
        }
    }

    /// Takes the answer to a mint; returns it where it brought a usable registration.
    pub(super) fn take_mint(&mut self, answer: Result<Minted, MintError>) -> Option<Minted> {
        let Registration::Uncertain(name) = self.row.registration.clone() else {
            return None;
        };
        match answer {
            Ok(minted) => {
                self.notes.minting.tries = 0;
                self.notes.minting.next_at = None;
                self.row.registration = Registration::Known { name: name.clone(), id: minted.id };
                self.tell(What::Minted(name));
                return Some(minted);
            }
            // Nothing was made: the same name may be sent again.
            Err(MintError::Later { after, why }) => {
                self.notes.minting.fresh = true;
                self.mint_later(after);
                self.tell(What::MintFailed(why));
            }
            Err(MintError::Refused { why }) => {
                self.row.registration = Registration::None;
                self.mint_later(None);
                self.tell(What::MintFailed(why));
            }
            Err(error @ (MintError::Taken(_) | MintError::Unanswered { .. })) => {
                self.tell(What::MintFailed(error.to_string()));
            }
        }
        None
    }

    fn mint_later(&mut self, after: Option<Duration>) {
        let minting = &mut self.notes.minting;
        let wait = backoff(
            Duration::from_secs(2),
            Duration::from_mins(1),
            minting.tries,
            self.row.id.as_str(),
        );
        minting.tries += 1;
        minting.next_at = Some(crate::model::after(self.now, after.unwrap_or(wait).max(wait)));
    }

    /// Makes progress towards a registration that is certainly gone; returns whether it is.
    pub(super) fn drive_removal(&mut self, proof: Proof) -> bool {
        if !self.row.registration.may_exist() {
            return true;
        }
        // A mint under way may still make what we would not find.
        if self.is_under_way(CallKind::Mint)
            || self.is_under_way(CallKind::Deregister)
            || self.is_under_way(CallKind::LookRunner)
        {
            return false;
        }
        if self.notes.removal.missing_since.is_some() && proof == Proof::Once {
            self.registration_gone("one 404 after its job");
            if !self.row.registration.may_exist() {
                return true;
            }
        }
        if let Some(at) = self.notes.removal.next_at
            && !self.is_time(at)
        {
            return false;
        }
        match self.row.registration.clone() {
            // How often a machine that was found had been registered, and under which number it
            // listens, nobody remembers.
            Registration::Uncertain(_) if self.row.adopted => self.call(Call::LookRunners),
            Registration::Uncertain(name) => self.call(Call::LookRunner(name, None)),
            Registration::Known { id, .. } => self.call(Call::Deregister(id)),
            Registration::None | Registration::Gone | Registration::WrittenOff => {}
        }
        false
    }

    /// Takes the answer to a removal; returns whether the forge says that a job runs there.
    pub(super) fn take_removal(&mut self, answer: &Result<Deregistered, ForgeError>) -> bool {
        match answer {
            Ok(Deregistered::Removed) => self.registration_gone("204"),
            Ok(Deregistered::NotFound) => self.registration_missing(),
            Ok(Deregistered::Working) => {
                self.notes.removal.missing_since = None;
                self.removal_later(None, Duration::from_secs(15), Duration::from_mins(5));
                self.tell(What::DeregisterRefused);
                return true;
            }
            Err(ForgeError::Later { after, .. }) => {
                self.removal_later(*after, Duration::from_secs(2), Duration::from_mins(5));
            }
        }
        false
    }

    /// Takes a direct read of the registration while it is being removed.
    pub(super) fn take_runner_for_removal(&mut self, seen: &Sighting<RunnerView>) {
        let Registration::Uncertain(name) = self.row.registration.clone() else {
            return;
        };
        match seen {
            Sighting::Seen(view) => {
                self.notes.removal.missing_since = None;
                let name = if self.row.adopted { view.name.clone() } else { name };
                self.row.registration = Registration::Known { name, id: view.id };
            }
            Sighting::Absent => self.registration_missing(),
            Sighting::Unknown(_) => {
                self.removal_later(None, Duration::from_secs(2), Duration::from_mins(1));
            }
        }
    }

    /// Gives up on a registration that could not be removed for a day.
    pub(super) fn write_off_removal(&mut self, since: Timestamp) {
        if self.row.registration.may_exist() && is_due(since, WRITE_OFF, self.now) {
            self.row.registration = Registration::WrittenOff;
            self.tell(What::WrittenOff);
        }
    }

    fn registration_missing(&mut self) {
        match self.notes.removal.missing_since {
            Some(first) if elapsed(first, self.now) >= APART => {
                self.registration_gone("404 twice");
            }
            Some(first) => self.notes.removal.next_at = Some(crate::model::after(first, APART)),
            None => {
                self.notes.removal.missing_since = Some(self.now);
                self.notes.removal.next_at = Some(crate::model::after(self.now, APART));
            }
        }
    }

    fn registration_gone(&mut self, how: &str) {
        // One of a machine that was found is gone; there may be another, under another number.
        let searched = !matches!(self.row.registration, Registration::Known { .. });
        self.row.registration = if self.row.adopted && !searched {
            Registration::Uncertain(self.row.runner_name(1))
        } else {
            Registration::Gone
        };
        self.row.sealed_jit = None;
        self.notes.removal =
            super::notes::Removal { gone_at: Some(self.now), ..Default::default() };
        self.tell(What::Deregistered(how.into()));
        // Reads begun before the removal prove nothing about a machine that might have come online.
        if self.row.state == State::Creating {
            self.notes.absent_since = None;
        }
    }

    fn removal_later(&mut self, after: Option<Duration>, first: Duration, cap: Duration) {
        let removal = &mut self.notes.removal;
        let wait = backoff(first, cap, removal.tries, self.row.id.as_str());
        removal.tries += 1;
        removal.next_at = Some(crate::model::after(self.now, after.unwrap_or(wait).max(wait)));
    }
}
