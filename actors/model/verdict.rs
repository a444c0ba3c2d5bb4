//! Why an instance ended: class, fault domain, confidence, evidence, advice.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Conclusion, End, Remains, WarrantKind};

/// Holds the answer to "why did it die?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What happened.
    pub class: VerdictClass,
    /// Whose fault it was.
    pub fault: Fault,
    /// How sure we are.
    pub confidence: Confidence,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What a person may do about it.
    pub advice: String,
}

/// Names what happened; the words are API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictClass {
    /// Ran its job and left.
    Clean,
    /// Left with exit 0 though no job ran.
    Wasted,
    /// Left with exit 0 while the forge still calls the job in progress.
    HandshakeLost,
    /// The runner reported a failure of its own.
    RunnerError,
    /// The forge refuses this version of the runner.
    OutdatedRunner,
    /// The host killed it for memory.
    HostOom,
    /// Killed from inside, the host was fine.
    GuestKilled,
    /// Asked to stop by SIGTERM.
    Terminated,
    /// Aborted itself.
    Aborted,
    /// Crashed.
    Crashed,
    /// Never became ready.
    BootFailed,
    /// Never came to be.
    CreateFailed,
    /// Its image could not be pulled.
    ImagePull,
    /// No host had room for it.
    Unschedulable,
    /// Evicted from its host.
    Evicted,
    /// Gave way to something more important.
    Preempted,
    /// Ran out of the time its machine was given.
    Deadline,
    /// Its host was lost.
    NodeLost,
    /// Somebody else deleted it.
    DeletedExternally,
    /// Gone before it was seen to end.
    Vanished,
    /// Its job was long over and nothing lived there.
    Zombie,
    /// The machine ended without a word about its runner.
    Unreported,
    /// Removed by us, with a warrant.
    Removed,
    /// Removed by an operator.
    Forced,
    /// Not known.
    Unknown,
}

impl VerdictClass {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Wasted => "wasted",
            Self::HandshakeLost => "handshake_lost",
            Self::RunnerError => "runner_error",
            Self::OutdatedRunner => "outdated_runner",
            Self::HostOom => "host_oom",
            Self::GuestKilled => "guest_killed",
            Self::Terminated => "terminated",
            Self::Aborted => "aborted",
            Self::Crashed => "crashed",
            Self::BootFailed => "boot_failed",
            Self::CreateFailed => "create_failed",
            Self::ImagePull => "image_pull",
            Self::Unschedulable => "unschedulable",
            Self::Evicted => "evicted",
            Self::Preempted => "preempted",
            Self::Deadline => "deadline",
            Self::NodeLost => "node_lost",
            Self::DeletedExternally => "deleted_externally",
            Self::Vanished => "vanished",
            Self::Zombie => "zombie",
            Self::Unreported => "unreported",
            Self::Removed => "removed",
            Self::Forced => "forced",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for VerdictClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names whose fault an end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The job's own doing, or nobody's.
    Job,
    /// The runner program.
    Runner,
    /// The image.
    Image,
    /// The host.
    Host,
    /// The provider.
    Provider,
    /// The forge.
    Forge,
    /// A person.
    Operator,
    /// Us.
    Ostler,
}

/// Tells how sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// A guess from what is missing.
    Low,
    /// Likely.
    Medium,
    /// The provider or forge said so.
    High,
}

/// Tells what is known of the job when its machine ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStanding {
    /// No job is known to have run here.
    None,
    /// The forge still calls it in progress, or was not asked.
    Running,
    /// The forge calls it over.
    Over(Option<Conclusion>),
    /// The forge could not be asked.
    Unknown,
}

/// Holds everything a verdict is made from.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// How the machine ended, if it ended by itself.
    pub end: Option<&'a End>,
    /// Why it may be deleted.
    pub warrant: WarrantKind,
    /// What could be had of it.
    pub remains: &'a Remains,
    /// What is known of its job.
    pub job: JobStanding,
    /// Whether its runner was ever ready.
    pub was_ready: bool,
}

/// STUB until merged.
pub fn judge(_: &Findings<'_>) -> Verdict {
    Verdict {
        class: VerdictClass::Unknown,
        fault: Fault::Ostler,
        confidence: Confidence::Low,
        evidence: vec![],
        advice: String::new(),
    }
}
/// STUB until merged.
pub fn needs_tail(_: Option<&End>, _: bool) -> bool {
    true
}
