//! The messages of the ledger.

use std::fmt;
use std::sync::Arc;

use crate::mail::{ActorRef, Reply};
use crate::model::{
    ExitRecord, Generation, Home, HostName, InstanceId, Job, JobId, JobNotice, JobReading,
    JobStatus, PoolId, PoolSpec, Refusal, RunnerId, RunnerName, Sighting, Timestamp, VerdictClass,
};
use crate::pool::ToPool;

/// A message to the ledger.
pub enum ToLedger {
    /// What a forge reported about a job.
    Notice(JobNotice),
    /// What the forge answered about a job that was asked about.
    Finding(JobFinding),
    /// What changed about an instance.
    Instance(InstanceUpdate),
    /// An instance asks whether it may hand out its JIT config; `true` is durable.
    Deliver { job: JobId, instance: InstanceId, generation: Generation, reply: Reply<bool> },
    /// An instance asks whether its offer is still open.
    IsOpen { job: JobId, instance: InstanceId, generation: Generation, reply: Reply<bool> },
    /// An instance answered an offer, or did not.
    OfferAnswered {
        job: JobId,
        instance: InstanceId,
        generation: Generation,
        /// Taken, or why not; `None` is no answer in time.
        answer: Option<Result<(), Refusal>>,
    },
    /// The pools there are, in the order of the config.
    Pools(Vec<(Arc<PoolSpec>, ActorRef<ToPool>)>),
    /// What a pool reports of itself.
    PoolStatus {
        pool: PoolId,
        /// Whether it takes more work now, and why not.
        accepts: Accepts,
    },
    /// A reader wants a job as the ledger remembers it, also one that no pool serves.
    Show {
        job: JobId,
        /// The job, if it is remembered.
        reply: Reply<Option<Job>>,
    },
    /// Let expire what is too old.
    Tick,
    /// Its parent is gone or shuts down.
    Halt,
    /// Panic, to prove that it is survived.
    #[cfg(feature = "testing")]
    Panic,
}

/// Tells whether a pool takes more work now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    Work,
    Draining,
    /// It is at `max`.
    Full,
    /// Its breaker is open.
    Broken,
}

impl Accepts {
    /// Returns what the pool does instead of taking work, to follow its name in a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Work => "takes work",
            Self::Draining => "is draining",
            Self::Full => "is at its maximum",
            Self::Broken => "creates nothing after repeated failures",
        }
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Binds the forge's answer about a job to the attempt it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFinding {
    pub job: JobId,
    /// The instance it was offered to or ran on when the question was asked.
    pub instance: Option<InstanceId>,
    /// The offer that was open when the question was asked.
    pub generation: Generation,
    /// When the question was asked; what changed later is not answered by it.
    pub begun: Timestamp,
    /// What the forge answered.
    pub seen: Sighting<JobReading>,
}

/// Tells the ledger what it must know of an instance, after it is durable there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceUpdate {
    pub id: InstanceId,
    pub pool: PoolId,
    pub what: InstanceChange,
}

/// Tells what is new about an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceChange {
    /// It answers to these registration names in this place (sent at start and at each mint).
    Answers(Home, Vec<RunnerName>),
    /// The forge gave one of these registrations this number.
    Registered(RunnerName, RunnerId),
    /// It waits for an offer, on this host if that is known.
    Offerable(Option<HostName>),
    /// It no longer does.
    Unavailable,
    /// The machine or forge proved work there, and which job if known.
    Working(Option<JobId>),
    /// The runner of its job is offline or unlisted: the job is to be asked about.
    RunnerLost,
    /// Its JIT config was handed out, and its runner may never start: the job is to be asked about.
    DeliveryInDoubt,
    /// Its machine is over, a job may have run on it, and no job was ever named.
    EndedUnnamed,
    /// Its machine is over; offers to it and executions on it must be asked about.
    Ended,
    /// Its end is on record, here without the end of its log.
    Concluded(Box<ExitRecord>),
    /// It learned of its job after its end was recorded.
    LearnedOf(JobId, JobStatus),
    /// Why it ended, where a job may be told by it.
    Judged(VerdictClass),
    /// Nothing is left of it.
    Deleted,
}
