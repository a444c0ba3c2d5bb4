//! What the leader does now and then beside its fleet: it asks for lost deliveries, clears old
//! history, and warns of old runner versions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::{ForgeId, Scope};
use ostler_actors::ports::Clock;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::Daemon;
use crate::ports::{ForgeHooks, ForgeMonitor, History as _, HookRef};
use crate::store::SqlStore;

/// How often lost deliveries are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_mins(5);
/// How often the forge is asked when runner versions end.
const VERSION_CHECK_INTERVAL: Duration = Duration::from_hours(1);
/// How often old history is cleared away.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);
/// How many rows of a kind are cleared away at once.
const PRUNE_BATCH: u32 = 500;

/// Tasks under way; they end when this is dropped.
pub(super) struct BackgroundTasks(Vec<JoinHandle<()>>);

impl BackgroundTasks {
    pub(super) fn begin(daemon: &Daemon) -> Self {
        let (store, clock) = (daemon.store.clone(), Arc::clone(&daemon.clock));
        let mut background_tasks =
            vec![tokio::spawn(prune(store, clock, daemon.config.store.retention))];
        for (id, forge) in daemon.forges.services() {
            let pools = || daemon.config.pools.iter().filter(|pool| pool.forge == id.as_str());
            let scopes: BTreeSet<Scope> = pools().map(|pool| pool.scope.clone()).collect();
            let images = pools().map(|pool| (pool.scope.clone(), pool.image.clone())).collect();
            let versions = Versions { monitor: forge.monitor, id: id.clone(), scopes, images };
            let clock = Arc::clone(&daemon.clock);
            if let Some(hooks) = forge.hooks {
                let sweep = Sweep::new(daemon, &id, hooks, &versions.scopes);
                background_tasks.push(tokio::spawn(sweep.run()));
            }
            background_tasks.push(tokio::spawn(versions.watch(clock)));
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
    let mut ticks = tokio::time::interval(PRUNE_INTERVAL);
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

/// Asks the hooks of one forge for deliveries that never arrived.
struct Sweep {
    store: SqlStore,
    id: ForgeId,
    hooks: Arc<dyn ForgeHooks>,
    /// Our address there, where we have one.
    url: Option<String>,
    scopes: Vec<Scope>,
}

impl Sweep {
    fn new(
        daemon: &Daemon,
        id: &ForgeId,
        hooks: Arc<dyn ForgeHooks>,
        scopes: &BTreeSet<Scope>,
    ) -> Self {
        let public = daemon.config.http.public_url.as_ref();
        Self {
            store: daemon.store.clone(),
            id: id.clone(),
            hooks,
            url: public.map(|public| format!("{public}/webhooks/{id}")),
            scopes: scopes.iter().cloned().collect(),
        }
    }

    async fn run(self) {
        let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            let (hooks, unseen) =
                self.hooks.hooks_to_sweep(self.url.as_deref(), &self.scopes).await;
            for why in unseen {
                info!(forge.id = %self.id, "lost deliveries could not be looked for: {why}");
            }
            for hook in &hooks {
                self.sweep(hook).await;
            }
        }
    }

    /// Sweeps one hook from where its last sweep began; the cursor is kept only when it succeeded.
    async fn sweep(&self, hook: &HookRef) {
        let Self { store, id, .. } = self;
        let name = cursor_name(id, hook);
        let cursor = match store.cursor(&name).await {
            Ok(cursor) => cursor,
            Err(why) => {
                warn!(forge.id = %id, "lost deliveries are not looked for: {why}");
                return;
            }
        };
        match self.hooks.sweep(hook, cursor.as_deref()).await {
            Ok(cursor) => {
                if let Err(why) = store.set_cursor(&name, &cursor).await {
                    warn!(forge.id = %id, "the cursor of the last sweep is not kept: {why}");
                }
            }
            Err(why) => info!(forge.id = %id, "lost deliveries could not be looked for: {why}"),
        }
    }
}

/// Names the cursor of a hook; a hook that was created anew begins anew.
fn cursor_name(forge: &ForgeId, hook: &HookRef) -> String {
    match hook {
        HookRef::Shared => format!("deliveries:{forge}"),
        HookRef::Scope { scope, id } => format!("deliveries:{forge}:{scope}:{id}"),
    }
}

/// Warns of runner versions that the forge will soon send no more jobs.
struct Versions {
    monitor: Arc<dyn ForgeMonitor>,
    id: ForgeId,
    scopes: BTreeSet<Scope>,
    images: Vec<(Scope, String)>,
}

impl Versions {
    async fn watch(self, clock: Arc<dyn Clock>) {
        let mut ticks = tokio::time::interval(VERSION_CHECK_INTERVAL);
        loop {
            ticks.tick().await;
            for scope in &self.scopes {
                let of_scope = self.images.iter().filter(|(of, _)| of == scope);
                let images: Vec<&str> = of_scope.map(|(_, image)| image.as_str()).collect();
                let now = clock.now();
                for ending in self.monitor.ending_versions(scope, &images, now).await {
                    let sentence = ending.sentence(now);
                    warn!(forge.id = %self.id, scope = %scope, runner.version = %ending.version, "{sentence}");
                }
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
            cursor_name(&forge, &HookRef::Scope { scope, id })
        };
        let names = [
            cursor_name(&forge, &HookRef::Shared),
            of("acme", 1),
            of("acme", 2),
            of("acme/web", 1),
        ];
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
