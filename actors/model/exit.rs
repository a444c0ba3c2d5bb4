//! How a machine ended, in facts; `verdict` says what they mean.

use serde::{Deserialize, Serialize};

use super::{
    End, ForgeId, InstanceId, JobId, JobStatus, PoolId, Reason, RunnerName, Scope, SetupReport,
    Timestamp, Verdict, WarrantKind,
};

/// Holds what the provider could tell about an end. Missing is missing, never zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitFacts {
    /// The exit code of the runner's process or container.
    pub code: Option<i32>,
    /// The signal that ended it, where the provider knows it apart from the code.
    pub signal: Option<i32>,
    /// The runtime's word (`OOMKilled`, `Error`, `Completed`, `ContainerStatusUnknown`).
    pub reason: Option<String>,
    /// The machine-level word, which beats the runtime's (`Evicted`, `NodeLost`, …).
    pub machine_reason: Option<String>,
    /// The part that failed, where it was not the runner (`poller`).
    pub part: Option<String>,
    /// When it ended, by the provider's clock.
    pub ended_at: Option<Timestamp>,
}

impl ExitFacts {
    /// The machine-level word for an end while another program was deleting the machine.
    pub const DELETED_EXTERNALLY: &str = "DeletedExternally";
}

/// Holds what could be had of a machine before it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// The exit facts, if any.
    pub exit: Option<ExitFacts>,
    /// The end of the log.
    pub tail: Tail,
    /// What else the provider told, in words: messages, the state of the host, last events.
    #[serde(default)]
    pub remarks: Vec<String>,
}

impl ExitReport {
    /// Returns the remains of a machine that told nothing, with the reason.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self { exit: None, tail: Tail::Unavailable(why.into()), remarks: Vec::new() }
    }
}

/// Holds the end of a machine's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// At most 200 lines and 64 KiB, control characters escaped.
    Captured(String),
    /// A normal end; the log is not needed.
    NotNeeded,
    /// It could not be had, and why.
    Unavailable(String),
}

/// Holds the one durable record of an end; written before the machine is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Whose end.
    pub instance: InstanceId,
    /// Its pool.
    pub pool: PoolId,
    /// The job that ran there, if one is known.
    pub job: Option<JobId>,
    /// What the provider told.
    pub exit: Option<ExitFacts>,
    /// The end of the log.
    pub tail: Tail,
    /// Why the machine may be deleted.
    pub warrant: WarrantKind,
    /// What it all means.
    pub verdict: Verdict,
    /// When it was recorded.
    pub at: Timestamp,
    /// What the verdict is made anew from when the forge tells more; nothing once it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisional: Option<Box<Provisional>>,
    /// How often the verdict was revised.
    #[serde(default)]
    pub revisions: u32,
}

/// Where the events of revisions begin in an instance's timeline: behind all that its owner writes.
pub const REVISION_PLACE: u32 = 1 << 20;

/// Holds what a verdict rests on that the forge may still correct.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisional {
    /// When it settles as it is.
    pub until: Timestamp,
    /// The forge its runner was registered at.
    pub forge: ForgeId,
    /// The scope its runner was registered in.
    pub scope: Scope,
    /// The name of its first runner; further ones are numbered.
    pub runner: RunnerName,
    /// How the machine ended.
    pub end: Option<End>,
    /// What was known of its job.
    pub job: JobStatus,
    /// Whether its runner was ever ready.
    pub was_ready: bool,
    /// Whether the machine ever showed a worker.
    pub worked: bool,
    /// Why we asked it to go.
    pub dismissed: Option<Reason>,
    /// What it said last while it was set up, where it did.
    pub setup: Option<SetupReport>,
    /// What else the provider told.
    pub remarks: Vec<String>,
}
