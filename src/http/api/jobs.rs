//! `GET /jobs…`: what is asked of us, what waits, and why.

use std::sync::Arc;

use actix_web::web;
use ostler_actors::jobs::{explain_job, why_it_waits};
use ostler_actors::model::{self, ForgeId, JobId, JobState, Subject};
use serde::Deserialize;

use super::look;
use super::requests::{Part, bad_cursor};
use super::shapes::{Event, Explanation, Job, JobStateName, Listed, Timeline};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::ports::JobQuery;

/// Narrows the list.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::http) struct Which {
    state: Option<JobStateName>,
}

/// Lists jobs: all of them, the latest first; or those in one state, which for jobs that are not
/// over means the longest waiting first, those that no pool serves included.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs",
    params(
        ("state" = Option<JobStateName>, Query, description = "In this state only."),
        ("limit" = Option<u32>, Query, description = "How many at most.", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "Where the last part ended.")
    ),
    responses(
        (status = 200, body = Listed<Job>),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn list(
    app_state: web::Data<AppState>,
    which: web::Query<Which>,
    part: web::Query<Part>,
) -> Result<web::Json<Listed<Job>>, Problem> {
    let state = which.state.map(|state| state.0);
    if let Some(state) = state.filter(|state| state.is_open()) {
        return open(&app_state, state, &part).map(web::Json);
    }
    let page = look(app_state.history.jobs(&JobQuery { state }, &part.page()?)).await?;
    let items = app_state.with_reasons(page.items.into_iter().map(Arc::new).collect());
    Ok(web::Json(Listed { items, next_cursor: page.next_cursor }))
}

/// Lists jobs that are not over, off the board.
fn open(app_state: &AppState, state: JobState, part: &Part) -> Result<Listed<Job>, Problem> {
    let limit = usize::try_from(part.limit()?).unwrap_or(usize::MAX);
    let after = part.after().map(str::parse::<Place>).transpose()?;
    let mut jobs = app_state.registry.jobs();
    jobs.retain(|job| {
        job.state() == state && after.as_ref().is_none_or(|after| Place::of(job) > *after)
    });
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let next_cursor = jobs.last().filter(|_| more).map(|job| Place::of(job).to_string());
    Ok(Listed { items: app_state.with_reasons(jobs), next_cursor })
}

/// Names a job's place in the line: by age, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(i128, JobId);

impl Place {
    fn of(job: &model::Job) -> Self {
        Self(job.queued_at.as_nanosecond(), job.id.clone())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl std::str::FromStr for Place {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (at, id) = text.split_once(':').ok_or_else(bad_cursor)?;
        let (forge, number) = id.rsplit_once('/').ok_or_else(bad_cursor)?;
        let id =
            JobId { forge: ForgeId::new(forge), number: number.parse().map_err(|_| bad_cursor())? };
        Ok(Self(at.parse().map_err(|_| bad_cursor())?, id))
    }
}

/// Shows one job, by `forge/number` (percent-encoded), or by its number alone.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path, description = "`forge/number`, or the number.")),
    responses(
        (status = 200, body = Job),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn one(
    app_state: web::Data<AppState>,
    id: web::Path<String>,
) -> Result<web::Json<Job>, Problem> {
    let job = find(&app_state, &id).await?;
    app_state.with_reasons(vec![job]).pop().map(web::Json).ok_or_else(|| unknown(&id))
}

/// Returns everything that happened to a job, in order.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/timeline", tag = "jobs", params(("id" = String, Path, description = "`forge/number`, or the number.")),
    responses(
        (status = 200, body = Timeline),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn timeline(
    app_state: web::Data<AppState>,
    id: web::Path<String>,
) -> Result<web::Json<Timeline>, Problem> {
    let job = find(&app_state, &id).await?;
    let events =
        look(app_state.history.timeline_with_places(&Subject::Job(job.id.clone()))).await?;
    Ok(web::Json(Timeline { items: events.iter().map(Event::from).collect() }))
}

/// Explains a job: why it waits, with numbers, or where it runs, or how it ended.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/explain", tag = "jobs", params(("id" = String, Path, description = "`forge/number`, or the number.")),
    responses(
        (status = 200, body = Explanation),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = 503, body = Problem, description = "The store does not answer.", content_type = "application/problem+json")
    )
)]
pub(in crate::http) async fn explain(
    app_state: web::Data<AppState>,
    id: web::Path<String>,
) -> Result<web::Json<Explanation>, Problem> {
    for id in ids(&app_state, &id).into_iter().flatten() {
        let subject = Subject::Job(id);
        if let Some(lines) = app_state.explain_quarantined(&subject) {
            return Ok(web::Json(Explanation { subject: (&subject).into(), lines }));
        }
    }
    let job = find(&app_state, &id).await?;
    let subject = Subject::Job(job.id.clone());
    let events = look(app_state.records.timeline(&subject)).await?;
    let now = app_state.clock.now();
    let mut lines =
        explain_job(&job, &events, &app_state.pool_statuses(now), &app_state.holdups(now), now);
    lines.extend(app_state.quarantine_remarks(&subject));
    Ok(web::Json(Explanation { subject: (&subject).into(), lines }))
}

impl AppState {
    /// Shows jobs, each with why it waits.
    fn with_reasons(&self, jobs: Vec<Arc<model::Job>>) -> Vec<Job> {
        let now = self.clock.now();
        let (pool_statuses, holdups) = (self.pool_statuses(now), self.holdups(now));
        let shown = |job: Arc<model::Job>| {
            let why = why_it_waits(&job, &pool_statuses, &holdups, now);
            Job::of(&job, why)
        };
        jobs.into_iter().map(shown).collect()
    }
}

/// Finds a job: on the board, else in the records.
async fn find(app_state: &AppState, text: &str) -> Result<Arc<model::Job>, Problem> {
    for id in ids(app_state, text).ok_or_else(|| unknown(text))? {
        if let Some(job) = app_state.registry.job(&id) {
            return Ok(job);
        }
        if let Some(job) = look(app_state.records.job(&id)).await? {
            return Ok(Arc::new(job));
        }
    }
    Err(unknown(text))
}

/// Returns the jobs a text may mean: one of the forge it names, or one of any forge.
fn ids(app_state: &AppState, text: &str) -> Option<Vec<JobId>> {
    let config = app_state.config.load();
    let known = |forge: &str| config.forges.contains_key(forge);
    if let Some((forge, number)) = text.rsplit_once('/') {
        let number = number.parse().ok().filter(|_| known(forge))?;
        return Some(vec![JobId { forge: ForgeId::new(forge), number }]);
    }
    let number: u64 = text.parse().ok()?;
    let id = |forge: &String| JobId { forge: ForgeId::new(forge.as_str()), number };
    Some(config.forges.keys().map(id).collect())
}

fn unknown(text: &str) -> Problem {
    let text: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
    Problem::new(
        404,
        format!(
            "no job `{text}` is known; write its number or `forge/number`, as `GET /jobs` shows"
        ),
    )
}
