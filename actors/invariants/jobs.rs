//! Checks one save of a job beside the row it replaces.

use super::{Inquest, Violation};
use crate::model::{Job, JobFact, Offer, OfferEnd, OfferStage};

/// Checks a job beside its earlier self.
pub fn check_job(before: Option<&Job>, after: &Job) -> Vec<Violation> {
    let mut inquest = Inquest::about(&after.id);
    if let Some(open) = after.open_offer() {
        inquest.demand(!after.fact.is_over(), 12, || "is offered though it is over".into());
        inquest.demand(after.execution.is_none(), 9, || "is offered though it runs".into());
        inquest.demand(open.generation == after.generation, 11, || {
            format!("its offer is number {} of {}", open.generation, after.generation)
        });
    }
    let Some(before) = before else {
        return inquest.broken;
    };
    // Only a direct reading takes an execution back, and only as a new attempt.
    let taken_back = before.fact == JobFact::InProgress
        && after.fact == JobFact::Queued
        && after.generation > before.generation;
    inquest.demand(taken_back || after.fact.rank() >= before.fact.rank(), 12, || {
        format!("sank from {:?} to {:?}", before.fact, after.fact)
    });
    inquest.demand(after.generation >= before.generation, 11, || {
        format!("offer {} follows {}", after.generation, before.generation)
    });
    check_offer(&mut inquest, before, after);
    inquest.broken
}

fn check_offer(inquest: &mut Inquest<'_>, before: &Job, after: &Job) {
    let Some(old) = before.open_offer() else {
        return;
    };
    match &after.offer {
        Offer::Open(new) if new.generation == old.generation => {
            inquest.demand(new.instance == old.instance, 11, || {
                "one offer was made to two instances".into()
            });
            let back = old.stage == OfferStage::Delivered && new.stage == OfferStage::Offered;
            inquest.demand(!back, 36, || "a delivered offer became undelivered".into());
        }
        // Several messages share a save: the old offer's end is in the timeline.
        Offer::Open(new) => inquest.demand(new.generation > old.generation, 11, || {
            format!("offer {} follows {}", new.generation, old.generation)
        }),
        Offer::None => inquest.demand(false, 36, || "an open offer was forgotten".into()),
        Offer::Ended { why, .. } => {
            let by_mishap = matches!(why, OfferEnd::Refused | OfferEnd::Lapsed);
            inquest.demand(old.stage == OfferStage::Offered || !by_mishap, 36, || {
                format!("a delivered offer ended by mishap ({why:?})")
            });
        }
    }
}
