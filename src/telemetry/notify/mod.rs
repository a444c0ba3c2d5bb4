//! Notifies people when they are needed, by a message to a chat or webhook.
//!
//! ```text
//!   chronicle ── ends that are not normal ──┐
//!   registry, every few seconds ── stuck, ───┼─▶ router (sent already? too many?) ─▶ text ─▶ outgoing
//!     leaks, breakers, queues, bad configs ──┘
//! ```
//!
//! A condition is sent once, and again when it still holds an hour later; an event is sent each time, up
//! to so many an hour, and the next message says how many were suppressed. Only the leader sends.
//! The address is a secret: it is in no log and no error.

mod conditions;
mod router;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use ostler_actors::model::{Subject, Timestamp, VerdictClass};
use ostler_actors::ports::Records;
use ostler_actors::registry::Registry;
use serde_json::json;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::chronicle::Listener;
use super::outgoing::{Outgoing, Receiver};
use crate::config::{Config, Notify};
use crate::ports::{Sequenced, Stage, Status};
use router::NoticeRouter;
pub use router::{Notice, Occasion};

/// How often the conditions are checked.
const CONDITION_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How many ends may wait to be sent; more are dropped.
const MAX_QUEUED_NOTICES: usize = 256;
const PEOPLE: Receiver = Receiver { name: "receiver", setting: "notify.url" };

/// What the notifier reads.
#[derive(Clone)]
pub struct Sources {
    pub registry: Arc<Registry>,
    pub records: Arc<dyn Records>,
    /// What the daemon says about itself.
    pub status: Arc<Status>,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The configuration in force.
    pub config: Arc<ArcSwap<Config>>,
    /// Returns how many machines have no owner.
    pub leaks: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Takes ends from the chronicle.
pub struct EndListener {
    sources: Sources,
    tell: mpsc::Sender<Notice>,
}

/// Creates the listener for the chronicle, and the task that sends once it is polled.
pub fn notifier(sources: Sources) -> (EndListener, impl Future<Output = ()> + Send + 'static) {
    let (tell, notices) = mpsc::channel(MAX_QUEUED_NOTICES);
    (EndListener { sources: sources.clone(), tell }, run(sources, notices))
}

#[async_trait]
impl Listener for EndListener {
    async fn on_event(&mut self, event: &Sequenced) {
        let Subject::Instance(id) = &event.event.subject else { return };
        let Some(verdict) = event.event.what.settled_verdict() else { return };
        let leads = self.sources.status.shown().stage == Stage::Leading;
        if !leads || self.sources.config.load().notify.is_none() || is_normal(verdict) {
            return;
        }
        let Ok(Some(record)) = self.sources.records.exit(id).await else { return };
        // A full queue means a flood, of which the router would suppress most anyway.
        drop(self.tell.try_send(Notice::death(&record)));
    }
}

/// Returns whether an end needs no attention.
pub(super) fn is_normal(verdict: VerdictClass) -> bool {
    matches!(verdict, VerdictClass::Clean | VerdictClass::Removed | VerdictClass::Forced)
}

async fn run(sources: Sources, mut notices: mpsc::Receiver<Notice>) {
    let (mut router, mut outgoing) = (NoticeRouter::default(), Outgoing::new(PEOPLE));
    let mut ticks = tokio::time::interval(CONDITION_POLL_INTERVAL);
    loop {
        let events = tokio::select! {
            Some(notice) = notices.recv() => vec![notice],
            _ = ticks.tick() => Vec::new(),
        };
        let config = sources.config.load_full();
        let Some(notify) = &config.notify else { continue };
        let now = (sources.now)();
        let conditions = conditions::current(&sources, notify, now);
        let mut messages = router.of_conditions(conditions, notify, now);
        messages
            .extend(events.into_iter().filter_map(|notice| router.of_event(notice, notify, now)));
        for (notice, suppressed) in messages {
            let text = text_of(&notice, notify, &config.daemon.name, suppressed);
            let message = message(&notice, &config.daemon.name, &text);
            let url = notify.url.expose().trim();
            match outgoing.deliver(url, std::iter::empty(), message).await {
                Ok(()) => {
                    debug!(notice.occasion = notice.occasion.as_str(), "notification sent: {text}");
                }
                Err(why) => warn!("notification `{}` not delivered: {why}", notice.sentence),
            }
        }
    }
}

/// Writes one JSON document that chats and programs both understand.
fn message(notice: &Notice, fleet: &str, text: &str) -> String {
    let message = json!({
        "text": text,
        "fleet": fleet,
        "occasion": notice.occasion.as_str(),
        "subject": notice.subject,
        "sentence": notice.sentence,
        "advice": notice.advice,
    });
    message.to_string()
}

fn text_of(notice: &Notice, notify: &Notify, fleet: &str, suppressed: u32) -> String {
    let fields = BTreeMap::from([
        ("fleet", fleet),
        ("occasion", notice.occasion.as_str()),
        ("subject", notice.subject.as_str()),
        ("sentence", notice.sentence.as_str()),
        ("advice", notice.advice.as_str()),
    ]);
    let mut text = String::new();
    let mut rest = notify.template.as_str();
    // Read once from the left: text that a field inserts is never expanded again.
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let field = after.split_once('}').and_then(|(name, tail)| Some((*fields.get(name)?, tail)));
        let (value, tail) = field.unwrap_or(("{", after));
        text.push_str(value);
        rest = tail;
    }
    text.push_str(rest);
    if suppressed > 0 {
        text += " (";
        text += &suppressed.to_string();
        text += " more suppressed)";
    }
    text
}

#[cfg(test)]
mod tests;
