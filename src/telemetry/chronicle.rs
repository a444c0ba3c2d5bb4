//! Follows the store's events for everyone in this process who wants to hear all of them.
//!
//! The board's feed is quick and may drop what a slow listener did not take; the store drops nothing.
//! So the feed only wakes the chronicle, which reads the store from where it was and tells its
//! listeners in order. What it has not read yet it reads later: nothing is missed, only late.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ostler_actors::registry::Registry;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

use crate::ports::{History, Sequenced};

/// How many events are read at once.
const READ_BATCH: u32 = 1000;
/// How long the chronicle looks away when nobody wakes it: events of another daemon wake nobody.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long it lets events gather.
const GATHER_DELAY: Duration = Duration::from_millis(25);

/// Hears every event, in the order of the store.
#[async_trait]
pub trait Listener: Send {
    async fn hear(&mut self, told: &Sequenced);
}

/// Follows the store from now on, for as long as it is polled.
pub async fn follow(
    history: Arc<dyn History>,
    registry: Arc<Registry>,
    mut listeners: Vec<Box<dyn Listener>>,
) {
    let mut feed = registry.subscribe();
    let mut place = begin(&*history).await;
    loop {
        loop {
            match history.events_after(place, READ_BATCH).await {
                Ok(events) if events.is_empty() => break,
                Ok(events) => {
                    for told in &events {
                        place = told.seq;
                        for listener in &mut listeners {
                            listener.hear(told).await;
                        }
                    }
                }
                Err(why) => {
                    warn!("events are not followed for the moment: {why}");
                    tokio::time::sleep(IDLE_POLL_INTERVAL).await;
                }
            }
        }
        // Whether it is told of one event or of having missed thousands: it looks.
        if let Ok(Err(RecvError::Closed)) =
            tokio::time::timeout(IDLE_POLL_INTERVAL, feed.recv()).await
        {
            return;
        }
        tokio::time::sleep(GATHER_DELAY).await;
        feed = feed.resubscribe();
    }
}

/// Returns the place of the latest event, however long the store takes.
async fn begin(history: &dyn History) -> i64 {
    loop {
        match history.last_event().await {
            Ok(place) => return place,
            Err(why) => {
                warn!("events are not followed yet: {why}");
                tokio::time::sleep(IDLE_POLL_INTERVAL).await;
            }
        }
    }
}
