//! `GET /fleet`, `/config` and `/version`: everything at a glance, and what this daemon is.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::web;
use jiff::{SignedDuration, Timestamp};
use ostler_actors::jobs::{BudgetLeft, HoldUps, PoolStatus};
use ostler_actors::model::{ForgeId, Job, JobState, PoolId, StateCounts};
use ostler_actors::registry::PoolView;
use serde_json::Value;

use super::shapes::{
    Budget, EndingVersion, Fleet, ForeignMachine, Forge, InstanceCounts, JobCounts, Pool,
    QueueMinute, Totals, Version, Webhooks, all_states,
};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::ports::{ForgeFigures, ForgeServices, RateBudget, Stage};

/// Shows everything at a glance.
#[utoipa::path(
    get, path = "/api/v1/fleet", tag = "fleet",
    responses((status = 200, body = Fleet), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn fleet(app_state: web::Data<AppState>) -> web::Json<Fleet> {
    let (now, shown, config) =
        (app_state.clock.now(), app_state.status.shown(), app_state.config.load());
    let totals = app_state.totals();
    let foreign = app_state.registry.foreign().into_iter();
    web::Json(Fleet {
        name: config.daemon.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        stage: shown.stage,
        leader: shown.stage == Stage::Leading,
        controller: app_state.controller.to_string(),
        now,
        started_at: app_state.started_at,
        instances: totals.instances,
        jobs: totals.jobs,
        stuck: totals.stuck,
        leaks: totals.leaks,
        violations: app_state.registry.violations(),
        foreign_machines: foreign
            .map(|(machine, seen)| ForeignMachine {
                machine: machine.to_string(),
                since: seen.since,
                holder: seen.holder.map(|holder| holder.to_string()),
            })
            .collect(),
        pools: app_state.pools(now),
        forges: app_state.forges(now),
        config_problem: shown.config_problem,
        concerns: app_state.concerns().into_iter().map(Into::into).collect(),
        oldest_queued_at: totals.oldest_queued_at,
    })
}

/// What several handlers read off the board.
impl AppState {
    /// Returns the fleet in a few numbers.
    pub(in crate::http) fn totals(&self) -> Totals {
        let views = self.registry.pools();
        let states: StateCounts = views.iter().flat_map(|view| view.states.iter()).collect();
        Totals {
            stage: self.status.shown().stage,
            instances: InstanceCounts { total: states.total(), states: all_states(&states) },
            jobs: self.job_counts(),
            stuck: views.iter().map(|view| view.stuck).sum(),
            leaks: self.leaks(),
            oldest_queued_at: views.iter().filter_map(|view| view.oldest).min(),
        }
    }

    /// Returns how many machines have no owner, and how many rows cannot be decoded.
    pub(in crate::http) fn leaks(&self) -> u64 {
        let unowned = self.registry.foreign().len() + self.records.quarantined().len();
        u64::try_from(unowned).unwrap_or(u64::MAX).saturating_add(self.forgotten.count())
    }

    fn job_counts(&self) -> JobCounts {
        let counts = self.registry.count_jobs(Job::state);
        let of = |state| counts.get(&state).copied().unwrap_or_default();
        JobCounts {
            waiting: of(JobState::Waiting),
            queued: of(JobState::Queued),
            offered: of(JobState::Offered),
            running: of(JobState::Running),
        }
    }

    /// Returns all pools: those of the configuration in its order, then those that left it.
    pub(in crate::http) fn pools(&self, now: Timestamp) -> Vec<Pool> {
        let config = self.config.load();
        let views = self.views();
        let waits = |name: &str| {
            let minutes = self.waits.minutes(&PoolId::new(name), now).into_iter();
            minutes.map(|it| QueueMinute { at: it.at, p50: it.p50, max: it.max }).collect()
        };
        let written = config.pools.iter().map(|pool| {
            let view = views.get(pool.name.as_str()).map(|view| &**view);
            Pool::of(&pool.name, Some(pool), view, waits(&pool.name), now)
        });
        let left = views
            .iter()
            .filter(|(id, _)| !config.pools.iter().any(|pool| pool.name == id.as_str()));
        let left =
            left.map(|(id, view)| Pool::of(id.as_str(), None, Some(view), waits(id.as_str()), now));
        written.chain(left).collect()
    }

    /// Returns the pools of the board by name.
    pub(in crate::http) fn views(&self) -> BTreeMap<PoolId, Arc<PoolView>> {
        self.registry.pools().into_iter().map(|view| (view.id.clone(), view)).collect()
    }

    /// Returns the pools as the configuration and the board have them, for explanations.
    pub(in crate::http) fn pool_statuses(&self, now: Timestamp) -> Vec<PoolStatus> {
        let mut views = self.views();
        let row_status = |spec: ostler_actors::model::PoolSpec| PoolStatus {
            view: views.remove(&spec.id),
            spec: Arc::new(spec),
        };
        self.config.load().pool_specs(now).into_iter().map(row_status).collect()
    }

    /// Returns what may hold jobs up beside the standing of their pools.
    pub(in crate::http) fn holdups(&self, now: Timestamp) -> HoldUps {
        let booting = self.registry.instances_where(|row| !row.state.is_booted());
        let budget = |budget: Budget| BudgetLeft {
            who: budget.credential,
            resource: budget.resource,
            remaining: budget.remaining,
            limit: budget.limit,
            resets_at: budget.resets_at,
        };
        let budgets = self.forges(now).into_iter().flat_map(|forge| forge.budgets).map(budget);
        HoldUps { booting, budgets: budgets.collect() }
    }

    /// Returns the forges and what they still let us ask.
    pub(in crate::http) fn forges(&self, now: Timestamp) -> Vec<Forge> {
        let budget = |rate: RateBudget| Budget {
            credential: rate.identity,
            resource: rate.resource.into(),
            remaining: rate.left,
            limit: rate.limit,
            resets_at: SignedDuration::try_from(rate.resets_in)
                .ok()
                .and_then(|wait| now.checked_add(wait).ok()),
        };
        let forge = |(id, forge): (&ForgeId, &ForgeServices)| {
            let ForgeFigures { rates, webhooks, clock_ahead_seconds, ending, .. } =
                forge.monitor.figures();
            let ending = ending.into_iter().map(|it| EndingVersion {
                sentence: it.sentence(now),
                version: it.version,
                ends_at: it.ends_at,
            });
            Forge {
                name: id.to_string(),
                kind: forge.kind.into(),
                budgets: rates.into_iter().map(budget).collect(),
                clock_ahead_seconds,
                webhooks: Webhooks {
                    logged: webhooks.logged,
                    missed: webhooks.missed,
                    found_by_asking: webhooks.found_by_asking,
                },
                ending_versions: ending.collect(),
            }
        };
        self.forges.load().iter().map(forge).collect()
    }
}

/// Shows the configuration in force; secrets appear as the place they are kept in.
#[utoipa::path(
    get, path = "/api/v1/config", tag = "daemon",
    responses((status = 200, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn config(app_state: web::Data<AppState>) -> web::Json<Value> {
    web::Json(app_state.config.load().redacted())
}

/// Shows what runs here.
#[utoipa::path(
    get, path = "/api/v1/version", tag = "daemon",
    responses((status = 200, body = Version), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(in crate::http) async fn version(app_state: web::Data<AppState>) -> web::Json<Version> {
    web::Json(Version {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("OSTLER_COMMIT").map(Into::into),
        rust: env!("CARGO_PKG_RUST_VERSION").into(),
        schema: app_state.schema,
    })
}
