//! Follows the events of the store, for listeners that must not miss one.
//!
//! The feed of the registry is quick and may drop what a slow listener did not take; the store drops
//! nothing. So the feed only wakes the chronicle, which reads the store from where it was and calls its
//! listeners in order. What it has not read yet it reads later: events come late, never not at all.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::registry::Registry;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

use crate::ports::{History, Sequenced};

/// How many events are read at once.
const READ_BATCH: u32 = 1000;
/// How long the chronicle waits for the feed: events of another daemon are in the store only.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long events may gather before they are read together.
const GATHER_DELAY: Duration = Duration::from_millis(25);

/// Is called with every event, in the order of the store.
#[async_trait]
pub trait Listener: Send {
    async fn on_event(&mut self, event: &Sequenced);
}

/// Follows the store from now on, for as long as it is polled.
pub async fn follow(
    history: Arc<dyn History>,
    registry: Arc<Registry>,
    mut listeners: Vec<Box<dyn Listener>>,
) {
    let mut feed = registry.subscribe();
    let mut seq = first(&*history).await;
    loop {
        loop {
            match history.events_after(seq, READ_BATCH).await {
                Ok(events) if events.is_empty() => break,
                Ok(events) => {
                    for event in &events {
                        seq = event.seq;
                        for listener in &mut listeners {
                            listener.on_event(event).await;
                        }
                    }
                }
                Err(why) => {
                    warn!("cannot read events: {why}; trying again in 1 s");
                    tokio::time::sleep(IDLE_POLL_INTERVAL).await;
                }
            }
        }
        // One event or a gap of thousands: either way the store is read.
        if let Ok(Err(RecvError::Closed)) =
            tokio::time::timeout(IDLE_POLL_INTERVAL, feed.recv()).await
        {
            return;
        }
        tokio::time::sleep(GATHER_DELAY).await;
        feed = feed.resubscribe();
    }
}

/// Returns the number of the latest event, however long the store takes.
async fn first(history: &dyn History) -> i64 {
    loop {
        match history.last_event().await {
            Ok(seq) => return seq,
            Err(why) => {
                warn!("cannot read events yet: {why}; trying again in 1 s");
                tokio::time::sleep(IDLE_POLL_INTERVAL).await;
            }
        }
    }
}
