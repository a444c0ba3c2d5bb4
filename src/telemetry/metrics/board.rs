//! What is read from the registry when the metrics are scraped.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use ostler_actors::model::{JobState, Reason, State, StateCounts, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::delivery_stats;
use super::labels::{AskLabels, KindLabel, PoolLabel, RateLabels, RequestLabels, StateLabels};
use crate::ports::ForgeFigures;

/// Jobs that are over are history, not a state of the board.
const OPEN: [JobState; 4] =
    [JobState::Waiting, JobState::Queued, JobState::Offered, JobState::Running];

/// The state of the fleet at one moment.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// The pools: all of the configuration and all that left it, by name.
    pub pools: BTreeMap<String, BoardPool>,
    pub forges: BTreeMap<String, ForgeFigures>,
    pub now: Timestamp,
    /// The answers to the reaper's requests.
    pub request_counts: BTreeMap<(Reason, &'static str), u64>,
    /// What keeps the fleet from its work, by kind.
    pub concerns: BTreeMap<&'static str, u32>,
    /// Machines without an owner.
    pub leaks: u64,
    /// Broken invariants since the start.
    pub violations: u64,
    /// Messages between actors that reached no recipient, since the start.
    pub lost_messages: u64,
    /// Whether this daemon leads: 1 or 0.
    pub leader: u8,
}

/// One pool; jobs that no pool serves are under the name `none`.
#[derive(Clone, Debug, Default)]
pub struct BoardPool {
    pub states: StateCounts,
    pub jobs: BTreeMap<JobState, u32>,
    /// Instances that make no progress.
    pub stuck: u32,
    /// How long the oldest job waits that it could serve and has not served.
    pub oldest_seconds: f64,
}

impl Board {
    pub(super) fn registry(&self) -> Registry {
        let mut to = Registry::with_prefix("ostler");
        self.pools(&mut to);
        self.forges(&mut to);
        delivery_stats::register(&self.forges, self.now, &mut to);
        let request_counts = Family::<AskLabels, Counter>::default();
        for reason in [Reason::Orphan, Reason::Unlisted, Reason::Offline, Reason::Unregistered] {
            drop(
                request_counts
                    .get_or_create(&AskLabels { reason: reason.as_str(), answer: "told" }),
            );
        }
        for ((reason, answer), count) in &self.request_counts {
            request_counts
                .get_or_create(&AskLabels { reason: reason.as_str(), answer })
                .inc_by(*count);
        }
        to.register("reaper_asks", "Answers to the requests of the reaper.", request_counts);
        let concerns = Family::<KindLabel, Gauge>::default();
        for (kind, count) in &self.concerns {
            concerns.get_or_create(&KindLabel { kind }).set((*count).into());
        }
        to.register("concerns", "What keeps the fleet from its work, by kind.", concerns);
        gauge(
            &mut to,
            "leaks",
            "Machines without an owner and rows that cannot be decoded; must read 0.",
            self.leaks,
        );
        gauge(&mut to, "leader", "Whether this daemon leads.", self.leader.into());
        counter(&mut to, "invariant_violations", "Must read 0.", self.violations);
        counter(
            &mut to,
            "lost_letters",
            "Messages between actors that reached no recipient.",
            self.lost_messages,
        );
        to
    }

    fn pools(&self, to: &mut Registry) {
        let instances = Family::<StateLabels, Gauge>::default();
        let jobs = Family::<StateLabels, Gauge>::default();
        let stuck = Family::<PoolLabel, Gauge>::default();
        let oldest = Family::<PoolLabel, Gauge<f64, AtomicU64>>::default();
        for (name, pool) in &self.pools {
            let label = |state| StateLabels { pool: name.clone(), state };
            for state in State::ALL {
                let count = pool.states.of(state);
                instances.get_or_create(&label(state.as_str())).set(count.into());
            }
            for state in OPEN {
                let count = pool.jobs.get(&state).copied().unwrap_or_default();
                jobs.get_or_create(&label(state.as_str())).set(count.into());
            }
            stuck.get_or_create(&PoolLabel::of(name)).set(pool.stuck.into());
            oldest.get_or_create(&PoolLabel::of(name)).set(pool.oldest_seconds);
        }
        to.register("instances", "Instances by state.", instances);
        to.register("jobs", "Jobs that are not over, by state.", jobs);
        to.register("instance_stuck", "Instances that make no progress.", stuck);
        to.register("oldest_queued_job_seconds", "How long the oldest job waits.", oldest);
    }

    fn forges(&self, to: &mut Registry) {
        let requests = Family::<RequestLabels, Counter>::default();
        let rates = Family::<RateLabels, Gauge>::default();
        for (name, figures) in &self.forges {
            for ((route, status), count) in &figures.requests {
                let (forge, status) = (name.clone(), u32::from(*status));
                requests.get_or_create(&RequestLabels { forge, route, status }).inc_by(*count);
            }
            for rate in &figures.rates {
                let labels = RateLabels { forge: name.clone(), resource: rate.resource };
                // Several credentials share the work: together they have what each has.
                rates.get_or_create(&labels).inc_by(rate.left.into());
            }
        }
        to.register("forge_requests", "Calls to forges; status 0 had no answer.", requests);
        to.register(
            "forge_rate_remaining",
            "Calls that are left, all credentials together.",
            rates,
        );
    }
}

fn gauge(to: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    to.register(name, help, gauge);
}

fn counter(to: &mut Registry, name: &str, help: &str, value: u64) {
    let counter = Counter::<u64>::default();
    counter.inc_by(value);
    to.register(name, help, counter);
}
