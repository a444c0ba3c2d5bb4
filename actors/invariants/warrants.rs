//! Checks that a deletion rests on what its rule asks for.

use super::Inquest;
use crate::model::{End, Instance, Urgency, VerdictClass, WarrantKind};

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
        WarrantKind::Idle | WarrantKind::Served | WarrantKind::Zombie => true,
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
