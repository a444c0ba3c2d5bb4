//! The point of no return: delete the machine and the registration side by side, then confirm.
//!
//! Deletion is verified, not assumed: gone is one absent read after our own accepted delete,
//! two apart otherwise. Failure stays here, with back-off, for ever. A registration that
//! cannot be removed never holds the machine's deletion up.

use std::time::Duration;

use super::backoff::backoff;
use super::call::{Call, CallKind};
use super::registering::Proof;
use super::turn::Turn;
use crate::model::{Conclusion, State, Timestamp, What, after};
use crate::ports::{Deletion, ProviderError};

impl Turn<'_> {
    /// Waits for the permit.
    pub(super) fn drive_pending_delete(&mut self) {
        self.drive_look();
        if self.notes.may_delete {
            self.notes.may_delete = false;
            // What was seen before is no confirmation of what begins here.
            self.notes.absent_since = None;
            self.notes.look_at = None;
            self.go(State::Deleting, "the pool permits it");
        }
    }

    /// Makes progress on both halves; done when both are.
    pub(super) fn drive_deleting(&mut self) {
        self.drive_machine_deletion();
        let proof = if self.job_is_done() { Proof::Once } else { Proof::Twice };
        let removed = self.drive_removal(proof);
        if !removed {
            self.write_off_removal(self.row.since);
            self.wake_at(after(self.row.since, Duration::from_hours(24)));
        }
        if self.row.machine_gone_at.is_some() && !self.row.registration.may_exist() {
            self.go(State::Deleted, "nothing is left");
        }
    }

    /// Takes the answer to a delete call.
    pub(super) fn take_deletion(&mut self, answer: Result<Deletion, ProviderError>) {
        if self.row.state != State::Deleting {
            return;
        }
        let wait = backoff(
            Duration::from_secs(1),
            Duration::from_mins(5),
            self.notes.deletion.tries,
            self.row.id.as_str(),
        );
        self.notes.deletion.tries += 1;
        self.notes.deletion.next_at = Some(after(self.now, wait));
        // The provider spoke of this very machine, which holds its place until it is gone: its pool
        // need not wait for the proof that it is.
        self.notes.looked |= answer.is_ok();
        match answer {
            Ok(Deletion::Accepted) => {
                self.notes.deletion.accepted_at = Some(self.now);
                self.notes.deletion.looks = 0;
                self.notes.absent_since = None;
                self.notes.look_at = Some(self.now);
            }
            Ok(Deletion::NotFound) => self.absent_during_deletion(self.now),
            Err(ProviderError::Later { after: at_least, why }) => {
                if let Some(at_least) = at_least {
                    self.notes.deletion.next_at = Some(after(self.now, at_least.max(wait)));
                }
                self.tell(What::DeleteFailed(why));
            }
        }
    }

    /// Takes an absent read, or a delete that found nothing.
    pub(super) fn absent_during_deletion(&mut self, begun: Timestamp) {
        if self.row.state != State::Deleting || self.row.machine_gone_at.is_some() {
            return;
        }
        let ours = self.notes.deletion.accepted_at.is_some_and(|at| begun >= at);
        if ours || self.is_absence_proven(begun) {
            self.row.machine_gone_at = Some(self.now);
            self.notes.look_at = None;
        }
    }

    /// Takes a sighting of the machine after our delete: look again soon, delete again later.
    pub(super) fn found_during_deletion(&mut self) {
        if self.row.state != State::Deleting || self.notes.deletion.accepted_at.is_none() {
            return;
        }
        let wait = backoff(
            Duration::from_secs(1),
            Duration::from_secs(30),
            self.notes.deletion.looks,
            self.row.id.as_str(),
        );
        self.notes.deletion.looks += 1;
        self.notes.look_at = Some(after(self.now, wait));
    }

    fn drive_machine_deletion(&mut self) {
        if self.row.machine_gone_at.is_some() {
            return;
        }
        if self.row.create_called_at.is_none() && !self.row.adopted {
            self.row.machine_gone_at = Some(self.now);
            return;
        }
        // After a restart the pool waits for one look at each row, and a delete may hang.
        if !self.notes.looked {
            self.call(Call::LookMachine);
        }
        if self.is_under_way(CallKind::Delete) {
            return;
        }
        let due = match self.notes.deletion.next_at {
            Some(at) => self.is_time(at),
            None => true,
        };
        // While the first of two absences is being confirmed there is nothing to delete.
        if due && self.notes.absent_since.is_none() {
            self.call(Call::Delete(self.grace()));
        }
        if let Some(at) = self.notes.look_at
            && self.is_time(at)
        {
            self.call(Call::LookMachine);
        }
    }

    /// Returns whether the forge called the one job of this runner completed.
    pub(super) fn job_is_done(&self) -> bool {
        self.row.job_over.as_ref().is_some_and(|over| {
            over.names_us && over.conclusion.as_ref() != Some(&Conclusion::Cancelled)
        })
    }
}
