//! What an owner answers when it is asked to go. It may refuse, and says why.
//!
//! A finding of the reaper (unlisted, offline, unregistered) proves nothing: the owner looks for
//! itself. Any other request is granted, kept until it is safe, or refused, by state and urgency.

use super::{Consent, Retire};
use crate::model::{Reason, Refusal, RequestedBy, State, Urgency};

/// A [`Retire`] message without the address of its answer.
#[derive(Clone, Debug)]
pub(super) struct RetireRequest {
    pub urgency: Urgency,
    pub reason: Reason,
    pub evidence: String,
    pub by: Option<RequestedBy>,
}

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalDecision {
    Consent(Consent),
    /// A listing does not name the machine: read it.
    ReadMachine,
    /// A listing shows the runner offline or not at all: read it.
    ReadRunner,
    Refuse(Refusal),
}

use RemovalDecision::{ReadMachine, ReadRunner, Refuse};

impl From<&Retire> for RetireRequest {
    fn from(message: &Retire) -> Self {
        Self {
            urgency: message.urgency,
            reason: message.reason,
            evidence: message.evidence.clone(),
            by: message.by.clone(),
        }
    }
}

impl RetireRequest {
    /// Decides what to do about the request.
    pub(super) fn decide(&self, state: State) -> RemovalDecision {
        match self.reason {
            Reason::Unlisted => about_machine(state),
            Reason::Offline | Reason::Unregistered => about_runner(state),
            Reason::Surplus
            | Reason::Drain
            | Reason::Revision
            | Reason::BootDeadline
            | Reason::BootFailed
            | Reason::Lifetime
            | Reason::Orphan
            | Reason::OfferEnded
            | Reason::Silent
            | Reason::Spent
            | Reason::HostDrain
            | Reason::Operator => about_instance(state, self.urgency),
        }
    }

    /// Returns whether the request can still change anything: an instance that goes anyway can
    /// only be forgotten.
    pub(super) fn matters(&self, state: State) -> bool {
        !state.is_over() || self.urgency == Urgency::Forget
    }

    /// Returns the request in words, for the event of its refusal.
    pub(super) fn text(&self) -> String {
        if self.evidence.is_empty() {
            format!("to go ({})", self.reason)
        } else {
            format!("to go ({}: {})", self.reason, self.evidence)
        }
    }
}

fn about_instance(state: State, urgency: Urgency) -> RemovalDecision {
    match (state, urgency) {
        (
            State::PendingCreate
            | State::Starting
            | State::Idle
            | State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted,
            _,
        )
        | (State::Reserved | State::Busy, Urgency::Force)
        | (State::Creating | State::Reserved | State::Busy, Urgency::Forget) => {
            RemovalDecision::Consent(Consent::Going)
        }
        // Whether a machine exists is not known yet; the request is granted when it is.
        (State::Creating, Urgency::Retire | Urgency::Delete | Urgency::Force)
        | (State::Reserved | State::Busy, Urgency::Delete) => {
            RemovalDecision::Consent(Consent::Noted)
        }
        (State::Reserved, Urgency::Retire) => Refuse(Refusal::Offered),
        (State::Busy, Urgency::Retire) => Refuse(Refusal::Busy),
    }
}

fn about_machine(state: State) -> RemovalDecision {
    match state {
        State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => {
            ReadMachine
        }
        State::PendingCreate | State::Creating => Refuse(Refusal::Unsettled),
        State::Ended | State::PendingDelete | State::Deleting | State::Deleted => {
            RemovalDecision::Consent(Consent::Going)
        }
    }
}

fn about_runner(state: State) -> RemovalDecision {
    match state {
        State::Idle => ReadRunner,
        State::PendingCreate | State::Creating | State::Starting => Refuse(Refusal::Unsettled),
        State::Reserved => Refuse(Refusal::Offered),
        State::Busy => Refuse(Refusal::Busy),
        State::Retiring
        | State::Ended
        | State::PendingDelete
        | State::Deleting
        | State::Deleted => RemovalDecision::Consent(Consent::Going),
    }
}
