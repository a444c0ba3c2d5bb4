//! Rounds: what one reads, and when the next begins.
//!
//! A round lists a provider's machines or a forge's runners, and reads the records after that. Its
//! cost grows with the fleet though nothing may have changed. A source *rests* when its last complete
//! round found every instance idle and found nothing to report, and no view on the board changed since
//! that round began. Then the next round waits as many ticks as there are thousands of records, at
//! most ten. Any change ends the rest at the next tick; fleets of less than two thousand never rest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tracing::warn;

use super::sweep::registered_as;
use crate::base::Base;
use crate::calls::{RECORDS_TIMEOUT, answered};
use crate::model::{
    ForgeId, Instance, MachineName, MachineView, Observation, ProviderId, RunnerView, Scope, State,
    Timestamp,
};
use crate::ports::{Controller, Inventory, QuarantinedRow, Roster, StoreError};

/// How long a listing may take.
const LISTING_TIMEOUT: Duration = Duration::from_mins(1);
/// How many records are worth a tick of rest.
const RECORDS_PER_REST_TICK: usize = 1_000;
/// The longest rest, in ticks.
const MAX_REST_TICKS: usize = 10;

/// Holds a provider's listing, and what the records say, read after it.
pub(crate) struct Machines {
    pub(crate) listing: Observation<Vec<MachineView>>,
    /// Our holders now: an operator may have adopted foreign machines since the last round.
    pub(crate) controller: Controller,
    pub(crate) records: Vec<Instance>,
}

/// Holds a scope's listing and that scope's live records, read after it.
pub(crate) struct Runners {
    /// When the listing began.
    pub(crate) begun: Timestamp,
    pub(crate) listing: Observation<Vec<RunnerView>>,
    pub(crate) records: Vec<Instance>,
}

/// Lists a provider's machines; nothing if the records could not be read.
pub(crate) async fn list_machines(
    base: &Base,
    provider: &ProviderId,
    inventory: Arc<dyn Inventory>,
) -> Option<Machines> {
    let listing = in_time(inventory.list()).await;
    let mut records = live_instances(base).await?;
    records.retain(|row| row.provider == *provider);
    let controller = readable(base.records.controller()).await?;
    let listing = without_quarantined(listing, provider, &base.records.quarantined());
    Some(Machines { listing, controller, records })
}

/// Leaves out the machines whose rows cannot be decoded: they have a record, so they are no orphans.
fn without_quarantined(
    listing: Observation<Vec<MachineView>>,
    provider: &ProviderId,
    quarantined: &[QuarantinedRow],
) -> Observation<Vec<MachineView>> {
    let held: BTreeSet<&MachineName> = quarantined
        .iter()
        .filter_map(|row| row.machine.as_ref())
        .filter(|(of, _)| of == provider)
        .map(|(_, machine)| machine)
        .collect();
    match listing {
        Observation::Complete(mut views) if !held.is_empty() => {
            views.retain(|view| !held.contains(&view.name));
            Observation::Complete(views)
        }
        listing @ (Observation::Complete(_) | Observation::Unusable(_)) => listing,
    }
}

/// Returns the scopes of a forge in which a runner of ours may be registered, as the board shows them:
/// a scope whose instances have no owner yet is listed in the next round.
pub(crate) fn scopes_in_use(base: &Base, forge: &ForgeId) -> BTreeSet<Scope> {
    let registered = |row: &Instance| row.forge == *forge && registered_as(row).is_some();
    let rows = base.registry.instances_where(registered);
    rows.iter().map(|row| row.scope.clone()).collect()
}

/// Lists the runners of a scope; nothing if the records could not be read.
pub(crate) async fn list_runners(
    base: &Base,
    forge: &ForgeId,
    scope: &Scope,
    roster: &Arc<dyn Roster>,
    begun: Timestamp,
) -> Option<Runners> {
    let listing = in_time(roster.runners(scope)).await;
    let mut records = live_instances(base).await?;
    records.retain(|row| row.forge == *forge && row.scope == *scope);
    Some(Runners { begun, listing, records })
}

async fn in_time<T>(listing: impl Future<Output = Observation<T>>) -> Observation<T> {
    answered(LISTING_TIMEOUT, listing).await.unwrap_or_else(Observation::Unusable)
}

/// Reads the live rows; a store that fails ends the round, the next tick tries again.
async fn live_instances(base: &Base) -> Option<Vec<Instance>> {
    readable(base.records.live_instances(None)).await
}

async fn readable<T>(read: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
    let read = answered(RECORDS_TIMEOUT, read).await;
    let why = match read {
        Ok(Ok(found)) => return Some(found),
        Ok(Err(error)) => error.to_string(),
        Err(why) => why,
    };
    warn!(error.message = %why, "sweep: the records are not readable; next attempt at the next tick");
    None
}

/// Holds the last round of a source.
pub(super) struct Round {
    effect: AbortHandle,
    /// The change count of the board when it began.
    changes: u64,
    /// Whether every listing of it was calm; `None` before the first.
    calm: Option<bool>,
    records: usize,
    rested: usize,
}

impl Round {
    pub(super) fn begun(effect: AbortHandle, changes: u64) -> Self {
        Self { effect, changes, calm: None, records: 0, rested: 0 }
    }

    /// Takes what one listing of the round found.
    pub(super) fn listed(&mut self, calm: bool, records: usize) {
        self.calm = Some(calm && self.calm.unwrap_or(true));
        self.records += records;
    }

    /// Lets a tick pass; returns whether the next round is to begin.
    pub(super) fn is_over(&mut self, changes: u64) -> bool {
        if !self.effect.is_finished() {
            return false;
        }
        self.rested += 1;
        let rests = self.calm == Some(true) && self.changes == changes;
        !rests || self.rested >= (self.records / RECORDS_PER_REST_TICK).clamp(1, MAX_REST_TICKS)
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.effect.abort();
    }
}

/// Returns whether nothing is expected of any instance: all are idle, and none is asked to go.
pub(super) fn at_rest(records: &[Instance]) -> bool {
    records.iter().all(|row| row.state == State::Idle && row.removal.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::fixtures::{machine, quarantined};

    #[test]
    fn a_machine_whose_row_cannot_be_decoded_is_no_orphan_anywhere_but_at_its_provider() {
        let listed = |provider: &str| {
            let listing = Observation::Complete(vec![machine("a"), machine("b")]);
            let rows = [quarantined("b")];
            let left = without_quarantined(listing, &provider.into(), &rows);
            let Observation::Complete(views) = left else { return Vec::new() };
            views.into_iter().map(|view| view.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(listed("k8s"), ["a"]);
        assert_eq!(listed("other"), ["a", "b"]);
    }
}
