//! What an owner does next: a plain function of its row, its notes and the time.
//!
//! A letter is taken in as facts; then [`Turn::drive`] looks at where the instance stands
//! and decides, in the same way after a letter, an alarm or a restart. Nothing here waits,
//! asks the clock or touches the world.

use std::time::Duration;

use super::Answer;
use super::call::{Call, CallKind};
use super::registering::Proof;
use super::turn::Turn;
use super::vigil::Watch;
use crate::mail::NoAnswer;
use crate::model::{
    Began, Conclusion, End, Generation, Instance, JobOver, OfferEnd, Policy, Reason, Registration,
    State, Timestamp, Urgency, WarrantKind, What, Worker, after, is_due,
};
use crate::ports::{MintError, Minted};

/// How often an owner in `reserved` asks the ledger whether its offer still stands.
const OFFER_CHECK: Duration = Duration::from_mins(1);
/// How often an owner whose work nobody can name looks for it.
const WORK_CHECK: Duration = Duration::from_secs(30);

impl Turn<'_> {
    /// Takes an answer from the outside; one that is not awaited is ignored.
    pub(super) fn take_answer(&mut self, token: super::Token, answer: Answer) {
        if !self.is_awaited(token) {
            return;
        }
        match answer {
            Answer::Created(answer) => self.take_created(answer),
            Answer::Minted(answer) if self.row.state == State::Creating => {
                self.take_mint_for_create(answer);
            }
            Answer::Minted(answer) => self.take_mint_for_offer(answer),
            Answer::Deregistered(answer) => {
                let works = self.take_removal(&answer);
                if works && self.row.state == State::Retiring {
                    self.work_proven("the forge refused to remove the runner: it works");
                }
            }
            Answer::Machine { begun, seen } => self.take_machine(begun, seen),
            Answer::Runner { begun, seen } => {
                if matches!(self.row.registration, Registration::Uncertain(_)) {
                    self.take_runner_for_removal(&seen);
                } else {
                    self.take_offline_check(begun, &seen);
                }
            }
            Answer::Work { begun, seen } => self.take_work(begun, seen),
            Answer::Job(seen) => self.take_job(seen),
            Answer::ExitReport(exit_report) => self.take_exit_report(exit_report),
            Answer::Deleted(answer) => self.take_deletion(answer),
            Answer::Delivery { generation, allowed } => self.take_delivery(generation, allowed),
            Answer::OfferOpen { generation, open } => {
                let job = self.row.offer.as_ref().map(|held| held.job.clone());
                if let (Some(job), Ok(false)) = (job, open) {
                    self.offer_ended(&job, generation, OfferEnd::Lapsed);
                }
            }
        }
    }

    /// Decides what to do next, until nothing changes any more.
    pub(super) fn drive(&mut self) {
        for _ in 0..State::ALL.len() {
            let before = self.row.state;
            self.drive_once();
            if self.row.state == before {
                break;
            }
        }
        self.mark_stuck();
    }

    fn drive_once(&mut self) {
        self.drive_forgotten();
        self.drive_forced();
        if self.row.once_started {
            // It began during its post-mortem: the watch that was held is judged anew.
            self.notes.closing.take_if(|closing| closing.warrant.kind == WarrantKind::NeverBegan);
        }
        if self.notes.closing.is_none() {
            self.drive_state();
        }
        if self.notes.closing.is_some() {
            self.drive_look();
            self.drive_closing();
        }
    }

    fn drive_state(&mut self) {
        match self.row.state {
            State::PendingCreate => self.drive_pending_create(),
            State::Creating => self.drive_creating(),
            State::Starting => self.drive_starting(),
            State::Idle => self.drive_idle(),
            State::Reserved => self.drive_reserved(),
            State::Busy => self.drive_busy(),
            State::Retiring => self.drive_retiring(),
            State::Ended => self.drive_ended(),
            State::PendingDelete => self.drive_pending_delete(),
            State::Deleting => self.drive_deleting(),
            State::Deleted => {}
        }
    }

    fn drive_starting(&mut self) {
        self.drive_look();
        // Its job may have begun, and even ended, before the machine was seen.
        if self.row.executing.is_some() {
            self.work_proven("the forge proved a job here");
        } else if self.row.removal.is_some() {
            self.retire(self.why_going());
        } else if self.row.ready_at.is_some() {
            self.go(State::Idle, "its runner is ready");
        } else if self.has_passed(self.row.since, self.policy().boot_timeout) {
            self.drive_boot_deadline();
        }
    }

    /// Past the deadline the forge is asked twice whether the runner ever came online; a
    /// machine that proves by itself that its runner never started needs no second witness.
    fn drive_boot_deadline(&mut self) {
        let askable = matches!(self.row.registration, Registration::Known { .. });
        if !askable || self.row.once_started || self.drive_offline_check() {
            self.removal(Urgency::Retire, Reason::BootDeadline, None);
            self.retire("not ready in time");
        }
    }

    fn drive_idle(&mut self) {
        self.drive_look();
        if self.works() {
            self.work_proven("the forge proved a job here");
        } else if self.row.removal.is_some() {
            self.retire(self.why_going());
        } else if self.notes.offline.suspected && self.drive_offline_check() {
            // A runner that lost the forge is no capacity, however well its machine looks.
            let (reason, why) = if self.notes.offline.absent {
                (Reason::Unregistered, "its registration is gone")
            } else {
                (Reason::Offline, "its runner is offline")
            };
            self.removal(Urgency::Retire, reason, None);
            self.retire(why);
        }
    }

    fn drive_reserved(&mut self) {
        self.drive_look();
        let Some(held) = self.row.offer.clone() else {
            self.go(State::Idle, "it holds no offer");
            return;
        };
        // One that shall go gives back what it has not promised for certain yet.
        let promising = self.is_under_way(CallKind::AskLedger);
        if self.row.removal.is_some() && !held.delivered && !promising {
            self.row.offer = None;
            self.row.sealed_jit = None;
            self.tell(What::OfferEnded(held.job.clone(), OfferEnd::Refused));
            self.returned_offer = Some(held);
            self.go(State::Idle, "it shall go");
            return;
        }
        let in_hand = self.row.sealed_jit.is_some()
            && matches!(self.row.registration, Registration::Known { .. });
        if !held.delivered && !in_hand {
            self.drive_mint();
        }
        // Nobody may wait for an offer that the ledger ended while it could not tell us.
        let now = self.now;
        let at = *self.notes.ledger_at.get_or_insert(now);
        if self.is_under_way(CallKind::AskLedger) || !self.is_time(at) {
            return;
        }
        self.notes.ledger_at = Some(after(now, OFFER_CHECK));
        self.wake_at(after(now, OFFER_CHECK));
        if !held.delivered && in_hand {
            self.call(Call::AskDelivery(held.job, held.generation));
        } else {
            self.call(Call::AskOpen(held.job, held.generation));
        }
    }

    fn take_mint_for_offer(&mut self, answer: Result<Minted, MintError>) {
        let refused = matches!(&answer, Err(MintError::Refused { .. }));
        let minted = self.take_mint(answer);
        if self.row.state != State::Reserved {
            return;
        }
        if let Some(minted) = minted {
            self.row.sealed_jit = Some(self.seal.seal(&minted.jit));
            self.notes.ledger_at = Some(self.now);
        } else if refused && let Some(held) = self.row.offer.take_if(|held| !held.delivered) {
            self.tell(What::OfferEnded(held.job.clone(), OfferEnd::Refused));
            self.returned_offer = Some(held);
            self.go(State::Idle, "the forge would not register it");
        }
    }

    fn take_delivery(&mut self, generation: Generation, allowed: Result<bool, NoAnswer>) {
        let Some(held) = &mut self.row.offer else {
            return;
        };
        if held.generation != generation || self.row.state != State::Reserved {
            return;
        }
        let job = held.job.clone();
        match allowed {
            Ok(true) => {
                held.delivered = true;
                self.notes.ledger_at = Some(after(self.now, OFFER_CHECK));
                self.tell(What::Delivered(job));
            }
            Ok(false) => self.offer_ended(&job, generation, OfferEnd::Lapsed),
            Err(_) => self.notes.ledger_at = Some(after(self.now, Duration::from_secs(5))),
        }
    }

    fn drive_busy(&mut self) {
        self.drive_look();
        match self.row.job_over.clone() {
            Some(over) => self.drive_job_over(&over),
            None if self.row.executing.is_none() => self.drive_unknown_work(),
            None => {}
        }
    }

    /// The job is over at the forge; the machine usually ends by itself first.
    fn drive_job_over(&mut self, over: &JobOver) {
        let cancelled = over.conclusion.as_ref() == Some(&Conclusion::Cancelled);
        let (kind, watch) = match (over.names_us, cancelled) {
            (true, false) => {
                let hold = self.policy().linger;
                (WarrantKind::Served, Watch { proof: Proof::Once, hold, look: false })
            }
            // Cancelled before pick-up, it may still listen and take another.
            (true, true) => (WarrantKind::Served, self.full_watch()),
            (false, _) => {
                if !self.has_passed(over.at, self.policy().zombie_after) {
                    return;
                }
                (WarrantKind::Zombie, self.full_watch())
            }
        };
        if let Some(seen) = self.drive_watch(watch) {
            self.close(kind, vec![format!("job {} is over at the forge", over.job), seen]);
        }
    }

    /// Something ran here, or so the forge said once, and nobody can name it. It goes back to
    /// `retiring`, with the full hold and look, when the witness says no worker or a repeated
    /// deregistration is accepted.
    fn drive_unknown_work(&mut self) {
        // Only who was to go anyway is deregistered again, and never under a worker's hands.
        let asked = self.row.removal.is_some() && self.notes.worker != Some(Worker::Present);
        let had_registration = self.row.registration.may_exist();
        if asked && had_registration && self.drive_removal(Proof::Twice) {
            self.spent("its registration could be removed");
            return;
        }
        let now = self.now;
        let at = *self.notes.vigil.look_at.get_or_insert(after(now, WORK_CHECK));
        if let Some(free) = self.notes.vigil.free.take() {
            self.spent(&free);
        } else if self.is_time(at) {
            self.look_decisively();
        }
    }

    fn spent(&mut self, why: &str) {
        self.removal(Urgency::Retire, Reason::Spent, None);
        self.retire(format!("no job is known here and {why}"));
    }

    /// Begins the watch, from its beginning.
    fn retire(&mut self, why: impl Into<String>) {
        self.notes.vigil = super::notes::Vigil::default();
        self.notes.removal.gone_at = None;
        self.go(State::Retiring, why);
    }

    fn drive_retiring(&mut self) {
        if self.works() {
            self.work_proven("the forge proved a job here");
            return;
        }
        self.drive_look();
        let watch = self.full_watch();
        if let Some(seen) = self.drive_watch(watch) {
            let mut evidence = vec![self.why_going(), seen];
            let kind = if self.is_never_began() {
                evidence.push("its runner never started".into());
                WarrantKind::NeverBegan
            } else {
                WarrantKind::Idle
            };
            self.close(kind, evidence);
        }
    }

    fn drive_ended(&mut self) {
        let evidence = match &self.row.end {
            Some(End::Exited(_)) => "the machine was seen to end".to_owned(),
            Some(End::Gone { .. }) => "two direct reads found nothing".to_owned(),
            Some(End::NotCreated { why }) => why.clone(),
            None => "the machine is over".to_owned(),
        };
        self.close(WarrantKind::OwnEnd, vec![evidence]);
    }

    /// Returns whether positive proof says that nothing ever worked here.
    fn is_never_began(&self) -> bool {
        let too_late =
            self.row.removal.as_ref().is_some_and(|removal| removal.reason == Reason::BootDeadline);
        let proven = self.notes.began == Some(Began::Never) || self.notes.offline.proven;
        too_late && proven && !self.row.once_started && self.row.ready_at.is_none()
    }

    /// Returns whether the forge proved a job here that is not over.
    pub(super) fn works(&self) -> bool {
        self.row.executing.is_some() && self.row.job_over.is_none()
    }

    fn why_going(&self) -> String {
        self.row.removal.as_ref().map_or_else(
            || "it should go".into(),
            |removal| format!("asked to go ({})", removal.reason),
        )
    }

    fn mark_stuck(&mut self) {
        if self.notes.stuck {
            return;
        }
        // Its provider or forge is gone from the config: it stays as it is, and says why.
        let struck_off =
            self.row.removal.as_ref().is_some_and(|removal| removal.urgency == Urgency::Forget);
        let exists = !matches!(self.row.state, State::PendingCreate | State::Deleted);
        if let Some(why) = self.notes.cut_off.clone().filter(|_| exists && !struck_off) {
            self.notes.stuck = true;
            self.tell(What::SightingUnknown(why));
            self.tell(What::Stuck);
            return;
        }
        if !can_stick(&self.row) {
            return;
        }
        let at = after(self.row.since, self.policy().stuck_after);
        if self.now >= at {
            self.notes.stuck = true;
            self.tell(What::Stuck);
        } else {
            self.wake_at(at);
        }
    }
}

/// Returns whether lingering in this state is a sign of trouble.
fn can_stick(row: &Instance) -> bool {
    match row.state {
        State::Creating | State::Retiring | State::Reserved | State::Deleting => true,
        State::Busy => row.executing.is_none(),
        State::PendingCreate
        | State::Starting
        | State::Idle
        | State::Ended
        | State::PendingDelete
        | State::Deleted => false,
    }
}

/// Returns whether an instance has been where it is for longer than is healthy.
pub fn is_stuck(row: &Instance, policy: &Policy, now: Timestamp) -> bool {
    can_stick(row) && is_due(row.since, policy.stuck_after, now)
}
