//! `GET /instances…`: who is there, since when, and why.

use std::sync::Arc;

use actix_web::web;
use jiff::Timestamp;
use ostler_actors::instance::{explain_instance, is_stuck};
use ostler_actors::model::{self, InstanceId, PoolId, RunnerName, State, Subject, elapsed};
use ostler_actors::ports::StoreError;
use serde::Deserialize;

use super::look;
use super::requests::Part;
use super::shapes::{
    DeathDetail, Event, Explanation, Instance, InstanceDetail, Listed, RowStatus, StateName,
    Timeline, VerdictName,
};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::ports::InstanceQuery;

/// Narrows the list.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::http) struct Which {
    pool: Option<String>,
    state: Option<StateName>,
    q: Option<String>,
    stuck: Option<bool>,
}

impl Which {
    /// Returns whether an instance is called so, in part: by its own name, its machine's, its
    /// host's, one of its runners' or its job's.
    fn names(&self, row: &model::Instance) -> bool {
        let Some(part) = self.q.as_deref().map(str::to_lowercase) else { return true };
        let has = |name: &str| name.to_lowercase().contains(&part);
        has(row.id.as_str())
            || has(row.runner_name(row.mints).as_str())
            || row.host.as_ref().is_some_and(|host| has(host.as_str()))
            || row.executing.as_ref().is_some_and(|job| has(&job.to_string()))
            || row.offer.as_ref().is_some_and(|offer| has(&offer.job.to_string()))
    }
}

/// Lists instances by name; with `state=deleted` those that are gone, the latest first.
#[utoipa::path(
    get, path = "/api/v1/instances", tag = "instances",
    params(
        ("pool" = Option<String>, Query, description = "Of this pool only."),
        ("state" = Option<StateName>, Query, description = "In this state only."),
        ("q" = Option<String>, Query, description = "Only those whose name, or machine's, host's, runner's or job's name, holds this text; of those that are there, not of those that are gone."),
        ("stuck" = Option<bool>, Query, description = "Only those that make no progress, or only the others."),
        ("limit" = Option<u32>, Query, description = "How many at most.", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "Where the last part ended.")
    ),
    responses(
        (status = 200, body = Listed<Instance>),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn list(
    app_state: web::Data<AppState>,
    which: web::Query<Which>,
    part: web::Query<Part>,
) -> Result<web::Json<Listed<Instance>>, Problem> {
    let now = app_state.clock.now();
    let pool = which.pool.as_deref().map(PoolId::new);
    let state = which.state.map(|state| state.0);
    if state == Some(State::Deleted) && (which.q.is_some() || which.stuck.is_some()) {
        let why = "`q` and `stuck` look through those that are there; ask for one that is gone by its name";
        return Err(Problem::new(400, why));
    }
    if state == Some(State::Deleted) {
        let query = InstanceQuery { pool, state };
        let page = look(app_state.history.instances(&query, &part.page()?)).await?;
        let gone = RowStatus { stuck: false, owned: false };
        let items = page.items.iter().map(|row| Instance::of(row, gone)).collect();
        return Ok(web::Json(Listed { items, next_cursor: page.next_cursor }));
    }
    let limit = usize::try_from(part.limit()?).unwrap_or(usize::MAX);
    let wanted = |row: &model::Instance| {
        pool.as_ref().is_none_or(|pool| row.pool == *pool)
            && state.is_none_or(|state| row.state == state)
            && which.names(row)
            && which.stuck.is_none_or(|stuck| app_state.is_stuck(row, now) == stuck)
    };
    let mut rows = app_state.registry.instances_after(part.after(), limit + 1, wanted);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|row| row.id.to_string());
    let items = rows.iter().map(|row| app_state.shown(row, now)).collect();
    Ok(web::Json(Listed { items, next_cursor }))
}

/// Shows one instance, by its own name or one of its runners', also when it is gone.
#[utoipa::path(
    get, path = "/api/v1/instances/{name}", tag = "instances", params(("name" = String, Path, description = "The instance, or its runner.")),
    responses(
        (status = 200, body = InstanceDetail),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn one(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<InstanceDetail>, Problem> {
    let row = find(&app_state, &name).await?;
    // Before there is an end there is no record of one, and the store need not be asked.
    let death = if row.state.is_over() {
        match app_state.records.exit(&row.id).await {
            // The instance is shown without it; `explain` says what is wrong.
            Err(StoreError::Unreadable(_)) => None,
            read => look(async { read }).await?,
        }
    } else {
        None
    };
    let mut instance = app_state.shown(&row, app_state.clock.now());
    if let Some(record) = &death {
        // The record may have been revised since its owner wrote the row.
        instance.verdict = Some(VerdictName(record.verdict.class));
    }
    Ok(web::Json(InstanceDetail {
        instance,
        warrant: row.warrant.as_ref().map(Into::into),
        end: serde_json::to_value(&row.end).unwrap_or_default(),
        death: death.as_ref().map(DeathDetail::from),
    }))
}

/// Returns everything that happened to an instance, in order, also when it is gone.
#[utoipa::path(
    get, path = "/api/v1/instances/{name}/timeline", tag = "instances", params(("name" = String, Path, description = "The instance, or its runner.")),
    responses(
        (status = 200, body = Timeline),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn timeline(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<Timeline>, Problem> {
    let row = find(&app_state, &name).await?;
    let subject = Subject::Instance(row.id.clone());
    let events = look(app_state.history.timeline_with_places(&subject)).await?;
    Ok(web::Json(Timeline { items: events.iter().map(Event::from).collect() }))
}

/// Explains an instance: what it waits for, who wants it gone, what allows its deletion.
#[utoipa::path(
    get, path = "/api/v1/instances/{name}/explain", tag = "instances", params(("name" = String, Path, description = "The instance, or its runner.")),
    responses(
        (status = 200, body = Explanation),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn explain(
    app_state: web::Data<AppState>,
    name: web::Path<String>,
) -> Result<web::Json<Explanation>, Problem> {
    let named = Subject::Instance(InstanceId::new(name.as_str()));
    if let Some(lines) = app_state.explain_quarantined(&named) {
        return Ok(web::Json(Explanation { subject: (&named).into(), lines }));
    }
    let row = find(&app_state, &name).await?;
    let subject = Subject::Instance(row.id.clone());
    let events = look(app_state.records.timeline(&subject)).await?;
    let now = app_state.clock.now();
    let mut lines =
        app_state.with_policy(&row.pool, |policy| explain_instance(&row, &events, policy, now));
    lines.extend(app_state.forge_doubt(&row, now));
    lines.extend(app_state.quarantine_remarks(&subject));
    Ok(web::Json(Explanation { subject: (&subject).into(), lines }))
}

impl AppState {
    /// Shows a row with what the board knows beside it.
    fn shown(&self, row: &model::Instance, now: Timestamp) -> Instance {
        let row_status = RowStatus {
            stuck: self.is_stuck(row, now),
            owned: row.state != State::Deleted && !self.registry.is_ownerless(&row.id),
        };
        Instance::of(row, row_status)
    }

    /// Says why the forge could not tell whether a job runs there, if that is what keeps it.
    fn forge_doubt(&self, row: &model::Instance, now: Timestamp) -> Option<String> {
        let forges = self.forges.load();
        let (at, why) = forges.get(&row.forge)?.monitor.doubt_about(&row.runner_name(row.mints))?;
        let asked = elapsed(at, now).as_secs();
        (!row.state.is_over()).then(|| {
            format!(
                "The forge was asked {asked} s ago whether a job runs there, and it is not known, \
                 so the machine is kept: {why}."
            )
        })
    }

    fn is_stuck(&self, row: &model::Instance, now: Timestamp) -> bool {
        self.with_policy(&row.pool, |policy| is_stuck(row, policy, now))
    }
}

/// Finds an instance by its name or its runner's: on the board, else in the records.
pub(super) async fn find(
    app_state: &AppState,
    name: &str,
) -> Result<Arc<model::Instance>, Problem> {
    if name.contains('\0') {
        return Err(unknown(name));
    }
    let own = InstanceId::new(name);
    if let Some(row) = app_state.registry.instance(&own) {
        return Ok(row);
    }
    let runner = RunnerName::new(name);
    if let Some(row) =
        app_state.registry.instances_after(None, 1, |row| row.answers_to(&runner)).pop()
    {
        return Ok(row);
    }
    let first = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
    for id in [Some(own), first.map(|(base, _)| InstanceId::new(base))].into_iter().flatten() {
        let stored = look(app_state.records.instance(&id)).await?;
        if let Some(row) = stored.filter(|row| row.id.as_str() == name || row.answers_to(&runner)) {
            return Ok(Arc::new(row));
        }
    }
    Err(unknown(name))
}

pub(super) fn unknown(name: &str) -> Problem {
    let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
    Problem::new(
        404,
        format!("no instance or runner is called `{name}`; records are kept for `store.retention`"),
    )
}
