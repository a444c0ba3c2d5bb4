//! Jobs.

use jiff::Timestamp;
use ostler_actors::model::{self, JobFact};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::JobStateName;
use super::names::serde_name;

/// One workflow job at a forge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its id: forge and number, `github/123`.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The repository it belongs to.
    pub repository: String,
    /// The workflow run it belongs to.
    pub run: u64,
    /// Its page at the forge.
    pub url: String,
    /// What it asks of a runner.
    pub labels: Vec<String>,
    /// The pool whose demand it is, if any can serve it.
    pub pool: Option<String>,
    /// Where it is in its life.
    pub state: JobStateName,
    /// What the forge says: `waiting`, `queued`, `in_progress`, `completed`.
    pub fact: String,
    /// When the forge queued it.
    pub queued_at: Timestamp,
    /// When it was proven to run on an instance of ours.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub over_at: Option<Timestamp>,
    /// How it ended, in the forge's word.
    pub conclusion: Option<String>,
    /// The instance it is proven to run on.
    pub instance: Option<String>,
    /// The instance it is promised to.
    pub offered_to: Option<String>,
    /// How often it was offered.
    pub generation: u64,
    /// Why it waits, in a sentence.
    pub why: Option<String>,
}

impl Job {
    /// Shows a job.
    pub(in crate::http) fn of(job: &model::Job, why: Option<String>) -> Self {
        let conclusion = match &job.fact {
            JobFact::Completed(model::Conclusion::Other(word)) => Some(word.clone()),
            JobFact::Completed(conclusion) => Some(serde_name(conclusion)),
            JobFact::Waiting | JobFact::Queued | JobFact::InProgress => None,
        };
        Self {
            id: job.id.to_string(),
            name: job.name.clone(),
            repository: format!("{}/{}", job.place.owner, job.place.repository),
            run: job.run,
            url: job.url.clone(),
            labels: job.labels.iter().map(ToOwned::to_owned).collect(),
            pool: job.pool.as_ref().map(ToString::to_string),
            state: JobStateName(job.state()),
            fact: serde_name(&job.fact),
            queued_at: job.queued_at,
            started_at: job.execution.as_ref().map(|run| run.since),
            over_at: job.over_at,
            conclusion,
            instance: job.execution.as_ref().map(|run| run.instance.to_string()),
            offered_to: job.open_offer().map(|offer| offer.instance.to_string()),
            generation: job.generation.0,
            why,
        }
    }
}
