//! Finds jobs where GitHub has no list of them: by repository, run by run.
//!
//! There is no "queued jobs of an organization" and no "job of this runner". Both are found in
//! the open runs of the repositories in question: those that jobs were heard of, by webhook or
//! from the records, and for `work_of` also the hundred that were pushed to last. A run in which
//! nothing changed answers 304 and costs nothing.
//!
//! `work_of` says `Absent` only when every one of these repositories answered, and the runner's
//! own registration, if it still exists, does not call itself busy. What remains is a job of a
//! repository we never heard of, in an organization of more than a hundred, whose webhook was
//! lost. Where machines have a witness of their own this is not asked at all.

use jiff::Timestamp;
use ostler_actors::model::{JobFact, JobId, JobNotice, Place, RunnerName, Scope};
use ostler_actors::ports::RunnerRef;
use serde::de::DeserializeOwned;
use tracing::info;

use super::GitHub;
use super::failure::Failure;
use super::governor::Lane;
use super::hub::Question;
use super::paging::List;
use super::roster::repository;
use super::route::{self, Route};
use super::wire;

/// Runs that may hold jobs which want or have a runner.
const OPEN: [&str; 2] = ["queued", "in_progress"];
/// Runs that may hold jobs at work.
const AT_WORK: [&str; 1] = ["in_progress"];

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
        for place in self.candidates(scope).await? {
            for job in self.jobs_of_runs(&place, Lane::Check, &AT_WORK).await? {
                if is_at_work(&job, &who.name) {
                    return Ok(Some(JobId { forge: self.forge.clone(), number: job.id }));
                }
            }
        }
        if registered.is_some_and(|runner| runner.view().busy) {
            let why = format!("`{}` is called busy, but no job names it", who.name);
            return Err(Failure::Lost { why });
        }
        Ok(None)
    }

    /// Returns the repositories a job of this scope may be in.
    async fn candidates(&self, scope: &Scope) -> Result<Vec<Place>, Failure> {
        let mut places = self.places.of(scope);
        match scope {
            Scope::Organization(owner) => {
                let route = route::repositories(owner).page(1);
                let question = Question::remembered(route, &self.etags);
                let answer = self.hub.ask(scope, Lane::Check, &question).await?;
                if answer.status != 200 {
                    return Err(
                        answer.unexpected(&format!("cannot list repositories of `{owner}`"))
                    );
                }
                for repository in answer.read::<Vec<wire::Repository>>()? {
                    if !places.iter().any(|it| it.repository.eq_ignore_ascii_case(&repository.name))
                    {
                        let (owner, repository) = (owner.clone(), repository.name);
                        places.push(Place { owner, repository, enterprise: None });
                    }
                }
            }
            Scope::Enterprise(slug) if places.is_empty() => {
                let why = format!("no repository of enterprise `{slug}` was heard of yet");
                return Err(Failure::Lost { why });
            }
            Scope::Enterprise(_) | Scope::Repository { .. } => {}
        }
        Ok(places)
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
        && fact.and_then(|fact| job.runner(&fact)).is_some_and(|runner| runner == *name)
}
