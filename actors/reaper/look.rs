//! One round of looking: a listing first, the records after it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::sweep::registered_as;
use crate::base::Base;
use crate::model::{
    ForgeId, Instance, MachineView, Observation, ProviderId, RunnerView, Scope, Timestamp,
};
use crate::ports::{Controller, Inventory, Roster, StoreError};

/// How long a listing may take.
const LISTING_TIMEOUT: Duration = Duration::from_mins(1);

/// Holds a provider's listing, and what the records say, read after it.
pub(crate) struct Machines {
    pub(crate) listing: Observation<Vec<MachineView>>,
    /// Who we are now: an operator may have adopted somebody since the last round.
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
    let controller = readable(base.records.controller().await)?;
    Some(Machines { listing, controller, records })
}

/// Returns the scopes of a forge in which a runner of ours may be registered, as the board shows them:
/// this only says where to look, and one whose owner is not there yet is looked at in the next round.
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
    tokio::time::timeout(LISTING_TIMEOUT, listing)
        .await
        .unwrap_or_else(|_| Observation::Unusable("no answer in time".into()))
}

/// Reads the live rows; a store that fails ends the round, the next tick tries again.
async fn live_instances(base: &Base) -> Option<Vec<Instance>> {
    readable(base.records.live_instances(None).await)
}

fn readable<T>(read: Result<T, StoreError>) -> Option<T> {
    read.inspect_err(|error| warn!(error.message = %error, "cannot sweep without records")).ok()
}
