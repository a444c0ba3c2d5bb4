//! From the wish to a machine, without ever making two and without losing one.
//!
//! Early binding registers first: the mint's answer is committed together with
//! `create_called_at`, and only then the create is called. A create that is not answered, or
//! answered with an error that vouches for nothing, is never repeated. In this order: it is
//! looked for until `create_settle` is over, its registration is removed, and two direct reads
//! begun after that find nothing. A machine that comes later still finds no registration and can
//! never come online; the reaper finds it and gives it an owner.

use super::call::{Call, CallKind};
use super::registering::Proof;
use super::turn::Turn;
use crate::model::{Binding, End, MachineView, Registration, State, Timestamp, What, is_due};
use crate::mutants::{self, Mutant};
use crate::ports::{CreateError, Handover, MintError, Minted};

impl Turn<'_> {
    /// Waits for the permit, then begins; a wish to go is granted at once, for nothing exists.
    pub(super) fn drive_pending_create(&mut self) {
        if self.row.removal.is_some() {
            self.row.machine_gone_at = Some(self.now);
            self.go(State::Deleted, "nothing was made yet");
        } else if self.notes.may_start {
            self.notes.may_start = false;
            self.go(State::Creating, "the pool permits it");
            match self.row.binding {
                Binding::Early => self.begin_mint(),
                Binding::Late => self.begin_create(None),
            }
        }
    }

    /// Makes progress towards a machine, or towards the proof that there is none.
    pub(super) fn drive_creating(&mut self) {
        match self.row.create_called_at {
            None if self.is_under_way(CallKind::Mint) => {}
            None if self.row.removal.is_some() => {
                self.not_created("asked to go before the machine was made");
            }
            None => self.drive_mint(),
            Some(_) if self.is_under_way(CallKind::Create) => {}
            Some(called_at) => self.drive_unanswered_create(called_at),
        }
    }

    /// Takes the answer to a mint that was to be followed by a create.
    pub(super) fn take_mint_for_create(&mut self, answer: Result<Minted, MintError>) {
        let refused = match &answer {
            Err(MintError::Refused { why }) => Some(why.clone()),
            Ok(_)
            | Err(MintError::Taken(_) | MintError::Later { .. } | MintError::Unanswered { .. }) => {
                None
            }
        };
        let minted = self.take_mint(answer);
        if self.row.removal.is_some() {
            return;
        }
        if let Some(minted) = minted {
            match self.notes.handover {
                Handover::WithOrder => self.begin_create(Some(minted.jit)),
                // Durable with the create itself: the machine may ask another daemon for it.
                Handover::Fetched => {
                    // A forge that proves a job before it answers the mint has spent it already.
                    let spent = self.row.executing.is_some();
                    self.row.sealed_jit = (!spent).then(|| self.seal.seal(&minted.jit));
                    self.begin_create(None);
                }
            }
        } else if let (Some(why), None) = (refused, self.row.create_called_at) {
            self.not_created(&why);
        }
    }

    /// Takes the answer to the create call.
    pub(super) fn take_created(&mut self, answer: Result<MachineView, CreateError>) {
        match answer {
            Ok(view) => {
                self.notes.looked = true;
                self.take_view(&view);
            }
            Err(_) if self.row.state != State::Creating => {}
            Err(CreateError::Refused { why, .. }) => self.not_created(&why),
            Err(error @ CreateError::Unanswered { .. }) => {
                self.tell(What::CreateUnanswered(error.to_string()));
                self.look_now();
                if mutants::is(Mutant::CreateRepeated) {
                    self.call(Call::Create { jit: None });
                }
            }
        }
    }

    /// Takes an absent read of a machine that may still come.
    pub(super) fn take_absence_while_creating(&mut self, begun: Timestamp) {
        let settled = self
            .row
            .create_called_at
            .is_some_and(|called_at| is_due(called_at, self.policy().create_settle, begun));
        if self.is_under_way(CallKind::Create) || !settled || self.row.registration.may_exist() {
            self.look_later();
        } else if self.is_absence_proven(begun) {
            self.not_created("create was not answered and nothing came of it");
        }
    }

    fn begin_create(&mut self, jit: Option<crate::ports::Jit>) {
        self.row.create_called_at = Some(self.now);
        self.notes.looked = true;
        self.call(Call::Create { jit });
    }

    fn drive_unanswered_create(&mut self, called_at: Timestamp) {
        self.drive_look();
        if self.notes.look_at.is_none() && !self.is_under_way(CallKind::LookMachine) {
            self.look_later();
            self.drive_look();
        }
        // A job that the forge proved to run here needs a machine: it exists, seen or not.
        if self.works() || !self.has_passed(called_at, self.policy().create_settle) {
            return;
        }
        if self.row.registration == Registration::None {
            return;
        }
        self.drive_removal(Proof::Twice);
    }

    fn not_created(&mut self, why: &str) {
        self.machine_over(End::NotCreated { why: why.into() });
    }
}
