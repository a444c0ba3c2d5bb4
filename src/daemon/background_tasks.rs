//! What the leader does now and then beside its fleet: lost deliveries, old history, old runners.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::{ForgeId, Scope};
use ostler_actors::ports::Clock;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::Daemon;
use crate::github::{GitHub, Hook, SweepCursor};
use crate::ports::History as _;
use crate::store::SqlStore;

/// How often lost deliveries are looked for.
const DELIVERIES: Duration = Duration::from_mins(5);
/// How often the ends of runner versions are asked for.
const VERSIONS: Duration = Duration::from_hours(1);
/// How often old history is cleared away.
const PRUNING: Duration = Duration::from_mins(1);
/// How many rows of a kind are cleared away at once.
const PRUNE_BATCH: u32 = 500;

/// Chores under way; they end when this is dropped.
pub(super) struct BackgroundTasks(Vec<JoinHandle<()>>);

impl BackgroundTasks {
    pub(super) fn begin(daemon: &Daemon) -> Self {
        let (store, clock) = (daemon.store.clone(), Arc::clone(&daemon.clock));
        let mut background_tasks =
            vec![tokio::spawn(prune(store, clock, daemon.config.store.retention))];
        for (id, forge) in &daemon.forges.0 {
            let sweeping = || Sweeping::new(daemon, id, forge);
            background_tasks.push(tokio::spawn(find_lost_deliveries(sweeping())));
            let pools = daemon.config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let images = pools.map(|pool| (pool.scope.clone(), pool.image.clone())).collect();
            let clock = Arc::clone(&daemon.clock);
            background_tasks.push(tokio::spawn(watch_versions(sweeping(), images, clock)));
        }
        Self(background_tasks)
    }
}

impl Drop for BackgroundTasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

async fn prune(store: SqlStore, clock: Arc<dyn Clock>, retention: Duration) {
    let mut ticks = tokio::time::interval(PRUNING);
    loop {
        ticks.tick().await;
        match store.prune(retention, clock.now(), PRUNE_BATCH).await {
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

/// Names what the deliveries of one forge are swept by.
struct Sweeping {
    store: SqlStore,
    id: ForgeId,
    forge: GitHub,
    /// Our address there; without one only an App's hook can be found.
    url: Option<String>,
    scopes: Vec<Scope>,
}

impl Sweeping {
    fn new(daemon: &Daemon, id: &ForgeId, forge: &GitHub) -> Self {
        let pools = daemon.config.pools.iter().filter(|pool| pool.forge == id.as_str());
        let scopes: BTreeSet<Scope> = pools.map(|pool| pool.scope.clone()).collect();
        let public = daemon.config.http.public_url.as_ref();
        Self {
            store: daemon.store.clone(),
            id: id.clone(),
            forge: forge.clone(),
            url: public.map(|public| format!("{public}/webhooks/{id}")),
            scopes: scopes.into_iter().collect(),
        }
    }
}

/// Asks every hook that sends to us for deliveries that never arrived.
async fn find_lost_deliveries(sweeping: Sweeping) {
    let mut ticks = tokio::time::interval(DELIVERIES);
    loop {
        ticks.tick().await;
        let hooks = match &sweeping.url {
            None => vec![Hook::App],
            Some(url) => {
                let found = sweeping.forge.hooks_that_reach(url, &sweeping.scopes).await;
                for why in found.1 {
                    info!(forge.id = %sweeping.id, "lost deliveries could not be looked for: {why}");
                }
                found.0
            }
        };
        for hook in &hooks {
            sweep(&sweeping, hook).await;
        }
    }
}

/// Sweeps one hook from where its last sweep began; the place is kept only when it succeeded.
async fn sweep(sweeping: &Sweeping, hook: &Hook) {
    let Sweeping { store, id, forge, .. } = sweeping;
    let name = cursor_name(id, hook);
    let cursor = match store.cursor(&name).await {
        Ok(cursor) => cursor.and_then(|text| text.parse::<SweepCursor>().ok()),
        Err(why) => {
            warn!(forge.id = %id, "lost deliveries are not looked for: {why}");
            return;
        }
    };
    match forge.sweep_deliveries(hook, cursor).await {
        Ok(report) => {
            if let Err(why) = store.set_cursor(&name, &report.cursor.to_string()).await {
                warn!(forge.id = %id, "the place of the last sweep is not remembered: {why}");
            }
        }
        Err(why) => info!(forge.id = %id, "lost deliveries could not be looked for: {why}"),
    }
}

/// Names the cursor of a hook; a hook made anew begins anew.
fn cursor_name(forge: &ForgeId, hook: &Hook) -> String {
    match hook {
        Hook::App => format!("deliveries:{forge}"),
        Hook::Scope { scope, id } => format!("deliveries:{forge}:{scope}:{id}"),
    }
}

/// Warns of runner versions that GitHub will soon send no more jobs.
async fn watch_versions(sweeping: Sweeping, images: Vec<(Scope, String)>, clock: Arc<dyn Clock>) {
    let mut ticks = tokio::time::interval(VERSIONS);
    loop {
        ticks.tick().await;
        for scope in &sweeping.scopes {
            let of_scope = images.iter().filter(|(of, _)| of == scope);
            let images: Vec<&str> = of_scope.map(|(_, image)| image.as_str()).collect();
            let now = clock.now();
            for ending in sweeping.forge.ending_versions(scope, &images, now).await {
                let sentence = ending.sentence(now);
                warn!(forge.id = %sweeping.id, scope = %scope, runner.version = %ending.version, "{sentence}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hook_has_a_cursor_of_its_own() {
        let forge = ForgeId::new("github");
        let of = |scope: &str, id| {
            let scope = scope.parse().expect("a scope");
            cursor_name(&forge, &Hook::Scope { scope, id })
        };
        let names =
            [cursor_name(&forge, &Hook::App), of("acme", 1), of("acme", 2), of("acme/web", 1)];
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
