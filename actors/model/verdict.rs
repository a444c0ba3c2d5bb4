//! Why an instance ended: class, fault domain, confidence, evidence, advice.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Conclusion, End, ExitReport, Reason, SetupReport, WarrantKind};

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
    /// Another program deleted it.
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
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Clean,
        Self::Wasted,
        Self::HandshakeLost,
        Self::RunnerError,
        Self::OutdatedRunner,
        Self::HostOom,
        Self::GuestKilled,
        Self::Terminated,
        Self::Aborted,
        Self::Crashed,
        Self::BootFailed,
        Self::CreateFailed,
        Self::ImagePull,
        Self::Unschedulable,
        Self::Evicted,
        Self::Preempted,
        Self::Deadline,
        Self::NodeLost,
        Self::DeletedExternally,
        Self::Vanished,
        Self::Zombie,
        Self::Unreported,
        Self::Removed,
        Self::Forced,
        Self::Unknown,
    ];

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

    /// Returns whose fault such an end usually is.
    pub fn usual_fault(self) -> Fault {
        match self {
            // Where no other part is at fault it is the job: it alone asked for anything.
            Self::Clean | Self::GuestKilled => Fault::Job,
            Self::Wasted
            | Self::HandshakeLost
            | Self::RunnerError
            | Self::Aborted
            | Self::Crashed
            | Self::Zombie => Fault::Runner,
            Self::OutdatedRunner | Self::ImagePull | Self::BootFailed => Fault::Image,
            Self::HostOom
            | Self::Unschedulable
            | Self::Evicted
            | Self::Preempted
            | Self::NodeLost => Fault::Host,
            Self::CreateFailed
            | Self::Vanished
            | Self::Terminated
            | Self::Unreported
            | Self::Unknown => Fault::Provider,
            Self::DeletedExternally | Self::Forced => Fault::Operator,
            Self::Removed | Self::Deadline => Fault::Ostler,
        }
    }

    /// Returns what a person may usually do about it, in one sentence.
    pub fn usual_advice(self) -> &'static str {
        match self {
            Self::Clean | Self::Removed => "Nothing to do.",
            Self::Wasted => {
                "Read the log tail: a refused JIT config, a removed registration and a session \
                 conflict all leave with 0."
            }
            Self::HandshakeLost => {
                "Look at the job at the forge: if it stays in progress it fails in about ten minutes \
                 and must be run again."
            }
            Self::RunnerError => "Read the log tail: the runner says there what it missed.",
            Self::OutdatedRunner => {
                "Roll the pool's image to a current runner version; the forge refuses this one."
            }
            Self::HostOom => "Raise the memory limit of the pool's machines.",
            Self::GuestKilled => {
                "Look for a step that uses up memory or kills processes; the host's limit was not hit."
            }
            Self::Terminated => {
                "Find out who stopped it: a drain, a rollout or a person; busy runners need a long \
                 grace period."
            }
            Self::Aborted => "Check free disk space first; a full disk makes the runner abort.",
            Self::Crashed => "Read the log tail and report the crash to the runner's makers.",
            Self::BootFailed => {
                "Start the image by hand, or raise `boot_timeout` if it is merely slow."
            }
            Self::CreateFailed => "Read what the provider said; quota and shape are usual.",
            Self::ImagePull => "Check the image's name, the registry and the pull secret.",
            Self::Unschedulable => "Add a host, or make the pool's machines smaller.",
            Self::Evicted => "Look at the host's memory and disk pressure, or at who drained it.",
            Self::Preempted => "Give the pool's machines a higher priority, or more hosts.",
            Self::Deadline => "Raise the machine's deadline above the longest job.",
            Self::NodeLost => "Look at the host: it stopped answering.",
            Self::DeletedExternally => {
                "Find who deletes machines beside Ostler; use `ostler instance delete` instead."
            }
            Self::Vanished => "Ask the provider's own log what became of the machine.",
            Self::Zombie => {
                "Check free disk space on such machines; the runner died and its machine stayed up."
            }
            Self::Unreported => {
                "Let the machine report its runner's exit code; without it no end can be explained."
            }
            Self::Forced => "Nothing to do; the audit log says who and why.",
            Self::Unknown => "Look at the provider's and the forge's own records.",
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
    /// The job's own doing, or of no part.
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

impl Fault {
    /// Returns the word used everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Runner => "runner",
            Self::Image => "image",
            Self::Host => "host",
            Self::Provider => "provider",
            Self::Forge => "forge",
            Self::Operator => "operator",
            Self::Ostler => "ostler",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
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
    pub exit_report: &'a ExitReport,
    /// What is known of its job.
    pub job: JobStatus,
    /// Whether its runner was ever ready.
    pub was_ready: bool,
    /// Whether the machine ever showed a worker.
    pub worked: bool,
    /// Whether the provider was ever asked to create it; before that only the forge was.
    pub create_called: bool,
    /// Why we asked it to go, where no registration keeps it any more: then it left because we
    /// told it to.
    pub dismissed: Option<Reason>,
    /// What it told while it was set up.
    pub setup: SetupStory<'a>,
}

/// Tells what a machine told while it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetupStory<'a> {
    /// Machines of its kind do not call home.
    #[default]
    Untold,
    /// It should have called home and never did.
    Silent,
    /// This was the last that was heard.
    Heard(&'a SetupReport),
}
