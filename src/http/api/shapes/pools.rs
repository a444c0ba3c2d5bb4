//! Pools.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ostler_actors::model::{Labels, State, StateCounts};
use ostler_actors::registry::{PoolFailure, PoolView};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::serde_name;
use crate::config;

/// A pool: what is wanted, and what there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// The forge its runners register at; nothing for a pool that left the configuration.
    pub forge: Option<String>,
    /// What it serves.
    pub scope: Option<String>,
    /// The provider of its machines.
    pub provider: Option<String>,
    /// When a runner registers: `early` or `late`.
    pub binding: Option<String>,
    /// The labels its runners carry.
    pub labels: Vec<String>,
    /// What its machines are made from.
    pub image: Option<String>,
    /// How many idle runners are kept beyond demand, by the schedule of now.
    pub min_idle: u32,
    /// How many machines may exist at once.
    pub max: u32,
    /// How many instances it wants.
    pub want: u32,
    /// How many jobs wait for it.
    pub demand: u32,
    /// Instances by state, zeros included.
    pub states: BTreeMap<String, u32>,
    /// Whether it drains.
    pub draining: bool,
    /// Since when creation is held after repeated failures.
    pub breaker_since: Option<Timestamp>,
    /// Whether every machine it began with has been looked at, so that it may create.
    pub settled: bool,
    /// How many of its instances make no progress.
    pub stuck: u32,
    /// When the oldest job was queued that it could serve and has not served.
    pub oldest_queued_at: Option<Timestamp>,
    /// How its instances fail, if the last ones did.
    pub failing: Option<FailingLives>,
    /// Hosts that new machines avoid.
    pub avoided_hosts: Vec<AvoidedHost>,
    /// How long jobs waited that began in the last hour, by minute.
    pub queue_seconds: Vec<QueueMinute>,
}

/// A pool with the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolDetail {
    /// The pool.
    #[serde(flatten)]
    pub pool: Pool,
    /// Why it has as many instances as it has.
    pub explain: Vec<String>,
}

/// How the instances of a pool fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailingLives {
    /// How many failed since the last one that served.
    pub failures: u32,
    /// When the first of them began.
    pub since: Timestamp,
    /// The last of them.
    pub instance: String,
    /// When its failure counted.
    pub at: Timestamp,
    /// How far it had come: `create`, `boot`, `idle`, `pickup`.
    pub stage: String,
    /// What is to blame: `image`, `runner`, `host`, `forge`, `credential`, `provider`.
    pub class: String,
    /// What the provider, the forge or the runner said.
    pub error: String,
    /// What a person may do about it.
    pub advice: String,
    /// When the next probe may start, where creation is held and none is under way.
    pub next_probe_at: Option<Timestamp>,
}

impl FailingLives {
    fn of(failing: &PoolFailure) -> Self {
        let PoolFailure { failures, since, instance, at, failure, next_probe } = failing;
        Self {
            failures: *failures,
            since: *since,
            instance: instance.to_string(),
            at: *at,
            stage: failure.stage.to_string(),
            class: failure.class.to_string(),
            error: failure.error.to_string(),
            advice: failure.advice.to_string(),
            next_probe_at: *next_probe,
        }
    }
}

/// A host that new machines avoid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AvoidedHost {
    /// The host.
    pub host: String,
    /// How many machines in a row did not come up there.
    pub failures: u32,
}

/// How long jobs waited that began in one minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueMinute {
    /// The minute.
    pub at: Timestamp,
    /// Half of them waited no longer, in seconds.
    pub p50: f64,
    /// The longest wait, in seconds.
    pub max: f64,
}

/// Returns a count for every state.
pub(in crate::http) fn all_states(counts: &StateCounts) -> BTreeMap<String, u32> {
    State::ALL.iter().map(|state| (state.to_string(), counts.of(*state))).collect()
}

impl Pool {
    /// Shows a pool of the configuration, of the board, or of both.
    pub(in crate::http) fn of(
        name: &str,
        written: Option<&config::Pool>,
        view: Option<&PoolView>,
        queue_seconds: Vec<QueueMinute>,
        now: Timestamp,
    ) -> Self {
        let host = |(host, failures): &(ostler_actors::model::HostName, u32)| AvoidedHost {
            host: host.to_string(),
            failures: *failures,
        };
        Self {
            name: name.to_owned(),
            forge: written.map(|pool| pool.forge.clone()),
            scope: written.map(|pool| pool.scope.to_string()),
            provider: written.map(|pool| pool.provider.clone()),
            binding: written.map(|pool| serde_name(&pool.binding)),
            labels: written
                .map(|pool| {
                    let labels = pool.labels.iter().collect::<Labels>();
                    labels.iter().map(ToOwned::to_owned).collect()
                })
                .unwrap_or_default(),
            image: written.map(|pool| pool.image.clone()).filter(|image| !image.is_empty()),
            min_idle: written.map(|pool| pool.min_idle_at(now)).unwrap_or_default(),
            max: view.map(|view| view.max).or(written.map(|pool| pool.max)).unwrap_or_default(),
            want: view.map(|view| view.want).unwrap_or_default(),
            demand: view.map(|view| view.demand).unwrap_or_default(),
            states: all_states(&view.map(|view| view.states).unwrap_or_default()),
            draining: view.is_some_and(|view| view.draining),
            breaker_since: view.and_then(|view| view.breaker),
            settled: view.is_some_and(|view| view.settled),
            stuck: view.map(|view| view.stuck).unwrap_or_default(),
            oldest_queued_at: view.and_then(|view| view.oldest),
            failing: view.and_then(|view| view.failing.as_ref()).map(FailingLives::of),
            avoided_hosts: view
                .map(|view| view.shunned.iter().map(host).collect())
                .unwrap_or_default(),
            queue_seconds,
        }
    }
}
