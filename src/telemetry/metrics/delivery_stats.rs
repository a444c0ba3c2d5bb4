//! How well webhooks of a forge arrive: how many are missed, how late they come, how far the clocks
//! differ, and how long the forge will still send jobs to our runner versions.

use std::collections::BTreeMap;

use ostler_actors::model::Timestamp;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::ForgeLabel;
use crate::ports::{ForgeFigures, LATENESS_STEPS, Lateness, WebhookFigures};

/// The value when no runner version ends soon.
const NO_END_DAYS: i64 = 999;

/// Writes the figures of all forges.
pub(super) fn register(forges: &BTreeMap<String, ForgeFigures>, now: Timestamp, to: &mut Registry) {
    let counted = |of: fn(&WebhookFigures) -> u64| {
        let family = Family::<ForgeLabel, Counter>::default();
        for (forge, figures) in forges {
            family.get_or_create(&label(forge)).inc_by(of(&figures.webhooks));
        }
        family
    };
    let missed = counted(|webhooks| webhooks.missed);
    to.register(
        "webhooks_missed",
        "Deliveries about jobs that failed at the first try, by the forge's own log.",
        missed,
    );
    let logged = counted(|webhooks| webhooks.logged);
    to.register("webhooks_logged", "Deliveries about jobs that the forge's log names.", logged);
    let found = counted(|webhooks| webhooks.found_by_asking);
    to.register(
        "jobs_found_by_asking",
        "Jobs older than a minute that no webhook had reported.",
        found,
    );
    let lateness = forges.iter().map(|(forge, it)| (forge.clone(), it.webhooks.lateness.clone()));
    to.register(
        "webhook_lateness_seconds",
        "Time from an event to its webhook.",
        LatenessHistogram(lateness.collect()),
    );
    let (clocks, days) = (Family::<ForgeLabel, Gauge>::default(), Family::default());
    for (forge, figures) in forges {
        clocks.get_or_create(&label(forge)).set(figures.clock_ahead_seconds);
        let left = figures.ending.iter().map(|it| it.days_left(now)).min().unwrap_or(NO_END_DAYS);
        Family::<ForgeLabel, Gauge>::get_or_create(&days, &label(forge)).set(left);
    }
    to.register("forge_clock_ahead_seconds", "How far our clock is ahead of the forge's.", clocks);
    to.register(
        "runner_version_days_left",
        "Days until the forge sends no more jobs to a runner version in use; 999 is none soon.",
        days,
    );
}

fn label(forge: &str) -> ForgeLabel {
    ForgeLabel { forge: forge.to_owned() }
}

/// Writes what was counted elsewhere as histograms, one a forge.
#[derive(Debug)]
struct LatenessHistogram(BTreeMap<String, Lateness>);

impl EncodeMetric for LatenessHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (forge, late) in &self.0 {
            let labels = label(forge);
            let mut encoder = encoder.encode_family(&labels)?;
            encoder.encode_histogram::<NoLabelSet>(late.sum, late.count, &steps(late), None)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Returns how many fell into each step alone; the last one has no end.
fn steps(late: &Lateness) -> Vec<(f64, u64)> {
    let mut below = 0;
    let all = LATENESS_STEPS.into_iter().zip(late.at_most).chain([(f64::INFINITY, late.count)]);
    all.map(|(end, at_most)| (end, at_most - std::mem::replace(&mut below, at_most))).collect()
}
