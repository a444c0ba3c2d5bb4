//! What others ask of an owner, and what it answers. It may refuse, and says why.

use super::notes::OfflineCheck;
use super::turn::Turn;
use super::{Consent, Retire};
use crate::model::{
    Binding, End, Generation, HeldOffer, JobId, JobOver, OfferEnd, Reason, Refusal, Registration,
    RequestedBy, State, Urgency, WarrantKind, What,
};
use crate::mutants::{self, Mutant};

/// A wish without the address of its answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) urgency: Urgency,
    pub(super) reason: Reason,
    pub(super) evidence: String,
    pub(super) by: Option<RequestedBy>,
}

impl From<&Retire> for Asked {
    fn from(ask: &Retire) -> Self {
        Self {
            urgency: ask.urgency,
            reason: ask.reason,
            evidence: ask.evidence.clone(),
            by: ask.by.clone(),
        }
    }
}

impl Turn<'_> {
    /// Answers a wish that it go.
    pub(super) fn asked_to_go(&mut self, ask: Asked) -> Result<Consent, Refusal> {
        let answer = match ask.reason {
            Reason::Unlisted => self.asked_to_look(ask.urgency),
            Reason::Offline | Reason::Unregistered => self.asked_about_runner(),
            Reason::Surplus
            | Reason::Drain
            | Reason::Revision
            | Reason::BootDeadline
            | Reason::BootFailed
            | Reason::Lifetime
            | Reason::Orphan
            | Reason::OfferEnded
            | Reason::Spent
            | Reason::HostDrain
            | Reason::Operator => self.consent(&ask),
        };
        if let Err(why) = answer {
            let ask = if ask.evidence.is_empty() {
                format!("to go ({})", ask.reason)
            } else {
                format!("to go ({}: {})", ask.reason, ask.evidence)
            };
            self.tell(What::Refused { request: ask, why });
        } else if !matches!(answer, Ok(Consent::Looking)) && self.still_matters(ask.urgency) {
            self.removal(ask.urgency, ask.reason, ask.by);
        }
        answer
    }

    /// Returns whether a wish can still change anything: one who goes anyway is only forgotten.
    fn still_matters(&self, urgency: Urgency) -> bool {
        !self.row.state.is_over() || urgency == Urgency::Forget
    }

    fn consent(&self, ask: &Asked) -> Result<Consent, Refusal> {
        match (self.row.state, ask.urgency) {
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
                Ok(Consent::Going)
            }
            // Whether a machine exists is not known yet; the wish is granted when it is.
            (State::Creating, Urgency::Retire | Urgency::Delete | Urgency::Force)
            | (State::Reserved | State::Busy, Urgency::Delete) => Ok(Consent::Noted),
            (State::Reserved, Urgency::Retire) => Err(Refusal::Offered),
            (State::Busy, Urgency::Retire) => Err(Refusal::Busy),
        }
    }

    /// A listing does not name the machine: that proves nothing, so it looks for itself.
    fn asked_to_look(&mut self, urgency: Urgency) -> Result<Consent, Refusal> {
        match self.row.state {
            State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => {
                if mutants::is(Mutant::ListingProvesAbsence) {
                    self.machine_over(End::Gone { deleted_externally: false });
                }
                if urgency == Urgency::Force && takes_findings_for_warrants() {
                    self.close(WarrantKind::Idle, vec!["the reaper says so".into()]);
                }
                self.look_now();
                Ok(Consent::Looking)
            }
            State::PendingCreate | State::Creating => Err(Refusal::Unsettled),
            State::Ended | State::PendingDelete | State::Deleting | State::Deleted => {
                Ok(Consent::Going)
            }
        }
    }

    /// A listing shows the runner offline or not at all: that proves nothing, so it is read.
    fn asked_about_runner(&mut self) -> Result<Consent, Refusal> {
        match self.row.state {
            State::Idle => {
                if !self.notes.offline.suspected {
                    let last_online = self.notes.offline.last_online;
                    self.notes.offline =
                        OfflineCheck { suspected: true, last_online, ..OfflineCheck::default() };
                }
                Ok(Consent::Looking)
            }
            State::PendingCreate | State::Creating | State::Starting => Err(Refusal::Unsettled),
            State::Reserved => Err(Refusal::Offered),
            State::Busy => Err(Refusal::Busy),
            State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => Ok(Consent::Going),
        }
    }

    /// Answers an offer; the same one said again is the same answer.
    pub(super) fn offered(&mut self, job: &JobId, generation: Generation) -> Result<(), Refusal> {
        if let Some(held) = &self.row.offer
            && held.job == *job
            && held.generation == generation
        {
            return Ok(());
        }
        let answer = match self.row.state {
            State::Idle if self.row.binding == Binding::Early => Err(Refusal::EarlyBinding),
            State::Idle if self.row.removal.is_some() => Err(Refusal::Terminating),
            State::Idle if self.row.registration != Registration::None => Err(Refusal::Registered),
            State::Idle => Ok(()),
            State::PendingCreate | State::Creating | State::Starting => Err(Refusal::NotReady),
            State::Reserved => Err(Refusal::Offered),
            State::Busy => Err(Refusal::Busy),
            State::Retiring
            | State::Ended
            | State::PendingDelete
            | State::Deleting
            | State::Deleted => Err(Refusal::Terminating),
        };
        match answer {
            Ok(()) => {
                let job = job.clone();
                self.tell(What::Offered(job.clone()));
                self.row.offer = Some(HeldOffer { job, generation, delivered: false });
                self.go(State::Reserved, "a job is offered");
            }
            Err(why) => {
                self.tell(What::Refused { request: format!("the offer of job {job}"), why });
            }
        }
        answer
    }

    /// Takes the end of an offer; an older one's end is not this one's.
    pub(super) fn offer_ended(&mut self, job: &JobId, generation: Generation, why: OfferEnd) {
        self.execution_taken_back(job, why);
        let held = self.row.offer.take_if(|held| held.job == *job && held.generation == generation);
        let Some(held) = held else { return };
        if mutants::is(Mutant::ReservedForever) {
            self.row.offer = Some(held);
            return;
        }
        self.tell(What::OfferEnded(held.job, why));
        if self.row.state != State::Reserved {
            return;
        }
        if !held.delivered && self.row.registration != Registration::None {
            // Its JIT config was never handed out: the registration serves nobody.
            self.row.sealed_jit = None;
            self.removal(Urgency::Retire, Reason::OfferEnded, None);
        }
        self.go(State::Idle, "its offer ended");
    }

    /// The forge says that the job it had proven here waits again, runs elsewhere, or was given
    /// up: whatever works here, nobody can name it.
    fn execution_taken_back(&mut self, job: &JobId, why: OfferEnd) {
        let taken_back =
            matches!(why, OfferEnd::Requeued | OfferEnd::TakenElsewhere | OfferEnd::JobOver);
        let proven = self.row.executing.as_ref() == Some(job) && self.row.job_over.is_none();
        if taken_back && proven && !self.row.state.is_over() {
            self.tell(What::OfferEnded(job.clone(), why));
            self.row.executing = None;
            self.notes.vigil = super::notes::Vigil::default();
        }
    }

    /// Takes the forge's proof that a job runs here.
    pub(super) fn take_execution(&mut self, job: JobId) {
        if !self.ever_registered() {
            return; // whoever is meant, it has never been us
        }
        if self.row.executing.as_ref() == Some(&job) {
            if self.row.job_over.is_none() {
                self.work_proven("the forge proved a job here");
            }
            return;
        }
        if self.row.state.is_past_return() && self.row.executing.is_some() {
            return;
        }
        self.tell(What::Executing(job.clone()));
        self.row.executing = Some(job);
        self.row.job_over = None;
        self.row.sealed_jit = None;
        self.row.once_started |= self.row.seen_at.is_some();
        if self.row.state == State::Busy {
            self.void_conclusions();
            self.notes.vigil = super::notes::Vigil::default();
        }
        self.work_proven("the forge proved a job here");
    }

    /// Takes the end of a job at the forge.
    pub(super) fn take_job_over(&mut self, over: JobOver) {
        let concerns_us = match &self.row.executing {
            Some(job) => *job == over.job,
            None => over.names_us || mutants::is(Mutant::CompletionByOfferedJob),
        };
        if !concerns_us || !self.ever_registered() {
            return;
        }
        // News adds up: what is proven stays proven, whichever letter came first.
        let known = self.row.job_over.as_ref();
        let over = JobOver {
            names_us: over.names_us || known.is_some_and(|known| known.names_us),
            conclusion: over
                .conclusion
                .or_else(|| known.and_then(|known| known.conclusion.clone())),
            at: known.map_or(over.at, |known| known.at),
            job: over.job,
        };
        if known == Some(&over) {
            return;
        }
        self.tell(What::JobOver { job: over.job.clone(), names_us: over.names_us });
        self.row.executing = Some(over.job.clone());
        self.row.sealed_jit = None;
        self.row.job_over = Some(over);
        self.notes.vigil = super::notes::Vigil::default();
        // It ran here, or was assigned here and cancelled: either way something may have begun,
        // unless the watch is over already: its registration is gone, nothing more can come.
        if self.row.state != State::PendingDelete {
            self.work_proven("the forge says that its job is over");
        }
    }

    /// Goes by force: the only way from work to deletion without proof.
    pub(super) fn drive_forced(&mut self) -> bool {
        let can_go = matches!(
            self.row.state,
            State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring
        );
        if !can_go || !self.is_forced() {
            return false;
        }
        let by = self.row.removal.as_ref().and_then(|removal| removal.by.as_ref());
        let said = by.map_or_else(
            || "forced".into(),
            |requested_by| format!("forced by {}: {}", requested_by.who, requested_by.why),
        );
        self.close(WarrantKind::Operator, vec![said]);
        true
    }
}

/// Returns whether the reaper's word is to be taken for a warrant, which is the mistake of two
/// mutants: without this the owner itself would save what they mean to kill.
fn takes_findings_for_warrants() -> bool {
    mutants::is(Mutant::ReaperDeletesDirectly) || mutants::is(Mutant::MissingClaimKills)
}
