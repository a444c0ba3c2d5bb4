//! The lives of instances as traces, for whoever collects OpenTelemetry.
//!
//! ```text
//!   chronicle ── `deleted` ──▶ Ear ── the whole life, from the records ──▶ life.rs ──▶ collector
//! ```
//!
//! A trace is sent when a life is over, so nothing is kept in memory while it lasts and a restart
//! loses none. Its numbers come from the instance's name: a life that is sent twice is one trace.
//! Off unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set; spoken is OTLP over HTTP in JSON, which needs no
//! library. A collector that is away costs its traces and nothing else: the line is bounded, each
//! message is tried twice, and trouble is told in the log once until it is over.

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
/// How many lives may wait to be sent; what comes beyond is not sent.
const QUEUE: usize = 1_000;
/// How many lives are sent together.
const TOGETHER: usize = 64;

/// Hears of lives that are over.
pub struct Ear {
    records: Arc<dyn Records>,
    status: Arc<Status>,
    tell: mpsc::Sender<Vec<Value>>,
}

/// Makes an ear for the chronicle, and what sends traces once it is polled.
pub fn tracer(
    collector: Collector,
    installation: String,
    records: Arc<dyn Records>,
    status: Arc<Status>,
) -> (Ear, impl Future<Output = ()> + Send + 'static) {
    let (tell, lives) = mpsc::channel(QUEUE);
    (Ear { records, status, tell }, send_all(collector, installation, lives))
}

#[async_trait]
impl Listener for Ear {
    async fn hear(&mut self, told: &Sequenced) {
        let (Subject::Instance(id), What::Moved { to: State::Deleted, .. }) =
            (&told.event.subject, &told.event.what)
        else {
            return;
        };
        // Only the leader tells, so that nobody tells twice; the last words of a leader count.
        if !matches!(self.status.shown().stage, Stage::Leading | Stage::Stopping) {
            return;
        }
        let subject = &told.event.subject;
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
        // A full line means that nobody takes them; it is said where they are sent.
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
    while lives.recv_many(&mut batch, TOGETHER).await > 0 {
        let spans: Vec<Value> = batch.drain(..).flatten().collect();
        let text = life::message(&installation, &spans).to_string();
        let headers = collector.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str(), value.expose_secret()));
        let sent = outgoing.deliver(collector.url.as_str(), headers, text).await;
        match sent {
            Ok(()) if away => info!("the trace collector answers again"),
            Err(why) if !away => warn!("traces are not taken, and are lost until they are: {why}"),
            Ok(()) | Err(_) => {}
        }
        away = sent.is_err();
    }
}
