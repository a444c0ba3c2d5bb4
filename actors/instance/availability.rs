//! Whether an instance can take an offer: its machine asks for work, and nothing says that it is
//! about to go.
//!
//! A late-bound machine asks again and again; a live one is never quiet for [`SILENT_AFTER`]. One
//! that is gets no offer and is no capacity; whether it goes is its pool's decision. Silence counts
//! only from the start of the owner on: what nothing could hear is no silence.

use std::time::Duration;

use super::transition::Transition;
use crate::model::{HostCondition, Instance, State, Timestamp, after, is_due};

/// How long a live poller is never quiet: its question is answered within 50 s, and it asks again.
const SILENT_AFTER: Duration = Duration::from_secs(75);
/// How long a poller waits for an answer before it asks again.
const POLL_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(super) struct Availability {
    /// Since when this owner could hear its machine.
    began: Option<Timestamp>,
    /// When the machine last asked for work.
    polled_at: Option<Timestamp>,
    /// Whether the machine acknowledges what it is handed.
    acknowledges: bool,
    /// What is known of its host that speaks against new work.
    host: Option<HostCondition>,
}

impl Availability {
    /// Takes that the owner is there to hear its machine.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.began.get_or_insert(now);
    }

    /// Takes a machine's request for work.
    pub(super) fn polled(&mut self, acknowledges: bool, now: Timestamp) {
        self.polled_at = Some(now);
        self.acknowledges = acknowledges;
    }

    /// Takes what is known of the machine's host.
    pub(super) fn host_changed(&mut self, host: Option<HostCondition>) {
        self.host = host;
    }

    /// Asks to be woken when the machine has been quiet for too long.
    pub(super) fn drive(&self, ctx: &mut Transition<'_>) {
        if ctx.row.is_offerable()
            && let Some(heard) = self.last_heard()
        {
            ctx.is_time(after(heard, SILENT_AFTER));
        }
    }

    /// Returns whether an offer may be sent to the instance.
    pub(super) fn can_take_offer(&self, now: Timestamp) -> bool {
        self.host.is_none() && self.polled_at.is_some_and(|at| !is_due(at, SILENT_AFTER, now))
    }

    /// Returns whether the machine waits for the answer to a question at this moment.
    pub(super) fn waits_for_answer(&self, now: Timestamp) -> bool {
        self.polled_at.is_some_and(|at| !is_due(at, POLL_TIMEOUT, now))
    }

    /// Returns whether the machine says so when it has what it was handed.
    pub(super) fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    pub(super) fn is_host_unreachable(&self) -> bool {
        self.host == Some(HostCondition::Unreachable)
    }

    /// Returns since when a machine that should ask for work has been silent, if it is.
    pub(super) fn silent_since(&self, row: &Instance, now: Timestamp) -> Option<Timestamp> {
        let heard = self.last_heard().filter(|_| row.is_offerable())?;
        is_due(heard, SILENT_AFTER, now).then_some(heard)
    }

    /// Returns whether the instance is no capacity because its host is out of reach: no poller will
    /// ask from there, and no runner that waits there can be given a job.
    pub(super) fn is_out_of_reach(&self, row: &Instance) -> bool {
        let waits = matches!(row.state, State::Starting | State::Idle);
        waits && self.is_host_unreachable()
    }

    /// Returns whether the place of an instance is free although its machine may exist: it never
    /// got a JIT config and, asked to go, never will, on a host that is out of reach.
    pub(super) fn frees_place(&self, row: &Instance) -> bool {
        row.can_never_run_a_job() && self.is_host_unreachable()
    }

    fn last_heard(&self) -> Option<Timestamp> {
        self.polled_at.max(self.began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::fixtures::{in_state, now};
    use crate::model::{Binding, Reason, Registration, RemovalRequest, Urgency};

    fn at(seconds: u64) -> Timestamp {
        after(now(), Duration::from_secs(seconds))
    }

    fn begun() -> Availability {
        let mut availability = Availability::default();
        availability.begin(at(0));
        availability
    }

    /// Returns an idle instance that takes offers.
    fn waiting() -> Instance {
        let (mut row, _) = in_state(State::Idle);
        row.binding = Binding::Late;
        row.registration = Registration::None;
        row.mints = 0;
        assert!(row.is_offerable());
        row
    }

    #[test]
    fn a_machine_takes_offers_for_75_s_after_each_of_its_questions() {
        let mut availability = begun();
        assert!(!availability.can_take_offer(at(0)), "it has not asked yet");
        availability.polled(true, at(10));
        for (second, can) in [(10, true), (84, true), (85, false)] {
            assert_eq!(availability.can_take_offer(at(second)), can, "{second}");
        }
        availability.polled(true, at(100));
        assert!(availability.can_take_offer(at(101)));
    }

    #[test]
    fn a_machine_that_was_never_heard_is_capacity_for_75_s_after_its_owner_started() {
        let (mut availability, row) = (begun(), waiting());
        assert_eq!(availability.silent_since(&row, at(74)), None);
        assert_eq!(availability.silent_since(&row, at(75)), Some(at(0)));
        availability.polled(true, at(80));
        assert_eq!(availability.silent_since(&row, at(154)), None);
        assert_eq!(availability.silent_since(&row, at(155)), Some(at(80)));
    }

    #[test]
    fn a_machine_that_was_handed_its_work_is_not_silent() {
        let availability = begun();
        let registered =
            Instance { registration: Registration::Uncertain("m".into()), ..waiting() };
        assert_eq!(availability.silent_since(&registered, at(1000)), None);
        let early = Instance { binding: Binding::Early, ..waiting() };
        assert_eq!(availability.silent_since(&early, at(1000)), None);
    }

    #[test]
    fn a_machine_on_a_host_that_is_left_or_out_of_reach_takes_no_offer() {
        let (mut availability, row) = (begun(), waiting());
        availability.polled(true, at(0));
        availability.host_changed(Some(HostCondition::Leaving));
        assert!(!availability.can_take_offer(at(1)));
        assert!(!availability.is_out_of_reach(&row), "it still counts until it is asked to go");
        availability.host_changed(Some(HostCondition::Unreachable));
        assert!(!availability.can_take_offer(at(1)));
        assert!(availability.is_out_of_reach(&row));
        availability.host_changed(None);
        assert!(availability.can_take_offer(at(1)));
    }

    #[test]
    fn only_an_instance_that_can_never_run_a_job_frees_its_place_on_a_host_out_of_reach() {
        let mut availability = begun();
        let going = |mut row: Instance| {
            row.removal = Some(RemovalRequest {
                urgency: Urgency::Retire,
                reason: Reason::Silent,
                by: None,
                at: now(),
            });
            row
        };
        assert!(!availability.frees_place(&going(waiting())), "its host answers");
        availability.host_changed(Some(HostCondition::Unreachable));
        assert!(availability.frees_place(&going(waiting())));
        assert!(!availability.frees_place(&waiting()), "it may still be handed a job");
        assert!(!availability.frees_place(&going(Instance { mints: 1, ..waiting() })));
        let early = Instance { binding: Binding::Early, ..waiting() };
        assert!(!availability.frees_place(&going(early)));
    }
}
