//! Telling of changes as they happen: the directories are looked at twice a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_actors::model::{MachineName, MachineView, Observation};
use ostler_actors::ports::{MachineSink, Watching};
use tracing::error;

use super::state::ProviderState;

/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Begins to watch, for as long as the guard lives.
pub(super) fn begin(state: Arc<ProviderState>, sink: Arc<dyn MachineSink>) -> Watching {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let task = runtime.spawn(keep_watching(state, sink));
        Watching::until_dropped(move || task.abort())
    } else {
        error!("local processes are not watched: there is no runtime to watch them on");
        Watching::nothing()
    }
}

async fn keep_watching(state: Arc<ProviderState>, sink: Arc<dyn MachineSink>) {
    let mut known = BTreeMap::new();
    loop {
        let looking = Arc::clone(&state);
        if let Ok(Observation::Complete(views)) = state.disk.brief(move || looking.list()).await {
            tell(&mut known, views, &*sink);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Tells what is new or different, and what is no longer shown.
fn tell(
    known: &mut BTreeMap<MachineName, MachineView>,
    views: Vec<MachineView>,
    sink: &dyn MachineSink,
) {
    let now: BTreeMap<_, _> = views.into_iter().map(|view| (view.name.clone(), view)).collect();
    for name in known.keys().filter(|name| !now.contains_key(*name)) {
        sink.missed(name.clone());
    }
    for (name, view) in &now {
        if known.get(name) != Some(view) {
            sink.seen(view.clone());
        }
    }
    *known = now;
}
