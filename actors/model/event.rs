//! Everything worth telling an operator, as data; the sentences are in `Display`.
//!
//! Timeline, log, metrics and `explain` are all fed from here, so they cannot disagree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Closure, HolderId, InstanceId, JobFact, JobId, MachineName, OfferEnd, PROVISIONAL_FOR, PoolId,
    Reason, RunnerName, Setup, State, Timestamp, Urgency, VerdictClass, WarrantKind,
};

/// Holds one entry of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Whose timeline.
    pub subject: Subject,
    /// Its place in that timeline; saving the same place again replaces it.
    pub seq: u32,
    /// When it first happened.
    pub at: Timestamp,
    /// When it last happened.
    pub last_at: Timestamp,
    /// How often in a row.
    pub count: u32,
    /// What happened.
    pub what: What,
}

/// Names whose timeline an event belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// An instance.
    Instance(InstanceId),
    /// A job.
    Job(JobId),
    /// A pool.
    Pool(PoolId),
}

/// Tells what happened and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The state changed.
    Moved {
        /// From.
        from: State,
        /// To.
        to: State,
        /// Why.
        why: String,
    },
    /// A removal request was noted, to be carried out when it is safe.
    RemovalRequested {
        /// How strongly.
        urgency: Urgency,
        /// Why.
        reason: Reason,
        /// Who, where it was a person.
        who: Option<String>,
        /// In which words, where it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// The owner refused what was asked.
    Refused {
        /// What was asked.
        request: String,
        /// Why not.
        why: Refusal,
    },
    /// The pool wants an instance.
    Wanted,
    /// The machine was found without a record.
    Adopted {
        /// Its name at the provider.
        machine: MachineName,
    },
    /// A registration was made.
    Minted(RunnerName),
    /// A mint failed or its answer was lost.
    MintFailed(String),
    /// The registration is gone, and how that is known.
    Deregistered(String),
    /// The forge refused the removal: the runner works, or so it says.
    DeregisterRefused,
    /// The registration could not be removed for a day and is left to the forge.
    WrittenOff,
    /// An operator struck it off; whatever is left of it has no owner any more.
    Forgotten,
    /// A create call got no answer, or one that proves nothing.
    CreateUnanswered(String),
    /// The provider refused to create the machine, in these words; whether it left one is looked at.
    CreateRefused(String),
    /// A direct read did not find the machine; one more will prove it.
    FirstAbsence,
    /// The machine is there after all.
    Reappeared,
    /// The provider is in doubt about the machine, which keeps it.
    SightingUnknown(String),
    /// The machine told how far it is with being set up.
    SetupReported {
        /// How far.
        setup: Setup,
        /// In its words.
        message: String,
    },
    /// The machine told which system it runs.
    Runs(String),
    /// An offer was taken.
    Offered(JobId),
    /// The JIT config may now be handed out.
    Delivered(JobId),
    /// The job is tried again soon although its attempts failed, and why.
    RestCut(String),
    /// The JIT config was handed out, and it is in doubt whether the runner will start.
    DeliveryInDoubt(JobId, String),
    /// The offer ended.
    OfferEnded(JobId, OfferEnd),
    /// The forge proved that a job runs here.
    Executing(JobId),
    /// The job is over at the forge.
    JobOver {
        /// Which.
        job: JobId,
        /// Whether the forge named our runner with it.
        names_us: bool,
    },
    /// The machine may be deleted, and why.
    Warranted {
        /// The rule.
        kind: WarrantKind,
        /// What was seen.
        evidence: Vec<String>,
    },
    /// The end is on record.
    Recorded(VerdictClass),
    /// The end is on record, and the forge may still correct its verdict.
    RecordedForNow(VerdictClass),
    /// The verdict was judged anew, or was not corrected in time.
    VerdictRevised {
        /// What it was.
        from: VerdictClass,
        /// What it is.
        to: VerdictClass,
        /// Whether it stays.
        settled: bool,
    },
    /// A delete call failed; it is repeated for ever.
    DeleteFailed(String),
    /// It takes longer than `stuck_after`.
    Stuck,
    /// Its owner died and a new one took over.
    Respawned {
        /// Whether by a panic.
        panicked: bool,
    },
    /// The reaper would have asked, were it not in shadow mode.
    ShadowAsk(Reason),
    /// A machine of a holder we never had; it is not touched.
    Foreign {
        /// Its name.
        machine: MachineName,
        /// Its holder.
        holder: Option<HolderId>,
    },

    /// The forge told something new of a job.
    JobReported(JobFact),
    /// The job became demand of a pool.
    Routed(PoolId),
    /// Every pool that could serve the job refuses; it waits for its first choice.
    Held {
        /// The first choice.
        pool: PoolId,
        /// Why that pool refuses.
        why: String,
    },
    /// No pool can serve the job.
    Unserved(String),
    /// The job was offered to an instance.
    OfferedTo(InstanceId),
    /// The offer of the job ended.
    Unoffered {
        /// To whom it was.
        instance: InstanceId,
        /// Why.
        why: OfferEnd,
    },
    /// The JIT config for the job may be out.
    DeliveredTo(InstanceId),
    /// The forge proved that the job runs on an instance.
    ExecutingOn(InstanceId),
    /// The forge was asked about the job.
    Asked {
        /// What it said.
        answer: String,
    },
    /// The job was given up locally.
    Closed(Closure),
    /// A closed job runs after all.
    Reopened,

    /// The pool was asked to drain.
    Drained {
        /// By whom.
        who: String,
    },
    /// The pool was asked to resume.
    Resumed {
        /// By whom.
        who: String,
    },
    /// Creation is held after repeated failures.
    BreakerOpened(String),
    /// Creation goes on.
    BreakerClosed,
}

impl What {
    /// Returns the verdict that is settled by this: one that the forge may still correct is not.
    pub fn settled_verdict(&self) -> Option<VerdictClass> {
        if let Self::Recorded(verdict) | Self::VerdictRevised { to: verdict, settled: true, .. } =
            self
        {
            return Some(*verdict);
        }
        None
    }
}

/// Tells why an owner refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A job runs here, or may.
    Busy,
    /// A job is promised to it.
    Offered,
    /// It is on its way out already.
    Terminating,
    /// It is not ready.
    NotReady,
    /// Its machine did not fetch the JIT config in time.
    NotFetched,
    /// It registers by itself and takes no offers.
    EarlyBinding,
    /// It is registered already; the forge gives it work.
    Registered,
    /// The machine does not exist yet, or its fate is not known.
    Unsettled,
    /// The question is about another attempt.
    Stale,
    /// The pool's budget for this minute is spent.
    Budget,
    /// There is no instance of that name.
    Unknown,
    /// The machine has another owner.
    Taken,
}

impl Refusal {
    /// Returns the sentence for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Busy => "a job runs here, or may",
            Self::Offered => "a job is promised to it",
            Self::Terminating => "it is on its way out already",
            Self::NotReady => "it is not ready",
            Self::NotFetched => "its machine did not fetch the JIT config in time",
            Self::EarlyBinding => "it registers by itself and takes no offers",
            Self::Registered => "it is registered already; the forge gives it work",
            Self::Unsettled => "its machine's fate is not known yet",
            Self::Stale => "the question is about another attempt",
            Self::Budget => "the budget of this minute is spent",
            Self::Unknown => "there is no instance of that name",
            Self::Taken => "the machine has another owner",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { from, to, why } => write!(f, "{from} → {to}: {why}"),
            Self::RemovalRequested { urgency, reason, who, why } => {
                write!(f, "asked to go ({urgency:?}, {reason})")?;
                who.as_ref().map_or(Ok(()), |who| write!(f, " by {who}"))?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::Refused { request, why } => write!(f, "refused {request}: {why}"),
            Self::Wanted => f.write_str("wanted by its pool"),
            Self::Adopted { machine } => write!(f, "adopted machine `{machine}`"),
            Self::Minted(name) => write!(f, "registered as `{name}`"),
            Self::MintFailed(why) => write!(f, "registration failed: {why}"),
            Self::Deregistered(how) => write!(f, "registration is gone: {how}"),
            Self::RestCut(why) => write!(f, "tried again soon: {why}"),
            Self::DeliveryInDoubt(job, why) => {
                write!(f, "it is in doubt whether job {job} will begin here: {why}")
            }
            Self::DeregisterRefused => f.write_str("the forge calls the runner busy"),
            Self::WrittenOff => f.write_str("registration written off after a day"),
            Self::Forgotten => {
                f.write_str("struck off by an operator: what is left is out of reach")
            }
            Self::CreateRefused(why) => write!(f, "create was refused: {why}"),
            Self::CreateUnanswered(why) => write!(f, "create is unanswered: {why}"),
            Self::FirstAbsence => f.write_str("machine not found once"),
            Self::Reappeared => f.write_str("machine is there after all"),
            Self::SightingUnknown(why) => write!(f, "the provider is in doubt: {why}"),
            Self::SetupReported { setup, message } if message.is_empty() => {
                write!(f, "its machine says `{}`", setup.as_str())
            }
            Self::SetupReported { setup, message } => {
                write!(f, "its machine says `{}`: {message}", setup.as_str())
            }
            Self::Runs(system) => write!(f, "its machine runs {system}"),
            Self::Offered(job) => write!(f, "took the offer of job {job}"),
            Self::Delivered(job) => write!(f, "may hand out the JIT config for job {job}"),
            Self::OfferEnded(job, why) => write!(f, "offer of job {job} ended: {why:?}"),
            Self::Executing(job) => write!(f, "job {job} runs here"),
            Self::JobOver { job, names_us: true } => write!(f, "job {job} is over here"),
            Self::JobOver { job, names_us: false } => write!(f, "job {job} is over"),
            Self::Warranted { kind, evidence } => {
                write!(f, "may be deleted ({kind}): {}", evidence.join("; "))
            }
            Self::Recorded(verdict) => write!(f, "end recorded: {verdict}"),
            Self::RecordedForNow(verdict) => {
                write!(
                    f,
                    "end recorded: {verdict}, provisional for {} min",
                    PROVISIONAL_FOR.as_secs() / 60
                )
            }
            Self::VerdictRevised { from, to, settled } => {
                let how = if *settled { "settled" } else { "revised, still provisional" };
                write!(f, "verdict {how}: {to}")?;
                if from == to { Ok(()) } else { write!(f, " (it was {from})") }
            }
            Self::DeleteFailed(why) => write!(f, "delete failed: {why}"),
            Self::Stuck => f.write_str("stuck"),
            Self::Respawned { panicked: true } => f.write_str("new owner after a panic"),
            Self::Respawned { panicked: false } => f.write_str("new owner"),
            Self::ShadowAsk(reason) => write!(f, "the reaper would have asked ({reason})"),
            Self::Foreign { machine, .. } => write!(f, "machine `{machine}` is not ours to touch"),
            Self::JobReported(fact) => write!(f, "the forge says {fact:?}"),
            Self::Routed(pool) => write!(f, "is demand of pool `{pool}`"),
            Self::Held { pool, why } => write!(f, "waits for pool `{pool}`, which {why}"),
            Self::Unserved(why) => write!(f, "no pool can serve it: {why}"),
            Self::OfferedTo(instance) => write!(f, "offered to `{instance}`"),
            Self::Unoffered { instance, why } => {
                write!(f, "offer to `{instance}` ended: {why:?}")
            }
            Self::DeliveredTo(instance) => write!(f, "delivered to `{instance}`"),
            Self::ExecutingOn(instance) => write!(f, "runs on `{instance}`"),
            Self::Asked { answer } => write!(f, "asked the forge: {answer}"),
            Self::Closed(why) => write!(f, "given up: {why:?}"),
            Self::Reopened => f.write_str("runs after all"),
            Self::Drained { who } => write!(f, "drained by {who}"),
            Self::Resumed { who } => write!(f, "resumed by {who}"),
            Self::BreakerOpened(why) => write!(f, "creation is held: {why}"),
            Self::BreakerClosed => f.write_str("creation goes on"),
        }
    }
}
