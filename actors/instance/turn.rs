//! One turn of an owner: take something in, decide, and say what to save and what to do.

use std::time::Duration;

use super::answer::Token;
use super::call::{Call, CallKind, Posted};
use super::notes::Notes;
use crate::model::{
    Event, ExitRecord, HeldOffer, Instance, Policy, PoolSpec, Reason, RemovalRequest, RequestedBy,
    State, Subject, Timestamp, Urgency, What, after,
};
use crate::ports::Seal;

/// Collects the outcome of one turn. The row here is a draft until it is saved.
pub(super) struct Turn<'a> {
    pub(super) row: Instance,
    pub(super) notes: &'a mut Notes,
    pub(super) spec: &'a PoolSpec,
    pub(super) seal: &'a dyn Seal,
    pub(super) now: Timestamp,
    pub(super) happened: Vec<What>,
    pub(super) calls: Vec<Posted>,
    pub(super) exit: Option<ExitRecord>,
    pub(super) wake: Option<Timestamp>,
    pub(super) returned_offer: Option<HeldOffer>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        row: &Instance,
        notes: &'a mut Notes,
        spec: &'a PoolSpec,
        seal: &'a dyn Seal,
        now: Timestamp,
    ) -> Self {
        Self {
            row: row.clone(),
            notes,
            spec,
            seal,
            now,
            happened: Vec::new(),
            calls: Vec::new(),
            exit: None,
            wake: None,
            returned_offer: None,
        }
    }

    pub(super) fn policy(&self) -> &'a Policy {
        &self.spec.policy
    }

    /// Changes the state, with the reason.
    pub(super) fn go(&mut self, to: State, why: impl Into<String>) {
        let from = self.row.state;
        if from == to {
            return;
        }
        self.happened.push(What::Moved { from, to, why: why.into() });
        self.row.state = to;
        self.row.since = self.now;
        self.notes.stuck = false;
    }

    pub(super) fn tell(&mut self, what: What) {
        self.happened.push(what);
    }

    /// Notes a wish; a stronger one replaces a weaker one, never the other way round.
    pub(super) fn removal(&mut self, urgency: Urgency, reason: Reason, by: Option<RequestedBy>) {
        if self.row.removal.as_ref().is_some_and(|kept| kept.urgency >= urgency) {
            return;
        }
        let (who, words) =
            by.clone().map(|requested_by| (requested_by.who, requested_by.why)).unzip();
        self.happened.push(What::RemovalRequested { urgency, reason, who, why: words });
        self.row.removal = Some(RemovalRequest { urgency, reason, by, at: self.now });
    }

    /// Returns whether a call of this kind is under way or about to be made.
    pub(super) fn is_under_way(&self, kind: CallKind) -> bool {
        self.notes.under_way.contains_key(&kind)
    }

    /// Makes a call after the save, unless one of its kind is under way.
    pub(super) fn call(&mut self, call: Call) {
        let kind = call.kind();
        if self.is_under_way(kind) || self.notes.cut_off.is_some() {
            return;
        }
        self.notes.last_token += 1;
        let token = self.notes.last_token;
        self.notes.under_way.insert(kind, token);
        self.calls.push(Posted { token, call });
    }

    /// Returns whether an answer is the awaited one, and stops awaiting it.
    pub(super) fn is_awaited(&mut self, token: Token) -> bool {
        let kind =
            self.notes.under_way.iter().find(|(_, awaited)| **awaited == token).map(|(k, _)| *k);
        kind.is_some_and(|kind| self.notes.under_way.remove(&kind).is_some())
    }

    /// Asks to be woken at `at`, or earlier.
    pub(super) fn wake_at(&mut self, at: Timestamp) {
        self.wake = Some(self.wake.map_or(at, |other| other.min(at)));
    }

    /// Returns whether `at` has come; asks to be woken then if not.
    pub(super) fn is_time(&mut self, at: Timestamp) -> bool {
        if self.now >= at {
            return true;
        }
        self.wake_at(at);
        false
    }

    /// Returns whether `wait` has passed since `then`; asks to be woken then if not.
    pub(super) fn has_passed(&mut self, then: Timestamp, wait: Duration) -> bool {
        self.is_time(after(then, wait))
    }

    /// Turns what happened into events; a repetition of the last one only counts up.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::with_capacity(self.happened.len());
        for what in std::mem::take(&mut self.happened) {
            match &mut self.notes.last_event {
                Some(last) if last.what == what => {
                    last.count += 1;
                    last.last_at = self.now;
                    if events.last().is_some_and(|event| event.seq == last.seq) {
                        events.pop();
                    }
                    events.push(last.clone());
                }
                _ => {
                    self.row.events += 1;
                    let event = Event {
                        subject: Subject::Instance(self.row.id.clone()),
                        seq: self.row.events,
                        at: self.now,
                        last_at: self.now,
                        count: 1,
                        what,
                    };
                    self.notes.last_event = Some(event.clone());
                    events.push(event);
                }
            }
        }
        events
    }
}
