//! Sends finished instances as OpenTelemetry traces.
//!
//! ```text
//!   chronicle ── `deleted` ──▶ TraceListener ── the records of the instance ──▶ life.rs ──▶ collector
//! ```
//!
//! A trace is sent when the instance is deleted, so nothing is kept in memory meanwhile and a restart
//! loses none. Its ids come from the instance's name: an instance that is sent twice is one trace.
//! Off unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set. The protocol is OTLP over HTTP in JSON, which needs
//! no library. A collector that is down costs its traces and nothing else: the queue is bounded, each
//! message is sent twice at most, and the log reports the failure once until it is over.

mod life;

use std::sync::Arc;

use async_trait::async_trait;
use ostler_actors::model::{State, Subject, What};
use ostler_actors::ports::Records;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::chronicle::Listener;
use super::outgoing::{Outgoing, Receiver};
use crate::config::Collector;
use crate::ports::Sequenced;
use crate::ports::{Stage, Status};
use life::Life;

const COLLECTOR: Receiver = Receiver { name: "collector", setting: "OTEL_EXPORTER_OTLP_ENDPOINT" };
/// How many traces may wait to be sent; more are dropped.
const MAX_QUEUED_TRACES: usize = 1_000;
/// How many traces are sent together.
const MAX_TRACES_PER_MESSAGE: usize = 64;

/// Takes deleted instances from the chronicle.
pub struct TraceListener {
    records: Arc<dyn Records>,
    status: Arc<Status>,
    tell: mpsc::Sender<Vec<Value>>,
}

/// Creates the listener for the chronicle, and the task that sends once it is polled.
pub fn tracer(
    collector: Collector,
    installation: String,
    records: Arc<dyn Records>,
    status: Arc<Status>,
) -> (TraceListener, impl Future<Output = ()> + Send + 'static) {
    let (tell, lives) = mpsc::channel(MAX_QUEUED_TRACES);
    (TraceListener { records, status, tell }, send_all(collector, installation, lives))
}

#[async_trait]
impl Listener for TraceListener {
    async fn on_event(&mut self, event: &Sequenced) {
        let (Subject::Instance(id), What::Moved { to: State::Deleted, .. }) =
            (&event.event.subject, &event.event.what)
        else {
            return;
        };
        // Only the leader sends, so that no trace is sent twice; a leader that stops still sends.
        if !matches!(self.status.shown().stage, Stage::Leading | Stage::Stopping) {
            return;
        }
        let subject = &event.event.subject;
        let (Ok(Some(row)), Ok(events)) =
            (self.records.instance(id).await, self.records.timeline(subject).await)
        else {
            return;
        };
        let end = self.records.exit(id).await.ok().flatten();
        let ran = end.as_ref().and_then(|end| end.job.clone());
        let job = match ran {
            Some(job) => self.records.job(&job).await.ok().flatten(),
            None => None,
        };
        let life = Life { row: &row, events: &events, end: end.as_ref(), job: job.as_ref() };
        // A full queue means that the collector takes none; the task that sends logs that.
        drop(self.tell.try_send(life.spans()));
    }
}

async fn send_all(
    collector: Collector,
    installation: String,
    mut lives: mpsc::Receiver<Vec<Value>>,
) {
    let mut outgoing = Outgoing::new(COLLECTOR);
    let mut away = false;
    let mut batch = Vec::new();
    while lives.recv_many(&mut batch, MAX_TRACES_PER_MESSAGE).await > 0 {
        let spans: Vec<Value> = batch.drain(..).flatten().collect();
        let text = life::message(&installation, &spans).to_string();
        let headers = collector.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.expose_secret()));
        let sent = outgoing.deliver(collector.url.as_str(), headers, text).await;
        match sent {
            Ok(()) if away => info!("trace collector: answers again"),
            Err(why) if !away => warn!("trace collector: traces are lost: {why}"),
            Ok(()) | Err(_) => {}
        }
        away = sent.is_err();
    }
}
