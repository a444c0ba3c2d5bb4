//! `GET /instances…`: who is there, since when, and why.

use std::sync::Arc;

use actix_web::web;
use jiff::Timestamp;
use ostler_actors::instance::{explain_instance, is_stuck};
use ostler_actors::model::{self, InstanceId, PoolId, RunnerName, State, Subject};
use serde::Deserialize;

use super::look;
use super::paging::Part;
use super::shapes::{
    DeathDetail, Event, Explanation, Instance, InstanceDetail, Listed, Standing, StateWord,
    Timeline,
};
use crate::http::Doors;
use crate::http::problem::Problem;
use crate::store::InstanceQuery;

/// Narrows the list.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::http) struct Which {
    pool: Option<String>,
    state: Option<StateWord>,
}

/// Lists instances by name; with `state=deleted` those that are gone, the latest first.
#[utoipa::path(
    get, path = "/api/v1/instances", tag = "instances",
    params(
        ("pool" = Option<String>, Query, description = "Of this pool only."),
        ("state" = Option<StateWord>, Query, description = "In this state only."),
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
    doors: web::Data<Doors>,
    which: web::Query<Which>,
    part: web::Query<Part>,
) -> Result<web::Json<Listed<Instance>>, Problem> {
    let now = doors.clock.now();
    let pool = which.pool.as_deref().map(PoolId::new);
    let state = which.state.map(|state| state.0);
    if state == Some(State::Deleted) {
        let query = InstanceQuery { pool, state };
        let page = look(doors.history.instances(&query, &part.page()?)).await?;
        let gone = Standing { stuck: false, owned: false };
        let items = page.items.iter().map(|row| Instance::of(row, gone)).collect();
        return Ok(web::Json(Listed { items, next_cursor: page.next_cursor }));
    }
    let limit = usize::try_from(part.limit()?).unwrap_or(usize::MAX);
    let wanted = |row: &Arc<model::Instance>| {
        pool.as_ref().is_none_or(|pool| row.pool == *pool)
            && state.is_none_or(|state| row.state == state)
            && part.after().is_none_or(|after| row.id.as_str() > after)
    };
    let mut rows = doors.registry.instances_where(wanted, limit + 1);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| more).map(|row| row.id.to_string());
    let items = rows.iter().map(|row| doors.shown(row, now)).collect();
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
    doors: web::Data<Doors>,
    name: web::Path<String>,
) -> Result<web::Json<InstanceDetail>, Problem> {
    let row = find(&doors, &name).await?;
    // Before there is an end there is no record of one, and nobody waits for the store.
    let death =
        if row.state >= State::Ended { look(doors.records.exit(&row.id)).await? } else { None };
    Ok(web::Json(InstanceDetail {
        instance: doors.shown(&row, doors.clock.now()),
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
    doors: web::Data<Doors>,
    name: web::Path<String>,
) -> Result<web::Json<Timeline>, Problem> {
    let row = find(&doors, &name).await?;
    let subject = Subject::Instance(row.id.clone());
    let events = look(doors.history.timeline_with_places(&subject)).await?;
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
    doors: web::Data<Doors>,
    name: web::Path<String>,
) -> Result<web::Json<Explanation>, Problem> {
    let row = find(&doors, &name).await?;
    let subject = Subject::Instance(row.id.clone());
    let events = look(doors.records.timeline(&subject)).await?;
    let now = doors.clock.now();
    let lines = doors.with_policy(&row.pool, |policy| explain_instance(&row, &events, policy, now));
    Ok(web::Json(Explanation { subject: (&subject).into(), lines }))
}

impl Doors {
    /// Shows a row with what the board knows beside it.
    fn shown(&self, row: &model::Instance, now: Timestamp) -> Instance {
        let standing = Standing {
            stuck: self.with_policy(&row.pool, |policy| is_stuck(row, policy, now)),
            owned: row.state != State::Deleted && !self.registry.is_ownerless(&row.id),
        };
        Instance::of(row, standing)
    }
}

/// Finds an instance by its name or its runner's: on the board, else in the records.
pub(super) async fn find(doors: &Doors, name: &str) -> Result<Arc<model::Instance>, Problem> {
    if name.contains('\0') {
        return Err(unknown(name));
    }
    let own = InstanceId::new(name);
    if let Some(row) = doors.registry.instance(&own) {
        return Ok(row);
    }
    let runner = RunnerName::new(name);
    let answers = |row: &Arc<model::Instance>| row.answers_to(&runner);
    if let Some(row) = doors.registry.instances_where(answers, 1).pop() {
        return Ok(row);
    }
    let first = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
    for id in [Some(own), first.map(|(base, _)| InstanceId::new(base))].into_iter().flatten() {
        let stored = look(doors.records.instance(&id)).await?;
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
