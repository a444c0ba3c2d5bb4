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
//!   missed; archived and disabled ones run nothing;
//! - up to [`ALL`] repositories, every one is searched, whatever was heard of it: jobs also begin
//!   by the clock, by hand and by comments, without any push;
//! - beyond that, those that jobs were heard of and those pushed to since a day before the runner
//!   was registered (a job waits a day at most), or in the last six days where that is not known;
//! - every one of them must answer, and the registration, if it still stands, must not be busy.
//!   Anything else is `Unknown`, and the core keeps the machine another round.
//!
//! What remains: in an organization of more than [`ALL`] repositories, a job that began without a
//! push in a repository never heard of, all of whose webhooks were lost. Enterprises cannot be
//! listed: there, what was heard of is searched, and nothing heard of is `Unknown`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use ostler_actors::model::{JobFact, JobId, JobNotice, Place, RunnerName, Scope};
use ostler_actors::ports::RunnerRef;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::info;

use super::GitHub;
use super::failure::Failure;
use super::governor::Lane;
use super::paging::List;
use super::roster::repository;
use super::route::{self, Route};
use super::wire;

/// Runs that may hold jobs which want or have a runner.
const OPEN: [&str; 2] = ["queued", "in_progress"];
/// Runs that may hold jobs at work.
const AT_WORK: [&str; 1] = ["in_progress"];

/// Up to how many repositories an organization is searched whole: within a minute, which is how
/// long a look may take, and within what GitHub lets one caller ask in one.
const ALL: usize = 600;
/// How many repositories are searched at once.
const AT_ONCE: usize = 16;
/// How long a job waits for a runner at most.
const LONGEST_QUEUE: Duration = Duration::from_hours(24);
/// How long a job runs at most.
const LONGEST_JOB: Duration = Duration::from_hours(5 * 24);

impl GitHub {
    /// Reads the open jobs of one repository after the other. Where the budget or GitHub stops
    /// the round, what was read so far is told, and the next round begins there: a poll of many
    /// repositories stretches over several ticks instead of never ending.
    pub(super) async fn list_open_jobs(&self, scope: &Scope) -> Result<Vec<JobNotice>, Failure> {
        let now = self.hub.date();
        let mut notices = Vec::new();
        let mut read = 0;
        for place in self.places.round(scope) {
            match self.jobs_of_runs(&place, Lane::List, &OPEN).await {
                Ok(jobs) => {
                    read += 1;
                    let open = jobs.iter().filter_map(|job| self.open_notice(job, &place, now));
                    notices.extend(open);
                }
                Err(failure) if matches!(scope, Scope::Repository { .. }) => return Err(failure),
                // One repository that was deleted must not hide the others.
                Err(Failure::Denied { why }) => {
                    info!(repository = %repository(&place), "repository is not asked again: {why}");
                    self.places.forget(&place);
                }
                Err(failure @ (Failure::Held { .. } | Failure::Lost { .. })) => {
                    match &failure {
                        // One repository that GitHub cannot show must not hold up the others.
                        Failure::Lost { .. } => self.places.begin_next_round_after(scope, &place),
                        Failure::Held { .. } | Failure::Denied { .. } => {
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
        Some(job.notice(&self.forge, place.clone(), fact, now))
    }

    pub(super) async fn find_work(
        &self,
        scope: &Scope,
        who: &RunnerRef,
    ) -> Result<Option<JobId>, Failure> {
        // Asked first: a job that begins after this finds the registration gone, or makes it busy.
        let registered = self.runner_named(scope, who).await?;
        let places = self.candidates(scope, &who.name).await?;
        if let Some(job) = self.search(places, &who.name).await? {
            return Ok(Some(job));
        }
        if registered.is_some_and(|runner| runner.view().busy) {
            let why = format!("`{}` is called busy, but no job names it", who.name);
            return Err(Failure::Lost { why });
        }
        Ok(None)
    }

    /// Searches repositories, a few at once. A job that is found counts whatever failed elsewhere.
    async fn search(
        &self,
        places: Vec<Place>,
        name: &RunnerName,
    ) -> Result<Option<JobId>, Failure> {
        let mut places = places.into_iter();
        let mut asked = JoinSet::new();
        let mut failed = None;
        loop {
            while asked.len() < AT_ONCE && failed.is_none() {
                let Some(place) = places.next() else { break };
                let (github, name) = (self.clone(), name.clone());
                asked.spawn(async move { github.work_in(&place, &name).await });
            }
            let found = match asked.join_next().await {
                None => return failed.map_or(Ok(None), Err),
                Some(answer) => answer
                    .unwrap_or_else(|_| Err(Failure::Lost { why: "a search broke off".into() })),
            };
            match found {
                Ok(Some(job)) => return Ok(Some(job)),
                Ok(None) => {}
                Err(failure) => failed = Some(failure),
            }
        }
    }

    async fn work_in(&self, place: &Place, name: &RunnerName) -> Result<Option<JobId>, Failure> {
        let jobs = self.jobs_of_runs(place, Lane::Check, &AT_WORK).await?;
        let job = jobs.iter().find(|job| is_at_work(job, name));
        Ok(job.map(|job| JobId { forge: self.forge.clone(), number: job.id }))
    }

    /// Returns the repositories a job of this runner may be in.
    async fn candidates(&self, scope: &Scope, name: &RunnerName) -> Result<Vec<Place>, Failure> {
        let heard = self.places.of(scope);
        match scope {
            Scope::Organization(owner) => {
                let list = List {
                    scope,
                    lane: Lane::Check,
                    route: route::repositories(owner),
                    field: "repositories",
                    etags: Some(&self.etags),
                };
                let listed = self.hub.list::<wire::Repository>(list).await?;
                let now = self.hub.date();
                Ok(in_question(owner, heard, &listed, pushed_since(self.births.of(name), now)))
            }
            Scope::Enterprise(slug) if heard.is_empty() => {
                let why = format!("no repository of enterprise `{slug}` was heard of yet");
                Err(Failure::Lost { why })
            }
            Scope::Enterprise(_) | Scope::Repository { .. } => Ok(heard),
        }
    }

    /// Reads the jobs of a repository's runs in the given states.
    async fn jobs_of_runs(
        &self,
        place: &Place,
        lane: Lane,
        states: &[&str],
    ) -> Result<Vec<wire::Job>, Failure> {
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
    ) -> Result<Vec<T>, Failure> {
        let scope = repository(place);
        self.hub.list(List { scope: &scope, lane, route, field, etags: Some(&self.etags) }).await
    }
}

fn is_at_work(job: &wire::Job, name: &RunnerName) -> bool {
    let fact = job.fact(&job.status);
    fact == Some(JobFact::InProgress)
        && fact.and_then(|fact| job.runner(&fact)).is_some_and(|runner| runner.is_of(name.as_str()))
}

/// Returns since when a push may have queued a job that this runner has.
fn pushed_since(born: Option<Timestamp>, now: Timestamp) -> Timestamp {
    let since = born.map_or_else(
        || now.checked_sub(LONGEST_JOB + LONGEST_QUEUE),
        |born| born.checked_sub(LONGEST_QUEUE),
    );
    since.unwrap_or(Timestamp::MIN)
}

/// Chooses where to search: everywhere, or in a large organization where a job is likely at all.
fn in_question(
    owner: &str,
    heard: Vec<Place>,
    listed: &[wire::Repository],
    since: Timestamp,
) -> Vec<Place> {
    let alive: Vec<&wire::Repository> =
        listed.iter().filter(|it| !it.archived && !it.disabled).collect();
    let all = alive.len() <= ALL;
    let known: BTreeSet<String> = heard.iter().map(|it| it.repository.to_lowercase()).collect();
    let others = alive.into_iter().filter(|it| !known.contains(&it.name.to_lowercase()));
    let others = others.filter(|it| all || it.pushed_at.is_none_or(|at| at >= since));
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

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_000_000_000 + hours * 3_600).expect("a date")
    }

    fn listed(number: usize, pushed: Option<i64>) -> wire::Repository {
        wire::Repository {
            name: format!("r{number}"),
            pushed_at: pushed.map(at),
            archived: false,
            disabled: false,
        }
    }

    fn heard(name: &str) -> Place {
        Place { owner: "acme".into(), repository: name.into(), enterprise: None }
    }

    #[test]
    fn a_small_organization_is_searched_whole() {
        let mut all: Vec<_> = (0..ALL).map(|number| listed(number, Some(-9_999))).collect();
        all.push(wire::Repository { archived: true, ..listed(ALL, Some(0)) });
        all.push(wire::Repository { disabled: true, ..listed(ALL + 1, Some(0)) });
        let places = in_question("acme", vec![heard("R3"), heard("gone")], &all, at(0));
        assert_eq!(places.len(), ALL + 1, "all, once, and the one that only we know");
    }

    #[test]
    fn a_large_organization_is_searched_where_jobs_were_heard_of_or_pushes_were() {
        let mut all: Vec<_> = (0..=ALL).map(|number| listed(number, Some(-1))).collect();
        all.push(listed(8_000, Some(0)));
        all.push(listed(9_000, None));
        let places = in_question("acme", vec![heard("r3")], &all, at(0));
        let names: Vec<&str> = places.iter().map(|it| it.repository.as_str()).collect();
        assert_eq!(names, ["r3", "r8000", "r9000"], "a push nobody dates counts");
    }

    #[test]
    fn a_job_may_have_waited_a_day_for_its_runner() {
        assert_eq!(pushed_since(Some(at(0)), at(9)), at(-24));
        assert_eq!(pushed_since(None, at(0)), at(-6 * 24), "registered before we began");
    }
}
