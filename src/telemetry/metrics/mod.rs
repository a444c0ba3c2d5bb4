//! The figures, for Prometheus.
//!
//! Three sources. *Counters and histograms of events* come from the chronicle, which misses none
//! ([`Recorder`]); what an event does not say (pool, dates) is read from the row it is about, and a
//! row that cannot be had is counted under the pool `unknown`, never left out. *Gauges* are read off
//! the registry when they are scraped ([`Board`]), so they cannot drift. *Calls* are counted where they
//! are made. Labels are bounded: pools, providers and forges are those of the configuration, the
//! rest are words of closed lists; never an instance, a job or a text.

mod board;
mod delivery_stats;
mod labels;
mod recorder;

use std::time::Duration;

use ostler_actors::model::VerdictClass;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use board::{Board, BoardPool};
pub use recorder::Recorder;

use labels::{
    CauseLabel, DeathLabels, MoveLabels, OutcomeLabel, PoolLabel, ProviderCall, ProviderLabels,
    WebhookLabels,
};

/// The media type of the figures.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a call to a provider may be about.
pub const PROVIDER_OPS: [&str; 5] = ["create", "delete", "list", "read", "remains"];

/// What may become of a webhook.
const WEBHOOK_OUTCOMES: [&str; 10] = [
    "accepted",
    "duplicate",
    "ping",
    "elsewhere",
    "ignored",
    "too_large",
    "unsigned",
    "bad_signature",
    "malformed",
    "failed",
];

/// A histogram by pool.
type ByPool = Family<PoolLabel, Histogram, fn() -> Histogram>;

/// Holds everything that is counted as it happens.
pub struct Metrics {
    registry: Registry,
    transitions: Family<MoveLabels, Counter>,
    deaths: Family<DeathLabels, Counter>,
    webhooks: Family<WebhookLabels, Counter>,
    requeued: Family<CauseLabel, Counter>,
    reloads: Family<OutcomeLabel, Counter>,
    create: ByPool,
    boot: ByPool,
    ready: ByPool,
    delete: ByPool,
    queue: ByPool,
    run: ByPool,
    stranded: ByPool,
    webhook_to_create: ByPool,
    provider_calls: Family<ProviderLabels, Counter>,
    provider_seconds: Family<ProviderCall, Histogram, fn() -> Histogram>,
    commit_seconds: Histogram,
    batch_size: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("ostler"),
            transitions: Family::default(),
            deaths: Family::default(),
            webhooks: Family::default(),
            requeued: Family::default(),
            reloads: Family::default(),
            create: Family::new_with_constructor(minutes),
            boot: Family::new_with_constructor(minutes),
            ready: Family::new_with_constructor(minutes),
            delete: Family::new_with_constructor(minutes),
            queue: Family::new_with_constructor(minutes),
            run: Family::new_with_constructor(hours),
            stranded: Family::new_with_constructor(minutes),
            webhook_to_create: Family::new_with_constructor(seconds),
            provider_calls: Family::default(),
            provider_seconds: Family::new_with_constructor(seconds),
            commit_seconds: Histogram::new(exponential_buckets(0.0005, 2.0, 14)),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 13)),
        };
        metrics.register();
        metrics
    }
}

/// Buckets for what takes milliseconds to a minute.
fn seconds() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    ])
}

/// Buckets for what takes seconds to an hour.
fn minutes() -> Histogram {
    Histogram::new([
        0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
    ])
}

/// Buckets for what takes seconds to a day.
fn hours() -> Histogram {
    Histogram::new([
        5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21_600.0,
        86_400.0,
    ])
}

impl Metrics {
    fn register(&mut self) {
        let to = &mut self.registry;
        to.register("instance_transitions", "Moves of instances.", self.transitions.clone());
        to.register("deaths", "Recorded ends, by why and whose fault.", self.deaths.clone());
        to.register("webhooks", "Deliveries, by what became of them.", self.webhooks.clone());
        to.register("requeued", "Offers that ended unserved, by cause.", self.requeued.clone());
        to.register("config_reloads", "Edits of the configuration.", self.reloads.clone());
        to.register("create_seconds", "From create call to machine seen.", self.create.clone());
        to.register("boot_seconds", "From machine seen to runner ready.", self.boot.clone());
        to.register("ready_seconds", "From the new row to runner ready.", self.ready.clone());
        to.register("delete_seconds", "From delete to proven gone.", self.delete.clone());
        to.register("job_queue_seconds", "From queued to running here.", self.queue.clone());
        to.register("job_run_seconds", "From running here to over.", self.run.clone());
        to.register("stranded_seconds", "From lost offer to the next.", self.stranded.clone());
        to.register(
            "webhook_to_create_seconds",
            "From hearing of a job to a create call; jobs and creates of a pool are matched in order.",
            self.webhook_to_create.clone(),
        );
        to.register("provider_calls", "Calls to providers.", self.provider_calls.clone());
        to.register("provider_call_seconds", "How long they took.", self.provider_seconds.clone());
        to.register("store_commit_seconds", "How long commits took.", self.commit_seconds.clone());
        to.register("store_batch_size", "Saves that shared a commit.", self.batch_size.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        to.register("build", "What runs here.", build);
        for outcome in ["applied", "refused"] {
            drop(self.reloads.get_or_create(&OutcomeLabel::of(outcome)));
        }
        for cause in recorder::CAUSES {
            drop(self.requeued.get_or_create(&CauseLabel { cause }));
        }
    }

    /// Writes explicit zeros for a pool: what was never counted is known to be nothing.
    pub fn know_pool(&self, pool: &str) {
        let label = PoolLabel::of(pool);
        let histograms = [
            &self.create,
            &self.boot,
            &self.ready,
            &self.delete,
            &self.queue,
            &self.run,
            &self.stranded,
            &self.webhook_to_create,
        ];
        for histogram in histograms {
            drop(histogram.get_or_create(&label));
        }
        for verdict in VerdictClass::ALL {
            drop(self.deaths.get_or_create(&DeathLabels {
                pool: pool.to_owned(),
                verdict: verdict.as_str(),
                fault: verdict.usual_fault().as_str(),
            }));
        }
    }

    /// Writes explicit zeros for a forge.
    pub fn know_forge(&self, forge: &str) {
        for outcome in WEBHOOK_OUTCOMES {
            let labels = WebhookLabels { forge: forge.to_owned(), outcome };
            drop(self.webhooks.get_or_create(&labels));
        }
    }

    /// Writes explicit zeros for a provider.
    pub fn know_provider(&self, provider: &str) {
        for op in PROVIDER_OPS {
            for outcome in ["ok", "failed"] {
                let provider = provider.to_owned();
                let labels = ProviderLabels { provider, op, outcome };
                drop(self.provider_calls.get_or_create(&labels));
            }
            let provider = provider.to_owned();
            drop(self.provider_seconds.get_or_create(&ProviderCall { provider, op }));
        }
    }

    /// Counts a delivery of a known forge.
    pub fn count_webhook(&self, forge: &str, outcome: &'static str) {
        let labels = WebhookLabels { forge: forge.to_owned(), outcome };
        self.webhooks.get_or_create(&labels).inc();
    }

    /// Counts an edit of the configuration: `applied` or `refused`.
    pub fn count_reload(&self, outcome: &'static str) {
        self.reloads.get_or_create(&OutcomeLabel::of(outcome)).inc();
    }

    /// Counts a call to a provider: `ok`, `failed`, or a closer word.
    pub fn count_call(
        &self,
        provider: &str,
        op: &'static str,
        outcome: &'static str,
        took: Duration,
    ) {
        let provider = provider.to_owned();
        let call = ProviderCall { provider: provider.clone(), op };
        self.provider_seconds.get_or_create(&call).observe(took.as_secs_f64());
        self.provider_calls.get_or_create(&ProviderLabels { provider, op, outcome }).inc();
    }

    /// Counts a commit of the store.
    pub fn count_commit(&self, size: usize, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.batch_size.observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }

    /// Writes everything, the board of this moment included.
    pub fn written(&self, board: &Board) -> String {
        let mut text = String::new();
        // Writing to memory does not fail.
        let _: Result<(), _> = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &board.registry()))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}

#[cfg(test)]
mod tests;
