//! What the leader does now and then beside its fleet: lost deliveries, old history.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::ForgeId;
use ostler_actors::ports::Clock;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::Daemon;
use crate::github::{GitHub, Hook};
use crate::store::{History as _, SqlStore};

/// How often lost deliveries are looked for.
const DELIVERIES: Duration = Duration::from_mins(5);
/// How often old history is cleared away.
const PRUNING: Duration = Duration::from_mins(1);
/// How many rows of a kind are cleared away at once.
const AT_ONCE: u32 = 500;

/// Chores under way; they end when this is dropped.
pub(super) struct Chores(Vec<JoinHandle<()>>);

impl Chores {
    pub(super) fn begin(daemon: &Daemon) -> Self {
        let (store, clock) = (daemon.store.clone(), Arc::clone(&daemon.clock));
        let mut chores = vec![tokio::spawn(prune(store, clock, daemon.config.store.retention))];
        for (id, forge) in &daemon.forges.0 {
            let sweep = find_lost_deliveries(daemon.store.clone(), id.clone(), forge.clone());
            chores.push(tokio::spawn(sweep));
        }
        Self(chores)
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        for chore in &self.0 {
            chore.abort();
        }
    }
}

async fn prune(store: SqlStore, clock: Arc<dyn Clock>, retention: Duration) {
    let mut ticks = tokio::time::interval(PRUNING);
    loop {
        ticks.tick().await;
        match store.prune(retention, clock.now(), AT_ONCE).await {
            Ok(pruned) if pruned.is_nothing() => {}
            Ok(pruned) => info!(
                instances = pruned.instances,
                jobs = pruned.jobs,
                deliveries = pruned.deliveries,
                "cleared away old history"
            ),
            Err(why) => warn!("old history is not cleared away yet: {why}"),
        }
    }
}

/// Asks an App's hook for deliveries that never arrived, from where the last sweep began.
async fn find_lost_deliveries(store: SqlStore, id: ForgeId, forge: GitHub) {
    let name = format!("deliveries:{id}");
    let mut ticks = tokio::time::interval(DELIVERIES);
    loop {
        ticks.tick().await;
        let cursor = match store.cursor(&name).await {
            Ok(cursor) => cursor.and_then(|text| text.parse::<Timestamp>().ok()),
            Err(why) => {
                warn!(forge.id = %id, "lost deliveries are not looked for: {why}");
                continue;
            }
        };
        match forge.sweep_deliveries(&Hook::App, cursor).await {
            Ok(report) => {
                if let Err(why) = store.set_cursor(&name, &report.cursor.to_string()).await {
                    warn!(forge.id = %id, "the place of the last sweep is not remembered: {why}");
                }
            }
            Err(why) => info!(forge.id = %id, "lost deliveries could not be looked for: {why}"),
        }
    }
}
