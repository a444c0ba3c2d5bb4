//! Timelines.

use jiff::Timestamp;
use ostler_actors::model;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::ports::Sequenced;

/// Whose timeline, or whom a text is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subject {
    /// `instance`, `job` or `pool`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// One entry of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its place among all events; one that is repeated moves to a new one.
    pub id: i64,
    /// Its place in the timeline of its subject.
    pub seq: u32,
    /// When it first happened.
    pub at: Timestamp,
    /// When it last happened.
    pub last_at: Timestamp,
    /// How often in a row.
    pub count: u32,
    /// Whose timeline.
    pub subject: Subject,
    /// What happened, as a word.
    pub kind: String,
    /// What happened, as a sentence.
    pub text: String,
    /// What the sentence is made of, for programs; its fields depend on `kind`.
    pub detail: Value,
}

/// All events of one subject, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Timeline {
    /// The events.
    pub items: Vec<Event>,
}

/// Tells a follower of events that it did not hear all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lagged {
    /// How many, at most.
    pub missed: u64,
}

impl From<&model::Subject> for Subject {
    fn from(subject: &model::Subject) -> Self {
        let (kind, name) = match subject {
            model::Subject::Instance(id) => ("instance", id.to_string()),
            model::Subject::Job(id) => ("job", id.to_string()),
            model::Subject::Pool(id) => ("pool", id.to_string()),
        };
        Self { kind: kind.into(), name }
    }
}

impl From<&Sequenced> for Event {
    fn from(told: &Sequenced) -> Self {
        let event = &told.event;
        let (kind, detail) = match serde_json::to_value(&event.what) {
            Ok(Value::String(word)) => (word, Value::Null),
            Ok(Value::Object(fields)) => {
                fields.into_iter().next().unwrap_or_else(|| ("unknown".into(), Value::Null))
            }
            Ok(_) | Err(_) => ("unknown".into(), Value::Null),
        };
        Self {
            id: told.seq,
            seq: event.seq,
            at: event.at,
            last_at: event.last_at,
            count: event.count,
            subject: (&event.subject).into(),
            kind,
            text: event.what.to_string(),
            detail,
        }
    }
}
