//! The shapes of the API: what programs may rely on, apart from how the core thinks.

mod deaths;
mod events;
mod fleet;
mod instances;
mod jobs;
mod names;
mod pools;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use deaths::{Death, DeathDetail};
pub use events::{Event, Lagged, Subject, Timeline};
pub use fleet::{
    Budget, Concern, EndingVersion, Fleet, ForeignMachine, Forge, InstanceCounts, JobCounts,
    Totals, Version, Webhooks,
};
pub use instances::{Instance, InstanceDetail, RemovalRequest, Runner, Warrant};
pub use jobs::Job;
pub use names::{JobStateName, StateName, VerdictName};
pub use pools::{AvoidedHost, FailingLives, Pool, PoolDetail, QueueMinute};

pub(in crate::http) use instances::RowStatus;
pub(in crate::http) use names::serde_name;
pub(in crate::http) use pools::all_states;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listed<T> {
    /// The items.
    pub items: Vec<T>,
    /// Send it as `cursor` for the next part; nothing if this was the last.
    #[schema(required)]
    pub next_cursor: Option<String>,
}

/// Why something is as it is, in sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// Whom it is about.
    pub subject: Subject,
    /// The sentences, the most pressing first.
    pub lines: Vec<String>,
}

/// What became of a drain or its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Drained {
    /// The pool.
    pub pool: String,
    /// Whether it drains now.
    pub draining: bool,
}

/// Asks an instance to go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Go now, whatever you do: the only way from work to deletion without proof.
    #[serde(default)]
    pub force: bool,
    /// Why; needed with `force`, and kept in the audit log and the timeline.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub why: Option<String>,
}

/// Says why something is done; kept in the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The reason, in words.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    pub why: String,
}

/// What the owner of an instance answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// The instance.
    pub instance: String,
    /// `going`: on its way. `noted`: granted when it is safe. `looking`: it looks for itself first.
    pub answer: String,
    /// The same in a sentence.
    pub why: String,
}

/// How many foreign machines are ours from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Adopted {
    /// How many.
    pub machines: usize,
}
