//! Tells people when one of them is needed: by a message to a chat or a webhook of theirs.
//!
//! ```text
//!   chronicle ── ends that are not normal ──┐
//!   board, every few seconds ── stuck, leaks, ├─▶ desk (told already? too many?) ─▶ words ─▶ post
//!     breakers, queues, refused edits ───────┘
//! ```
//!
//! What holds is told once, and again when it still holds an hour later; what happens is told each
//! time, up to so many an hour, and the next message says how many were not told. Only the leader
//! tells. The address is a secret: it is in no log and no error.

mod router;
mod sights;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use ostler_actors::model::{Subject, Timestamp, VerdictClass, What};
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

/// How often the board is looked at.
const BOARD_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How many ends may wait to be told of; what comes beyond is counted as not told.
const QUEUE: usize = 256;
const PEOPLE: Receiver = Receiver { name: "receiver", setting: "notify.url" };

/// What the notifier looks at.
#[derive(Clone)]
pub struct Sources {
    pub registry: Arc<Registry>,
    pub records: Arc<dyn Records>,
    /// What the daemon says about itself.
    pub status: Arc<Status>,
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The configuration in force.
    pub config: Arc<ArcSwap<Config>>,
    /// Returns how many machines nobody answers for.
    pub leaks: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Hears of ends for the notifier.
pub struct Ear {
    sources: Sources,
    tell: mpsc::Sender<Notice>,
}

/// Makes an ear for the chronicle, and what tells of everything once it is polled.
pub fn notifier(sources: Sources) -> (Ear, impl Future<Output = ()> + Send + 'static) {
    let (tell, notices) = mpsc::channel(QUEUE);
    (Ear { sources: sources.clone(), tell }, run(sources, notices))
}

#[async_trait]
impl Listener for Ear {
    async fn hear(&mut self, told: &Sequenced) {
        let (Subject::Instance(id), What::Recorded(verdict)) =
            (&told.event.subject, &told.event.what)
        else {
            return;
        };
        let leads = self.sources.status.shown().stage == Stage::Leading;
        if !leads || self.sources.config.load().notify.is_none() || is_normal(*verdict) {
            return;
        }
        let Ok(Some(record)) = self.sources.records.exit(id).await else { return };
        // A full line means a flood; the desk could not tell of all of them either.
        drop(self.tell.try_send(Notice::death(&record)));
    }
}

/// Returns whether an end needs nobody's attention.
pub(super) fn is_normal(verdict: VerdictClass) -> bool {
    matches!(verdict, VerdictClass::Clean | VerdictClass::Removed | VerdictClass::Forced)
}

async fn run(sources: Sources, mut notices: mpsc::Receiver<Notice>) {
    let (mut router, mut outgoing) = (NoticeRouter::default(), Outgoing::new(PEOPLE));
    let mut glances = tokio::time::interval(BOARD_POLL_INTERVAL);
    loop {
        let events = tokio::select! {
            Some(notice) = notices.recv() => vec![notice],
            _ = glances.tick() => Vec::new(),
        };
        let config = sources.config.load_full();
        let Some(notify) = &config.notify else { continue };
        let now = (sources.now)();
        let holds = sights::holds(&sources, notify, now);
        let mut messages = router.of_what_holds(holds, notify, now);
        messages
            .extend(events.into_iter().filter_map(|notice| router.of_event(notice, notify, now)));
        for (notice, untold) in messages {
            let text = worded(&notice, notify, &config.daemon.name, untold);
            let message = message(&notice, &config.daemon.name, &text);
            let url = notify.url.expose().trim();
            match outgoing.deliver(url, std::iter::empty(), message).await {
                Ok(()) => debug!(notice.occasion = notice.occasion.as_str(), "told: {text}"),
                Err(why) => warn!("nobody could be told of `{}`: {why}", notice.sentence),
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

fn worded(notice: &Notice, notify: &Notify, fleet: &str, untold: u32) -> String {
    let fields = BTreeMap::from([
        ("fleet", fleet),
        ("occasion", notice.occasion.as_str()),
        ("subject", notice.subject.as_str()),
        ("sentence", notice.sentence.as_str()),
        ("advice", notice.advice.as_str()),
    ]);
    let mut text = String::new();
    let mut rest = notify.template.as_str();
    // Read once from the left: what a field brings in is never taken for a field.
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let field = after.split_once('}').and_then(|(name, tail)| Some((*fields.get(name)?, tail)));
        let (value, tail) = field.unwrap_or(("{", after));
        text.push_str(value);
        rest = tail;
    }
    text.push_str(rest);
    if untold > 0 {
        text += " (";
        text += &untold.to_string();
        text += " more were not told, to spare you)";
    }
    text
}

#[cfg(test)]
mod tests;
