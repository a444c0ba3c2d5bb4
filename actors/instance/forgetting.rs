//! Struck off by an operator, because the machine is out of our reach for good.
//!
//! It goes the usual way, with a warrant and a record, but asks nobody any more: its provider or
//! forge may not even exist. What is left of it is nobody's from here on, counted as a leak.

use super::turn::Turn;
use crate::model::{End, Registration, State, Urgency, What};

impl Turn<'_> {
    /// Makes progress towards `deleted` on nothing but the operator's word.
    pub(super) fn drive_forgotten(&mut self) {
        if self.row.removal.as_ref().is_none_or(|removal| removal.urgency != Urgency::Forget) {
            return;
        }
        self.notes.cut_off.get_or_insert_with(|| "struck off by an operator".into());
        match self.row.state {
            State::Creating => {
                self.machine_over(End::NotCreated { why: "struck off by an operator".into() });
            }
            State::PendingDelete => self.notes.may_delete = true,
            State::Deleting => {
                self.row.machine_gone_at.get_or_insert(self.now);
                if self.row.registration.may_exist() {
                    self.row.registration = Registration::WrittenOff;
                }
                self.tell(What::Forgotten);
            }
            State::PendingCreate
            | State::Starting
            | State::Idle
            | State::Reserved
            | State::Busy
            | State::Retiring
            | State::Ended
            | State::Deleted => {}
        }
    }
}
