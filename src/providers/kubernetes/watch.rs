//! Telling of changes as they happen: one watch for all pods of ours.
//!
//! Each event becomes a view at the stream, and of each pod only its name, its id and a
//! fingerprint of its last view are kept. A watch that breaks is taken up again with a listing: a
//! listing nominates, so a pod that it does not show is looked for in a second complete one before
//! anybody is told, and then its owner reads it directly. Beside the watch everything is listed and compared now and then, for what it missed.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use ostler_actors::model::{MachineName, MachineView};
use ostler_actors::ports::{MachineSink, Watching};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::client::Failure;
use super::names::SELECTOR;
use super::provider::ProviderState;
use super::seen;

/// How long a server is left alone that refused to go on from where we were.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// What is said when events are gone that we have not seen.
const FORGOTTEN: &str =
    "the API server no longer knows what happened since the last word; pods are listed again";

/// Begins to watch, for as long as the guard lives.
pub(super) fn begin(state: Arc<ProviderState>, sink: Arc<dyn MachineSink>) -> Watching {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let task = runtime.spawn(keep_watching(state, sink));
        Watching::until_dropped(move || task.abort())
    } else {
        error!("pods are not watched: there is no runtime to watch them on");
        Watching::nothing()
    }
}

/// One report for the sink.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// A pod looks like this.
    Seen(Box<MachineView>),
    /// A pod is no longer shown.
    Missed(MachineName),
}

/// Remembers what was told, and which pods a listing did not show.
#[derive(Debug, Default)]
pub(super) struct Memory {
    shown: BTreeMap<MachineName, u64>,
    /// Missing in one complete listing.
    suspects: BTreeSet<MachineName>,
    /// What the listing under way has shown so far.
    listing: Option<BTreeSet<MachineName>>,
}

impl Memory {
    /// Takes a view; returns whether it says anything new.
    pub(super) fn take(&mut self, view: MachineView) -> Option<Sight> {
        let print = fingerprint(&view);
        self.suspects.remove(&view.name);
        if let Some(listing) = &mut self.listing {
            listing.insert(view.name.clone());
        }
        let new = self.shown.insert(view.name.clone(), print) != Some(print);
        new.then(|| Sight::Seen(Box::new(view)))
    }

    /// Takes the end of a pod.
    pub(super) fn lose(&mut self, name: MachineName) -> Option<Sight> {
        self.suspects.remove(&name);
        self.shown.remove(&name).map(|_| Sight::Missed(name))
    }

    pub(super) fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// Ends a listing that was complete; returns who was missing in two of them.
    pub(super) fn end(&mut self) -> Vec<Sight> {
        let Some(shown) = self.listing.take() else { return Vec::new() };
        let missing: Vec<MachineName> =
            self.shown.keys().filter(|name| !shown.contains(*name)).cloned().collect();
        let mut sights = Vec::new();
        for name in missing {
            if self.suspects.contains(&name) {
                sights.extend(self.lose(name));
            } else {
                self.suspects.insert(name);
            }
        }
        sights
    }

    /// Returns whether a second listing is due soon.
    pub(super) fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Returns how many pods are remembered.
    pub(super) fn len(&self) -> usize {
        self.shown.len()
    }
}

fn fingerprint(view: &MachineView) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{view:?}").hash(&mut hasher);
    hasher.finish()
}

async fn keep_watching(state: Arc<ProviderState>, sink: Arc<dyn MachineSink>) {
    let reached = loop {
        match state.cluster.reach().await {
            Ok(reached) => break reached.clone(),
            Err(why) => {
                warn!("pods are not watched yet: {why}");
                tokio::time::sleep(state.settings.confirm_after).await;
            }
        }
    };
    let follow = || {
        let config = watcher::Config::default().labels(SELECTOR);
        Box::pin(watcher(reached.pods(), config).default_backoff())
    };
    let mut events = follow();
    let mut memory = Memory::default();
    let mut broken = false;
    let mut compare_at = Instant::now() + state.settings.compare_every;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    if broken && matches!(event, watcher::Event::InitDone) {
                        broken = false;
                        info!("pods are watched again, {} of them", memory.len());
                    }
                    take(&mut memory, event, &*sink);
                    if memory.has_suspects() {
                        compare_at = compare_at.min(Instant::now() + state.settings.confirm_after);
                    }
                }
                Some(Err(why)) => {
                    match expiry(&why) {
                        Expiry::None => {}
                        Expiry::Reported => info!("{FORGOTTEN}: {why}"),
                        // The library would ask for the same moment again and again.
                        Expiry::Refused => {
                            info!("{FORGOTTEN}: {why}");
                            tokio::time::sleep(RESTART_DELAY).await;
                            events = follow();
                        }
                    }
                    if !broken {
                        warn!("the watch over pods broke and is taken up again: {why}");
                    }
                    broken = true;
                }
                // It never ends by itself.
                None => return,
            },
            () = tokio::time::sleep_until(compare_at) => {
                compare(&state, &mut memory, &*sink).await;
                let wait = if memory.has_suspects() { state.settings.confirm_after } else { state.settings.compare_every };
                compare_at = Instant::now() + wait;
            }
        }
    }
}

/// Tells whether a server has forgotten what happened since our last word (410).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expiry {
    None,
    /// It says so in the watch; the library lists again by itself.
    Reported,
    /// It refuses to begin a watch there.
    Refused,
}

pub(super) fn expiry(why: &watcher::Error) -> Expiry {
    match why {
        watcher::Error::WatchError(status) if status.code == 410 => Expiry::Reported,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410 => {
            Expiry::Refused
        }
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchError(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => Expiry::None,
    }
}

fn take(memory: &mut Memory, event: watcher::Event<seen::Seen>, sink: &dyn MachineSink) {
    match event {
        watcher::Event::Init => memory.begin(),
        watcher::Event::InitApply(pod) | watcher::Event::Apply(pod) => {
            tell(seen::view(&pod).and_then(|view| memory.take(view)), sink);
        }
        watcher::Event::InitDone => tell(memory.end(), sink),
        watcher::Event::Delete(pod) => {
            let name = pod.metadata.name.as_deref().map(MachineName::from);
            tell(name.and_then(|name| memory.lose(name)), sink);
        }
    }
}

/// Lists everything and tells what the watch has missed.
async fn compare(state: &ProviderState, memory: &mut Memory, sink: &dyn MachineSink) {
    match state.list().await {
        Ok(views) => {
            memory.begin();
            for view in views {
                tell(memory.take(view), sink);
            }
            tell(memory.end(), sink);
        }
        Err(Failure::Refused(_) | Failure::Unanswered(_)) => {}
    }
}

fn tell(sights: impl IntoIterator<Item = Sight>, sink: &dyn MachineSink) {
    for word in sights {
        match word {
            Sight::Seen(view) => sink.seen(*view),
            Sight::Missed(name) => sink.missed(name),
        }
    }
}

#[cfg(test)]
mod tests;
