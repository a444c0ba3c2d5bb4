//! Finds jobs where GitHub has no list of them: by repository, run by run.
//!
//! There is no "queued jobs of an organization" and no "job of this runner". Both are found in
//! the open runs of the repositories in question. A run in which nothing changed answers 304 and
//! costs nothing.
//!
//! For `open_jobs` these are the repositories that jobs were heard of. `work_of` decides over life
//! and death where a machine has no witness of its own, so its `Absent` is a proof or is not said:
//!
//! - every page of the organization's list of repositories is read, sorted so that none can be
//!   missed, by an identity that is shown all of them: an App that is installed on selected ones proves
//!   nothing; archived and disabled ones run nothing;
//! - every one of them is searched, whatever was heard of it: jobs also begin by the clock, by hand
//!   and by comments. More than [`MAX_SEARCHED_REPOSITORIES`] are searched in several rounds (`search_cursor.rs`), which is a
//!   proof once the registration is gone, and not before;
//! - every one of them must answer, and the registration, if it still stands, must not be busy.
//!   Anything else is `Unknown`, and the core keeps the machine another round.
//!
//! The repositories of an enterprise cannot be listed: there a job can be found, but never ruled
//! out. For such machines to go while they are idle, give the pools the scope of an organization
//! or a repository, or a provider whose machines have a witness.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ostler_actors::model::{JobFact, JobId, JobNotice, Place, RunnerName, Scope};
use ostler_actors::ports::RunnerRef;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::info;

use super::GitHub;
use super::answer::ApiFailure;
use super::apps::Reach;
use super::governor::Lane;
use super::paging::List;
use super::roster::repository;
use super::route::{self, Route};
use super::wire;

/// Runs that may hold jobs which want or have a runner.
const OPEN_STATUSES: [&str; 2] = ["queued", "in_progress"];
/// Runs that may hold jobs at work.
const RUNNING_STATUSES: [&str; 1] = ["in_progress"];

/// How many repositories are searched in one round: within a minute, which is how long a look may
/// take, and within what GitHub lets one caller ask in one.
const MAX_SEARCHED_REPOSITORIES: usize = 600;
/// How many repositories are searched at once.
const PARALLEL_SEARCHES: usize = 16;

impl GitHub {
    /// Reads the open jobs of one repository after the other. Where the budget or GitHub stops
    /// the round, what was read so far is told, and the next round begins there: a poll of many
    /// repositories stretches over several ticks instead of never ending.
    pub(super) async fn list_open_jobs(&self, scope: &Scope) -> Result<Vec<JobNotice>, ApiFailure> {
        let now = self.api.watch.there();
        let mut notices = Vec::new();
        let mut read = 0;
        for place in self.places.round(scope) {
            match self.jobs_of_runs(&place, Lane::List, &OPEN_STATUSES).await {
                Ok(jobs) => {
                    read += 1;
                    let open = jobs.iter().filter_map(|job| self.open_notice(job, &place, now));
                    notices.extend(open);
                }
                Err(failure) if matches!(scope, Scope::Repository { .. }) => return Err(failure),
                // One repository that was deleted must not hide the others.
                Err(ApiFailure::Denied { why }) => {
                    info!(repository = %repository(&place), "repository {}: not asked again until a webhook names it: {why}", repository(&place));
                    self.places.forget(&place);
                }
                Err(failure @ (ApiFailure::Held { .. } | ApiFailure::Lost { .. })) => {
                    match &failure {
                        // One repository that GitHub cannot show must not hold up the others.
                        ApiFailure::Lost { .. } => {
                            self.places.begin_next_round_after(scope, &place);
                        }
                        ApiFailure::Held { .. } | ApiFailure::Denied { .. } => {
                            self.places.begin_next_round_at(scope, &place);
                        }
                    }
                    return if read == 0 { Err(failure) } else { Ok(notices) };
                }
            }
        }
        Ok(notices)
    }

    /// Returns the news that an open job is.
    fn open_notice(&self, job: &wire::Job, place: &Place, now: Timestamp) -> Option<JobNotice> {
        let fact = job.fact(&job.status).filter(|fact| !fact.is_over())?;
        let mut notice = job.notice(&self.forge, place.clone(), fact, now);
        self.delivery_stats.found(job.id, notice.queued_at, now);
        notice.queued_at = self.api.watch.by_our_clock(notice.queued_at);
        Some(notice)
    }

    pub(super) async fn find_work(
        &self,
        scope: &Scope,
        who: &RunnerRef,
    ) -> Result<Option<JobId>, ApiFailure> {
        // Asked first: a job that begins after this finds the registration gone, or makes it busy.
        let registered = self.runner_named(scope, who).await?;
        let begun = Instant::now();
        let cleared_from = match &registered {
            Some(_) => {
                self.search_cursor.is_registered(&who.name);
                None
            }
            None => Some(self.search_cursor.is_gone(&who.name, begun)),
        };
        let places = self.candidates(scope).await?;
        let all = places.len();
        let is_open = |place: &Place| {
            !cleared_from.is_some_and(|from| self.search_cursor.clears(place, &who.name, from))
        };
        let open: Vec<Place> = places.into_iter().filter(is_open).collect();
        let (now, later) = round(open, cleared_from.is_some_and(|from| begun >= from));
        if let Some(job) = self.search(now, &who.name).await? {
            return Ok(Some(job));
        }
        if registered.is_some_and(|runner| runner.view().busy) {
            let why = format!("`{}` is called busy, but no job names it", who.name);
            return Err(ApiFailure::Lost { why });
        }
        if later > 0 {
            let why = format!(
                "of the {all} repositories of `{scope}`, {later} are still to be searched for a job of `{}`; \
                 the next rounds go on with them",
                who.name
            );
            return Err(ApiFailure::Lost { why });
        }
        if matches!(scope, Scope::Enterprise(_)) {
            let why = format!(
                "GitHub does not list the repositories of `{scope}`, so no job of `{}` can be ruled out; give \
                 the pool the scope of an organization, or use a provider whose machines have a witness",
                who.name
            );
            return Err(ApiFailure::Lost { why });
        }
        Ok(None)
    }

    /// Searches repositories, a few at once. A job that is found counts whatever failed elsewhere.
    async fn search(
        &self,
        places: Vec<Place>,
        name: &RunnerName,
    ) -> Result<Option<JobId>, ApiFailure> {
        let mut places = places.into_iter();
        let mut asked = JoinSet::new();
        let mut failed = None;
        loop {
            while asked.len() < PARALLEL_SEARCHES && failed.is_none() {
                let Some(place) = places.next() else { break };
                let (github, name) = (self.clone(), name.clone());
                asked.spawn(async move { github.work_in(&place, &name).await });
            }
            let found = match asked.join_next().await {
                None => return failed.map_or(Ok(None), Err),
                Some(answer) => answer.unwrap_or_else(|_| {
                    Err(ApiFailure::Lost { why: "a search was cut off".into() })
                }),
            };
            match found {
                Ok(Some(job)) => return Ok(Some(job)),
                Ok(None) => {}
                Err(failure) => failed = Some(failure),
            }
        }
    }

    async fn work_in(&self, place: &Place, name: &RunnerName) -> Result<Option<JobId>, ApiFailure> {
        let begun = Instant::now();
        let jobs = self.jobs_of_runs(place, Lane::Check, &RUNNING_STATUSES).await?;
        self.search_cursor.record(place, begun, jobs.iter().filter_map(worker).collect());
        let names = |job: &&wire::Job| worker(job).is_some_and(|it| it.is_of(name.as_str()));
        let job = jobs.iter().find(names);
        Ok(job.map(|job| JobId { forge: self.forge.clone(), number: job.id }))
    }

    /// Returns the repositories a job may be in, those heard of first.
    async fn candidates(&self, scope: &Scope) -> Result<Vec<Place>, ApiFailure> {
        let heard = self.places.of(scope);
        let Scope::Organization(owner) = scope else { return Ok(heard) };
        let list = List {
            scope,
            lane: Lane::Check,
            route: route::repositories(owner),
            field: "repositories",
            etags: Some(&self.etags),
        };
        let (identity, listed) = self.api.list_as_shown::<wire::Repository>(list).await?;
        match self.api.reach(&identity, scope).await? {
            Reach::Whole => Ok(in_question(owner, heard, &listed)),
            Reach::Selected => Err(ApiFailure::Denied {
                why: format!(
                    "{} is installed on selected repositories of `{scope}` only, so a job in another cannot be \
                     ruled out; install it on all repositories",
                    identity.name
                ),
            }),
        }
    }

    /// Reads the jobs of a repository's runs in the given states.
    async fn jobs_of_runs(
        &self,
        place: &Place,
        lane: Lane,
        states: &[&str],
    ) -> Result<Vec<wire::Job>, ApiFailure> {
        let mut jobs = Vec::new();
        for state in states {
            let runs = route::runs(place, state);
            for run in self.all::<wire::Run>(place, lane, runs, "workflow_runs").await? {
                let route = route::run_jobs(place, run.id);
                jobs.extend(self.all::<wire::Job>(place, lane, route, "jobs").await?);
            }
        }
        Ok(jobs)
    }

    async fn all<T: DeserializeOwned>(
        &self,
        place: &Place,
        lane: Lane,
        route: Route,
        field: &'static str,
    ) -> Result<Vec<T>, ApiFailure> {
        let scope = repository(place);
        self.api.list(List { scope: &scope, lane, route, field, etags: Some(&self.etags) }).await
    }
}

/// Returns the runner that a job is at work on.
fn worker(job: &wire::Job) -> Option<RunnerName> {
    let fact = job.fact(&job.status).filter(|fact| *fact == JobFact::InProgress)?;
    job.runner(&fact).map(|runner| runner.name)
}

/// Returns what to search now, and how many are left for later. Where rounds do not add up, all
/// must be searched in this one; if that cannot be, nothing is searched for nothing.
fn round(mut open: Vec<Place>, adds_up: bool) -> (Vec<Place>, usize) {
    if open.len() <= MAX_SEARCHED_REPOSITORIES {
        return (open, 0);
    }
    let searched = if adds_up { MAX_SEARCHED_REPOSITORIES } else { PARALLEL_SEARCHES };
    let later = open.len() - searched;
    open.truncate(searched);
    (open, later)
}

/// Returns where to search: wherever jobs were heard of, and everywhere else.
fn in_question(owner: &str, heard: Vec<Place>, listed: &[wire::Repository]) -> Vec<Place> {
    let alive = listed.iter().filter(|it| !it.archived && !it.disabled);
    let known: BTreeSet<String> = heard.iter().map(|it| it.repository.to_lowercase()).collect();
    let others = alive.filter(|it| !known.contains(&it.name.to_lowercase()));
    let place = |it: &wire::Repository| Place {
        owner: owner.to_owned(),
        repository: it.name.clone(),
        enterprise: None,
    };
    let others: Vec<Place> = others.map(place).collect();
    heard.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(number: usize) -> wire::Repository {
        wire::Repository { name: format!("r{number}"), archived: false, disabled: false }
    }

    fn heard(name: &str) -> Place {
        Place { owner: "acme".into(), repository: name.into(), enterprise: None }
    }

    #[test]
    fn every_repository_that_may_run_something_is_in_question_once() {
        let mut all: Vec<_> = (0..900).map(listed).collect();
        all.push(wire::Repository { archived: true, ..listed(901) });
        all.push(wire::Repository { disabled: true, ..listed(902) });
        let places = in_question("acme", vec![heard("R3"), heard("gone")], &all);
        assert_eq!(places.len(), 901, "all, once, and the one that only we know");
        assert_eq!(places[..2], [heard("R3"), heard("gone")], "likely ones first");
    }

    #[test]
    fn a_search_that_cannot_be_ended_is_hardly_begun_unless_rounds_add_up() {
        let places = |count: usize| (0..count).map(|it| heard(&it.to_string())).collect();
        assert_eq!(
            round(places(MAX_SEARCHED_REPOSITORIES), false),
            (places(MAX_SEARCHED_REPOSITORIES), 0)
        );
        assert_eq!(
            round(places(MAX_SEARCHED_REPOSITORIES + 1), false),
            (places(PARALLEL_SEARCHES), MAX_SEARCHED_REPOSITORIES + 1 - PARALLEL_SEARCHES)
        );
        assert_eq!(
            round(places(MAX_SEARCHED_REPOSITORIES + 1), true),
            (places(MAX_SEARCHED_REPOSITORIES), 1)
        );
    }
}
