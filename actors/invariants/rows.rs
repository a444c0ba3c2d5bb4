//! Checks one save of an instance beside the row it replaces.
//!
//! A deletion must rest on what its rule asks for.

use super::moves::leads_to;
use super::moves::{check_moves, check_record};
use super::{Inquest, Violation};
use crate::model::{End, Instance, State, Urgency, VerdictClass, Version, WarrantKind};
use crate::ports::InstanceSave;

/// Checks a whole transaction: the row, its timeline events and the record of its end.
pub fn check_save(before: Option<&Instance>, save: &InstanceSave) -> Vec<Violation> {
    let after = &save.row;
    let mut inquest = Inquest::about(&after.id);
    check_row(&mut inquest, before, after);
    check_moves(&mut inquest, before, save);
    check_record(&mut inquest, before, save);
    inquest.demand(
        save.replaces == before.map_or(Version::default(), |row| row.version),
        1,
        || format!("replaces version {}, which is not the stored one", save.replaces),
    );
    inquest.broken
}

/// Checks a row beside the one it replaces, where the transaction is not at hand.
pub fn check_rows(before: Option<&Instance>, after: &Instance) -> Vec<Violation> {
    let mut inquest = Inquest::about(&after.id);
    check_row(&mut inquest, before, after);
    if let Some(before) = before {
        let there = before.state == after.state || leads_to(before.state, after.state);
        inquest.demand(there, 31, || format!("went from {} to {}", before.state, after.state));
    }
    inquest.broken
}

fn check_row(inquest: &mut Inquest<'_>, before: Option<&Instance>, after: &Instance) {
    match before {
        Some(before) => check_succession(inquest, before, after),
        None => inquest.demand(after.version == Version(1), 1, || {
            format!("the first row has version {}", after.version)
        }),
    }
    check_state(inquest, after);
    check_warrant(inquest, before, after);
    check_verdict(inquest, after);
}

/// Checks what may never change, shrink or be forgotten.
fn check_succession(inquest: &mut Inquest<'_>, before: &Instance, after: &Instance) {
    inquest.demand(after.version == before.version.next(), 1, || {
        format!("version {} follows {}", after.version, before.version)
    });
    inquest.demand(before.state != State::Deleted, 2, || "was written after `deleted`".into());
    let same_name = before.id == after.id
        && before.machine == after.machine
        && before.provider == after.provider
        && before.pool == after.pool
        && before.adopted == after.adopted;
    inquest.demand(same_name, 34, || "changed its name, machine, provider or pool".into());
    let urgency = |row: &Instance| row.removal.as_ref().map(|removal| removal.urgency);
    inquest.demand(urgency(after) >= urgency(before), 33, || {
        format!("its removal request fell from {:?} to {:?}", urgency(before), urgency(after))
    });
    check_memory(inquest, before, after);
    check_offer(inquest, before, after);
}

/// Checks that what was once proven stays proven.
fn check_memory(inquest: &mut Inquest<'_>, before: &Instance, after: &Instance) {
    let kept = (before.create_called_at.is_none()
        || before.create_called_at == after.create_called_at)
        && (before.seen_at.is_none() || before.seen_at == after.seen_at)
        && (before.machine_gone_at.is_none() || before.machine_gone_at == after.machine_gone_at)
        && before.mints <= after.mints
        && before.events <= after.events;
    inquest.demand(kept, 37, || "forgot a create, a sighting, an absence or a mint".into());
    inquest.demand(after.once_started || !before.once_started, 5, || {
        "forgot that its runner had started".into()
    });
    let over = |row: &Instance| row.end.is_some();
    inquest.demand(over(after) || !over(before), 37, || "its machine rose from its end".into());
    let settled = before.state.is_past_return();
    inquest.demand(
        !settled || (before.warrant == after.warrant && before.verdict == after.verdict),
        14,
        || "changed its warrant or verdict after the point of no return".into(),
    );
}

fn check_offer(inquest: &mut Inquest<'_>, before: &Instance, after: &Instance) {
    let (Some(old), Some(new)) = (&before.offer, &after.offer) else {
        return;
    };
    if old.job != new.job {
        return;
    }
    inquest.demand(new.generation >= old.generation, 11, || {
        format!("offer {} of job {} follows {}", new.generation, new.job, old.generation)
    });
    let same = new.generation == old.generation;
    inquest.demand(!same || new.delivered || !old.delivered, 16, || {
        format!("took back the delivery of job {}", new.job)
    });
}

/// Checks what each state demands of a row.
fn check_state(inquest: &mut Inquest<'_>, row: &Instance) {
    let nothing_made = row.create_called_at.is_none() && !row.adopted;
    match row.state {
        State::PendingCreate => inquest.demand(nothing_made, 37, || "was made already".into()),
        State::Creating => {}
        State::Starting | State::Idle | State::Reserved | State::Busy | State::Retiring => {
            inquest.demand(!nothing_made, 37, || "lives though create was never called".into());
            inquest.demand(row.end.is_none(), 31, || "lives on after its end".into());
            inquest.demand(row.machine_gone_at.is_none(), 21, || {
                "lives though its machine is confirmed gone".into()
            });
        }
        State::Ended => inquest.demand(row.end.is_some(), 31, || "ended without an end".into()),
        State::PendingDelete => {
            inquest.demand(row.warrant.is_some(), 5, || "may be deleted without a warrant".into());
        }
        State::Deleting => {
            inquest.demand(row.warrant.is_some(), 5, || "is deleted without a warrant".into());
            inquest.demand(row.verdict.is_some(), 14, || "is deleted without a record".into());
        }
        State::Deleted => check_nothing_left(inquest, row, nothing_made),
    }
    let spent = row.executing.is_some() || row.end.is_some();
    inquest.demand(!spent || row.sealed_jit.is_none(), 35, || "keeps a spent JIT config".into());
}

fn check_nothing_left(inquest: &mut Inquest<'_>, row: &Instance, nothing_made: bool) {
    inquest.demand(row.machine_gone_at.is_some() || nothing_made, 22, || {
        "is deleted without a confirmation that its machine is gone".into()
    });
    inquest.demand(!row.registration.may_exist(), 17, || {
        "is deleted though its runner may be registered".into()
    });
    let recorded = row.warrant.is_some() && row.verdict.is_some();
    inquest.demand(recorded || nothing_made, 14, || "is deleted without warrant and record".into());
}

/// Checks that a warrant rests on what its rule asks for.
pub(super) fn check_warrant(inquest: &mut Inquest<'_>, before: Option<&Instance>, row: &Instance) {
    let Some(warrant) = &row.warrant else { return };
    match warrant.kind {
        WarrantKind::OwnEnd => {
            inquest.demand(row.end.is_some(), 5, || "claims an end that was never seen".into());
        }
        WarrantKind::NeverBegan => inquest.demand(!row.once_started, 5, || {
            "is said never to have begun though its runner had started".into()
        }),
        WarrantKind::Idle => {}
        WarrantKind::Served => {
            let named = row.job_over.as_ref().is_some_and(|over| over.names_us);
            inquest.demand(named, 9, || {
                "is called served though no finished job names its runner".into()
            });
        }
        WarrantKind::Zombie => inquest.demand(row.job_over.is_some(), 5, || {
            "is called a zombie though its job is not over".into()
        }),
        WarrantKind::Expired => {
            let working = row.executing.is_some() && row.job_over.is_none();
            inquest.demand(!working && row.doubt_since.is_some(), 5, || {
                "is called expired though a job is known there, or its doubt has no beginning"
                    .into()
            });
        }
        WarrantKind::Operator => {
            let forced = row
                .removal
                .as_ref()
                .is_some_and(|removal| removal.urgency >= Urgency::Force && removal.by.is_some());
            inquest.demand(forced, 30, || "is forced, and no operator asked for it".into());
        }
    }
    let is_new = before.is_none_or(|before| before.warrant.is_none());
    let needs_removal = match warrant.kind {
        WarrantKind::Idle | WarrantKind::Served | WarrantKind::Zombie | WarrantKind::Expired => {
            true
        }
        WarrantKind::OwnEnd | WarrantKind::NeverBegan | WarrantKind::Operator => false,
    };
    inquest.demand(!is_new || !needs_removal || !row.registration.may_exist(), 5, || {
        format!("is warranted ({}) while its runner may be registered", warrant.kind)
    });
}

/// Checks that a clean end is one.
pub(super) fn check_verdict(inquest: &mut Inquest<'_>, row: &Instance) {
    if row.verdict != Some(VerdictClass::Clean) {
        return;
    }
    let ran = row.executing.is_some() || row.job_over.is_some();
    inquest.demand(ran, 15, || "is called clean though no job is known to have run".into());
    let could_be = match &row.end {
        None | Some(End::Gone { .. }) => true,
        Some(End::Exited(exit)) => exit.code.is_none_or(|code| code == 0),
        Some(End::NotCreated { .. }) => false,
    };
    inquest.demand(could_be, 15, || format!("is called clean after {:?}", row.end));
}
