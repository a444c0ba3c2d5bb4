//! Instances.

use jiff::Timestamp;
use ostler_actors::model::{self, Registration};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::names::serde_name;
use super::{DeathDetail, StateName, VerdictName};

/// The machine we run, and its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Instance {
    /// Its name, unique for ever.
    pub name: String,
    /// The pool it counts for.
    pub pool: String,
    /// The provider of its machine.
    pub provider: String,
    /// Where it is in its life.
    pub state: StateName,
    /// A part of that state: `finishing` where the machine is gone and a registration is left.
    pub phase: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// When it was first recorded.
    pub created_at: Timestamp,
    /// When its runner was first ready.
    pub ready_at: Option<Timestamp>,
    /// The shape it was made in.
    pub revision: String,
    /// The machine's name at the provider.
    pub machine: String,
    /// Where the machine runs, once known.
    pub host: Option<String>,
    /// Its registration at the forge, while there may be one.
    pub runner: Option<Runner>,
    /// The job the forge proved to run here.
    pub job: Option<String>,
    /// The job that is promised to it.
    pub offered_job: Option<String>,
    /// The removal request, if there is one.
    pub removal: Option<RemovalRequest>,
    /// Whether it makes no progress.
    pub stuck: bool,
    /// Whether its owner lives; between two owners it waits for the next.
    pub owned: bool,
    /// Why it ended, once that is on record.
    pub verdict: Option<VerdictName>,
    /// Whether a runner of it may be registered.
    pub registered: bool,
}

/// A registration at the forge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Runner {
    /// Its name.
    pub name: String,
    /// Its number; nothing while the forge has not answered.
    pub id: Option<u64>,
}

/// A request to remove an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemovalRequest {
    /// How strongly: `retire`, `delete`, `force`, `forget`.
    pub urgency: String,
    /// Why, as a word.
    pub reason: String,
    /// Who, where it was a person.
    pub who: Option<String>,
    /// In their words.
    pub why: Option<String>,
    /// Since when.
    pub at: Timestamp,
}

/// An instance with how it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstanceDetail {
    /// The instance.
    #[serde(flatten)]
    pub instance: Instance,
    /// Why its machine may be deleted, once that is decided.
    pub warrant: Option<Warrant>,
    /// How its machine ended, once it has.
    pub end: Value,
    /// The record of its end, once there is one.
    pub death: Option<DeathDetail>,
}

/// The written reason for deleting a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Warrant {
    /// The rule that allows it.
    pub kind: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// When it was complete.
    pub at: Timestamp,
}

/// Tells what the row alone does not.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct RowStatus {
    pub(in crate::http) stuck: bool,
    pub(in crate::http) owned: bool,
}

impl Instance {
    /// Shows a row.
    pub(in crate::http) fn of(row: &model::Instance, row_status: RowStatus) -> Self {
        let runner = match &row.registration {
            Registration::Known { name, id } => {
                Some(Runner { name: name.to_string(), id: Some(id.0) })
            }
            Registration::Uncertain(name) => Some(Runner { name: name.to_string(), id: None }),
            Registration::None | Registration::Gone | Registration::WrittenOff => None,
        };
        Self {
            name: row.id.to_string(),
            pool: row.pool.to_string(),
            provider: row.provider.to_string(),
            state: StateName(row.state),
            phase: row.phase().map(|phase| phase.as_str().to_owned()),
            since: row.since,
            created_at: row.created_at,
            ready_at: row.ready_at,
            revision: row.revision.to_string(),
            machine: row.machine.to_string(),
            host: row.host.as_ref().map(ToString::to_string),
            runner,
            job: row.executing.as_ref().map(ToString::to_string),
            offered_job: row.offer.as_ref().map(|offer| offer.job.to_string()),
            removal: row.removal.as_ref().map(RemovalRequest::from),
            stuck: row_status.stuck,
            owned: row_status.owned,
            verdict: row.verdict.map(VerdictName),
            registered: row.registration.may_exist(),
        }
    }
}

impl From<&model::RemovalRequest> for RemovalRequest {
    fn from(removal: &model::RemovalRequest) -> Self {
        Self {
            urgency: serde_name(&removal.urgency),
            reason: removal.reason.to_string(),
            who: removal.by.as_ref().map(|by| by.who.clone()),
            why: removal.by.as_ref().map(|by| by.why.clone()),
            at: removal.at,
        }
    }
}

impl From<&model::Warrant> for Warrant {
    fn from(warrant: &model::Warrant) -> Self {
        Self { kind: warrant.kind.to_string(), evidence: warrant.evidence.clone(), at: warrant.at }
    }
}
