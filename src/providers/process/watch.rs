//! Telling of changes as they happen: the directories are looked at twice a second.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ostler_actors::model::{MachineName, MachineView, Observation};
use ostler_actors::ports::MachineSink;
use tracing::error;

use super::yard::{Yard, beside};

/// How often is looked.
const TURN: Duration = Duration::from_millis(500);

/// Begins to watch, for as long as the provider is used: a reload opens another in its place.
pub(super) fn begin(yard: Weak<Yard>, sink: Arc<dyn MachineSink>) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(keep_watching(yard, sink)));
    } else {
        error!("local processes are not watched: there is no runtime to watch them on");
    }
}

async fn keep_watching(yard: Weak<Yard>, sink: Arc<dyn MachineSink>) {
    let mut known = BTreeMap::new();
    while let Some(looking) = yard.upgrade() {
        if let Ok(Observation::Complete(views)) = beside(move || looking.list()).await {
            tell(&mut known, views, &*sink);
        }
        tokio::time::sleep(TURN).await;
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
