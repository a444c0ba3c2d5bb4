//! The fleet at a glance.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Pool;
use crate::ports::{self, Stage};

/// Everything at a glance, as the board shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Fleet {
    /// What people call this daemon.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// Where the daemon is in its own life: `starting`, `standby`, `leading`, `stopping`.
    #[schema(value_type = String)]
    pub stage: Stage,
    /// Whether it holds the lease and acts.
    pub leader: bool,
    /// The id of this installation.
    pub controller: String,
    /// The daemon's date.
    pub now: Timestamp,
    /// When the daemon was started.
    pub started_at: Timestamp,
    /// Instances by state.
    pub instances: InstanceCounts,
    /// Jobs that are not over.
    pub jobs: JobCounts,
    /// How many instances make no progress.
    pub stuck: u32,
    /// Machines without an owner: foreign ones, and those struck off by operators. Must read 0.
    pub leaks: u64,
    /// How many invariants were found broken since the start. Must read 0.
    pub violations: u64,
    /// Machines with our stamp and a holder we never had; not touched until they are adopted.
    pub foreign_machines: Vec<ForeignMachine>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The forges and what they still let us ask.
    pub forges: Vec<Forge>,
    /// Why the last edit of the configuration is not in force.
    pub config_problem: Option<String>,
    /// What keeps the fleet from its work, beside that.
    pub concerns: Vec<Concern>,
    /// When the oldest job was queued that some pool could serve and has not served.
    pub oldest_queued_at: Option<Timestamp>,
}

/// Something that keeps the fleet from its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Concern {
    /// `pool` (its instances fail), `image` (several pools fail with it), `forge` or `provider` (its calls fail), `credential` (it is
    /// refused).
    pub kind: String,
    /// The pool, image, forge or provider.
    pub subject: String,
    /// Since when.
    pub since: Timestamp,
    /// What is wrong, with the last error.
    pub sentence: String,
    /// What a person may do about it.
    pub advice: String,
}

impl From<ports::Concern> for Concern {
    fn from(concern: ports::Concern) -> Self {
        let ports::Concern { kind, subject, since, sentence, advice } = concern;
        Self { kind: kind.as_str().into(), subject, since, sentence, advice }
    }
}

/// The fleet in a few numbers, as `/events` tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Where the daemon is in its own life.
    #[schema(value_type = String)]
    pub stage: Stage,
    /// Instances by state.
    pub instances: InstanceCounts,
    /// Jobs that are not over.
    pub jobs: JobCounts,
    /// How many instances make no progress.
    pub stuck: u32,
    /// Machines without an owner.
    pub leaks: u64,
    /// When the oldest job was queued that some pool could serve and has not served.
    pub oldest_queued_at: Option<Timestamp>,
}

/// How many instances there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceCounts {
    /// All of them.
    pub total: u32,
    /// By state, zeros included.
    pub states: BTreeMap<String, u32>,
}

/// How many jobs there are that are not over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCounts {
    /// Held back at the forge.
    pub waiting: u32,
    /// Want a runner and have no offer.
    pub queued: u32,
    /// Promised to an instance.
    pub offered: u32,
    /// Proven to run.
    pub running: u32,
}

/// A machine that carries our stamp and a holder we never had.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForeignMachine {
    /// Its name.
    pub machine: String,
    /// When it was first seen.
    pub since: Timestamp,
    /// Whose it says it is.
    pub holder: Option<String>,
}

/// A forge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Forge {
    /// Its name in the configuration.
    pub name: String,
    /// `github`.
    pub kind: String,
    /// What it still lets us ask, as it told us.
    pub budgets: Vec<Budget>,
    /// By how many seconds our clock is ahead of the forge's.
    pub clock_ahead_seconds: i64,
    /// How well its webhooks are heard.
    pub webhooks: Webhooks,
    /// Versions of the runner in use that it will soon send no more jobs.
    pub ending_versions: Vec<EndingVersion>,
}

/// How well webhooks are heard, since the daemon was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Webhooks {
    /// Deliveries about jobs that the forge's own log names.
    pub logged: u64,
    /// Those of them that were not taken at the first try.
    pub missed: u64,
    /// Jobs that were found by asking, and that no webhook had told of in a minute.
    pub found_by_asking: u64,
}

/// A version of the runner that the forge will soon send no more jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndingVersion {
    /// Which.
    pub version: String,
    /// When it ends.
    pub ends_at: Timestamp,
    /// What happens, and what to do.
    pub sentence: String,
}

/// What is left of one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// Whose.
    pub credential: String,
    /// Of what, in the forge's word.
    pub resource: String,
    /// How many calls are left.
    pub remaining: u32,
    /// Of how many an hour.
    pub limit: u32,
    /// When it begins anew.
    pub resets_at: Option<Timestamp>,
}

/// What runs here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Version {
    /// The version of the program.
    pub version: String,
    /// The commit it was built from, where the build knew it.
    pub commit: Option<String>,
    /// The oldest Rust that builds it.
    pub rust: String,
    /// The schema of its store.
    pub schema: usize,
}
