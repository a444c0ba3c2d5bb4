//! GitHub's answers as far as we read them. Anything may be missing, null or new.

use jiff::Timestamp;
use ostler_actors::model::{
    Conclusion, ForgeId, JobFact, JobId, JobNotice, NamedRunner, Place, RunnerId, RunnerName,
    RunnerView,
};
use serde::{Deserialize, Deserializer};

/// Reads null like a missing field.
pub(super) fn lenient<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads a date, and anything else as none.
pub(super) fn maybe_date<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Timestamp>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_str().and_then(|text| text.parse().ok()))
}

/// Reads a whole number, and anything else as none.
fn maybe_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(serde_json::Value::deserialize(from)?.as_u64())
}

#[derive(Deserialize)]
pub(super) struct Installation {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) repository_selection: String,
}

#[derive(Deserialize)]
pub(super) struct InstallationToken {
    pub(super) token: String,
    #[serde(default, deserialize_with = "maybe_date")]
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct Runner {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient")]
    status: String,
    #[serde(default, deserialize_with = "lenient")]
    busy: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) version: String,
}

impl Runner {
    pub(super) fn view(self) -> RunnerView {
        RunnerView {
            name: RunnerName::new(self.name),
            id: RunnerId(self.id),
            // `online`, and whatever GitHub may call a connected runner next.
            online: !self.status.is_empty() && !self.status.eq_ignore_ascii_case("offline"),
            busy: self.busy,
        }
    }
}

#[derive(Deserialize)]
pub(super) struct JitConfig {
    pub(super) runner: Runner,
    pub(super) encoded_jit_config: String,
}

#[derive(Deserialize)]
pub(super) struct Group {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) visibility: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) restricted_to_workflows: bool,
    #[serde(default)]
    pub(super) allows_public_repositories: Option<bool>,
}

#[derive(Deserialize)]
pub(super) struct Repository {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) archived: bool,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) disabled: bool,
}

#[derive(Deserialize)]
pub(super) struct Run {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: String,
}

/// Holds a job, in a webhook and in an answer alike.
#[derive(Deserialize)]
pub(super) struct Job {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) run_id: u64,
    #[serde(default, deserialize_with = "lenient")]
    name: String,
    #[serde(default, deserialize_with = "lenient")]
    html_url: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: String,
    #[serde(default)]
    conclusion: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    labels: Vec<String>,
    #[serde(default)]
    runner_name: Option<String>,
    #[serde(default, deserialize_with = "maybe_number")]
    runner_id: Option<u64>,
    #[serde(default, deserialize_with = "maybe_date")]
    created_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "maybe_date")]
    started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "maybe_date")]
    completed_at: Option<Timestamp>,
}

impl Job {
    /// Returns what GitHub says of it by a word for its state, if we know the word.
    pub(super) fn fact(&self, word: &str) -> Option<JobFact> {
        match word {
            "waiting" | "pending" => Some(JobFact::Waiting),
            "queued" | "requested" => Some(JobFact::Queued),
            "in_progress" => Some(JobFact::InProgress),
            "completed" => Some(JobFact::Completed(conclusion(self.conclusion.as_deref()))),
            _ => None,
        }
    }

    /// Returns the runner; a job that is only queued has none, whatever an old field says.
    pub(super) fn runner(&self, fact: &JobFact) -> Option<NamedRunner> {
        let name = self.runner_name.as_deref().filter(|name| !name.is_empty());
        let name = name.filter(|_| fact.rank() >= JobFact::InProgress.rank())?;
        // A job without a runner has the number 0 in old answers.
        let id = self.runner_id.filter(|id| *id > 0).map(RunnerId);
        Some(NamedRunner { name: RunnerName::new(name), id })
    }

    /// Returns when what is told of it happened. A job that waited for leave (a deployment) was made
    /// long before it was queued, and nothing says when that was.
    pub(super) fn happened_at(&self, fact: &JobFact) -> Option<Timestamp> {
        match fact {
            JobFact::Waiting => None,
            JobFact::Queued => self.created_at,
            JobFact::InProgress => self.started_at,
            JobFact::Completed(_) => self.completed_at,
        }
    }

    /// Returns the news that it is, heard now; old servers do not say when it was made.
    pub(super) fn notice(
        &self,
        forge: &ForgeId,
        place: Place,
        fact: JobFact,
        now: Timestamp,
    ) -> JobNotice {
        JobNotice {
            id: JobId { forge: forge.clone(), number: self.id },
            place,
            run: self.run_id,
            name: self.name.clone(),
            url: self.html_url.clone(),
            labels: self.labels.iter().collect(),
            runner: self.runner(&fact),
            fact,
            queued_at: self.created_at.or(self.started_at).unwrap_or(now),
            delivery: None,
        }
    }
}

/// Reads how a job ended.
fn conclusion(word: Option<&str>) -> Conclusion {
    match word {
        Some("success") => Conclusion::Success,
        Some("failure") => Conclusion::Failure,
        Some("cancelled" | "canceled") => Conclusion::Cancelled,
        Some("skipped") => Conclusion::Skipped,
        Some("timed_out") => Conclusion::TimedOut,
        Some(other) => Conclusion::Other(other.to_owned()),
        None => Conclusion::Other("unknown".to_owned()),
    }
}
