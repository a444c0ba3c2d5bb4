//! `GET /events`: everything as it happens, by server-sent events.
//!
//! ```text
//!   store ── chronicle ── Hub ── one ring of lines ──┬─▶ reader
//!     ▲                                              ├─▶ reader (stalled: falls behind, is told)
//!     └───────── Last-Event-ID: read again ──────────┴─▶ reader
//! ```
//!
//! Each event is written once for all readers and carries its place in the store, so a reader that
//! comes back is given what it missed from there. A reader that stalls holds up no other: the ring
//! goes on, and when it reads again it is told how much it did not hear.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Serialize;
use tokio::sync::{broadcast, watch};
use tokio::time::timeout;

use super::shapes::{Event, Lagged, Totals};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::ports::{History, Sequenced};

/// How many lines a slow reader may lag behind.
const RING: usize = 4096;
/// How many readers there may be.
const READERS: usize = 2000;
/// How often silence is broken, so that no proxy closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How many events are read from the store at once.
const READ_BATCH: u32 = 500;
/// How many events a reader that comes back is given again.
const REPLAY: i64 = 20_000;
/// How many lines are sent together.
const TOGETHER: usize = 64;

/// Where events are told to readers.
pub(in crate::http) struct EventStream {
    ring: broadcast::Sender<Arc<Line>>,
    last: AtomicI64,
    readers: Arc<AtomicUsize>,
    closed: watch::Sender<bool>,
}

/// One line for every reader; `seq` is nothing for what has no place in the store.
struct Line {
    seq: Option<i64>,
    text: web::Bytes,
}

impl Default for EventStream {
    fn default() -> Self {
        Self {
            ring: broadcast::channel(RING).0,
            last: AtomicI64::new(0),
            readers: Arc::default(),
            closed: watch::channel(false).0,
        }
    }
}

impl EventStream {
    /// Tells an event.
    pub(in crate::http) fn tell(&self, event: &Sequenced) {
        self.last.fetch_max(event.seq, Ordering::Relaxed);
        if self.ring.receiver_count() > 0 {
            let text = line("event", Some(event.seq), &Event::from(event));
            // The last reader may just have left.
            drop(self.ring.send(Arc::new(Line { seq: Some(event.seq), text })));
        }
    }

    /// Tells the totals.
    pub(in crate::http) fn show(&self, totals: &Totals) {
        if self.ring.receiver_count() > 0 {
            let text = line("fleet", None, totals);
            drop(self.ring.send(Arc::new(Line { seq: None, text })));
        }
    }

    /// Returns whether there is a reader.
    pub(in crate::http) fn is_read(&self) -> bool {
        self.ring.receiver_count() > 0
    }

    /// Ends all readings: the daemon stops.
    pub(in crate::http) fn close(&self) {
        self.closed.send_replace(true);
    }

    fn reader_slot(&self) -> Option<ReaderSlot> {
        let reader_slot = ReaderSlot(Arc::clone(&self.readers));
        (self.readers.fetch_add(1, Ordering::Relaxed) < READERS).then_some(reader_slot)
    }
}

/// A reader's place; given back when the reader goes, however it goes.
struct ReaderSlot(Arc<AtomicUsize>);

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells everything as it happens, from now on or from `Last-Event-ID` on.
///
/// `event` carries an event, `fleet` the totals (at most once a second), `lagged` says that some
/// events were not told. A comment breaks the silence every 15 s.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<i64>, Header, description = "The place of the last event that was heard.", minimum = 0)),
    responses(
        (status = 200, description = "Server-sent events.", body = String, content_type = "text/event-stream"),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "Too many read already.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn events(
    app_state: web::Data<AppState>,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    let resume =
        match request.headers().get("Last-Event-ID") {
            None => None,
            Some(text) => {
                let place = text.to_str().ok().and_then(|text| text.trim().parse::<i64>().ok());
                let place = place.filter(|place| *place >= 0);
                Some(place.ok_or_else(|| {
                    Problem::new(400, "`Last-Event-ID` is the number of an event")
                })?)
            }
        };
    let event_stream = &app_state.event_stream;
    let reader_slot = event_stream
        .reader_slot()
        .ok_or_else(|| Problem::new(503, format!("{READERS} readers follow the events already")))?;
    let reader = Reader {
        _reader_slot: reader_slot,
        lines: event_stream.ring.subscribe(),
        closed: event_stream.closed.subscribe(),
        history: Arc::clone(&app_state.history),
        sent: resume.unwrap_or_else(|| event_stream.last.load(Ordering::Relaxed)),
        replaying: resume.is_some(),
        greeting: Some(greeting(&app_state.totals())),
    };
    let stream = futures_util::stream::unfold(reader, async |mut reader| {
        let text = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), reader))
    });
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-cache"))
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(Box::pin(stream)))
}

/// One who follows the events.
struct Reader {
    _reader_slot: ReaderSlot,
    lines: broadcast::Receiver<Arc<Line>>,
    closed: watch::Receiver<bool>,
    history: Arc<dyn History>,
    /// The place of the last event that was sent.
    sent: i64,
    /// Whether older events are still read from the store.
    replaying: bool,
    greeting: Option<web::Bytes>,
}

impl Reader {
    /// Returns what is sent next; nothing when the daemon stops.
    async fn next(&mut self) -> Option<web::Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        if *self.closed.borrow() {
            return None;
        }
        if self.replaying
            && let Some(text) = self.replay().await
        {
            return Some(text);
        }
        loop {
            let lines = tokio::select! {
                lines = timeout(KEEP_ALIVE, self.lines.recv()) => lines,
                _ = self.closed.wait_for(|closed| *closed) => return None,
            };
            match lines {
                Err(_) => return Some(web::Bytes::from_static(b": still here\n\n")),
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
                Ok(Err(broadcast::error::RecvError::Lagged(missed))) => {
                    return Some(lagged(missed));
                }
                Ok(Ok(first)) => {
                    let text = self.gather(&first);
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
            }
        }
    }

    /// Puts a line and what waits behind it together, without what was sent already.
    fn gather(&mut self, first: &Line) -> web::Bytes {
        if self.lines.is_empty() {
            return if self.is_new(first) { first.text.clone() } else { web::Bytes::new() };
        }
        let mut text = web::BytesMut::new();
        if self.is_new(first) {
            text.extend_from_slice(&first.text);
        }
        for _ in 0..TOGETHER {
            match self.lines.try_recv() {
                Ok(line) if self.is_new(&line) => text.extend_from_slice(&line.text),
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Lagged(missed)) => {
                    text.extend_from_slice(&lagged(missed));
                }
                Err(_) => break,
            }
        }
        text.freeze()
    }

    fn is_new(&mut self, line: &Line) -> bool {
        let Some(seq) = line.seq else { return true };
        let new = seq > self.sent;
        self.sent = self.sent.max(seq);
        new
    }

    /// Reads what happened since the reader left; nothing once it has caught up.
    async fn replay(&mut self) -> Option<web::Bytes> {
        let mut text = web::BytesMut::new();
        let last = self.history.last_event().await.unwrap_or(self.sent);
        if last - self.sent > REPLAY {
            text.extend_from_slice(&lagged(u64::try_from(last - REPLAY - self.sent).unwrap_or(0)));
            self.sent = last - REPLAY;
        }
        match self.history.events_after(self.sent, READ_BATCH).await {
            Ok(events) if events.is_empty() => self.replaying = false,
            Ok(events) => {
                for event in &events {
                    text.extend_from_slice(&line("event", Some(event.seq), &Event::from(event)));
                    self.sent = event.seq;
                }
            }
            Err(why) => {
                tracing::warn!("a reader of events is not given what it missed: {why}");
                let missed = u64::try_from(last.saturating_sub(self.sent)).unwrap_or(0);
                text.extend_from_slice(&lagged(missed.max(1)));
                self.replaying = false;
            }
        }
        (!text.is_empty()).then(|| text.freeze())
    }
}

/// Returns what a reader hears first: when to come back, and how things stand.
fn greeting(totals: &Totals) -> web::Bytes {
    let mut text = web::BytesMut::from(&b"retry: 2000\n\n"[..]);
    text.extend_from_slice(&line("fleet", None, totals));
    text.freeze()
}

fn lagged(missed: u64) -> web::Bytes {
    line("lagged", None, &Lagged { missed })
}

/// Writes one event; JSON has no raw line breaks, so one `data:` line holds it.
fn line(kind: &str, seq: Option<i64>, data: &impl Serialize) -> web::Bytes {
    let id = seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}
