//! What the pool and the ledger are told of an instance, after it is durable.

use super::Permit;
use super::notes::Notes;
use crate::jobs::InstanceChange;
use crate::model::{Instance, JobId, Reason, State, VerdictClass};
use crate::pool::{InstanceReport, StartOutcome};

/// Returns what the pool must know.
pub(super) fn report(
    row: &Instance,
    notes: &Notes,
    outcome: Option<StartOutcome>,
) -> InstanceReport {
    let wants = match row.state {
        State::PendingCreate => Some(Permit::Start),
        State::PendingDelete => Some(Permit::Delete),
        State::Creating
        | State::Starting
        | State::Idle
        | State::Reserved
        | State::Busy
        | State::Retiring
        | State::Ended
        | State::Deleting
        | State::Deleted => None,
    };
    InstanceReport {
        id: row.id.clone(),
        state: row.state,
        since: row.since,
        created_at: row.created_at,
        removal: row.removal.as_ref().map(|removal| removal.urgency),
        revision: row.revision.clone(),
        host: row.host.clone(),
        registered: row.registration.may_exist(),
        occupies: row.occupies(),
        wants,
        checked: notes.looked,
        stuck: notes.stuck,
        unnamed: is_unnamed(row),
        outcome,
    }
}

/// Returns whether the machine shows work that neither the forge nor an offer explains yet.
pub(crate) fn is_unnamed(row: &Instance) -> bool {
    row.state == State::Busy && row.executing.is_none() && row.offer.is_none()
}

/// Returns what this life says about its pool's health.
pub(super) fn outcome_for_pool(row: &Instance) -> Option<StartOutcome> {
    if row.ready_at.is_some() {
        return Some(StartOutcome::Ready);
    }
    let asked_to_go = row.removal.as_ref().is_some_and(|removal| {
        !matches!(removal.reason, Reason::BootDeadline | Reason::BootFailed)
    });
    let failed = matches!(
        row.verdict,
        Some(
            VerdictClass::CreateFailed
                | VerdictClass::BootFailed
                | VerdictClass::ImagePull
                | VerdictClass::Unschedulable
                | VerdictClass::OutdatedRunner
        )
    );
    (failed && !asked_to_go).then_some(StartOutcome::Failed)
}

/// Remembers what the ledger was told.
#[derive(Default)]
pub(super) struct Told {
    /// For how many mints the names were told, plus one.
    names: Option<u32>,
    offerable: bool,
    working: Option<JobId>,
    ended: bool,
    deleted: bool,
}

impl Told {
    /// Returns what is new for the ledger.
    pub(super) fn news(&mut self, row: &Instance) -> Vec<InstanceChange> {
        let mut news = Vec::new();
        if self.names != Some(row.mints) && !self.ended {
            self.names = Some(row.mints);
            let names = (1..=row.mints.max(1)).map(|mint| row.runner_name(mint)).collect();
            news.push(InstanceChange::Answers(names));
        }
        let offerable = row.is_offerable();
        if offerable != self.offerable {
            self.offerable = offerable;
            news.push(if offerable {
                InstanceChange::Offerable
            } else {
                InstanceChange::Unavailable
            });
        }
        // Said once for each job, so that an end the ledger could not tell is told after all.
        let works = row.executing.as_ref().filter(|_| row.job_over.is_none());
        if works.is_some() && self.working.as_ref() != works && !row.state.is_over() {
            self.working = works.cloned();
            news.push(InstanceChange::Working(works.cloned()));
        }
        if row.state.is_over() && !self.ended {
            self.ended = true;
            news.push(InstanceChange::Ended);
        }
        if row.state == State::Deleted && !self.deleted {
            self.deleted = true;
            news.push(InstanceChange::Deleted);
        }
        news
    }
}
