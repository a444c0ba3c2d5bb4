//! A job has two axes: what the forge says of it, and what we decided about it.
//!
//! The *fact* only rises and only the forge moves it. The *offer* is ours. Only an
//! *execution*, the forge's proof that the job runs on a runner, makes a job `running`.

use serde::{Deserialize, Serialize};

use super::{
    DeliveryId, Generation, HostName, InstanceId, JobId, Labels, Place, PoolId, Refusal, RunnerId,
    RunnerName, Timestamp, VerdictClass,
};

/// Tells what the forge says of a job; the order is the order of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobFact {
    /// Held back by a deployment rule; it must not be served yet.
    Waiting,
    /// Wants a runner.
    Queued,
    /// Runs on a runner.
    InProgress,
    /// Is over; terminal.
    Completed(Conclusion),
}

impl JobFact {
    /// Returns the height in the lattice; a fact never sinks.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Waiting => 0,
            Self::Queued => 1,
            Self::InProgress => 2,
            Self::Completed(_) => 3,
        }
    }

    /// Returns whether the forge calls the job over.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Completed(_))
    }
}

/// Tells how a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// All went well.
    Success,
    /// A step failed.
    Failure,
    /// It was cancelled, perhaps before a runner picked it up.
    Cancelled,
    /// It was not needed.
    Skipped,
    /// It ran for too long.
    TimedOut,
    /// A word we do not know.
    Other(String),
}

/// Names the runner of a job, as the forge does.
///
/// A name is unique only among the runners of one scope: a stranger's repository may have a runner
/// named like one of ours. The number tells them apart, where the forge gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "StoredRunner")]
pub struct NamedRunner {
    /// Its name.
    pub name: RunnerName,
    /// Its number, where the forge gave one.
    pub id: Option<RunnerId>,
}

/// What is stored of a runner; rows of earlier releases hold the name alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredRunner {
    Name(RunnerName),
    Numbered { name: RunnerName, id: Option<RunnerId> },
}

impl From<StoredRunner> for NamedRunner {
    fn from(stored: StoredRunner) -> Self {
        match stored {
            StoredRunner::Name(name) => name.into(),
            StoredRunner::Numbered { name, id } => Self { name, id },
        }
    }
}

impl From<RunnerName> for NamedRunner {
    fn from(name: RunnerName) -> Self {
        Self { name, id: None }
    }
}

impl From<&str> for NamedRunner {
    fn from(name: &str) -> Self {
        RunnerName::new(name).into()
    }
}

/// Brings news of a job from a forge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobNotice {
    /// The job.
    pub id: JobId,
    /// Where it comes from.
    pub place: Place,
    /// The workflow run it belongs to.
    pub run: u64,
    /// Its name, for people.
    pub name: String,
    /// Its page at the forge.
    pub url: String,
    /// What it asks of a runner.
    pub labels: Labels,
    /// What the forge says.
    pub fact: JobFact,
    /// The runner it names, if any.
    pub runner: Option<NamedRunner>,
    /// When the job was queued, by the forge's clock.
    pub queued_at: Timestamp,
    /// The delivery that brought it; marked as handled with the change it causes.
    pub delivery: Option<DeliveryId>,
}

/// Holds one job: the forge's facts and our offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job.
    pub id: JobId,
    /// Where it comes from.
    pub place: Place,
    /// The workflow run it belongs to.
    pub run: u64,
    /// Its name, for people.
    pub name: String,
    /// Its page at the forge.
    pub url: String,
    /// What it asks of a runner.
    pub labels: Labels,
    /// What the forge says.
    pub fact: JobFact,
    /// The pool whose demand it is, if any can serve it.
    pub pool: Option<PoolId>,
    /// What we decided.
    pub offer: Offer,
    /// Counts offers; the current or last one's number.
    pub generation: Generation,
    /// The forge's proof that it runs on one of our instances.
    pub execution: Option<Execution>,
    /// Why we stopped looking at it though the forge never said `completed`.
    pub closed: Option<Closure>,
    /// When the forge queued it.
    pub queued_at: Timestamp,
    /// When we first heard of it.
    pub heard_at: Timestamp,
    /// When it was over for us: the forge called it completed, or it was closed.
    pub over_at: Option<Timestamp>,
    /// The runner the forge last named with it, ours or not.
    #[serde(default)]
    pub runner: Option<NamedRunner>,
    /// The host of the last offer that came to nothing, which the next one avoids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<HostName>,
    /// How often it was tried in vain, and until when it rests.
    #[serde(default, skip_serializing_if = "JobAttempts::is_empty")]
    pub attempts: JobAttempts,
    /// What asking the forge about it has brought so far.
    pub asked: Asked,
    /// How many events its timeline has.
    #[serde(default)]
    pub events: u32,
}

impl Job {
    /// Returns the state people see, derived from both axes.
    pub fn state(&self) -> JobState {
        match (&self.fact, &self.closed) {
            (JobFact::Completed(_), _) => JobState::Completed,
            (_, Some(_)) => JobState::Closed,
            (JobFact::InProgress, None) => JobState::Running,
            (JobFact::Waiting, None) => JobState::Waiting,
            (JobFact::Queued, None) => match self.offer {
                Offer::Open(_) => JobState::Offered,
                Offer::None | Offer::Ended { .. } => JobState::Queued,
            },
        }
    }

    /// Returns the open offer, if there is one.
    pub fn open_offer(&self) -> Option<&OpenOffer> {
        match &self.offer {
            Offer::Open(open) => Some(open),
            Offer::None | Offer::Ended { .. } => None,
        }
    }

    /// Returns the instance it is promised to or proven to run on.
    pub fn holder(&self) -> Option<&InstanceId> {
        match (self.open_offer(), &self.execution) {
            (Some(open), _) => Some(&open.instance),
            (None, Some(execution)) => Some(&execution.instance),
            (None, None) => None,
        }
    }

    /// Returns whether it wants a runner and has no offer.
    pub fn wants_runner(&self) -> bool {
        self.is_live() && self.fact == JobFact::Queued && self.holder().is_none()
    }

    /// Returns whether it waits for a while after attempts that came to nothing.
    pub fn rests(&self) -> bool {
        self.wants_runner() && self.attempts.rests_until.is_some()
    }

    /// Returns whether the job is neither over nor closed.
    pub fn is_live(&self) -> bool {
        !self.fact.is_over() && self.closed.is_none()
    }
}

/// Names the derived state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Held back at the forge.
    Waiting,
    /// Wants a runner and has no offer.
    Queued,
    /// Promised to an instance.
    Offered,
    /// Proven to run.
    Running,
    /// Over at the forge.
    Completed,
    /// Given up locally.
    Closed,
}

impl JobState {
    /// All states, in the order of life.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Queued, Self::Offered, Self::Running, Self::Completed, Self::Closed];

    /// Returns whether the job has neither ended at the forge nor been given up.
    pub fn is_open(self) -> bool {
        match self {
            Self::Waiting | Self::Queued | Self::Offered | Self::Running => true,
            Self::Completed | Self::Closed => false,
        }
    }

    /// Returns the word used everywhere: rows, API, metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Queued => "queued",
            Self::Offered => "offered",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Closed => "closed",
        }
    }
}

/// Holds our decision about who should serve a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Never offered.
    None,
    /// Offered and not ended.
    Open(OpenOffer),
    /// Over, with the reason.
    Ended {
        /// Why.
        why: OfferEnd,
        /// When.
        at: Timestamp,
    },
}

/// Holds an offer that stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOffer {
    /// To whom.
    pub instance: InstanceId,
    /// Which offer of this job.
    pub generation: Generation,
    /// Whether the JIT config may have been handed out.
    pub stage: OfferStage,
    /// Since when this stage holds.
    pub since: Timestamp,
    /// Where the machine runs, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostName>,
}

/// Tells how far an offer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferStage {
    /// Decided; lapses by age.
    Offered,
    /// A JIT config may be out: no error path ends it, only the forge or the instance's end.
    Delivered,
}

/// Tells why an offer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferEnd {
    /// The instance refused it or did not answer.
    Refused,
    /// It was never delivered and grew old.
    Lapsed,
    /// The forge still calls the job queued.
    Requeued,
    /// The instance runs another job.
    Displaced,
    /// The job runs on another runner.
    TakenElsewhere,
    /// The job runs where it was offered.
    Executed,
    /// The job is over or given up.
    JobOver,
    /// The instance ended before the offer was delivered.
    InstanceEnded,
    /// Its machine did not fetch the JIT config in time.
    NotFetched,
}

impl OfferEnd {
    /// Returns how an offer ends that the instance refuses or gives back.
    pub fn of_refusal(why: Refusal) -> Self {
        if why == Refusal::NotFetched { Self::NotFetched } else { Self::Refused }
    }
}

/// Holds the forge's proof that a job runs on an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Where.
    pub instance: InstanceId,
    /// Since when we know.
    pub since: Timestamp,
}

/// Counts the attempts to serve a job that came to nothing. An attempt is an offer whose JIT config
/// was handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAttempts {
    /// How many there were.
    pub made: u32,
    /// How many of them failed.
    pub failed: u32,
    /// The last ones, failed or not, oldest first.
    pub last: Vec<Attempt>,
    /// Until when no further one is made.
    pub rests_until: Option<Timestamp>,
}

impl JobAttempts {
    /// After so many failed attempts a job is parked: tried every hour.
    pub const MAX: u32 = 6;

    /// Returns whether there was none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the job is only tried now and then.
    pub fn is_parked(&self) -> bool {
        self.failed >= Self::MAX
    }
}

/// Holds one attempt to serve a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// On which instance.
    pub instance: InstanceId,
    /// When its JIT config could be handed out.
    pub began: Timestamp,
    /// When the forge called the job queued again.
    pub failed: Option<Timestamp>,
    /// The verdict on the instance, once there is one.
    pub verdict: Option<VerdictClass>,
}

/// Tells why a job was given up locally; an execution reopens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closure {
    /// Queued for more than a day.
    Stale,
    /// Its workflow run is over.
    RunOver,
    /// The forge denied it twice while it answered for others of its repository, or for a whole
    /// day after its machine was over.
    NotFound,
}

/// Remembers what asking the forge about a job has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// How often the forge answered.
    pub times: u32,
    /// When it last answered.
    pub last_at: Option<Timestamp>,
    /// How many 404s came in a row.
    pub missing: u8,
    /// When the first of them came.
    #[serde(default)]
    pub missing_since: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_stored_by_its_name_alone_is_read_and_one_with_a_number_comes_back_as_it_was() {
        let read = |text: &str| serde_json::from_str::<NamedRunner>(text).unwrap();
        assert_eq!(read("\"linux-k3\""), NamedRunner::from("linux-k3"));
        let numbered = NamedRunner { id: Some(RunnerId(7)), ..NamedRunner::from("linux-k3") };
        assert_eq!(read(&serde_json::to_string(&numbered).unwrap()), numbered);
    }
}
