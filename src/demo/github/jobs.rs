//! Jobs and runs, as they are read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ostler_actors::model::{Place, Scope};
use serde_json::Value;

use super::router::{Ask, Reply, page};
use super::shapes;
use super::state::{SimJob, SimStage, State};

pub(super) fn job(state: &State, scope: &Scope, id: &str) -> Reply {
    let found = id.parse().ok().and_then(|id: u64| state.jobs.get(&id));
    let found = found.filter(|job| scope.covers(&job.place));
    found.map_or_else(Reply::not_found, |job| Reply::new(200, shapes::job(state, job)))
}

pub(super) fn run(state: &State, scope: &Scope, id: &str) -> Reply {
    let runs = runs_of(state, scope);
    let found = id.parse().ok().and_then(|id: u64| runs.get(&id));
    found.map_or_else(Reply::not_found, |jobs| Reply::new(200, shapes::run(state, jobs)))
}

pub(super) fn runs(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let status = ask.query.get("status");
    let runs = runs_of(state, scope);
    let open = runs.values().rev();
    let open = open.filter(|jobs| status.is_none_or(|status| run_status(jobs) == status));
    let shapes: Vec<Value> = open.map(|jobs| shapes::run(state, jobs)).collect();
    page(state, ask, Some("workflow_runs"), shapes)
}

pub(super) fn of_run(state: &mut State, ask: &Ask, scope: &Scope, id: &str) -> Reply {
    let runs = runs_of(state, scope);
    let Some(jobs) = id.parse().ok().and_then(|id: u64| runs.get(&id)) else {
        return Reply::not_found();
    };
    let shapes: Vec<Value> = jobs.iter().map(|job| shapes::job(state, job)).collect();
    page(state, ask, Some("jobs"), shapes)
}

/// Lists repositories, the one pushed to last first. A job is queued by a push.
pub(super) fn repositories(state: &mut State, ask: &Ask, scope: &Scope) -> Reply {
    let mut pushed: BTreeMap<(String, String), Timestamp> = BTreeMap::new();
    let of_jobs = state.jobs.values().map(|job| (&job.place, job.queued_at));
    let others = state.repositories.iter().map(|(place, at)| (place, *at));
    let installed = state.tokens.contains_key(&ask.bearer);
    let selected = state.lies.selected.as_ref().filter(|_| installed);
    let shown = |place: &Place| selected.is_none_or(|names| names.contains(&place.repository));
    let all = of_jobs.chain(others);
    for (place, at) in all.filter(|(place, _)| scope.covers(place) && shown(place)) {
        let known = pushed.entry((place.owner.clone(), place.repository.clone())).or_insert(at);
        *known = at.max(*known);
    }
    if let Some(at) = state.lies.pushed_at {
        for known in pushed.values_mut() {
            *known = at;
        }
    }
    let mut all: Vec<_> = pushed.into_iter().enumerate().collect();
    all.sort_by_key(|(_, (_, at))| std::cmp::Reverse(*at));
    let shape = |(id, ((owner, name), at)): &(usize, ((String, String), Timestamp))| {
        shapes::listed(owner, name, id + 1, *at)
    };
    let all = all.iter().map(shape).collect();
    page(state, ask, None, all)
}

pub(super) fn repository(scope: &Scope) -> Reply {
    match scope {
        Scope::Repository { owner, name } => Reply::new(200, shapes::whole(owner, name)),
        Scope::Organization(_) | Scope::Enterprise(_) => Reply::not_found(),
    }
}

/// Returns the runs of a scope with their jobs.
fn runs_of<'a>(state: &'a State, scope: &Scope) -> BTreeMap<u64, Vec<&'a SimJob>> {
    let mut runs: BTreeMap<u64, Vec<&SimJob>> = BTreeMap::new();
    for job in state.jobs.values().filter(|job| scope.covers(&job.place)) {
        runs.entry(job.run).or_default().push(job);
    }
    runs
}

/// Returns the status of a run: that of its liveliest job.
pub(super) fn run_status(jobs: &[&SimJob]) -> &'static str {
    let any = |stage: &SimStage| jobs.iter().any(|job| job.stage == *stage);
    if jobs.iter().all(|job| job.dead_run || matches!(job.stage, SimStage::Completed(_))) {
        "completed"
    } else if any(&SimStage::InProgress) || jobs.iter().any(|job| job.stage.label() == "completed")
    {
        "in_progress"
    } else if any(&SimStage::Queued) {
        "queued"
    } else {
        "waiting"
    }
}
