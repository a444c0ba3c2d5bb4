//! Reads runners and jobs.

use async_trait::async_trait;
use ostler_actors::model::{
    JobFact, JobId, JobNotice, JobReading, MachineName, Observation, Place, RunnerName, RunnerView,
    Scope, Sighting,
};
use ostler_actors::ports::{Roster, RunnerRef};
use tracing::info;

use super::GitHub;
use super::answer::{ApiAnswer, ApiFailure};
use super::api::ApiRequest;
use super::governor::Lane;
use super::paging::List;
use super::route;
use super::wire;

#[async_trait]
impl Roster for GitHub {
    async fn runners(&self, scope: &Scope) -> Observation<Vec<RunnerView>> {
        let list = List {
            scope,
            lane: Lane::List,
            route: route::runners(scope),
            field: "runners",
            etags: Some(&self.etags),
        };
        match self.api.list::<wire::Runner>(list).await {
            Ok(runners) => {
                Observation::Complete(runners.into_iter().map(wire::Runner::view).collect())
            }
            Err(failure) => failure.into(),
        }
    }

    async fn runner(&self, scope: &Scope, who: &RunnerRef) -> Sighting<RunnerView> {
        let seen = match who.id {
            Some(id) => {
                let question = ApiRequest::get(route::runner(scope, id));
                self.api.ask(scope, Lane::Check, &question).await.and_then(|answer| {
                    found(&answer, "cannot read a runner")?.map(ApiAnswer::read).transpose()
                })
            }
            None => self.runner_named(scope, who).await,
        };
        sighting(seen.map(|runner| runner.map(wire::Runner::view)))
    }

    async fn runner_of(&self, scope: &Scope, machine: &MachineName) -> Sighting<RunnerView> {
        let seen = self.find_runner_of(scope, machine).await;
        sighting(seen.map(|runner| runner.map(wire::Runner::view)))
    }

    async fn job(&self, job: &JobId, place: &Place, run: u64) -> Sighting<JobReading> {
        sighting(self.read_job(job, place, run).await)
    }

    async fn work_of(&self, scope: &Scope, who: &RunnerRef) -> Sighting<JobId> {
        let seen = sighting(self.find_work(scope, who).await);
        self.unknown_runners.record(&who.name, &seen, self.api.watch.here());
        if let Sighting::Unknown(why) = &seen {
            info!(runner.name = %who.name, "runner {}: the machine is kept, because it is unknown whether a job runs there: {why}", who.name);
        }
        seen
    }

    async fn open_jobs(&self, scope: &Scope) -> Observation<Vec<JobNotice>> {
        match self.list_open_jobs(scope).await {
            Ok(notices) => Observation::Complete(notices),
            Err(failure) => failure.into(),
        }
    }
}

impl GitHub {
    /// Reads the one runner of that name. GitHub may answer with names that only begin with it.
    pub(super) async fn runner_named(
        &self,
        scope: &Scope,
        who: &RunnerRef,
    ) -> Result<Option<wire::Runner>, ApiFailure> {
        let list = List {
            scope,
            lane: Lane::Check,
            route: route::runners_named(scope, &who.name),
            field: "runners",
            // Absence may be decided by this: it is asked afresh.
            etags: None,
        };
        let runners = self.api.list::<wire::Runner>(list).await?;
        Ok(runners.into_iter().find(|runner| runner.name.eq_ignore_ascii_case(who.name.as_str())))
    }

    /// Searches the whole list, because only names that are known can be asked for. It is read
    /// without the cache: absence may be decided by it.
    async fn find_runner_of(
        &self,
        scope: &Scope,
        machine: &MachineName,
    ) -> Result<Option<wire::Runner>, ApiFailure> {
        let list = List {
            scope,
            lane: Lane::Check,
            route: route::runners(scope),
            field: "runners",
            etags: None,
        };
        let runners = self.api.list::<wire::Runner>(list).await?;
        Ok(runners
            .into_iter()
            .find(|runner| RunnerName::new(runner.name.as_str()).is_of(machine.as_str())))
    }

    async fn read_job(
        &self,
        job: &JobId,
        place: &Place,
        run: u64,
    ) -> Result<Option<JobReading>, ApiFailure> {
        self.places.remember(place);
        let scope = repository(place);
        let question = ApiRequest::get(route::job(place, job.number));
        let answer = self.api.ask(&scope, Lane::Check, &question).await?;
        let Some(answer) = found(&answer, "cannot read a job")? else { return Ok(None) };
        let told: wire::Job = answer.read()?;
        let Some(fact) = told.fact(&told.status) else {
            let why = format!("GitHub calls job {job} `{}`, a word we do not know", told.status);
            return Err(ApiFailure::Lost { why });
        };
        let runner = told.runner(&fact);
        let run = if told.run_id == 0 { run } else { told.run_id };
        let run_over = match fact {
            JobFact::Completed(_) => true,
            JobFact::InProgress => false,
            JobFact::Waiting | JobFact::Queued => self.is_run_over(&scope, place, run).await,
        };
        Ok(Some(JobReading { fact, runner, run_over }))
    }

    /// Returns whether a run is over; when that is unknown, it is not.
    async fn is_run_over(&self, scope: &Scope, place: &Place, run: u64) -> bool {
        let question = ApiRequest::get(route::run(place, run));
        match self.api.ask(scope, Lane::Check, &question).await {
            Ok(answer) if answer.status == 200 => {
                answer.read::<wire::Run>().is_ok_and(|run| run.status == "completed")
            }
            Ok(_) | Err(_) => false,
        }
    }
}

/// Returns the scope of a repository: an identity that may act in it may read its jobs.
pub(super) fn repository(place: &Place) -> Scope {
    Scope::Repository { owner: place.owner.clone(), name: place.repository.clone() }
}

/// Separates an answer from absence, and both from anything else.
fn found<'a>(answer: &'a ApiAnswer, what: &str) -> Result<Option<&'a ApiAnswer>, ApiFailure> {
    match answer.status {
        200 => Ok(Some(answer)),
        404 if answer.denies() => Ok(None),
        _ => Err(answer.unexpected(what)),
    }
}

fn sighting<T>(seen: Result<Option<T>, ApiFailure>) -> Sighting<T> {
    match seen {
        Ok(Some(thing)) => Sighting::Seen(thing),
        Ok(None) => Sighting::Absent,
        Err(failure) => failure.into(),
    }
}
